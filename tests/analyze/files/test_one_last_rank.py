"""One job as four recorders write it: the same rank, the same cost, the same words."""

import re
from pathlib import Path

import numpy as np
import pytest

from hvdprof.analyze.files.last_to_submit import last_to_submit_facts, last_to_submit_verdict
from hvdprof.api import analyze_files, analyze_run, load_run
from hvdprof.ingest.rundir.attach_sources import Given
from hvdprof.ingest.rundir.attached_run import Stated, attach
from hvdprof.model.file_page import FileVerdict
from hvdprof.model.run import Run
from tests.builders.profiler_traces import TracedJob
from tests.builders.written_calls import (
    Calls,
    as_flight_recorder,
    as_inspector,
    as_kineto,
    as_nsys,
    calls_of,
)

LATE = TracedJob(size=4, num_steps=24, late={(2, "backward"): 2000.0}, backend="nccl")
WORDS = re.compile(
    r"[Rr]ank (\d+) (?:submits|arrives) last in (\d+) of (\d+) (?:all-reduces|steps); the others "
    r"wait (\S+) ms per (?:call|step) \((\S+) % of the recorded time\)\."
)


def verdict_of(run: Run) -> FileVerdict:
    return last_to_submit_verdict(run.table("rank_collectives"))


@pytest.mark.heavy
def test_the_same_job_gives_the_same_rank_cost_and_words(tmp_path: Path) -> None:
    calls = calls_of(LATE)
    written = {
        "flight": as_flight_recorder(tmp_path / "flight", calls),
        "inspector": as_inspector(tmp_path / "inspector", calls),
        "nsys": as_nsys(tmp_path / "nsys", calls),
        "kineto": as_kineto(tmp_path / "kineto", LATE),
    }
    for kind, folder in written.items():
        verdict = verdict_of(load_run(folder))
        found = WORDS.search(verdict.sentence)
        assert found is not None, (kind, verdict)
        rank, number, of, wait, share = found.groups()
        assert (rank, number) == ("2", of), kind
        assert float(wait) == pytest.approx(2.0, rel=0.01), kind
        assert float(share) == pytest.approx(16.0, abs=1.0), kind
        assert "By chance, equal ranks cause as much in at most 0.10 % of jobs." in verdict.caveat


@pytest.mark.heavy
@pytest.mark.parametrize("write", [as_inspector, as_nsys])
def test_clocks_that_are_apart_do_not_change_the_rank(tmp_path: Path, write) -> None:
    """Lengths of calls are on one clock each: rank 3, which is early by its clock, is not named."""
    run = load_run(write(tmp_path / "a", calls_of(LATE), lambda rank: 50_000_000 * (rank == 3)))
    verdict = verdict_of(run)
    assert (
        "Rank 2 arrives last in 23 of 23 all-reduces; the others wait 2.00 ms" in verdict.sentence
    )
    assert "fast looks the same" not in verdict.caveat


@pytest.mark.parametrize("error_ns", [500_000, 1_500_000])
def test_clock_errors_larger_than_the_lateness_name_nobody(tmp_path: Path, error_ns: int) -> None:
    calls = load_run(as_flight_recorder(tmp_path / "a", calls_of(LATE))).table("rank_collectives")
    verdict = last_to_submit_verdict(calls.assign(clock_error_ns=error_ns))
    if error_ns < 1_000_000:
        assert verdict.sentence.startswith("Rank 2 submits last in 23 of 23 all-reduces")
        assert "Gaps within the error of the clocks (up to 1.00 ms) do not count." in verdict.caveat
    else:
        assert verdict.sentence == (
            "No straggler can be named: the last two ranks are never further apart than the error "
            "of their clocks (3.00 ms)."
        )


def simulated(seed: int, late_ms: float, num_ranks: int, num_calls: int = 40) -> Calls:
    """Steps of 50 ms with 2 ms of jitter, correlated from call to call; one rank is later."""
    rng = np.random.default_rng(seed)
    jitter = rng.exponential(2.0, (num_calls, num_ranks))
    jitter[1:] += 0.5 * jitter[:-1]
    own = 40.0 + jitter
    own[:, num_ranks - 1] += late_ms
    released = np.cumsum(own.max(axis=1) + 3.0)
    begins = np.append(0.0, released[:-1])
    return Calls(((begins[:, None] + own) * 1e6).astype(int), (released * 1e6).astype(int))


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("num_ranks", [2, 8])
def test_a_planted_late_rank_is_named_with_its_cost_in_the_interval(
    tmp_path: Path, seed: int, num_ranks: int
) -> None:
    calls = simulated(seed, 10.0, num_ranks)
    run = load_run(as_inspector(tmp_path / "a", calls))
    late = num_ranks - 1
    assert f"Rank {late} arrives last in" in verdict_of(run).sentence
    (fact,) = [
        fact
        for fact in last_to_submit_facts(run.table("rank_collectives"))
        if fact.name == "last_rank_wait_ns"
    ]
    # What a step would be shorter if this rank were as early as the next to last.
    others = np.delete(calls.arrived, late, axis=1).max(axis=1)
    truth_ms = float((calls.arrived[1:, late] - others[1:]).clip(0).mean()) / 1e6
    _, low, high = map(float, re.findall(r"([\d.]+) ms", fact.text))
    assert low <= truth_ms <= high
    assert float(str(fact.value)) / 1e6 == pytest.approx(truth_ms, rel=0.01)


@pytest.mark.heavy
def test_exports_of_all_ranks_say_together_who_is_last(tmp_path: Path) -> None:
    found = analyze_files(load_run(as_nsys(tmp_path / "a", calls_of(LATE))))
    assert found.verdicts[0].sentence.startswith("Rank 2 arrives last in 23 of 23 all-reduces;")
    asked = [one.question for page in found.files for one in page.unanswered]
    assert not any("which rank the others wait for" in one for one in asked)


@pytest.mark.heavy
def test_the_export_of_one_rank_says_that_it_cannot(tmp_path: Path) -> None:
    folder = as_nsys(tmp_path / "a", calls_of(LATE))
    (verdict,) = analyze_files(load_run(folder / "rank1.sqlite")).verdicts
    assert verdict.sentence == (
        "Exports of rank 1 alone do not say which rank the others wait for."
    )


@pytest.mark.heavy
def test_attached_exports_say_it_too(tmp_path: Path) -> None:
    exports = sorted(as_nsys(tmp_path / "a", calls_of(LATE)).iterdir())
    attach(tmp_path / "run", Given(recordings=exports), Stated(name="mine", size=4))
    sentence = analyze_run(load_run(tmp_path / "run")).verdict.sentence
    assert sentence.startswith("Rank 2 arrives last in 23 of 23 all-reduces; the others wait")
