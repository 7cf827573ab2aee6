"""What findings say of what the machine did to the ranks that they name."""

import math
from typing import Any

import pandas as pd
import pytest

from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.machine_evidence import (
    MachineEvidence,
    cores_of_ranks,
    machine_evidence,
)
from hvdprof.analyze.findings.run_rules import causes_rules
from hvdprof.model.tables.sample_tables import RANK_MACHINE

Measured = dict[str, tuple[float, float]]
"""By measure the mean of rank 1, and of the others."""


class OneLaunch(Evidence):
    """Evidence whose one launch speaks for every cell."""

    def rows_of(self, rows: pd.DataFrame, cell: Any) -> pd.DataFrame:
        return rows.astype({"pass_id": str, "segment": str})


def said(
    measured: Measured, share: float = 0.3, *, windows: int = 20, differing: int = 20, **row: Any
) -> MachineEvidence:
    rows = []
    for measure, (mean, others) in measured.items():
        above, below = (differing, 0) if mean > others else (0, differing)
        rows.append(
            {
                "pass_id": "p",
                "segment": "s",
                "rank": 1,
                "measure": measure,
                "windows": windows,
                "mean": mean,
                "low": mean,
                "high": mean,
                "others": others,
                **dict.fromkeys(("growth", "growth_low", "growth_high", "last_growth"), math.nan),
                "num_above": above,
                "num_below": below,
                "chance": min(4 * 0.5**differing, 1.0),
            }
        )
    cause: Any = type("Cause", (), {})()
    cause.row = {"ranks": "1", "share": share, "pattern": "persistent", **row}
    cause.cell = {}
    run: Any = None
    tables = {RANK_MACHINE.name: RANK_MACHINE.frame(rows)}
    found: CostlyCause = cause
    return machine_evidence(OneLaunch(run, tables), found)


def test_a_rank_whose_core_others_use() -> None:
    found = said({"core_wait": (0.48, 0.02), "main_thread": (0.5, 0.5)})

    assert found.sentence == (
        "Rank 1 had no core for 48 % of the time in which it could run, the others 2 % (more in "
        "20 of 20 windows, by chance at most 0.01 %)."
    )
    assert found.fix.fix == "give rank 1 cores without other processes"
    assert not found.excludes_cores


def test_a_difference_too_small_for_the_delay_is_no_cause() -> None:
    # 0.1 / 0.9 - 0.1 / 0.95 of the time, for a delay of half of it.
    found = said({"core_wait": (0.1, 0.05), "main_thread": (0.1, 0.1)}, share=0.5)

    assert found.fix.text == ""
    assert found.sentence == (
        "Other processes on the cores do not explain it: rank 1 had no core for 10 % of the time "
        "in which it could run, the others for 5 %."
    )
    assert found.excludes_cores


def test_on_a_crowded_host_a_rank_has_half_of_the_others_time_on_a_core() -> None:
    # Of 100 ms, 3 on a core where the others have 6.
    found = said({"core_wait": (0.97, 0.94), "main_thread": (0.03, 0.06)})

    assert found.fix.fix == "give rank 1 cores without other processes"


def test_a_difference_that_chance_makes_is_no_cause() -> None:
    measured = {"core_wait": (0.48, 0.02), "main_thread": (0.5, 0.5)}

    assert said(measured, differing=6).fix.text == ""
    # It may be the cause, and is not proven: nothing is said.
    assert said(measured, differing=6).sentence == ""


def test_a_rank_that_does_more_work_is_not_treated_worse() -> None:
    """All lose half of their cores to others, rank 1 runs twice as long."""
    found = said({"core_wait": (0.51, 0.5), "main_thread": (0.5, 0.25)}, differing=12)

    assert found.fix.text == ""
    assert found.excludes_cores


@pytest.mark.parametrize("pattern", ["periodic"])
def test_delays_in_step_with_the_job_are_not_the_machines(pattern: str) -> None:
    measured = {"core_wait": (0.48, 0.02), "main_thread": (0.5, 0.5)}

    assert said(measured, pattern=pattern) == MachineEvidence()


def test_a_used_up_quota_comes_before_the_wait_that_it_makes() -> None:
    found = said(
        {
            "core_wait": (0.4, 0.01),
            "main_thread": (0.6, 0.6),
            "cgroup_throttled": (0.4, 0.0),
        }
    )

    assert found.sentence.startswith(
        "Rank 1 had used up the CPU limit of its cgroup in 40 % of the periods, the others 0 %"
    )
    assert "cpu.max" in found.fix.fix


def test_a_gpu_that_is_limited_by_power() -> None:
    found = said(
        {
            "sm_clock": (1.23e9, 1.98e9),
            "limited_power": (0.62, 0.03),
            "limited_heat": (0.01, 0.0),
            "limited_idle": (0.9, 0.0),
        },
        share=0.2,
    )

    assert found.sentence == (
        "The SM clock of rank 1 is 1230 MHz, 38 % below that of the others (in 20 of 20 windows, "
        "by chance at most 0.01 %); clock limited by power 62 % of the time (others 3 %)."
    )
    assert found.fix.command.startswith("nvidia-smi")


def test_a_gpu_that_is_faster_or_hardly_slower_explains_nothing() -> None:
    assert said({"sm_clock": (1.98e9, 1.6e9)}).fix.text == ""
    assert said({"sm_clock": (1.9e9, 1.98e9)}, share=0.05).fix.text == ""


def test_one_rank_has_nothing_to_be_compared_with() -> None:
    assert said({"core_wait": (0.5, math.nan), "main_thread": (0.5, math.nan)}) == MachineEvidence()


def test_no_samples_or_no_rank_say_nothing() -> None:
    assert said({}) == MachineEvidence()
    assert said({"core_wait": (0.48, 0.02)}, ranks="any") == MachineEvidence()


def test_jitter_says_whether_the_ranks_had_their_cores() -> None:
    crowded, disturbed, free = (causes_rules._even_out(share, 0.1) for share in (0.4, 0.1, 0.01))

    assert crowded.fix.startswith("give the ranks cores of their own")
    assert "pidstat" in disturbed.text
    assert causes_rules._even_out(math.nan, 0.1) == disturbed
    assert "pidstat" not in free.text
    assert causes_rules._of_cores(math.nan, 0.1) == ""
    assert causes_rules._of_cores(0.4, 0.1) == (
        "The ranks had no core for 40 % of the time in which they could run."
    )
    # As much as a quarter of the jitter may be due to it.
    assert causes_rules._of_cores(0.03, 0.1).endswith("could run.")
    assert causes_rules._of_cores(0.01, 0.1).endswith(": other processes are not the cause.")


def test_cores_of_ranks_are_a_mean_over_them() -> None:
    rows = [
        {
            **dict.fromkeys(RANK_MACHINE.column_names, math.nan),
            "pass_id": "p",
            "segment": "s",
            "rank": rank,
            "measure": "core_wait",
            **dict.fromkeys(("windows", "num_above", "num_below"), 1),
            "mean": mean,
        }
        for rank, mean in enumerate((0.2, 0.4))
    ]
    run: Any = None
    evidence = OneLaunch(run, {RANK_MACHINE.name: RANK_MACHINE.frame(rows)})

    assert cores_of_ranks(evidence, {}) == pytest.approx(0.3)
    assert math.isnan(cores_of_ranks(OneLaunch(run, {RANK_MACHINE.name: RANK_MACHINE.empty()}), {}))
