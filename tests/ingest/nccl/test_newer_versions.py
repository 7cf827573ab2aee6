"""Lines of NCCL 2.28 to 2.30: a log of a real H200, and the forms of the library's own texts."""

from pathlib import Path

import pytest

from hvdprof.analyze.findings.nccl_findings import nccl_findings
from hvdprof.ingest.nccl.reader import read_nccl_logs
from tests.builders.nccl_log import recorded, said
from tests.builders.places import RECORDINGS

LOG = RECORDINGS / "h200" / "nccl_2.28.9_one_rank.log"
PARENT = "cudaDev 0 nvmlDev 0 busId 60 parent 0x2 splitCount 1 color 0 key 0"


def test_the_log_of_an_h200_is_read_as_a_whole() -> None:
    recording = read_nccl_logs([LOG])
    assert recording.line_kinds["understood"].all()
    assert recording.notes == ()
    assert recording.versions[["version", "build"]].to_numpy().tolist() == [["2.28.9", "cuda13.0"]]
    (rank,) = recording.ranks.to_dict("records")
    assert (rank["rank"], rank["num_ranks"], rank["bus_id"]) == (0, 1, "60")
    assert (rank["num_coll_channels"], rank["num_p2p_channels"]) == (64, 64)
    assert (rank["num_nodes"], rank["complete"], rank["end"]) == (1, True, "destroyed")
    assert len(recording.channels) == len(recording.rings) == 64
    assert recording.connections.empty
    timings = dict(
        zip(recording.init_timings["part"], recording.init_timings["dur_ns"], strict=True)
    )
    assert (timings["total"], timings["kernels"]) == (350_000_000, 330_000_000)


def test_its_network_is_tcp_with_an_assumed_speed_and_without_gpudirect() -> None:
    recording = read_nccl_logs([LOG])
    states = recording.networks[["subject", "state"]].astype(str).agg(" ".join, axis=1)
    assert states.tolist() == [
        "net-plugin missing",
        "ib missing",
        "net-plugin failed",
        "socket using",
        "speed missing",
        "network using",
        "speed missing",
        "profiler missing",
        "tuner missing",
    ]
    texts = dict(zip(recording.networks["subject"], recording.networks["text"], strict=True))
    assert texts["network"] == "Using network Socket"
    assert texts["speed"].endswith("Defaulting to 10 Gbps.")
    # Its `Using [RO]; OOB eth0` names no device of InfiniBand.
    assert recording.nics[["network", "name"]].to_numpy().tolist() == [["Socket", "eth0"]]
    (decision,) = recording.gpudirect.to_dict("records")
    assert (decision["name"], decision["enabled"]) == ("eth0", False)
    assert recording.links["bandwidth"].tolist()[2] == 1.2


@pytest.mark.heavy
@pytest.mark.parametrize("num_hosts", [1, 2])
def test_a_healthy_log_over_tcp_has_no_findings(tmp_path: Path, num_hosts: int) -> None:
    """On two hosts, too: a missing library of InfiniBand is no InfiniBand that is not used."""
    text = LOG.read_text()
    lines = text.splitlines()
    if num_hosts == 2:
        shape = "nRanks 2 nNodes 2"
        two = text.replace("nranks 1", "nranks 2").replace("nRanks 1 nNodes 1", shape)
        other = two.replace("vm:3079", "vm2:4000").replace("rank 0 nranks", "rank 1 nranks")
        connection = "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"
        lines = [*two.splitlines(), *other.splitlines()]
        lines.append(said(connection, host="vm", pid=3079, tid=3110))
    recording = recorded(tmp_path, lines)
    assert recording.ranks["complete"].tolist() == [True] * num_hosts
    assert recording.connections["network"].tolist() == ["Socket"] * (num_hosts - 1)
    assert nccl_findings(recording).empty


def test_trees_that_nccl_itself_cut_are_read_as_far_as_they_are_whole(tmp_path: Path) -> None:
    trees = next(line for line in LOG.read_text().splitlines() if " Trees [0] " in line)
    assert len(trees) == 1023
    whole_part = trees[: trees.rindex("] ")]
    cut = whole_part.replace(" Trees", " Trees" + " " * (1023 - len(whole_part)))
    recording = recorded(tmp_path, [cut])
    assert recording.trees["channel"].tolist() == list(range(47))
    assert recording.line_kinds["understood"].all()
    # A shorter line was cut by another writer, and its rest may follow.
    assert not recorded(tmp_path, [whole_part]).line_kinds["understood"].any()


def test_an_error_trail_of_2_30_names_the_function(tmp_path: Path) -> None:
    texts = ["transport/net.cc:1134 (sendConnect) -> 6", "init.cc:77 (f) -> 6 [Async thread]"]
    recording = recorded(tmp_path, [said(text) for text in texts])
    problems = recording.problems[["kind", "code", "where"]].to_numpy().tolist()
    assert problems == [["trail", 6, "transport/net.cc:1134"], ["trail", 6, "init.cc:77"]]
    assert nccl_findings(recording)["id"].tolist() == ["nccl-error-trail"]


def test_the_start_of_a_split_communicator_has_no_blank_before_its_dash(tmp_path: Path) -> None:
    start = f"ncclCommSplit comm 0x1 rank 0 nranks 2 {PARENT}- Init START"
    recording = recorded(tmp_path, [said(start)])
    assert recording.ranks[["started", "complete"]].to_numpy().tolist() == [[True, False]]
    recording = recorded(tmp_path, [said(start), said(f"{start[:-14]} - Init COMPLETE")])
    assert recording.ranks[["started", "complete"]].to_numpy().tolist() == [[True, True]]


def test_a_connection_that_is_tried_again_is_no_warning_yet(tmp_path: Path) -> None:
    text = "socketPollConnect: connect to 10.9.0.2<33092> returned Connection refused, retrying "
    recording = recorded(tmp_path, [said(f"{text}(1/34) after sleep for 100 msec")])
    assert recording.problems["kind"].tolist() == ["retry"]
    findings = nccl_findings(recording)[["id", "severity"]].to_numpy().tolist()
    assert findings == [["nccl-connection-failed", "warning"]]


def test_the_eleventh_device_is_named_in_hexadecimal(tmp_path: Path) -> None:
    text = "GPU Direct RDMA Enabled for GPU 0 / HCA {} (distance 4 <= 5), read 1 mode Default"
    recording = recorded(tmp_path, [said(text.format(name)) for name in ("9", "a")])
    assert recording.gpudirect["hca"].tolist() == [9, 10]


def test_further_texts_of_2_28_to_2_30_are_understood(tmp_path: Path) -> None:
    texts = [
        "Topology detection : could not read /sys/devices/system/node/node-1/cpumap, ignoring",
        "ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-7. (GPU affinity = 0-7)",
        "ncclP2pSchedule: group size used is 8",
        "Failed to initialize any NET plugin",
        "AllReduce [Symmetric]: 1024 Bytes -> Kernel AllReduce_RSxLD nchannels 3 nthreads 4",
        "AllGather [Copy Engine]: 1024 Bytes -> cudaMemcpyBatchAsync",
        "GPU 0 / HCA 1 connected via C2C link",
        "comm 0x1 rank 0 nRanks 2 cudaDev 0 busId 60 - Abort START",
        "NCCL_MIN_CTAS 0 is too low, leaving it set at 1",
        "P2p connect done in 0:03",
        "MemManager: Initialized for device 0",
        "Rank 0: 4 Net devices",
        "[Rank 1] ncclCommGrow comm 0x5 rank 1 nranks 2 cudaDev 1 busId 70 - Init START",
    ]
    recording = recorded(tmp_path, [said(text) for text in texts])
    kinds = recording.line_kinds
    assert kinds.loc[~kinds["understood"], "sample"].tolist() == []
    assert recording.choices.empty
