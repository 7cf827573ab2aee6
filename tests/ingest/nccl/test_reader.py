from pathlib import Path

import pandas as pd
import pytest

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.model.notes import texts
from tests.builders.nccl_log import call_line, init_line, job, of_rank, recorded, said


def not_understood(frame: pd.DataFrame) -> list[str]:
    return list(frame.loc[~frame["understood"], "sample"])


def test_a_job_gives_its_communicator_ranks_connections_and_trees(tmp_path: Path) -> None:
    recording = recorded(tmp_path, job())
    communicator = recording.communicators.iloc[0]
    assert len(recording.communicators) == 1
    assert communicator[["num_ranks", "num_ranks_complete", "num_hosts"]].tolist() == [4, 4, 2]
    assert communicator["num_coll_channels"] == 4
    assert communicator["join"] == "commId"
    assert recording.ranks["rank"].tolist() == [0, 1, 2, 3]
    assert recording.ranks["bus_id"].tolist() == ["1c000", "2c000", "1c000", "2c000"]
    assert recording.connections["transport"].tolist() == ["P2P", "NET", "P2P", "NET"]
    assert recording.connections["gpudirect"].tolist() == [False, True, False, True]
    assert recording.connections["communicator"].tolist() == [0] * 4
    assert len(recording.trees) == 8
    assert recording.versions["version"].tolist() == ["2.20.5"]
    assert not_understood(recording.line_kinds) == []
    assert recording.notes == ()


@pytest.mark.parametrize(
    ("text", "transport", "network", "nic", "gpudirect"),
    [
        ("Ring 00 : 5 -> 2 [receive] via NET/IB/3", "NET", "IB", 3, False),
        ("Ring 01 : 7[3] -> 4[0] via direct shared memory", "SHM", "", None, False),
        ("Ring 01 : 7[3] -> 4[0] via P2P/IPC", "P2P", "", None, False),
        ("Channel 02 : 53[1c000] -> 54[88000] via P2P/IPC/read", "P2P", "", None, False),
        ("Channel 00/1 : 0[1000] -> 1[1000] [send] via NET/IB/0/GDRDMA", "NET", "IB", 0, True),
        ("Channel 03/0 : 8[0] -> 15[7] via P2P/MNNVL", "P2P", "", None, False),
        ("Channel 03/0 : 8[0] -> 1[7] via P2P/indirect/3[9c000]", "P2P", "", None, False),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "SHM", "", None, False),
        ("Channel 01/0 : 3[1] -> 4[0] [send] via NET/Socket/2", "NET", "Socket", 2, False),
        (
            "Channel 01/0 : 3[1] -> 4[0] [receive] via NET/AWS Libfabric/3/GDRDMA",
            "NET",
            "AWS Libfabric",
            3,
            True,
        ),
        ("Channel 01/0 : 3[1] -> 4[0] [send] via NET/IBext/1/GDRDMA/Shared", "NET", "IBext", 1, 1),
        ("Channel 01/0 : 3[1] -> 4[0] [send] via NET/IB/1(PCI)/GDRDMA", "NET", "IB", 1, True),
        ("CollNet 05/0 : 5 [receive] via COLLNET/SHARP/5/GDRDMA", "COLLNET", "SHARP", 5, True),
    ],
)
def test_transports_of_all_versions(
    tmp_path: Path, text: str, transport: str, network: str, nic: int | None, gpudirect: bool
) -> None:
    recording = recorded(tmp_path, [said(text)])
    row = recording.connections.iloc[0]
    assert (row["transport"], row["network"], row["gpudirect"]) == (transport, network, gpudirect)
    assert (None if pd.isna(row["nic"]) else row["nic"]) == nic
    assert text.endswith(f"via {row['via']}")
    assert recording.rings.empty


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("Trees [0] 22->23->-1/-1/-1", [(0, "both", 23, 22, -1, -1, -1)]),
        ("Trees [3] 26/4/-1->25->24", [(3, "both", 25, 24, 26, 4, -1)]),
        (
            "Trees [0] -1/-1/-1->27->26|26->27->5/-1/-1",
            [(0, "reduce", 27, 26, -1, -1, -1), (0, "broadcast", 27, 26, 5, -1, -1)],
        ),
        ("Tree 12 : -1 -> 0 -> 1/2/-1", [(12, "both", 0, -1, 1, 2, -1)]),
    ],
)
def test_trees_of_all_versions(tmp_path: Path, text: str, rows: list[tuple[object, ...]]) -> None:
    trees = recorded(tmp_path, [said(text)]).trees
    columns = ["channel", "direction", "rank", "up", "down_0", "down_1", "down_2"]
    assert list(trees[columns].itertuples(index=False, name=None)) == rows


def test_rings_and_channel_orders(tmp_path: Path) -> None:
    recording = recorded(
        tmp_path,
        [
            said("Channel 01/04 :    0   3   2"),
            said("Channel 00 : 0 1"),
            said("Ring 07 : 1 -> 0 -> 2"),
        ],
    )
    assert recording.channels["order"].tolist() == ["0 3 2", "0 1"]
    assert recording.channels["num_channels"].isna().tolist() == [False, True]
    assert recording.rings[["channel", "previous", "rank", "next"]].to_numpy().tolist() == [
        [7, 1, 0, 2]
    ]


def test_what_is_said_before_complete_belongs_to_it_where_no_start_is_printed(
    tmp_path: Path,
) -> None:
    lines = []
    for comm, size in ((1, 2), (2, 1)):
        for rank in range(size):
            lines += [
                of_rank(rank, f"Ring 0{comm} : 0 -> {rank} -> 0"),
                of_rank(
                    rank, f"{comm} coll channels, {comm} p2p channels, 1 p2p channels per peer"
                ),
                of_rank(rank, init_line(rank, size, "COMPLETE", comm=comm)),
            ]
    recording = recorded(tmp_path, lines)
    assert recording.communicators["join"].tolist() == ["complete", "single"]
    assert recording.communicators["num_coll_channels"].tolist() == [1, 2]
    assert recording.rings["communicator"].tolist() == [0, 0, 1]


@pytest.mark.slow
def test_connections_made_after_complete_by_another_thread_belong_to_the_only_communicator(
    tmp_path: Path,
) -> None:
    late = [of_rank(rank, "Ring 00 : 1 -> 0 -> 1", thread=90) for rank in (0, 1)]
    recording = recorded(tmp_path, [*job(), *late])
    assert recording.rings["communicator"].tolist() == [0, 0]
    second = of_rank(0, init_line(0, 2, "START", comm=9, comm_id="0x99"))
    recording = recorded(tmp_path, [*job(), second, *late])
    assert recording.rings["communicator"].isna().tolist() == [True, False]


def test_calls_with_hexadecimal_counter_bytes_and_communicator(tmp_path: Path) -> None:
    lines = [*job(), call_line(0, 1000, n=0x5F7), call_line(1, 8, op="AllGather", dtype=6)]
    calls = recorded(tmp_path, [*lines, call_line(2, 5, dtype=77)]).calls
    assert calls["op_count"].tolist() == [0x5F7, 0, 0]
    assert calls["size_bytes"].tolist()[:2] == [4000, 16]
    assert calls["size_bytes"].isna().tolist() == [False, False, True]
    assert calls["dtype"].tolist() == ["float32", "float16", "type77"]
    assert calls["rank"].tolist() == [0, 1, 2]
    assert calls["communicator"].tolist() == [0, 0, 0]


def test_tuning_tables_and_choices(tmp_path: Path) -> None:
    lines = [
        said("  Algorithm   |            Tree         |          Ring         |"),
        said(
            "  Protocol    |  LL |  LL128 | Simple |  LL |  LL128 | Simple | LL | LL128 | Simple |"
        ),
        said(" Max NThreads |  512 |  640 | 512 | 512 | 640 | 512 |"),
        said("     AllReduce | 8.0/ 37.9 | 1.0/ 2.0 | 3.0/ 4.0 | 5.0/ 6.0 | 7.0/ 8.0 | 9.5/ 0.0 |"),
        said("40 Bytes -> Algo 1 proto 0 time 8.616000"),
        said("AllReduce: 8192 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..23}"),
        said("Latency/AlgBw |    Tree/    LL |    Ring/Simple |"),
        said("     Broadcast |  1.5/  2.0 |  3.0/  4.0 |"),
    ]
    recording = recorded(tmp_path, lines)
    tuning = recording.tuning
    assert len(tuning) == 8
    assert tuning.iloc[5][["algorithm", "protocol", "latency_ns"]].tolist() == [
        "Ring",
        "Simple",
        9500.0,
    ]
    assert tuning.iloc[7][["operation", "algorithm", "protocol"]].tolist() == [
        "Broadcast",
        "Ring",
        "Simple",
    ]
    assert recording.choices["algorithm"].tolist() == ["RING", "NVLS"]
    assert recording.choices["protocol"].tolist() == ["LL", "SIMPLE"]
    assert recording.choices["size_bytes"].tolist() == [40, 8192]
    assert recording.choices["time_ns"].iloc[0] == pytest.approx(8616)
    assert recording.choices["last_channel"].tolist()[1] == 23
    assert not_understood(recording.line_kinds) == []


def test_init_timings_by_name(tmp_path: Path) -> None:
    lines = [
        *job(),
        of_rank(2, "Init timings: rank 2 nranks 4 total 3.38 (kernels 0.24, bootstrap 2.40)"),
        of_rank(1, "Init timings - ncclCommInitRank: rank 1 nranks 4 total 0.28 (alloc 0.09)"),
        of_rank(1, "Bootstrap timings total 0.001083 (create 0.000022, delay 0.000000)"),
    ]
    timings = recorded(tmp_path, lines).init_timings
    by_stage = timings.groupby("stage", observed=True)["part"]
    parts = {stage: names.tolist() for stage, names in by_stage}
    assert parts["init"] == ["total", "kernels", "bootstrap", "total", "alloc"]
    assert parts["bootstrap"] == ["total", "create", "delay"]
    assert timings["dur_ns"].iloc[0] == 3_380_000_000
    assert timings.loc[timings["stage"] == "init", "communicator"].tolist() == [0] * 5


def test_networks_settings_and_gpudirect(tmp_path: Path) -> None:
    lines = [
        said("Bootstrap : Using [0]eth0:10.1.2.3<0> [1]net1:10.7.2.3<0>"),
        said("NET/Plugin : No plugin found (libnccl-net.so)."),
        said("NET/IB : Using [0]mlx5_2:1/IB [1]mlx5_3:2/RoCE [RO]; OOB eth0:10.1.2.3<0>"),
        said("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_2'"),
        said("GPU Direct RDMA Disabled for GPU 81000 / HCA 1 (distance 6 > 4)"),
        said("NCCL_BUFFSIZE set by environment to 8388608."),
        said("NCCL_SOCKET_IFNAME set to eth0"),
        said('NET/OFI Setting NCCL_PROTO to "simple"'),
        said(
            "NET/OFI Running on x platform, Setting NCCL_TOPO_FILE environment variable to /a/b.xml"
        ),
        said("Using network IB"),
    ]
    recording = recorded(tmp_path, lines)
    assert recording.nics["name"].tolist() == ["eth0", "net1", "mlx5_2", "mlx5_3", "eth0"]
    assert recording.nics["link"].tolist()[2:4] == ["IB", "RoCE"]
    assert recording.gpudirect["enabled"].tolist() == [True, False]
    assert recording.gpudirect["distance"].tolist()[1] == 6
    assert recording.settings[["variable", "value", "origin"]].to_numpy().tolist() == [
        ["NCCL_BUFFSIZE", "8388608", "environment"],
        ["NCCL_SOCKET_IFNAME", "eth0", "environment"],
        ["NCCL_PROTO", "simple", "plugin"],
        ["NCCL_TOPO_FILE", "/a/b.xml", "plugin"],
    ]
    states = dict(zip(recording.networks["subject"], recording.networks["state"], strict=True))
    assert states == {"net-plugin": "missing", "ib": "using", "network": "using"}


def test_one_file_for_each_rank_is_one_job(tmp_path: Path) -> None:
    lines = job()
    paths = []
    for rank in range(4):
        path = tmp_path / f"rank{rank}.log"
        path.write_text("\n".join(line for line in lines if f":{7000 + 100 * rank}:" in line))
        paths.append(path)
    recording = read_nccl_logs(paths)
    assert recording.communicators["num_ranks_complete"].tolist() == [4]
    assert recording.ranks["file"].astype(str).tolist() == [str(path) for path in paths]


def test_lines_not_understood_are_counted_with_a_sample(tmp_path: Path) -> None:
    lines = [said(f"Frobnicated {number} widgets") for number in range(5)]
    recording = recorded(tmp_path, lines)
    kinds = recording.line_kinds
    assert kinds[["kind", "count", "line"]].to_numpy().tolist() == [["Frobnicated", 5, 1]]
    assert kinds["sample"].iloc[0] == lines[0]
    assert texts(recording.notes)[0].startswith("5 lines")


@pytest.mark.parametrize("text", ["", "hello\nworld\n", "\0" * 1000, "{}"])
def test_a_file_without_a_line_of_nccl_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(UnreadableInputError, match="no line of NCCL"):
        recorded(tmp_path, text)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match=r"absent\.log cannot be read"):
        read_nccl_logs([tmp_path / "absent.log"])


def test_the_ranks_of_2_3_are_those_it_announces(tmp_path: Path) -> None:
    lines = [of_rank(rank, f"comm 0x7f{rank} rank {rank} nranks 4") for rank in (1, 2)]
    recording = recorded(tmp_path, lines)
    assert recording.ranks["rank"].tolist() == [1, 2]
    assert recording.communicators["num_ranks"].tolist() == [4]
    assert recording.line_kinds["understood"].all()


def test_a_cut_line_of_a_later_version_announces_nothing(tmp_path: Path) -> None:
    lines = [of_rank(0, "comm 0x7f1 rank 0 nranks 1"), *job()]
    assert set(recorded(tmp_path, lines).communicators["num_ranks"]) == {4}


def test_rccl_names_the_communicator_behind_the_transport(tmp_path: Path) -> None:
    ends = "1[c6000] -> 4[c1000]"
    lines = [
        of_rank(0, f"Channel 02/0 : {ends} [receive] via NET/Socket/1 comm 0x9 nRanks 08"),
        of_rank(1, f"Channel 02/0 : {ends} [send] via NET/Socket/1 comm 0xa nRanks 08"),
        of_rank(2, "Channel 00/0 : 7[ce000] -> 5[c6000] via P2P/IPC comm 0xb nRanks 08"),
    ]
    recording = recorded(tmp_path, lines)
    assert recording.connections["transport"].tolist() == ["NET", "NET", "P2P"]
    assert recording.connections["via"].tolist() == ["NET/Socket/1", "NET/Socket/1", "P2P/IPC"]
    assert recording.ranks["rank"].tolist() == [4, 1, 7]
    assert recording.communicators["num_ranks"].tolist() == [8]


def test_the_distance_of_2_4_is_read(tmp_path: Path) -> None:
    line = "NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 0 (distance 3 >= 2)"
    (row,) = recorded(tmp_path, [of_rank(0, line)]).gpudirect.to_dict("records")
    assert (row["scope"], row["gpu"], row["distance"], row["limit"]) == ("path", "2", 3, 2)


def test_a_warning_of_2_2_lacks_the_word_nccl(tmp_path: Path) -> None:
    line = (
        "oak0:7000:7050 [0] include/socket.h:360 WARN Call to connect failed : Connection timed out"
    )
    (row,) = recorded(tmp_path, [line]).problems.to_dict("records")
    assert (row["kind"], row["where"]) == ("warning", "include/socket.h:360")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "via",
    [
        "NET/IB/0/GDRDMA",
        "NET/Socket/1",
        "P2P/IPC/read",
        "SHM/direct/direct",
        "direct shared memory",
    ],
)
def test_a_line_that_is_cut_loses_its_own_record_alone(tmp_path: Path, via: str) -> None:
    first = of_rank(0, "Channel 03/0 : 4[0] -> 5[1] [send] via NET/IB/7/GDRDMA")
    second = of_rank(1, f"Channel 02/0 : 6[0] -> 7[1] via {via}")
    alone = recorded(tmp_path, [second, *job()]).connections
    expected = alone.loc[alone["source"] == 6, ["transport", "network"]].astype(str)
    wrong = []
    for cut in range(12, 46, 3):
        at = first.index("NCCL") + cut
        glued = [first[:at] + second + first[at:], "", *job()]
        connections = recorded(tmp_path, glued).connections
        own = connections.loc[connections["source"] == 6, ["transport", "network"]].astype(str)
        is_same = own.to_numpy().tolist() == expected.to_numpy().tolist()
        if len(own) != 1 or not is_same or len(connections) < len(alone):
            wrong.append((cut, own.to_dict("records")))
    assert wrong == []


def test_lines_of_nccl_2_28_to_2_32_are_understood(tmp_path: Path) -> None:
    texts = [
        "NCCL version 2.30.7+cuda13.3",
        "NCCL git version stable 0abcdef12",
        "ENV/Plugin: Could not find: libnccl-env.so",
        "ENV/Plugin: Closing env plugin ncclEnvDefault",
        "ncclOsDlopen(libnccl-gin.so) failed: libnccl-gin.so: cannot open shared object file",
        "GIN/Plugin: Could not find: libnccl-gin.so",
        "GIN/Plugin: Assigned plugin GIN_IB_GDAKI type 3 to comm",
        "Assigned GIN plugin GIN_IB_GDAKI to comm",
        "Assigned RMA plugin GIN_IB_PROXY to comm",
        "RMA/Plugin: Assigned plugin Libfabric to comm",
        "GIN Proxy will not be using GDRCopy",
        "NET/Libfabric_GDAKI : GPU Direct RDMA Enabled for HCA 0 'rdmap7s0'",
        "Loaded NVML from libnvidia-ml.so.1",
        "Symmetric memory is not supported. cuMemEnable 0, globalGinSupport 0, globalNicFused 0",
        "Enabled NCCL Func/Proto/Algo Matrix:",
        "NVLS comm 0x560dc9195c90 headRank 2 nHeads 8 nvlsRanks 8 buffSize 1048576",
        "comm 0x1000 rank 1 nranks 4 cudaDev 1 busId 2000 commId 0x77 - Destroy COMPLETE",
    ]
    recording = recorded(tmp_path, [said(text) for text in texts])
    kinds = recording.line_kinds
    assert kinds.loc[~kinds["understood"], "sample"].tolist() == []
    assert recording.versions["version"].tolist() == ["2.30.7"]
    assert recording.gpudirect["name"].tolist() == ["rdmap7s0"]
    assert recording.ranks["end"].tolist() == ["destroyed"]
