"""Clocks, cores and waits for a core that differ between two runs."""

from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.compare.comparison import compare_sides, side_of_run
from hvdprof.api import compare
from hvdprof.model.results.comparison import ComparisonOutcome, Rules
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from hvdprof.rundir.recording.sample_format import CORE_WAIT, SM_CLOCK
from tests.builders.analysis import analysis_of, sweep
from tests.builders.declared_rows import declared_rows

STEPS = {2: 12.0}
SLOWER = {2: 13.2}


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sides")
    return tuple(
        analysis_of(folder / name, sweep(steps)) for name, steps in (("a", STEPS), ("b", SLOWER))
    )


def sampled(analysis, measure, value, spread=0.002, seed=0):
    """The same run with samples of both ranks in each launch."""
    noise = np.random.default_rng(seed).normal(0, spread * value, 100)
    rows = [
        {
            "pass_id": row["pass_id"],
            "segment": row["segment"],
            "rank": rank,
            "measure": measure,
            "mean": value + noise[2 * number + rank],
        }
        for number, row in enumerate(analysis.run.segments.to_dict("records"))
        for rank in (0, 1)
    ]
    table = declared_rows(RANK_MACHINE, *rows)
    return replace(analysis, derived={**analysis.derived, RANK_MACHINE.name: table})


def both(sides, measure, first, second, **how):
    one = sampled(sides[0], measure, first, seed=1, **how)
    return one, sampled(sides[1], measure, second, seed=2, **how)


def test_lower_gpu_clocks_explain_before_the_code_is_accused(sides):
    assert compare(*sides).outcome is ComparisonOutcome.REGRESSED
    found = compare(*both(sides, SM_CLOCK, 1.98e9, 1.82e9))
    assert found.outcome is ComparisonOutcome.NOT_COMPARABLE
    assert "GPU clocks (SM) 8." in found.sentence
    assert " % lower in the second run" in found.sentence
    higher = compare(*both(sides, SM_CLOCK, 1.82e9, 1.98e9))
    assert "higher in the second run" in higher.sentence


@pytest.mark.parametrize(
    ("second", "spread"),
    [
        # Within the margin, and beyond it by chance.
        (1.97e9, 0.002),
        (1.82e9, 0.2),
    ],
)
def test_clocks_that_differ_little_or_by_chance_forbid_nothing(sides, second, spread):
    found = compare(*both(sides, SM_CLOCK, 1.98e9, second, spread=spread))
    assert found.outcome is ComparisonOutcome.REGRESSED


def test_interleaved_launches_met_the_same_machine(sides):
    one, other = (side_of_run(side) for side in both(sides, SM_CLOCK, 1.98e9, 1.82e9))
    together = [
        replace(side, manifest=replace(side.manifest, paired_by="x")) for side in (one, other)
    ]
    first, second = together
    assert compare_sides(first, second, Rules()).outcome is not ComparisonOutcome.NOT_COMPARABLE
    assert compare_sides(one, other, Rules()).outcome is ComparisonOutcome.NOT_COMPARABLE


def test_ranks_without_a_core_are_a_caveat_with_both_intervals(sides):
    found = compare(*both(sides, CORE_WAIT, 0.05, 0.4))
    assert found.outcome is ComparisonOutcome.REGRESSED
    assert "mnist on 2 ranks: of the time in which ranks could run they had no core for" in (
        found.caveat
    )
    assert " in a and 4" in found.caveat
    assert "no core" not in compare(*both(sides, CORE_WAIT, 0.05, 0.08)).caveat
    assert "no core" not in compare(*both(sides, CORE_WAIT, 0.05, 0.4, spread=3.0)).caveat


def test_other_cores_per_rank_are_not_comparable(sides, tmp_path):
    def with_cores(name, cores):
        analysis = analysis_of(tmp_path / name, sweep(STEPS))
        ranks = analysis.run.ranks.assign(num_affinity_cores=cores)
        run = replace(analysis.run, frames={**analysis.run.frames, "ranks": ranks})
        return replace(analysis, run=run)

    found = compare(with_cores("a", 4), with_cores("b", 2))
    assert found.outcome is ComparisonOutcome.NOT_COMPARABLE
    assert "cores per rank 4 and 2" in found.sentence
    same = compare(with_cores("c", 4), with_cores("d", 4))
    assert same.outcome is not ComparisonOutcome.NOT_COMPARABLE
