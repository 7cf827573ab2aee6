# ruff: noqa: E501  (lines of logs are as long as they are)
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.ingest.logs.collective_timeouts import CollectiveTimeouts
from hvdprof.ingest.text.line_filter import EVERY_LINE
from hvdprof.ingest.text.log_lines import PrintedLine
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part

WORK = "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=96, NumelOut=96, Timeout(ms)=600000) ran for 600020 milliseconds before timing out."
CAUGHT = f"Watchdog caught collective operation timeout: {WORK}"


def rows_of(folder: Path, text: str) -> list[dict[str, object]]:
    tables, _ = read_part(CollectiveTimeouts, text, folder)
    frame = tables["collective_timeouts"]
    return [
        {str(name): None if pd.isna(row[name]) else row[name] for name in row}
        for row in frame.to_dict("records")
    ]


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        (f"[E ProcessGroupNCCL.cpp:737] [Rank 5] {CAUGHT}", 5),
        (f"[rank9]:[E ProcessGroupNCCL.cpp:563] [Rank 1] {CAUGHT}", 9),
        (f"    [rank2]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 2] {CAUGHT}", 2),
        (f"[rank2]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [PG ID 1 PG GUID 7 Rank 3] {CAUGHT}", 2),
        (f"Epoch 0:   6%|##      | 3/5 [6:28:43<94:39:17,  1.37it/s][E ProcessGroupNCCL.cpp:458] [Rank 4] {CAUGHT}", 4),
        (f"box:1612790:1612973 [0] NCCL INFO NCCL_CROSS_[rank4]:[E ProcessGroupNCCL.cpp:563] [Rank 4] {CAUGHT}", 4),
    ],
)  # fmt: skip
def test_rank_and_collective_of_every_wording(tmp_path: Path, line: str, rank: int) -> None:
    (row,) = rows_of(tmp_path, f"{line}\nand more\n")
    assert row["rank"] == rank
    assert (row["sequence"], row["operation"], row["timed_out"]) == (808, "ALLREDUCE", True)
    assert (row["num_elements_in"], row["timeout_ns"]) == (96, 600 * 10**9)
    assert row["waited_ns"] == 600_020_000_000
    assert str(row["message"]).startswith("[E") or "[rank" in str(row["message"])


def test_repetitions_count_once_and_the_state_is_joined(tmp_path: Path) -> None:
    state = "last enqueued NCCL work: 811, last completed NCCL work: 807."
    text = (
        f"[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] {CAUGHT}\n"
        f"[rank1]:[E ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 1] Exception (either an error or timeout) detected by watchdog at work: 808, {state}\n"
        f"[rank1]:[E ProcessGroupNCCL.cpp:1414] [PG 0 Rank 1] Process group watchdog thread terminated with exception: [Rank 1] {CAUGHT}\n"
        f"  what():  [PG 0 Rank 1] Process group watchdog thread terminated with exception: [Rank 1] {CAUGHT}\n"
    )
    (row,) = rows_of(tmp_path, text)
    assert (row["last_enqueued"], row["last_completed"]) == (811, 807)
    assert row["group"] == "0 PG GUID 0(default_pg)"
    assert row["line"] == 1


def test_a_state_without_its_timeout_line_is_a_timeout_too(tmp_path: Path) -> None:
    text = "[rank3]:[E ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID 1 Rank 3]  failure detected by watchdog at work sequence id: 1 PG status: last enqueued work: 547, last completed work: -1\n"
    (row,) = rows_of(tmp_path, text)
    assert (row["rank"], row["timed_out"], row["sequence"]) == (3, True, 1)
    assert (row["last_enqueued"], row["last_completed"]) == (547, -1)


def test_memory_that_was_never_written_is_no_number(tmp_path: Path) -> None:
    text = "[rank1]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 1] Timeout at NCCL work: 1, last enqueued NCCL work: 1, last completed NCCL work: 3904955349522264369.\n"
    (row,) = rows_of(tmp_path, text)
    assert (row["last_enqueued"], row["last_completed"]) == (1, None)


@pytest.mark.parametrize(
    ("work", "size"),
    [
        ("OpType=ALLGATHER, NumelIn=1, NumelOut=8,", 8),
        ("OpType=_REDUCE_SCATTER_BASE, NumelIn=544997376, NumelOut=68124672,", 8),
        ("OpType=_ALLGATHER_BASE, NumelIn=3, NumelOut=8,", None),
        ("OpType=BROADCAST, NumelIn=8, NumelOut=8,", None),
        ("OpType=ALLGATHER, NumelIn=1, NumelOut=8", None),
    ],
)
def test_the_group_size_follows_from_the_elements(
    tmp_path: Path, work: str, size: int | None
) -> None:
    line = f"[rank1]:[E a/ProcessGroupNCCL.cpp:5] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, {work}"
    (row,) = rows_of(tmp_path, f"{line}\n")
    assert row["num_group_ranks"] == size


def test_a_cut_number_is_no_number(tmp_path: Path) -> None:
    line = "[E ProcessGroupNCCL.cpp:737] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4695"
    (row,) = rows_of(tmp_path, line)
    assert row["sequence"] is None


@pytest.mark.heavy
@needs_corpus
def test_all_ranks_of_the_hanging_job(tmp_path: Path) -> None:
    name = "alcf_polaris_resnet50_20250627_with_aws_HANG.log"
    text = (CORPUS / "nccl_logs" / name).read_text(errors="replace")
    rows = rows_of(tmp_path, text)
    assert sorted(int(str(row["rank"])) for row in rows) == list(range(8))
    assert {(row["operation"], row["sequence"], row["num_group_ranks"]) for row in rows} == {
        ("ALLGATHER", 1, 8)
    }


HEAD = "[rank{rank}]:[E102 08:15:10.307 ProcessGroupNCCL.cpp:607] [Rank {rank}] "


@pytest.mark.parametrize("width", [90, 118, 126, 160])
@pytest.mark.parametrize("tag", ["", "[1,{rank}]<stderr>:"])
def test_a_wrapped_record_is_one_record(tmp_path: Path, width: int, tag: str) -> None:
    lines = []
    for rank in (4, 5, 6):
        record = f"{HEAD.format(rank=rank)}{CAUGHT}"
        lines += [
            tag.format(rank=rank) + record[at : at + width] for at in range(0, len(record), width)
        ]
        lines.append(f"{tag.format(rank=rank)}Traceback (most recent call last):")
    rows = rows_of(tmp_path, "\n".join(lines) + "\n")
    assert [(row["rank"], row["sequence"], row["operation"]) for row in rows] == [
        (rank, 808, "ALLREDUCE") for rank in (4, 5, 6)
    ]


def test_a_state_that_is_wrapped_is_one_record(tmp_path: Path) -> None:
    text = (
        "[rank1]:[E102 08:15:10.307 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0 Rank 1] Exception "
        "detected by watchdog at work: 808, last enqueued NCCL work: 811, last comple\n"
        "ted NCCL work: 807.\n"
    )
    (row,) = rows_of(tmp_path, text)
    assert (row["rank"], row["last_enqueued"], row["last_completed"]) == (1, 811, 807)


def test_whole_lines_are_not_put_together(tmp_path: Path) -> None:
    text = (
        f"{HEAD.format(rank=4)}Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808,\n"
        "step 12 ran for 5 milliseconds\n"
        f"{HEAD.format(rank=5)}{CAUGHT}\n"
    )
    rows = rows_of(tmp_path, text)
    assert [(row["rank"], row["operation"]) for row in rows] == [(4, ""), (5, "ALLREDUCE")]
    assert rows[0]["waited_ns"] is None


def test_the_rank_that_another_names_timed_out(tmp_path: Path) -> None:
    signal = (
        "[rank{}]:[E102 08:15:10.110 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank "
        "{}] Received a dump signal due to a collective timeout from  rank 9 and we will try our "
        "best to dump the debug info. Last enqueued NCCL work: 431, last completed NCCL work: 430."
    )
    text = "".join(f"{signal.format(rank, rank)}\n" for rank in (5, 6))
    reported = [row for row in rows_of(tmp_path, text) if row["timed_out"]]
    assert [(row["rank"], row["reported_by"]) for row in reported] == [(9, 5)]
    own = rows_of(tmp_path, f"{text}{HEAD.format(rank=9)}{CAUGHT}\n")
    assert [(row["rank"], row["reported_by"]) for row in own if row["timed_out"]] == [(9, None)]


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("[rank0]: world_size=8", 8),
        ("using world size: 16, data-parallel size: 4", 16),
        ("WORLD_SIZE: 4", 4),
        ("local_world_size=2", None),
        ("tensor_parallel_world_size=2", None),
        ("world_size=8 and world_size=4", None),
    ],
)
def test_the_world_size_that_the_output_states(tmp_path: Path, line: str, size: int | None) -> None:
    (row,) = rows_of(tmp_path, f"{line}\n{HEAD.format(rank=4)}{CAUGHT}\n")
    assert row["world_size"] == size


def test_a_record_that_never_ends_is_given_up(tmp_path: Path) -> None:
    reader = CollectiveTimeouts("job.out")
    reader.take(PrintedLine(1, f"{HEAD.format(rank=4)}Watchdog caught", rank=4))
    assert reader.wanted == EVERY_LINE
    reader.take(PrintedLine(100, "loss 3.2", rank=5))
    assert reader.wanted != EVERY_LINE


SIGNAL = "Received a dump signal due to a collective timeout from {} and we will try our best to dump the debug info. Last enqueued NCCL work: 6, last completed NCCL work: 6.This is most likely"


def of_rank(rank: int, said: str) -> str:
    return f"[rank{rank}]:[E602 11:17:52.557 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] {said}\n"


def test_a_rank_that_reports_its_own_timeout_timed_out(tmp_path: Path) -> None:
    text = of_rank(1, SIGNAL.format("this local rank")) + of_rank(6, SIGNAL.format(" rank 1"))
    rows = rows_of(tmp_path, text)
    (row,) = (row for row in rows if row["timed_out"])
    assert (row["rank"], row["reported_by"]) == (1, None)


@pytest.mark.parametrize(
    "said",
    [
        "Some NCCL operations have failed or timed out. Due to the asynchronous nature",
        "Stack trace of the failed collective not found, potentially because",
    ],
)
def test_ranks_that_say_that_a_collective_failed_are_no_suspects(tmp_path: Path, said: str) -> None:
    failed = f"[rank3]:[E626 16:48:25.4 ProcessGroupNCCL.cpp:684] [Rank 3] {said}\n"
    state = "failure detected by watchdog at work sequence id: 9 PG status: last enqueued work: 9, last completed work: 8"
    rows = rows_of(tmp_path, of_rank(5, state) + failed)
    assert [row["rank"] for row in rows if row["timed_out"]] == [5, 3]
    # Alone, it may be an error of another kind.
    assert rows_of(tmp_path, failed) == []


def test_a_record_that_was_broken_between_words_is_one_record(tmp_path: Path) -> None:
    line = f"[E329 19:15:11.775879730 ProcessGroupNCCL.cpp:565] [Rank 4] {CAUGHT}"
    words, lines = line.split(), [""]
    for word in words:
        fits = len(lines[-1]) + len(word) < 70
        lines = [*lines[:-1], f"{lines[-1]} {word}".strip()] if fits else [*lines, word]
    assert len(lines) > 2
    (row,) = rows_of(tmp_path, "\n".join(lines) + "\n")
    assert (row["rank"], row["sequence"], row["operation"]) == (4, 808, "ALLREDUCE")
