"""Finished comparisons, built from declared tables without runs."""

from collections.abc import Sequence

import pandas as pd

from hvdprof.analyze.compare.cell_changes import parse_condition
from hvdprof.model.results.comparison import (
    STEP_TIME,
    Comparison,
    ComparisonOutcome,
    GateResult,
    SideName,
)
from hvdprof.model.tables.comparison_tables import (
    COMPARED_CELLS,
    COMPARED_POOLED,
    MOVED_CAUSES,
    SETTING_DIFFS,
)
from tests.builders.declared_rows import declared_rows


def comparison(
    *,
    model: str = "resnet18",
    cells: int = 1,
    outcome: ComparisonOutcome = ComparisonOutcome.REGRESSED,
    reason: str = "",
    notes: Sequence[str] = (),
) -> Comparison:
    """A comparison of two runs in which 2 ranks became 6.1 % slower by exposed transfer."""
    keys = [
        {"model": model, "np": np_, "engine": "horovod", "compression": "none"}
        | {"reduction": "average"}
        for np_ in range(2, 2 + cells)
    ]
    condition = parse_condition("step_time>2%")
    failed = ("resnet18 on 2 ranks",) if outcome is ComparisonOutcome.REGRESSED else ()
    return Comparison(
        first=SideName("before", "2026-11-20T22:48:41+00:00", "aaaa"),
        second=SideName("after", "2026-11-21T22:48:41+00:00", "bbbb"),
        outcome=outcome,
        metric=STEP_TIME,
        confidence=0.9,
        sentence=(
            f"{outcome.upper()}: resnet18 on 2 ranks: step time +6.1 % (+4.2 to +8.1). "
            "Largest part: exposed transfer, 5.20 ms (4.10 to 6.30) per step."
        ),
        caveat="Measured one after the other: a drift of the machine counts as a change.",
        cells=pd.concat([_cell_rows(key, outcome, reason) for key in keys]),
        pooled=COMPARED_POOLED.empty(),
        causes=pd.concat([_cause_rows(key) for key in keys[:1]]),
        settings=declared_rows(
            SETTING_DIFFS,
            {"place": "environment", "name": "HOROVOD_CYCLE_TIME", "second": "5"},
        ),
        gate=(GateResult(condition, outcome, failed),),
        notes=tuple(notes),
    )


def _cell_rows(key: dict[str, object], outcome: ComparisonOutcome, reason: str) -> pd.DataFrame:
    launches = {"num_first": 3, "num_second": 4, "margin": 0.02}
    return declared_rows(
        COMPARED_CELLS,
        key
        | launches
        | {"metric": "step_time", "unit": "ns", "first": 85.2e6, "second": 90.4e6}
        | {"change": 0.061, "change_low": 0.042, "change_high": 0.081}
        | {"outcome": str(outcome), "detectable": 0.05, "reason": reason},
        key
        | launches
        | {"metric": "efficiency", "unit": "ratio", "first": 0.842, "second": 0.794}
        | {"change": -0.048, "change_low": -0.071, "change_high": -0.025}
        | {"outcome": "inconclusive", "detectable": 0.06, "launches_needed": 9},
    )


def _cause_rows(key: dict[str, object]) -> pd.DataFrame:
    return declared_rows(
        MOVED_CAUSES,
        key
        | {"term": "exposed-transfer", "one_ns": 10e6, "other_ns": 15.2e6}
        | {"difference_ns": 5.2e6, "low_ns": 4.1e6, "high_ns": 6.3e6}
        | {"significant": True, "moved": True},
        key
        | {"term": "forward", "one_ns": 75.2e6, "other_ns": 75.2e6}
        | {"difference_ns": 0.0, "low_ns": -1e6, "high_ns": 1e6},
    )
