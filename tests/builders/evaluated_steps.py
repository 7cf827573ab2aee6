"""STEPS and JOB_STEPS of a launch in which all ranks evaluate now and then."""

from collections.abc import Sequence

import pandas as pd

from hvdprof.model.tables.run_tables import STEPS
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.window_tables import EVALUATIONS
from tests.builders.declared_rows import declared_rows

STEP_MS = 10
BLOCKED_MS = 2
"""Of every training step, on every rank."""

_MS = 1_000_000


def evaluated_steps(
    inside_ms: Sequence[float],
    behind_ms: Sequence[float] | None = None,
    *,
    every: int = 10,
    num_evaluations: int = 3,
    without_last: bool = False,
    per_batch: bool = False,
    after_last: bool = False,
) -> dict[str, pd.DataFrame]:
    """``every`` training steps, an evaluation, and so on; all ranks are released together.

    Args:
        inside_ms: The evaluation passes of each rank.
        behind_ms: What it does behind them before it waits for the others; none if not given.
        every: Steps to an evaluation.
        num_evaluations: Evaluations.
        without_last: Whether the last rank does not evaluate, so that the step counts.
        per_batch: Whether the ranks wait for each other in the evaluation, as in a metric that is
            reduced per batch, and not behind it.
        after_last: Whether one more follows the last step, and a wait follows it.
    """
    num_ranks = len(inside_ms)
    behind = behind_ms or [0.0] * num_ranks
    longest = max(one + other for one, other in zip(inside_ms, behind, strict=True))
    rows, of_job, evaluations, begin = [], [], [], 0.0
    for step in range(every * num_evaluations + every):
        evaluates = step % every == 0 and step > 0
        length = STEP_MS + (longest if evaluates else 0.0)
        for rank in range(num_ranks):
            own = evaluates and not (without_last and rank == num_ranks - 1)
            cut = inside_ms[rank] if own and not without_last else 0.0
            waits = longest - inside_ms[rank] - behind[rank] if evaluates else 0.0
            if own:
                within = waits if per_batch else 0.0
                cut, waits = cut + within, waits - within
                evaluations.append(
                    {
                        "pass_id": "p",
                        "segment": "s",
                        "rank": rank,
                        "step": step,
                        "start_ns": round(begin * _MS),
                        "dur_ns": round((inside_ms[rank] + within) * _MS),
                        "blocked_ns": round(within * _MS),
                        "rest_blocked_ns": 0,
                    }
                )
            rows.append(
                {
                    "pass_id": "p",
                    "segment": "s",
                    "rank": rank,
                    "step": step,
                    "warmup": bool(cut),
                    "evaluation": own,
                    "start_ns": round((begin + cut) * _MS),
                    "dur_ns": round((length - cut) * _MS),
                    "blocked_ns": round((BLOCKED_MS + waits) * _MS),
                }
            )
        of_job.append(
            {
                "pass_id": "p",
                "segment": "s",
                "step": step,
                "dur_ns": STEP_MS * _MS,
                "steady": not evaluates,
            }
        )
        begin += length
    for rank in range(num_ranks if after_last else 0):
        waits = longest - inside_ms[rank] - behind[rank]
        evaluations.append(
            {
                "pass_id": "p",
                "segment": "s",
                "rank": rank,
                "step": every * num_evaluations + every,
                "start_ns": round(begin * _MS),
                "dur_ns": round(inside_ms[rank] * _MS),
                "blocked_ns": 0,
                "rest_ns": round((longest - inside_ms[rank]) * _MS),
                "rest_blocked_ns": round(waits * _MS),
                "after_last": True,
            }
        )
    return {
        STEPS.name: declared_rows(STEPS, *rows),
        JOB_STEPS.name: declared_rows(JOB_STEPS, *of_job),
        EVALUATIONS.name: declared_rows(EVALUATIONS, *evaluations),
    }
