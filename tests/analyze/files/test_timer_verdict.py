"""Timers of Megatron: what ranks differ in, and when the log shows which rank is slow."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.model.file_page import FilePage, Gravity
from tests.ingest.logs.test_megatron_log import WORLD, iteration

Times = Mapping[str, Sequence[float]]
STEP_MS = 500.0
ITERATION = "Iteration: median 500 ms, 512 samples/s, 310.5 TFLOP/s per GPU. "


def even(number: int) -> dict[str, list[float]]:
    """The timers of eight ranks in one report, which differ by some noise alone."""
    rng = np.random.default_rng(number)
    means = {"forward-compute": 120.0, "backward-compute": 230.0, "batch-generator": 3.0}
    times = {name: [mean + rng.uniform(0, 2) for _ in range(8)] for name, mean in means.items()}
    pairs = zip(times["forward-compute"], times["backward-compute"], strict=True)
    times["forward-backward"] = [sum(pair) for pair in pairs]
    times["all-grads-sync"] = [60 + rng.uniform(0, 2) for _ in range(8)]
    return times


def slower(times: Times, *names: str, rank: int = 3, by: float = 50.0) -> dict[str, list[float]]:
    """The timers with more time on one rank."""
    return {
        name: [time + by * (name in names and place == rank) for place, time in enumerate(of)]
        for name, of in times.items()
    }


def report(times: Times, *, all_ranks: bool) -> str:
    """What Megatron prints of the timers after an iteration."""
    if all_ranks:
        lines = [
            f"  {name}:\n" + "".join(f"     rank {r:2d}: {ms:.2f}\n" for r, ms in enumerate(of))
            for name, of in times.items()
        ]
        return "times across ranks (ms):\n" + "".join(lines)
    lines = [
        f"    {name + ' ':.<48}: ({min(of):.2f}, {max(of):.2f})\n" for name, of in times.items()
    ]
    return "(min, max) time across ranks (ms):\n" + "".join(lines)


def page(
    folder: Path, times: Callable[[int], Times], *, all_ranks: bool = True, num: int = 8
) -> FilePage:
    """The page of a log with a report after each line on iterations."""
    text = WORLD + "".join(
        iteration(number, STEP_MS) + report(times(number), all_ranks=all_ranks)
        for number in range(1, num + 1)
    )
    (folder / "job.out").write_text(text)
    (only,) = analyze_files(load_run(folder)).files
    return only


@pytest.mark.heavy
def test_ranks_that_differ_by_noise_have_no_slow_one(tmp_path: Path) -> None:
    verdict = page(tmp_path, even, all_ranks=False)
    assert verdict.verdict.startswith(f"{ITERATION}No slow rank: ranks differ most in ")
    assert verdict.gravity == Gravity.NONE


@pytest.mark.heavy
def test_a_rank_that_is_slow_in_every_report_is_named_with_the_evidence(tmp_path: Path) -> None:
    found = page(tmp_path, lambda n: slower(even(n), "forward-compute", "forward-backward"))
    assert found.verdict.startswith(f"{ITERATION}Rank 3 is slow in forward-compute: 17")
    assert found.verdict.endswith("of the iteration; slowest in 7 of 7 reports).")
    assert found.gravity == Gravity.WARNING


@pytest.mark.heavy
def test_the_innermost_timer_that_explains_the_difference_is_named(tmp_path: Path) -> None:
    names = ("batch-generator", "forward-compute", "forward-backward")
    found = page(tmp_path, lambda number: slower(even(number), *names))
    assert "Rank 3 is slow in batch-generator: 5" in found.verdict


@pytest.mark.heavy
def test_without_ranks_the_difference_is_stated_and_no_rank_named(tmp_path: Path) -> None:
    found = page(tmp_path, lambda n: slower(even(n), "forward-compute"), all_ranks=False)
    assert "Ranks differ in forward-compute: 120 ms on the fastest rank, 17" in found.verdict
    assert "median of 7 reports" in found.verdict
    assert "Rank " not in found.verdict
    assert "does not say which rank" in found.caveat
    assert "--timing-log-option all" in found.caveat


@pytest.mark.heavy
def test_a_slow_rank_that_changes_is_not_named(tmp_path: Path) -> None:
    found = page(tmp_path, lambda n: slower(even(n), "forward-compute", rank=n % 8))
    assert "Ranks differ in forward-compute" in found.verdict
    assert "slowest in 1 of 7 reports, not beyond chance" in found.caveat


@pytest.mark.heavy
def test_few_reports_name_no_rank(tmp_path: Path) -> None:
    found = page(tmp_path, lambda n: slower(even(n), "forward-compute"), num=4)
    assert "Ranks differ in forward-compute" in found.verdict
    assert "slowest in 3 of 3 reports, too few to judge" in found.caveat


@pytest.mark.heavy
def test_two_slow_ranks_are_not_one(tmp_path: Path) -> None:
    def both(number: int) -> Times:
        times = slower(even(number), "forward-compute", by=60.0)
        return slower(times, "forward-compute", rank=5, by=57.0)

    found = page(tmp_path, both)
    assert "Ranks differ in forward-compute" in found.verdict
    assert "Rank 3 is the slowest in 7 of 7 reports, but the next rank is only" in found.caveat


@pytest.mark.heavy
def test_in_a_collective_the_rank_with_the_shortest_time_is_waited_for(tmp_path: Path) -> None:
    found = page(tmp_path, lambda number: slower(even(number), "all-grads-sync", by=-55.0))
    assert "Ranks wait for rank 3 in all-grads-sync: " in found.verdict
    assert "its time there is the shortest in 7 of 7 reports" in found.verdict


@pytest.mark.heavy
def test_pipeline_stages_may_differ_by_design(tmp_path: Path) -> None:
    text = WORLD.replace("size: 8\n", "size: 4, pipeline-model-parallel size: 2\n")
    text += "".join(
        iteration(n, STEP_MS) + report(slower(even(n), "forward-compute"), all_ranks=False)
        for n in range(1, 9)
    )
    (tmp_path / "job.out").write_text(text)
    (found,) = analyze_files(load_run(tmp_path)).files
    assert "The 2 pipeline stages hold different layers" in found.caveat


@pytest.mark.heavy
def test_timers_of_checkpoints_and_of_warm_up_do_not_count(tmp_path: Path) -> None:
    def rare(number: int) -> Times:
        return even(number) | {"save-checkpoint": [1000.0, *[5000.0] * 7]}

    assert "No slow rank" in page(tmp_path, rare).verdict
    first = page(tmp_path, lambda n: slower(even(n), "forward-compute", by=2000.0 * (n == 1)))
    assert "No slow rank" in first.verdict


@pytest.mark.heavy
def test_timers_of_one_rank_say_so(tmp_path: Path) -> None:
    times = "time (ms) | forward: 150.00 | backward: 320.50 | backward-allreduce: 40.30 |\n"
    text = WORLD + "".join(iteration(number, STEP_MS) + times for number in range(1, 5))
    (tmp_path / "job.out").write_text(text)
    (found,) = analyze_files(load_run(tmp_path)).files
    assert found.verdict == (
        f"{ITERATION}On the rank that prints: backward 320 ms, forward 150 ms, "
        "backward-allreduce 40.3 ms."
    )
    assert "The timers are of one rank" in found.caveat
