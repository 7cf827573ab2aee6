"""What findings say of what the machine did to the ranks that they name."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from hvdprof.analyze.findings.advice import Advice
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.machine_evidence import (
    MachineEvidence,
    cores_of_ranks,
    machine_evidence,
)
from hvdprof.analyze.findings.run_rules import causes_rules
from hvdprof.model.tables.sample_tables import HOST_SAMPLES, RANK_MACHINE

Measured = dict[str, tuple[float, float]]
"""By measure the mean of rank 1, and of the others."""


class OneLaunch(Evidence):
    """Evidence whose one launch speaks for every cell."""

    def rows_of(self, rows: pd.DataFrame, cell: Any) -> pd.DataFrame:
        return rows.astype({"pass_id": str, "segment": str})

    def launches_of(self, cell: Any) -> pd.DataFrame:
        return pd.DataFrame({"pass_id": ["p"], "segment": ["s"]})


def said(
    measured: Measured,
    share: float = 0.3,
    *,
    windows: int = 20,
    differing: int = 20,
    swapped: float = 0.0,
    rank_0: bool = False,
    **row: Any,
) -> MachineEvidence:
    """What is said of rank 1; ``swapped`` bytes per second are read on its host."""
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
    if rank_0:
        rows.append(rows[0] | {"rank": 0, "num_above": 0, "num_below": 0, "chance": 1.0})
    cause: Any = type("Cause", (), {})()
    cause.row = {"ranks": "1", "share": share, "pattern": "persistent", **row}
    cause.cell = {}
    run: Any = None
    window = {"pass_id": "p", "rank": 0, "start_ns": 0, "duration_ns": 1, "samples": 1}
    means = dict.fromkeys(("mean", "low", "median", "high"), swapped)
    tables = {
        RANK_MACHINE.name: RANK_MACHINE.frame(rows),
        HOST_SAMPLES.name: HOST_SAMPLES.frame([window | means | {"measure": "swap_in"}]),
    }
    found: CostlyCause = cause
    return machine_evidence(OneLaunch(run, tables), found)


def test_a_rank_with_more_work_waits_for_its_core_as_well() -> None:
    # Measured at load 18: rank 0 sorts gradients in Python while rank 1 sleeps.
    found = said({"core_wait": (0.76, 0.17), "main_thread": (0.23, 0.01)}, share=0.92)

    assert not found.fix.text and not found.check.text


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


def test_a_rank_that_computes_longer_has_more_work_or_a_slower_core() -> None:
    measured = {"core_wait": (0.55, 0.57), "main_thread": (0.39, 0.13)}
    found = said(measured)

    assert found.sentence == (
        "Rank 1 computed in its main thread for 39 % of the time, the others 13 % (more in 20 of "
        "20 windows, by chance at most 0.01 %): more work, or a slower core."
    )
    assert (found.excludes_cores, found.beyond_cores) == (True, True)
    # A tenth of the time for a delay of 30 % is not most of it, and 5 windows prove nothing.
    for other in (said(measured | {"main_thread": (0.23, 0.13)}), said(measured, differing=5)):
        assert "computed" not in other.sentence
        assert other.beyond_cores


def test_waits_that_explain_a_part_leave_more_to_another_cause() -> None:
    # 0.5 / 0.5 - 0.5 / 0.55 of the time, for a delay of 30 %, and of 15 %.
    measured = {"core_wait": (0.5, 0.45), "main_thread": (0.5, 0.5)}

    assert said(measured, differing=6) == MachineEvidence(beyond_cores=True)
    assert said(measured, share=0.15, differing=6) == MachineEvidence()


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
    def to_do(share: float, *, alone: bool = False, pinned: bool = False) -> Advice:
        cause = SimpleNamespace(share=0.1, cell={"pinned": pinned})
        return causes_rules._even_out(share, cast("CostlyCause", cause), alone=alone)

    crowded, disturbed, free = map(to_do, (0.4, 0.1, 0.01))
    assert crowded.fix.startswith("give the ranks cores of their own")
    assert disturbed.fix.startswith("pin ranks to cores") and "pidstat" in disturbed.text
    assert to_do(math.nan, alone=True) == disturbed
    # Neither other processes are there to be ended, nor ranks to be pinned.
    assert to_do(0.4, alone=True).fix.startswith("run fewer ranks, threads")
    assert to_do(0.1, pinned=True).fix.startswith("even out the work per sample")
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


@pytest.mark.parametrize(("windows", "is_short"), [(5, True), (8, True), (9, False)])
def test_too_few_windows_for_the_test_are_said_and_accuse_nothing(
    windows: int, is_short: bool
) -> None:
    measured = {"core_wait": (0.51, 0.04), "main_thread": (0.5, 0.5)}
    found = said(measured, windows=windows, differing=windows, rank_0=True)

    assert bool(found.fix.text) != is_short
    if windows == 5:
        assert found.sentence == (
            "Rank 1 had no core for 51 % of the time in which it could run, the others 4 % (more "
            "in 5 of 5 windows, by chance at most 12.50 %): too few for the test, which takes 9 "
            "windows."
        )
        assert found.check.fix == (
            "run `top -H` on the host during the job, and end what shares cores with rank 1"
        )
    else:
        assert bool(found.check.text) == is_short
    # A difference in some windows that a longer run may settle is none so far.
    assert "too few" not in said(measured, windows=5, differing=2, rank_0=True).sentence


@pytest.mark.parametrize(
    ("swapped", "differing", "is_named"), [(11.4e6, 20, True), (0.5e6, 20, False), (1e7, 6, False)]
)
def test_a_rank_whose_pages_are_in_swap(swapped: float, differing: int, is_named: bool) -> None:
    measured = {
        "major_faults": (354.0, 0.0),
        "core_wait": (0.01, 0.01),
        "main_thread": (0.5, 0.5),
    }
    found = said(measured, differing=differing, swapped=swapped)

    assert found.fix.fix.startswith("use less memory on rank 1") == is_named
    # At 1 ms each, 20 pages per second take 2 % of the time.
    few = measured | {"major_faults": (25.0, 0.0)}
    assert not said(few, differing=differing, swapped=swapped).fix.text
    if is_named:
        assert found.sentence == (
            "Rank 1 reads 354 pages per second from disk (major faults), the others 0 (more in 20 "
            "of 20 windows, by chance at most 0.01 %). Its host reads 11.4 MB per second from swap."
        )


def test_more_windows_of_the_test_than_of_the_rank_are_counted() -> None:
    found = said({"core_wait": (0.5, 0.0), "main_thread": (0.5, 0.5)}, windows=31, differing=32)
    assert "more in 32 of 32 windows" in found.sentence


GIL = {
    "cpu": (0.85, 0.22),
    "main_thread": (0.2, 0.2),
    "core_wait": (0.5, 0.45),
    "workers": (0.0, 0.0),
}
"""A thread of rank 1 computes in Python on 0.65 cores: as recorded, rounded."""


def test_a_thread_that_holds_the_interpreters_lock() -> None:
    found = said(GIL, share=0.4)
    assert found.fix.fix == "look at the other threads of rank 1: `py-spy top --gil --pid PID`"
    assert found.sentence == (
        "Threads of rank 1 beside its main thread use 0.65 cores, those of the others 0.02 (more "
        "in 20 of 20 windows, by chance at most 0.01 %)."
    )
    short = said(GIL, share=0.4, windows=7, differing=7)
    assert not short.fix.text
    assert short.check.fix == found.fix.fix
    assert short.sentence.endswith("too few for the test, which takes 9 windows.")


@pytest.mark.parametrize(
    "other",
    [
        # Eight threads per operator, and twice the work: the others have as many per main thread.
        {"cpu": (6.4, 3.2), "main_thread": (0.8, 0.4)},
        # Workers load its batches, and count with it.
        {"workers": (2.0, 2.0)},
        # Too small for the delay.
        {"cpu": (0.35, 0.22)},
    ],
)
def test_threads_that_do_its_work_or_little_are_no_cause(other: Measured) -> None:
    found = said(GIL | other, share=0.4)
    assert "hreads of rank 1" not in found.sentence
    assert not found.check.text


@pytest.mark.parametrize(("windows", "excludes"), [(2, False), (8, False), (9, True)])
def test_too_few_windows_exclude_no_other_processes(windows: int, excludes: bool) -> None:
    measured = {"core_wait": (0.16, 0.17), "main_thread": (0.61, 0.48)}
    found = said(measured, windows=windows, differing=1, rank_0=True)

    assert found.excludes_cores == excludes
    assert ("do not explain it" in found.sentence) == excludes
    assert ("to exclude that takes 9 windows" in found.sentence) != excludes
    assert "ank 1 had no core for 16 % of the time" in found.sentence
