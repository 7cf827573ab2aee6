"""Step times of cells, stated directly instead of measured."""

import math
from typing import Any

from hvdprof.analyze.stats.uncertainty import LogEstimate
from hvdprof.analyze.steps.cells import Cell, CellTime

MS = 1_000_000


def cell(**names: Any) -> Cell:
    """A cell: resnet18 on 2 ranks under Horovod in throughput mode unless said otherwise."""
    fields: dict[str, Any] = {
        "model": "resnet18",
        "np": 2,
        "engine": "horovod",
        "compression": "none",
        "reduction": "average",
        "batch_size": 16,
        "mode": "throughput",
    }
    return Cell(**(fields | names))


def cell_time(
    step_ms: float = 10.0,
    *,
    error: float = 0.01,
    degrees: float = 4.0,
    launches: tuple[tuple[str, str], ...] = (("p", "s"),),
    oversubscribed: bool = False,
    **names: Any,
) -> CellTime:
    """The step time of ``cell(**names)``, with the error of its logarithm."""
    return CellTime(
        cell=cell(**names),
        launches=launches,
        log_step_time=LogEstimate(math.log(step_ms * MS), error, degrees),
        num_steps=60,
        oversubscribed=oversubscribed,
        pinned=True,
    )
