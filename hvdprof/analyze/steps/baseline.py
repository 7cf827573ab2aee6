"""The baseline of each model."""

from collections.abc import Sequence

from hvdprof.analyze.steps.cells import Cell, CellTime
from hvdprof.model.cell_key import ENGINE_TITLES


def baselines(cells: Sequence[CellTime]) -> dict[str, CellTime]:
    """The baseline of each model: the first of these that was measured, without toggles.

    1.  plain PyTorch on one rank, the alternative to Horovod;
    2.  Horovod on one rank;
    3.  Horovod on the smallest measured number of ranks.

    Without Horovod, DDP takes its place; with both, both refer to the same baseline. Oversubscribed
    cells are used only if there is no other.
    """
    chosen: dict[str, CellTime] = {}
    for model in dict.fromkeys(time.cell.model for time in cells):
        candidates = [time for time in cells if time.cell.model == model and time.cell.is_base]
        valid = [time for time in candidates if not time.oversubscribed] or candidates
        if valid:
            chosen[model] = min(valid, key=_rank_of)
    return chosen


def unscaled_baselines(cells: Sequence[CellTime]) -> set[Cell]:
    """The baselines of models that were measured at one number of ranks.

    They have no efficiency: 1 would read as a job that scales.
    """
    chosen = baselines(cells)
    sizes: dict[str, set[int]] = {}
    for time in cells:
        sizes.setdefault(time.cell.model, set()).add(time.cell.np)
    return {one.cell for model, one in chosen.items() if len(sizes[model]) == 1}


def baseline_name(baseline: CellTime) -> str:
    """Name of the baseline in tables, such as ``torch np=1``."""
    return f"{baseline.cell.engine} np={baseline.cell.np}"


def _rank_of(time: CellTime) -> tuple[int, int, int]:
    return time.cell.np, list(ENGINE_TITLES).index(time.cell.engine), time.cell.batch_size
