from pathlib import Path

import pytest

from hvdprof.ingest.nccl.reader import read_nccl_logs
from tests.builders.nccl_log import (
    call_line,
    collective_call,
    init_call,
    init_line,
    interface_call,
    job,
    of_rank,
    recorded,
)
from tests.builders.places import CORPUS, needs_corpus


def test_calls_alone_give_collectives_and_communicators(tmp_path: Path) -> None:
    lines = [init_call(rank, 2) for rank in range(2)]
    lines += [collective_call(rank, count) for count in (10, 70) for rank in range(2)]
    lines.append(collective_call(0, 3, op="Broadcast", dtype=0))
    recording = recorded(tmp_path, lines)
    (communicator,) = recording.communicators.to_dict("records")
    assert (communicator["num_ranks"], communicator["join"]) == (2, "commId")
    assert recording.ranks["rank"].tolist() == [0, 1]
    assert recording.ranks["complete"].all()
    assert recording.ranks["cuda_device"].tolist() == [0, 1]
    calls = recording.calls
    assert calls["operation"].tolist() == ["AllReduce"] * 4 + ["Broadcast"]
    assert calls["rank"].tolist() == [0, 1, 0, 1, 0]
    assert calls["size_bytes"].tolist() == [40, 40, 280, 280, 3]
    assert calls["dtype"].tolist() == ["float32"] * 4 + ["int8"]
    assert calls["reduction"].tolist() == ["sum"] * 5
    assert set(calls["subsystem"]) == {"CALL"}
    assert calls["op_count"].isna().all()
    assert calls["line"].tolist() == [3, 4, 5, 6, 7]
    assert recording.line_kinds["understood"].all()


def test_a_call_with_a_coll_line_too_is_one_row(tmp_path: Path) -> None:
    lines = job(num_ranks=2)
    for number, count in enumerate((10, 70)):
        lines += [call_line(0, count, n=number), collective_call(0, count)]
    lines.append(collective_call(1, 10))
    calls = recorded(tmp_path, lines).calls
    rows = list(zip(calls["rank"], calls["size_bytes"], calls["subsystem"], strict=True))
    assert rows == [(0, 40, "COLL"), (0, 280, "COLL"), (1, 40, "CALL")]


def test_an_init_that_both_kinds_of_lines_report_is_one_rank(tmp_path: Path) -> None:
    lines = [of_rank(0, init_line(0, 1, "START", comm_id="0x51ab")), init_call(0, 1)]
    lines.append(of_rank(0, init_line(0, 1, "COMPLETE", comm_id="0x51ab")))
    recording = recorded(tmp_path, lines)
    assert len(recording.ranks) == len(recording.communicators) == 1
    assert recording.ranks["complete"].tolist() == [True]


def test_before_2_16_only_the_call_has_the_id(tmp_path: Path) -> None:
    lines = []
    for comm, comm_id in ((1, "0x51ab"), (2, "0x51ac")):
        # Alternating: without the id it is unknown which ranks belong together.
        for rank in (0, 1) if comm == 1 else (1, 0):
            lines.append(init_call(rank, 2, comm=comm, comm_id=comm_id))
            lines.append(of_rank(rank, init_line(rank, 2, "COMPLETE", comm=comm)))
    lines = [*lines[:2], *lines[4:6], *lines[2:4], *lines[6:]]
    recording = recorded(tmp_path, lines)
    assert recording.communicators["join"].tolist() == ["commId", "commId"]
    assert len(recording.ranks) == 4


def test_a_pointer_that_is_used_again_is_another_communicator(tmp_path: Path) -> None:
    lines = [init_call(0, 1), interface_call(0, "ncclCommDestroy(0x55aa0001)")]
    lines.append(init_call(0, 1, comm_id="0x77ff"))
    assert len(recorded(tmp_path, lines).communicators) == 2


def test_a_split_gives_a_communicator_without_an_id(tmp_path: Path) -> None:
    lines = [
        interface_call(rank, f"ncclCommSplit(0x55aa0001, 0, {rank}, 0x66{rank}0, {rank}, 2)")
        for rank in range(2)
    ]
    recording = recorded(tmp_path, lines)
    assert recording.communicators["join"].tolist() == ["complete"]
    assert recording.ranks["rank"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("ncclGroupStart()", True),
        ("ncclGetUniqueId(0x32b3)", True),
        ("ncclRedOpCreatePreMulSum(5,0x7f00,7,0,0x55aa0001)", True),
        ("ncclAllReduce(7f00,7f00,10,7", False),
        ("ncclCommInitRank(0x55aa0001, 2, 0x51ab, 9, 0)", False),
        ("something else", False),
    ],
)
def test_other_calls_are_known_and_damaged_ones_are_not(
    tmp_path: Path, text: str, understood: bool
) -> None:
    recording = recorded(tmp_path, [*job(), interface_call(0, text)])
    kinds = recording.line_kinds.set_index("kind")
    assert kinds.loc["CALL", "understood"] == understood
    assert recording.calls.empty


def traced(stamp: str, function: str, text: str) -> str:
    return f"oak0:7000:7050 [0] {stamp} {function} NCCL TRACE {text}"


def test_a_trace_line_has_a_time_a_place_and_words(tmp_path: Path) -> None:
    lines = [
        *job(),
        traced("117.724290", "some_init:1396", "NET/OFI Provider tcp needs 3 keys"),
        traced("1000.000000", "reg:5", "buffer 0x7f12ab of 4096 bytes"),
        traced("1000.500000", "reg:5", "buffer 0x7f99cd of 8192 bytes"),
    ]
    traces = recorded(tmp_path, lines).traces
    assert traces["time_ns"].tolist() == [117_724_290, 1_000_000_000, 1_000_500_000]
    assert traces["function"].tolist() == ["some_init:1396", "reg:5", "reg:5"]
    assert traces["text"].tolist() == [
        "NET/OFI Provider tcp needs N keys",
        "buffer N of N bytes",
        "buffer N of N bytes",
    ]
    assert set(traces["host"]) == {"oak0"}
    assert set(traces["pid"]) == {7000}
    assert traces["line"].tolist() == [len(lines) - 2, len(lines) - 1, len(lines)]


def test_a_trace_line_without_a_stamp_has_no_time(tmp_path: Path) -> None:
    traces = recorded(tmp_path, [*job(), "oak0:7000:7050 [0] NCCL TRACE words"]).traces
    assert traces["time_ns"].isna().tolist() == [True]
    assert traces["text"].tolist() == ["words"]


@pytest.mark.heavy
@needs_corpus
def test_the_times_of_a_public_log_rise_within_each_process() -> None:
    path = CORPUS / "nccl_logs" / "alcf_polaris_vae_20250115_with_aws.log"
    traces = read_nccl_logs([path]).traces
    assert len(traces) == 92
    by_process = traces.groupby(["host", "pid"], observed=True)["time_ns"]
    assert by_process.ngroups == 8
    # Stamps of threads of one process may pass each other by less than a millisecond.
    assert by_process.apply(lambda times: times.diff().dropna().min() > -1_000_000).all()
    # Milliseconds: taken for seconds, this job would have run for 42 hours.
    assert traces["time_ns"].max() < 3_600_000_000_000
