"""What the efficiency of a cell refers to."""

from collections.abc import Sequence

from hvdprof.analyze.steps.cells import CellTime
from hvdprof.model.cell_key import ENGINE_TITLES


def baselines(cells: Sequence[CellTime]) -> dict[str, CellTime]:
    """The baseline of each model: the first of these that was measured, without toggles.

    1.  plain PyTorch on one rank, the honest alternative to using Horovod;
    2.  Horovod on one rank;
    3.  Horovod on the smallest number of ranks measured.

    Where Horovod was not measured DDP takes its place; where both were, both refer to the same
    baseline. Oversubscribed cells only serve where there is nothing else.
    """
    chosen: dict[str, CellTime] = {}
    for model in dict.fromkeys(time.cell.model for time in cells):
        candidates = [time for time in cells if time.cell.model == model and time.cell.is_base]
        valid = [time for time in candidates if not time.oversubscribed] or candidates
        if valid:
            chosen[model] = min(valid, key=_rank_of)
    return chosen


def baseline_name(baseline: CellTime) -> str:
    """The baseline in words of the result, such as ``torch np=1``."""
    return f"{baseline.cell.engine} np={baseline.cell.np}"


def _rank_of(time: CellTime) -> tuple[int, int, int]:
    return time.cell.np, list(ENGINE_TITLES).index(time.cell.engine), time.cell.batch_size
