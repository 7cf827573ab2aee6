from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.model.file_page import FilePage, Gravity
from tests.builders.rank_stacks import faulthandler, py_spy, server_dump
from tests.ingest.logs.test_fr_trace_text import RECORD

pytestmark = pytest.mark.heavy


def page_of(text: str, folder: Path) -> FilePage:
    path = folder / "dump.txt"
    path.write_text(text)
    (page,) = analyze_files(load_run(path)).files
    return page


@pytest.mark.parametrize(
    ("places", "sentence", "gravity"),
    [
        (
            {0: "reduce", 1: "reduce", 2: "data"},
            "Hang: rank 2 is loading data at train.py:14 (read_sample), while ranks 0 and 1 wait "
            "in all_reduce at train.py:40 (mean_loss). Fix: look at the input of rank 2: the "
            "sample, its storage, its workers.",
            Gravity.HANG,
        ),
        (
            {0: "backward", 1: "checkpoint"},
            "Suspect: rank 1 is in a checkpoint at train.py:57 (save), while rank 0 is in backward "
            "at train.py:33 (train_step).",
            Gravity.WARNING,
        ),
        (
            {0: "reduce", 1: "barrier"},
            "Ranks wait at different places: rank 0 waits in all_reduce at train.py:40 "
            "(mean_loss); rank 1 waits in barrier at train.py:55 (save).",
            Gravity.HANG,
        ),
        (
            {0: "reduce", 1: "reduce"},
            "No rank seen is behind: ranks 0 and 1 wait in all_reduce",
            Gravity.WARNING,
        ),
        ({0: "data", 1: "data"}, "Ranks 0 and 1 are loading data at train.py:14", Gravity.NONE),
        ({0: "reduce"}, "Rank 0 waits in all_reduce at train.py:40 (mean_loss); the stacks of "
         "other ranks say for whom.", Gravity.NONE),
        ({0: "500", 1: "500"}, "Ranks 0 and 1 have no stack.", Gravity.NONE),
    ],
)  # fmt: skip
def test_verdict_of_a_dump(
    places: dict[int, str], sentence: str, gravity: Gravity, tmp_path: Path
) -> None:
    page = page_of(server_dump(places), tmp_path)
    assert page.verdict.startswith(sentence)
    assert page.gravity == gravity


def test_a_rank_without_a_stack_may_be_the_one_behind(tmp_path: Path) -> None:
    page = page_of(server_dump({0: "reduce", 1: "reduce", 2: "503"}), tmp_path)
    assert page.caveat.startswith("No stack of rank 2. A stack")
    assert "rank 2 has no stack" in next(f.text for f in page.facts if f.name == "process_places")


def test_files_of_one_process_each_are_one_job(tmp_path: Path) -> None:
    for rank, place in enumerate(("reduce", "reduce", "data")):
        (tmp_path / f"rank{rank}.txt").write_text(faulthandler(place))
    (page,) = analyze_files(load_run(tmp_path)).files
    assert page.kind == "3 dumps of stacks"
    assert page.verdict.startswith("Hang: rank 2 is loading data")


def test_files_of_the_same_ranks_are_two_jobs(tmp_path: Path) -> None:
    for job in ("one", "two"):
        for rank, place in enumerate(("reduce", "data")):
            (tmp_path / job).mkdir(exist_ok=True)
            (tmp_path / job / f"rank{rank}.txt").write_text(faulthandler(place))
    pages = analyze_files(load_run(tmp_path)).files
    assert [page.kind for page in pages] == ["2 dumps of stacks"] * 2


def test_processes_without_a_rank_have_their_number(tmp_path: Path) -> None:
    page = page_of(py_spy("data", 31) + "\n" + py_spy("reduce", 32), tmp_path)
    assert page.verdict.startswith("Hang: process 31 is loading data at train.py:14")


def test_a_native_stack_alone_proves_no_hang(tmp_path: Path) -> None:
    native = "[Inferior 1 (process 7) detached]\n"
    text = (
        f"Attaching to process 7\n#0  0x1 in ?? () from /l/libc.so.6\n#1  0x2 in main ()\n{native}"
    )
    page = page_of(text + "\n" + py_spy("reduce", 32), tmp_path)
    assert page.verdict.startswith("Suspect: process 7 is in ??, while process 32 waits")
    assert "py-spy dump --pid" in page.verdict


def test_fr_trace_names_the_ranks_that_a_hang_begins_with(tmp_path: Path) -> None:
    page = page_of(RECORD.format(seq=71, name="all_reduce", missing="{2}"), tmp_path)
    assert page.verdict.startswith(
        "Hang: rank 2 has not submitted nccl:all_reduce (Seq 71 of process group data_parallel 5); "
        "3 other ranks blocked."
    )
    assert page.kind == "report of PyTorch's fr_trace"
    assert "no completions" in page.caveat


def test_a_mismatch_of_fr_trace_is_no_missing_rank(tmp_path: Path) -> None:
    text = (
        "Collective sequence number: 7 has errors\ngroup info: 0:default_pg\ncollective: "
        "nccl:all_reduce\nexpected ranks: {0, 1}\nerror msg: Culprit rank 1; Error type: "
        "COLLECTIVE_TYPE_MISMATCH, Expected collective type: 'all_reduce'\n"
    )
    assert page_of(text, tmp_path).verdict.startswith(
        "Collectives of process group default_pg do not match: fr_trace names rank 1 "
        "(COLLECTIVE_TYPE_MISMATCH)."
    )
