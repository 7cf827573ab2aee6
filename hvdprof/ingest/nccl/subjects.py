"""Which reader understands a line, by its first word: no line is tried against all of them."""

import re

from hvdprof.ingest.nccl import calls, communicators, graph
from hvdprof.ingest.nccl import network_lines as network
from hvdprof.ingest.nccl import trouble_lines as trouble
from hvdprof.ingest.nccl.calls import read_call, read_interface_call, read_trace
from hvdprof.ingest.nccl.line_reader import LineReader
from hvdprof.ingest.nccl.logbook import Logbook, Message

_SOURCE_LINE = re.compile(r"^\S+\.(?:cc|cu|cpp|c|h):\d+ ")
_BEYOND_64_BITS, _THREE_DIGITS = re.compile(r"\d{19}"), re.compile(r"\d{3}")
_PLACE = re.compile(r"^(?:CPU|GPU|NET|NIC|PCI|NVS)/[\w-]+ ?(?::|\(|$)")


def _silent(_log: Logbook, _said: Message) -> bool:
    """A line of a known kind that no table holds."""
    return True


def _read_operation(log: Logbook, said: Message) -> bool:
    if "opCount " in said.text:
        return read_call(log, said)
    if " -> Algo " in said.text:
        return calls.read_choice(log, said)
    if " Bytes -> " in said.text:
        return calls.read_other_path(log, said)
    return calls.read_cells(log, said)


def _read_bootstrap(log: Logbook, said: Message) -> bool:
    if said.text.startswith("Bootstrap timings"):
        return communicators.read_bootstrap_timings(log, said)
    return network.read_bootstrap(log, said)


def _read_number(log: Logbook, said: Message) -> bool:
    if "coll channels" in said.text:
        return communicators.read_channel_counts(log, said)
    if " Bytes -> " in said.text:
        return calls.read_old_choice(log, said)
    return " : GPU/" in said.text or " : NET/" in said.text


def _read_gpu(log: Logbook, said: Message) -> bool:
    if " connected via C2C" in said.text:
        return True
    return network.read_gpudirect_path(log, said) or network.read_gpudirect_device(log, said)


def _read_nccl(log: Logbook, said: Message) -> bool:
    # 2.29 prints the commit that it was built from: `NCCL git version stable dcf2a2fbe`.
    return "NCCL git version " in said.text or trouble.read_version(log, said)


_OPERATIONS = """
    AllReduce AllGather ReduceScatter Broadcast Reduce Send Recv AlltoAll AllToAll Gather Scatter
"""
_WORDS: dict[str, LineReader] = {
    "Channel": graph.read_channel,
    "CollNet": graph.read_channel,
    "Ring": graph.read_ring,
    "Tree": graph.read_tree,
    "Trees": graph.read_trees,
    "+": graph.read_link,
    "===": graph.read_system,
    "Pattern": graph.read_pattern,
    "comm": communicators.read_comm,
    "Init": communicators.read_timings,
    "Bootstrap": _read_bootstrap,
    "NET/IB": network.read_ib,
    "NET/Socket": network.read_socket,
    "NET/OFI": network.read_ofi,
    "NET/Plugin": network.read_net_plugin,
    "TUNER/Plugin": network.read_other_plugin,
    "PROFILER/Plugin": network.read_other_plugin,
    "Using": network.read_using,
    "Failed": network.read_failed,
    "Could": network.read_speed,
    "Call": trouble.read_retry,
    "GPU": _read_gpu,
    "NCCL": _read_nccl,
    "RCCL": trouble.read_version,
    "Algorithm": calls.read_heading,
    "Protocol": calls.read_heading,
    "Latency/AlgBw": calls.read_heading,
    **dict.fromkeys(_OPERATIONS.split(), _read_operation),
}

_LEVELS: dict[str, LineReader] = {
    "WARN": trouble.read_warning,
    "CALL": read_interface_call,
    "TRACE": read_trace,
}

_SILENT = """
    Setting threadThresholds Connected P2P NVLS CC DMA-BUF cudaDriverVersion New Connection
    [Proxy [Service RAS Mem ncclPollProxyResponse proxyProgressAsync Received Allocated UDS
    Launch CUDA dlvsym TOPO/NET Retrieving Initialized Assigned MNNVL
    ncclTopoPopulateNics Max Threads SHARP Loading NET Comm Check CUMEM Symmetric Enabled
    ENV/Plugin GIN/Plugin RMA/Plugin GIN RMA Loaded Skipping devCommCreate External Successfully
    Unloading
"""
_SILENT_WORDS = frozenset(_SILENT.split())
_SILENT_TEXT = re.compile(
    # What NCCL reads of the machine: files of the kernel that a virtual machine may lack.
    r"Topology detection ?: |ncclTopoGetCpuAffinity: |NVLink target \S+ not visible|"
    r"PXN Disabled|Search \d+ : \d+ channels|"
    r"Cross-clique P2P|LSA extended|Local (?:Coll)?Net device counts|"
    r"Rank \d+(?:: \d+| has \d+ local) (?:Coll)?Net devices|"
    # What it decides for a communicator.
    r"ncclP2pSchedule: |Tuning P2P operations|P2p connect(?: done in|: )|timings: rank |"
    r"Rank \d+ has color with NCCL_SPLIT_NOCOLOR|"
    r"Communicator has \d+ nodes|(?:CommRevokeAsync|MemManager|SymCheck)\b|"
    r"ncclComm(?:Suspend|Resume|Grow): |Binding multicast memory|"
    r"proxy listening socket at|GDRCOPY enabled|Socket handshake magic|"
    r"cuMem host allocations do not|Disabling LL128 over|Stack size limit|"
    r"(?:min|max)CTAs \d+ is larger|(?:splitShare|collnetEnable|nvlsCTAs|CTAPolicy) \d+ is not|"
    r"NCCL_\w+ (?:-?\d+ is (?:too low|not valid)|value \d+ is too big)|NCCL_PROXY_CPUSET = "
)
"""Texts of 2.28 to 2.30 whose first word alone is too common."""
_SILENT_STARTS = ("resp.opId=", "nvmlDevice", "ncclOsDlopen(")


def understand(log: Logbook, said: Message) -> bool:
    """Read a line into tables; False where no reader knows it or it is damaged."""
    # Nineteen digits in a row leave three in a row of every sixth letter, which are found faster.
    may_be_beyond = _THREE_DIGITS.search(said.text[::6])
    if may_be_beyond and _BEYOND_64_BITS.search(said.text) and said.level != "WARN":
        return False
    if said.level in _LEVELS:
        return _LEVELS[said.level](log, said)
    reader = _WORDS.get(said.word)
    if reader is None:
        reader = _by_shape(said.word, said.text)
    return reader is not None and reader(log, said)


def _is_silent(word: str, text: str) -> bool:
    if word in _SILENT_WORDS or word.startswith(_SILENT_STARTS):
        return True
    return bool(_PLACE.match(text) or _SILENT_TEXT.match(text))


def _by_shape(word: str, text: str) -> LineReader | None:
    if word.startswith("NET/") and "GPU Direct RDMA" in text:
        return network.read_gpudirect_device
    if word.startswith("socket") and ", retrying (" in text:
        return trouble.read_retry
    if not word or _is_silent(word, text):
        return _silent
    if word[0].isdigit():
        return _read_number
    if word.startswith(("ncclComm", "[Rank")):
        return communicators.read_comm
    if " set " in text and word.isupper() and "_" in word:
        return network.read_setting
    if word[0] == "=":
        return graph.read_system
    if _SOURCE_LINE.match(text):
        return trouble.read_trail if " -> " in text else _silent
    return None
