# ruff: noqa: E501  (lines of logs are as long as they are)
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.text.hydra_prefixes import HydraPieces
from hvdprof.ingest.text.printed_lines import printed_lines
from hvdprof.rundir.failures.log_prefixes import tagged_rank
from tests.builders.places import CORPUS, needs_corpus

# Own recording: `mpiexec -prepend-rank -n 3 python -u` of MPICH 4.3.2, paths and lines shortened.
PRINTED = """\
[0] rank 0 step 0
[2] rank 2 step 0[1] rank 1 step 0
[2] \n[2] rank 2 step 1[2] \n[0] rank 0 step 1
[1] rank 1 step 1
[0] [2026-11-21 15:41:52.774269: W /horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 2 seconds. This may cause deadlock. \n[0] Missing ranks:
[0] 0: [allreduce.late.0.0, allreduce.late.0.1]
[0] [[0] 2026-11-21 15:41:54[0] .[0] 774848[0] : [0] W[0]  [0] /horovod/common/stall_inspector.cc[0] :[0] 107[0] ] [0] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 2 seconds. This may cause deadlock. \n[0] Missing ranks:
[0] 0: [allreduce.late.0.0, allreduce.late.0.1][0] \n[2] Epoch 1: loss 0.3
[1] Traceback (most recent call last):
[1]   File "/tmp/stall.py", line 13, in <module>
[1]           [1]          [1]        [1]       [1]  ^^^^^^[1] ^^^^^^[1] ^^^^^^^^[1] ^^^^^^[1] ^^^^^^
[1] RuntimeError: on purpose
[0] Epoch 1: loss 0.3[0] \n"""

# Own recording, `mpiexec -l -n 2`; rank 1 was killed.
KILLED = """\
[0] training on[0]  [0] 2[0] \n
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 4020 RUNNING AT vm
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
"""


@pytest.fixture
def lines_of(tmp_path):
    def read(text):
        path = tmp_path / "job.out"
        path.write_text(text)
        return [(line.number, line.rank, line.text) for line in printed_lines(path)]

    return read


def test_pieces_of_ranks_become_their_lines(lines_of):
    lines = lines_of(PRINTED)
    assert [number for number, _, _ in lines] == list(range(1, 19))
    parsed = [(rank, text.strip()[:30]) for _, rank, text in lines]
    assert parsed[:6] == [
        (0, "rank 0 step 0"),
        (1, "rank 1 step 0"),
        (2, "rank 2 step 0"),
        (2, "rank 2 step 1"),
        (0, "rank 0 step 1"),
        (1, "rank 1 step 1"),
    ]
    assert parsed[6] == (0, "[2026-11-21 15:41:52.774269: W")
    assert parsed[9] == (0, "[2026-11-21 15:41:54.774848: W")
    assert lines[15][2].split() == ["^" * 32]
    assert parsed[16:] == [(1, "RuntimeError: on purpose"), (0, "Epoch 1: loss 0.3")]


def test_what_went_wrong_is_read_out_of_pieces(tmp_path):
    path = tmp_path / "job.out"
    path.write_text(PRINTED)
    tables = dict(read_printed_file(path).tables)
    assert tables["incidents"][["kind", "rank"]].astype(object).to_numpy().tolist() == [
        ["stall", 0],
        ["stall", 0],
        ["exception", 1],
    ]
    assert tables["stalls"]["tensor"].tolist() == ["allreduce.late.0.0", "allreduce.late.0.1"] * 2
    assert tables["stalls"]["warning"].tolist() == [0, 0, 1, 1]
    assert tables["horovod_log"]["source"].tolist() == ["stall_inspector.cc:107"] * 2
    assert tables["horovod_log"]["time_ns"].diff().tolist()[1] == 2_000_579_000


def test_lines_of_hydra_itself_have_no_rank(lines_of, tmp_path):
    lines = lines_of(KILLED)
    assert lines[0] == (1, 0, "training on 2")
    assert {rank for _, rank, _ in lines[1:]} == {None}
    (_, incidents), *_ = read_printed_file(tmp_path / "job.out").tables
    assert incidents["exit_code"].tolist() == [9]


def test_the_halves_of_a_line_find_each_other_among_other_ranks(lines_of):
    text = "[0] hal[1] whole\n[1] x\n[0] f\n[2] only begun[0] y\n[2] \n[1] no end[0] z\n"
    assert lines_of(text) == [
        (1, 1, "whole"),
        (2, 1, "x"),
        (3, 0, "half"),
        (4, 0, "y"),
        (5, 2, "only begun"),
        (6, 0, "z"),
        (6, 1, "no end"),
    ]


def test_bracketed_words_stay(lines_of):
    words = [
        *("[0] first", "shape [1] of it", "value of x[0]", "a[7] = 3", "[1, 2, 3]", ""),
        "node:12:13 [0] NCCL INFO comm",
        "grad[0], grad[1]: done",
    ]
    lines = lines_of("".join(f"[{rank}] {text}\n" for text in words for rank in (0, 1)))
    assert [text for _, rank, text in lines if rank == 1] == [
        *words[:1],
        # A tag of the own rank behind a blank cannot be distinguished from words.
        "shape of it",
        *words[2:],
    ]
    assert [text for _, rank, text in lines if rank == 0] == words


def test_progress_bars_have_their_rank_in_every_piece(lines_of):
    lines = lines_of("[0] 10%\r20%\r\n[1] 10%\r\n[0] done\n")
    assert lines == [(1, 0, "10%"), (1, 0, "20%"), (2, 1, "10%"), (3, 0, "done")]


def by_hydra(*lines):
    return HydraPieces.of_file(lines) is not None


@pytest.mark.parametrize(
    "lines",
    [
        ["[0] a", "[1] b", "[0] c"],
        ["[0] # size", "[0] 8", "[0] 16"],
        ["[0] a", "[3] Traceback", "[3] E: b"],
        ["[1] a", "[1] "],
        ["[0] a", "[1] b", "[2] c", "[2] "],
        ["[1] a", "", "====", "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"],
        ["[0] a", "[mpiexec@node1] HYDT_bscd_pbs_wait_for_completion: error"],
        ["[0] a[0] "],
        ["[0] # size", "[0] 8", "[1] n:1:1 [1] NCCL INFO a", "[2] n:1:1 [2] NCCL INFO a"],
    ],
)
def test_tags_of_hydra_are_recognised(lines):
    assert by_hydra(*lines)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["[0] a"],
        ["[0] loss 3", "[1] loss 2", "[2] loss 1"],
        ["[0] a", "[0] a", "[1] a", "[0] a", "[1] a", "[2] a", "[1] a", "[2] a"],
        ["[1] loss 3", "[2] loss 2", "[3] loss 1", "[1] loss 3"],
        ["[0] a", "words", "[1] b", "[0] c"],
        ["[0]<stdout>:a", "[1]<stdout>:b", "[0]<stdout>:c"],
        ["[1,0]<stdout>:a", "[1,1]<stdout>:b", "[1,0]<stdout>:c"],
        ["n:1:1 [0] NCCL INFO a", "n:1:1 [1] NCCL INFO a", "n:1:1 [0] NCCL INFO a"],
        ["[0]", "[1]", "[0]"],
        ["[0] NCCL INFO a", "[1] NCCL INFO b", "[0] misc/a.cc:7 NCCL WARN c"],
        ["[1, 2]", "[0, 2]", "[1, 2]"],
        ["[2026-11-20 21:56:09.  3056: W a.cc:1] [0]: a"] * 3,
        ["[rank0]: a", "[rank1]: b", "[rank0]: c"],
        ["0: [a, b]", "1: [a]", "0: [c]"],
    ],
)
def test_other_bracketed_text_is_not_taken_for_tags(lines):
    assert not by_hydra(*lines)


@pytest.mark.heavy
@needs_corpus
def test_nothing_of_other_launchers_is_taken_for_hydra():
    files = (path for path in CORPUS.rglob("*") if path.is_file())
    # Those are of Hydra.
    first = (path.read_bytes()[: 1 << 20] for path in files if not path.stem.startswith("mpich_"))
    texts = [block.decode("utf-8", "replace").split("\n") for block in first]
    assert len(texts) > 20
    assert not any(by_hydra(*lines) for lines in texts)


def as_hydra_writes(pieces):
    """A tag before every piece and before every further line in it."""
    lines = ((rank, line) for rank, piece in pieces for line in piece.splitlines(keepends=True))
    return "".join(f"[{rank}] {line}" for rank, line in lines)


@given(st.lists(st.tuples(st.integers(0, 3), st.text(st.sampled_from("ab:[\n"), min_size=1))))
def test_everything_ranks_write_comes_back_as_their_lines(written):
    pieces = HydraPieces(range(4))
    parsed = [pieces.take(line) for line in as_hydra_writes(written).split("\n") if line]
    parsed += pieces.rest()
    for rank in range(4):
        own = "".join(piece for one, piece in written if one == rank)
        assert [text for one, text in parsed if one == rank and text] == own.split()


def test_long_lines_without_an_end_cost_bounded_memory():
    pieces = HydraPieces([0, 1])
    for _ in itertools.repeat(None, 40):
        pieces.take("[0] " + "x" * 10_000 + "[1] y")
    ((_, text),) = pieces.rest()
    assert len(text) == 1 << 16


def test_the_tag_before_a_line_of_nccl_is_a_rank():
    assert tagged_rank("[3] ") == 3
    assert tagged_rank("a [3] ") is None
    assert tagged_rank("[3]") is None
