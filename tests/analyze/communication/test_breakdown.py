import numpy as np
import pytest

from hvdprof.analyze.communication.communication_tables import breakdown
from tests.builders.step_works import simulated, tables_of

TIMED = ("data", "forward", "backward", "blocked", "before_update", "optimizer")
PARTS = [*TIMED, "outside"]


def test_the_parts_sum_to_the_mean_steady_step_of_every_rank():
    steps, _, job_steps = tables_of(simulated(50, 3, noise=0.05, extra_ms={"before_update": 4.0}))
    job_steps["steady"] = job_steps["step"] > 10
    steps["outside_ns"] = steps["dur_ns"] - steps[[f"{name}_ns" for name in TIMED]].sum(axis=1)

    found = breakdown(steps, job_steps)

    assert list(found["part"].unique()) == PARTS
    steady = steps[steps["step"] > 10]
    for rank, parts in found.groupby("rank"):
        mean = steady.loc[steady["rank"] == rank, "dur_ns"].mean()
        assert parts["time_ns"].sum() == pytest.approx(mean, rel=1e-12)
        assert parts["share"].sum() == pytest.approx(1)


@pytest.mark.slow
def test_the_interval_covers_the_truth_in_most_runs():
    hits = []
    for seed in range(60):
        steps, _, job_steps = tables_of(simulated(60, 2, noise=0.05, seed=seed))
        rows = breakdown(steps, job_steps)
        row = rows[(rows["rank"] == 0) & (rows["part"] == "backward")].iloc[0]
        hits.append(row["time_low_ns"] <= 60e6 <= row["time_high_ns"])

    assert np.mean(hits) >= 0.85


def test_steps_that_are_not_steady_alone_give_nothing():
    steps, _, job_steps = tables_of(simulated(20, 2))

    assert breakdown(steps, job_steps.assign(steady=False)).empty
