"""Output that is cut, wrapped, interleaved or prefixed claims nothing that the whole does not.

The facts are those of tests/truth: of a mutant they are a part of the facts of its specimen, and
the same where every record is still there.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hvdprof.api import analyze_files, load_run
from hvdprof.errors import UnreadableInputError
from tests.builders.examples import examples
from tests.builders.log_prefixes import PREFIXES
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed_texts import NCCL, TEXTS
from tests.truth.claims import facts_of, tables_of
from tests.truth.own_parse import Facts

ENTRY = """\
[{0}]:
  time      : 2026-11-02_08:15:1{0}
  host      : oak1
  rank      : {0} (local_rank: {0})
  exitcode  : 1 (pid: 52{0})
"""
FAILED = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n{ENTRY.format(1)}{ENTRY.format(2)}"
    f"{'-' * 60}\nRoot Cause (first observed failure):\n{ENTRY.format(0)}{'=' * 60}\n"
)
WAITED = "".join(
    f"[rank{rank}]:[E626 06:24:44.9038 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=96, NumelOut=96, "
    "Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    for rank in range(3)
)
BROKEN = TEXTS["nccl-tests"].partition("# Out of")[0] + "oak1: Test NCCL failure common.cu:958\n"
SPECIMENS = {**TEXTS, "nccl": NCCL, "torchrun": FAILED, "watchdog": WAITED, "failed test": BROKEN}
NAMES = sorted(SPECIMENS)
KINDS = ("timeouts", "connections", "completed", "rows", "stalls", "ends", "rates")
HEALTHY = ("All ", "same number of", "RAS reports OK", "names no rank")
"""Words that are true of a file only if it is complete."""

WRAPPED = ("timeouts", "connections", "completed", "rows", "stalls", "ends")
LARGEST = 60_000
FOLDERS = ("cases_2026_11", "nccl_tests", "horovod_logs", "benchmarks", "nccl_logs")
LIMITS = settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def facts(text: str) -> dict[str, Facts]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        path.write_text(text, encoding="utf-8")
        return facts_of(tables_of(path))


@cache
def whole(name: str) -> dict[str, Facts]:
    return facts(SPECIMENS[name])


@cache
def said(text: str) -> tuple[str, dict[str, object]]:
    """The verdict on a text, and the facts of its page."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        path.write_text(text, encoding="utf-8")
        try:
            (page,) = analyze_files(load_run(path)).files
        except UnreadableInputError:
            return "", {}
        return page.verdict, {fact.name: fact.value for fact in page.facts}


def invented(found: dict[str, Facts], *known: dict[str, Facts]) -> dict[str, Facts]:
    """What is claimed of a mutant and stands in none of its specimens.

    That a rank failed, without its code, is a part of what they say.
    """
    claimed = {kind: found[kind].copy() for kind in KINDS}
    for rank, *_ in (end for one in known for end in one["ends"]):
        del claimed["ends"][rank, None, None]
    for one in known:
        for kind in KINDS:
            claimed[kind] -= one[kind]
    return {kind: left for kind, left in claimed.items() if left}


def wrapped(text: str, width: int) -> str:
    return "".join(
        f"{line[at : at + width]}\n"
        for line in text.splitlines()
        for at in range(0, max(len(line), 1), width)
    )


@pytest.mark.heavy
@given(st.data())
@LIMITS
def test_a_cut_invents_nothing_and_proves_no_health(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    text = SPECIMENS[name][: data.draw(st.integers(0, len(SPECIMENS[name])))]
    assert invented(facts(text), whole(name)) == {}
    verdict, page = said(text)
    of_whole, known = said(SPECIMENS[name])
    assert [words for words in HEALTHY if words in verdict and words not in of_whole] == []
    assert page.get("failed") in (None, known.get("failed"))


@pytest.mark.heavy
@pytest.mark.parametrize("width", [80, 132])
@pytest.mark.parametrize("name", NAMES)
def test_a_wrapped_record_is_one_record(name: str, width: int) -> None:
    found = facts(wrapped(SPECIMENS[name], width))
    assert invented(found, whole(name)) == {}
    assert {kind: found[kind] for kind in WRAPPED} == {kind: whole(name)[kind] for kind in WRAPPED}


@pytest.mark.heavy
@given(st.data())
@LIMITS
def test_lines_of_two_files_in_turn_invent_nothing(data: st.DataObject) -> None:
    # The entries of two reports of torchrun are alike: line by line, they mix.
    first = data.draw(st.sampled_from(NAMES))
    second = data.draw(st.sampled_from([name for name in NAMES if name != "torchrun"]))
    queues = [SPECIMENS[name].splitlines() for name in (first, second)]
    turns = data.draw(st.lists(st.integers(0, 1), min_size=sum(map(len, queues))))
    mixed = [queue.pop(0) for turn in turns if (queue := queues[turn] or queues[1 - turn])]
    assert invented(facts("\n".join(mixed) + "\n"), whole(first), whole(second)) == {}


@pytest.mark.heavy
@given(st.data())
@LIMITS
def test_a_prefix_and_a_cut_invent_nothing(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    prefix = data.draw(st.sampled_from([one for one in PREFIXES if one.rank is None]))
    printed = prefix.of(SPECIMENS[name])
    assert invented(facts(printed), whole(name)) == {}
    cut = printed[: data.draw(st.integers(0, len(printed)))]
    assert invented(facts(cut), whole(name)) == {}


def small_files(folder: str) -> list[Path]:
    paths = sorted((CORPUS / folder).glob("*.*"))
    return [path for path in paths if path.is_file() and path.stat().st_size < LARGEST]


@needs_corpus
@pytest.mark.slow
def test_there_are_public_files_to_cut() -> None:
    assert len([path for folder in FOLDERS for path in small_files(folder)]) > 50


@needs_corpus
@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_public_files_that_are_cut_invent_nothing(folder: str) -> None:
    for path in small_files(folder):
        text = path.read_bytes().decode(errors="replace")
        of_whole = facts(text)
        for place in (0.3, 0.71, 0.97):
            cut = facts(text[: int(place * len(text))])
            assert invented(cut, of_whole) == {}, (path.name, place)
