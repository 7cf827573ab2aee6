import math

import pandas as pd

from hvdprof.analyze.steps.measured_launches import launch_facts
from hvdprof.model.tables.run_tables import STEPS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from tests.builders.declared_rows import declared_rows

NAMES = {"pass_id": "p", "segment": "s"}


def _steps() -> pd.DataFrame:
    """Steps 0 (warm-up) to 3 on 2 ranks: forward takes 10 ns per step number, rank 1 twice that."""
    return declared_rows(
        STEPS,
        *(
            {
                **NAMES,
                "rank": rank,
                "step": step,
                "warmup": step == 0,
                "forward_ns": 10 * step * (rank + 1),
                "blocked_ns": None,
                "samples": 8 + rank,
            }
            for step in range(4)
            for rank in range(2)
        ),
    )


def _job_steps(steady: list[bool]) -> pd.DataFrame:
    return declared_rows(
        JOB_STEPS,
        *(
            {**NAMES, "step": step, "dur_ns": 100 * step, "steady": is_steady}
            for step, is_steady in enumerate(steady)
        ),
    )


def test_means_over_the_steady_steps_of_all_ranks() -> None:
    facts = launch_facts(_steps(), _job_steps([False, False, True, True]))["p", "s"]

    assert facts.step_times_ns.tolist() == [200, 300]
    # Steps 2 and 3: (20 + 40 + 30 + 60) / 4.
    assert facts.parts_ns["forward"] == 37.5
    assert facts.samples == 8.5
    assert math.isnan(facts.parts_ns["blocked"])


def test_counted_warm_up_is_in_no_mean() -> None:
    facts = launch_facts(_steps(), _job_steps([True, True, False, False]))["p", "s"]

    assert facts.parts_ns["forward"] == 15


def test_a_launch_without_a_steady_step_has_no_facts() -> None:
    assert launch_facts(_steps(), _job_steps([False] * 4)) == {}
