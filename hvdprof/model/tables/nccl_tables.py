"""The tables of an NCCL log; one row stands for one statement of the log.

Every row carries the file and line it was read from, so that a finding can show its evidence.
"""

from hvdprof.model.schema import Column, Table

FILE = Column("file", "category", "Log file, as it was given.")
LINE = Column("line", "int64", "Number of the line in that file, from 1.")
HOST = Column("host", "category", "Host as the log names it.")
PID = Column(
    "pid", "int64", "Process id on that host; below 0 where the log has none, by rank or device."
)
_COMMUNICATOR = Column(
    "communicator",
    "Int64",
    "Id of the communicator in `nccl_communicators`; missing where the log does not identify it.",
)
_CHANNEL = Column("channel", "int64", "Number of the channel, from 0.")
_RANK = Column("rank", "Int64", "Rank within the communicator; missing where not printed.")

NCCL_VERSIONS = Table(
    "nccl_versions",
    "One version stated in a log.",
    (
        Column("version", "category", "Version of the library, such as 2.20.5."),
        Column("build", "category", "Build target, such as cuda12.4; else empty."),
        Column("host", "category", "Host that printed it; empty on a line without prefix."),
        Column("pid", "Int64", "Process that printed it; missing on a line without prefix."),
        Column("count", "int64", "Number of lines of the same process."),
        FILE,
        LINE,
    ),
)

NCCL_COMMUNICATORS = Table(
    "nccl_communicators",
    "One communicator, joined from the lines of its ranks.",
    (
        Column("communicator", "int64", "Id given by hvdprof, from 0 in order of appearance."),
        Column("comm_id", "category", "NCCL's own commId (2.16 and later); else empty."),
        Column("num_ranks", "Int64", "Ranks of the communicator."),
        Column("num_ranks_seen", "int64", "Distinct ranks with a line in the logs."),
        Column("num_ranks_started", "int64", "Ranks with an Init START line."),
        Column("num_ranks_complete", "int64", "Ranks that reached Init COMPLETE."),
        Column("num_hosts", "int64", "Hosts of the ranks seen."),
        Column(
            "num_coll_channels", "Int64", "Channels for collectives; missing where not printed."
        ),
        Column("num_p2p_channels", "Int64", "Channels for send and receive."),
        Column(
            "join",
            "category",
            "How the ranks were joined: commId, single (a rank alone), complete (the only "
            "complete rank set of its size), partial (the only one of its size, not all ranks "
            "seen), order (complete sets of the same processes one after the other), pointer "
            "(known by a call alone), or ambiguous: several communicators of one size that the "
            "log does not distinguish share this row.",
        ),
        Column("num_joined", "int64", "Communicators in this row; above 1 where ambiguous."),
    ),
)

NCCL_RANKS = Table(
    "nccl_ranks",
    "One rank of one communicator.",
    (
        _COMMUNICATOR,
        _RANK,
        Column("num_ranks", "Int64", "Ranks of the communicator as this line states them."),
        HOST,
        PID,
        Column("tag_rank", "Int64", "Rank in the launcher's tag; missing where untagged."),
        Column("cuda_device", "Int64", "CUDA device index within the process."),
        Column("nvml_device", "Int64", "NVML device index within the host."),
        Column("bus_id", "category", "PCI bus id in hex without separators; else empty."),
        Column("num_nodes", "Int64", "Nodes of the communicator (2.20 and later)."),
        Column("num_local_ranks", "Int64", "Ranks of the communicator on this node."),
        Column("num_coll_channels", "Int64", "Channels for collectives."),
        Column("num_p2p_channels", "Int64", "Channels for send and receive."),
        Column("channels_line", "Int64", "Line that states the channels; missing where none."),
        Column("started", "bool", "Init START was seen (2.20 and later)."),
        Column("complete", "bool", "Init COMPLETE was seen."),
        Column("end", "category", "destroyed or aborted; empty where neither was seen."),
        Column("end_line", "Int64", "Line that states the end; missing where none."),
        FILE,
        LINE,
    ),
)

NCCL_INIT_TIMINGS = Table(
    "nccl_init_timings",
    "One part of the time a rank took to initialise (2.22 and later).",
    (
        _COMMUNICATOR,
        _RANK,
        Column("stage", "category", "init or bootstrap."),
        Column("part", "category", "total, bootstrap, topo ... as the line names it."),
        Column("dur_ns", "int64", "Length of the part.", "ns"),
        FILE,
        LINE,
    ),
)

NCCL_CHANNELS = Table(
    "nccl_channels",
    "One channel with its ranks in ring order, as rank 0 prints it.",
    (
        _COMMUNICATOR,
        _CHANNEL,
        Column("num_channels", "Int64", "Number of channels; missing before 2.5."),
        Column("order", "category", "Ranks in ring order, separated by blanks."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_RINGS = Table(
    "nccl_rings",
    "The place of one rank in the ring of one channel.",
    (
        _COMMUNICATOR,
        _CHANNEL,
        Column("previous", "int64", "Rank before it."),
        Column("rank", "int64", "The rank."),
        Column("next", "int64", "Rank after it."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_TREES = Table(
    "nccl_trees",
    "The place of one rank in the tree of one channel; -1 stands for no neighbour, as in the log.",
    (
        _COMMUNICATOR,
        _CHANNEL,
        Column(
            "direction",
            "category",
            "both, or reduce and broadcast where 2.5 to 2.8 print two trees.",
        ),
        Column("rank", "int64", "The rank."),
        Column("up", "int64", "Rank above it."),
        Column("down_0", "int64", "First rank below it."),
        Column("down_1", "int64", "Second rank below it."),
        Column("down_2", "int64", "Third rank below it."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_CONNECTIONS = Table(
    "nccl_connections",
    "One connection of one channel in one direction, as one side prints it.",
    (
        _COMMUNICATOR,
        _CHANNEL,
        Column("slot", "Int64", "0 collective, 1 point to point; missing where not printed."),
        Column("source", "int64", "Rank that sends; for COLLNET the rank itself."),
        Column("destination", "Int64", "Rank that receives; missing for COLLNET."),
        Column("source_device", "category", "Device or bus id of the source, as printed."),
        Column("destination_device", "category", "Device or bus id of the destination."),
        Column("direction", "category", "send or receive; empty where one line covers both."),
        Column("transport", "category", "P2P, SHM, NET or COLLNET."),
        Column("network", "category", "IB, Socket, AWS Libfabric ...; empty within a host."),
        Column("nic", "Int64", "Index of the network device; missing within a host."),
        Column("gpudirect", "bool", "The line ends with GDRDMA: GPUDirect RDMA is in use."),
        Column("via", "category", "Everything after `via`, verbatim."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_NETWORKS = Table(
    "nccl_networks",
    "One statement on a network, a plugin or the choice between them, by one process.",
    (
        Column(
            "subject",
            "category",
            "network (the choice), net-plugin, collnet, tuner, profiler, ib, socket, ofi, or speed "
            "(missing: NCCL assumes one).",
        ),
        Column("state", "category", "using, loaded, missing or failed."),
        Column("text", "category", "Text of the line, verbatim."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_NICS = Table(
    "nccl_nics",
    "One network device by name that a process found, with its rank and how many connections of "
    "the rank go through it.",
    (
        Column(
            "rank",
            "Int64",
            "Rank of the process in its largest communicator; missing where the log shows none.",
        ),
        Column("purpose", "category", "bootstrap, oob, data."),
        Column("network", "category", "IB, Socket or OFI; empty for bootstrap."),
        Column("index", "Int64", "Its index as in `via NET/...`."),
        Column("name", "category", "Device or interface."),
        Column("port", "Int64", "Port of an InfiniBand device."),
        Column("link", "category", "IB or RoCE; empty for sockets."),
        Column("address", "category", "Address and port of an interface; else empty."),
        Column(
            "num_connections",
            "int64",
            "Connections of the process `via NET/...` with this index; 0 for bootstrap and oob.",
        ),
        Column("gpudirect", "bool", "One of them uses GPUDirect RDMA."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_GPUDIRECT = Table(
    "nccl_gpudirect",
    "One decision on GPUDirect RDMA: for a network device, or for a GPU with one.",
    (
        Column(
            "scope", "category", "device (supported by the driver) or path (a GPU and a device)."
        ),
        Column("gpu", "category", "Bus id of the GPU; empty for scope device."),
        Column("hca", "Int64", "Index of the network device."),
        Column("name", "category", "Name of the device; empty where not printed."),
        Column("enabled", "bool", "GPUDirect RDMA was enabled."),
        Column("distance", "Int64", "Distance of GPU and device on the PCI topology."),
        Column("limit", "Int64", "Largest distance at which it is used."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_SETTINGS = Table(
    "nccl_settings",
    "One setting that is not NCCL's default.",
    (
        Column("variable", "category", "Name of the variable."),
        Column("value", "category", "Its value as text."),
        Column("origin", "category", "environment, or plugin where a network plugin set it."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_LINKS = Table(
    "nccl_links",
    "One link or search result of the topology that NCCL printed (subsystem GRAPH).",
    (
        Column("kind", "category", "NVL, PCI, SYS, NET ..., or pattern for a search result."),
        Column("bandwidth", "float64", "Bandwidth that NCCL assumes; 1e9 bytes.", "GB/s"),
        Column("num_channels", "Int64", "Channels that the search found; else missing."),
        Column("text", "category", "Text of the line, verbatim."),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_TUNING = Table(
    "nccl_tuning",
    "One cell of NCCL's tuning table: its own estimate, not a measurement.",
    (
        _COMMUNICATOR,
        Column("operation", "category", "AllReduce, Broadcast ..."),
        Column("algorithm", "category", "Tree, Ring, NVLS ..."),
        Column("protocol", "category", "LL, LL128 or Simple."),
        Column("latency_ns", "float64", "Estimated latency.", "ns"),
        Column("bandwidth", "float64", "Estimated bandwidth (1e9 bytes); 0 means off.", "GB/s"),
        HOST,
        PID,
        FILE,
        LINE,
    ),
)

NCCL_TABLES: tuple[Table, ...] = (
    NCCL_VERSIONS,
    NCCL_COMMUNICATORS,
    NCCL_RANKS,
    NCCL_INIT_TIMINGS,
    NCCL_CHANNELS,
    NCCL_RINGS,
    NCCL_TREES,
    NCCL_CONNECTIONS,
    NCCL_NETWORKS,
    NCCL_NICS,
    NCCL_GPUDIRECT,
    NCCL_SETTINGS,
    NCCL_LINKS,
    NCCL_TUNING,
)
