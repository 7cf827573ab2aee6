from pathlib import Path

import pytest

from hvdprof.api import analyze_files, analyze_run, load_run
from hvdprof.model.file_page import FilePage
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.places import CORPUS, RECORDINGS, needs_corpus


def page_of(folder: Path) -> FilePage:
    pages = analyze_files(load_run(folder)).files
    return next(page for page in pages if "Flight Recorder" in page.kind)


def facts_of(page: FilePage) -> dict[str, object]:
    return {fact.name: fact.value for fact in page.facts}


@needs_corpus
@pytest.mark.parametrize(
    ("name", "ranks", "action"),
    [
        ("lock_gil_1st", "9, 14", "end of the output"),
        ("gpu_error_1st", "12, 14", "nvidia-smi"),
    ],
)
def test_dumps_of_16_ranks_name_the_ranks_with_the_fault(
    name: str, ranks: str, action: str
) -> None:
    page = page_of(CORPUS / "imports" / "flight_recorder" / name)
    assert facts_of(page)["hang_ranks"] == ranks
    assert action in page.verdict
    assert page.kind == "16 PyTorch Flight Recorder dumps"


def test_the_verdict_names_rank_collective_and_number_blocked(tmp_path: Path) -> None:
    dumps = {
        rank: dump(ranks=range(3), enqueued=5 if rank == 1 else 6, late_ns=rank)
        for rank in range(3)
    }
    page = page_of(write_dumps(tmp_path, dumps))
    assert page.verdict == (
        "Hang: rank 1 has not submitted nccl:all_reduce (Seq 6 of process group default_pg 0); "
        "2 other ranks blocked. Fix: look at the end of the output of rank 1, and at what it does "
        "instead."
    )
    assert facts_of(page)["missing_in"] == (
        "nccl:all_reduce, Seq 6 of default_pg 0 (ranks 0-2): not submitted by rank 1"
    )


def test_a_stuck_rank_points_at_its_gpu(tmp_path: Path) -> None:
    dumps = {0: dump(enqueued=9, completed=8), 1: dump(enqueued=9, completed=4, late_ns=1)}
    verdict = page_of(write_dumps(tmp_path, dumps)).verdict
    assert (
        "rank 1 has not completed nccl:all_reduce (Seq 5 of process group default_pg 0), which "
        "other ranks completed" in verdict
    )


def test_ranks_without_a_dump_are_named_and_may_be_behind(tmp_path: Path) -> None:
    dumps = {rank: dump(ranks=range(4), enqueued=6, late_ns=rank) for rank in (0, 2)}
    page = page_of(write_dumps(tmp_path, dumps))
    assert facts_of(page)["missing_dumps"] == "1, 3"
    assert page.verdict.startswith("Suspects: ranks 1 and 3, without a dump; ranks 0 and 2 wait")
    assert "they may be behind" in page.caveat


def test_a_collective_that_all_submitted_and_none_completed_is_the_network(tmp_path: Path) -> None:
    dumps = {rank: dump(enqueued=6, late_ns=rank) for rank in range(2)}
    assert "all 2 ranks submitted the same collectives, and on 2 ranks some are not completed" in (
        page_of(write_dumps(tmp_path, dumps)).verdict
    )


def test_ranks_without_pending_collectives_are_not_behind(tmp_path: Path) -> None:
    page = page_of(write_dumps(tmp_path, {0: dump(), 1: dump(late_ns=2_000_000)}))
    assert page.verdict == (
        "No rank is behind: all 2 ranks submitted and completed the same collectives. "
        "No straggler: rank 1 submits last in 4 of 4 all-reduces; the others wait 2.00 ms per call "
        "(0.3 % of the recorded time)."
    )
    (fact,) = [fact for fact in page.facts if fact.name == "last_rank"]
    assert fact.value == 1
    assert fact.text == "rank 1: 5 of 5, median 2.00 ms behind the next to last"


def test_gloo_says_only_what_was_submitted(tmp_path: Path) -> None:
    dumps = {
        rank: dump(ranks=(), library="gloo", enqueued=6 - rank, late_ns=rank) for rank in range(2)
    }
    page = page_of(write_dumps(tmp_path, dumps, as_json=True))
    assert page.verdict.startswith("Hang: rank 1 has not submitted")


def test_one_dump_alone_compares_nothing(tmp_path: Path) -> None:
    page = page_of(write_dumps(tmp_path, {0: dump()}))
    assert page.verdict == "One dump alone does not show which rank is behind."
    assert page.unanswered


def test_a_dump_that_lists_no_ranks_is_not_of_one_rank(tmp_path: Path) -> None:
    (alone,) = page_of(write_dumps(tmp_path, {0: dump(ranks=(), library="gloo")})).unanswered
    assert "--np N " in alone.command
    (of_three,) = page_of(write_dumps(tmp_path / "b", {0: dump(ranks=range(3))})).unanswered
    assert "--np 3 " in of_three.command


def test_traces_and_recorder_files_of_one_folder_have_a_page_each() -> None:
    folder = RECORDINGS / "kineto_gloo_backward_rank1"
    found = analyze_run(load_run(folder))
    kinds = [page.kind for page in found.pages if page.facts]
    assert kinds == ["2 PyTorch profiler traces", "2 recorder files"]
    assert "straggler (rank 1, backward phase)" in found.verdict.sentence
