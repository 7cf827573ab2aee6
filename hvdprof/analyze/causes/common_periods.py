"""Periods that only the launches of a run together show: of a cell, and of a model's other cells.

A checkpoint every 15 steps comes twice in a launch of 40 steps. Its step numbers are the same in
every launch, since all run the same script.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from hvdprof.analyze.causes.cell_causes import CellCause
from hvdprof.analyze.ranks.delay import run_starts
from hvdprof.analyze.ranks.events import CHANCE_OF_KIND
from hvdprof.analyze.ranks.named_cause import IRREGULAR, PAUSE, PERIODIC, NamedCause
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.stats.common_grid import Grid, Launch, common_grid, is_on
from hvdprof.analyze.steps.cells import Cell
from hvdprof.model.causes import ANY_RANK

Causes = Sequence[CellCause]
Launches = Sequence[RankTimes]


def of_each_script(
    cells: Mapping[Cell, tuple[Causes, Launches]],
) -> dict[Cell, tuple[CellCause, ...]]:
    """``with_common_periods`` among the cells of each model."""
    found: dict[Cell, tuple[CellCause, ...]] = {}
    for model in dict.fromkeys(cell.model for cell in cells):
        own = [cell for cell in cells if cell.model == model]
        found |= dict(zip(own, with_common_periods([cells[cell] for cell in own]), strict=True))
    return found


def with_common_periods(cells: Sequence[tuple[Causes, Launches]]) -> list[tuple[CellCause, ...]]:
    """The named causes of cells of one script, with the periods that their launches show together.

    1.  The events of a cause without a period are sought on a grid over all launches of the cell.
    2.  What has none is compared with the grids of causes in the same phase of the other cells: so
        a pause of one rank, 15 times, explains that of rank 0 among others, twice.

    Args:
        cells: The causes of each cell, and the own times of its launches.
    """
    grids: dict[tuple[int, int], Grid] = {}
    for number, (causes, launches) in enumerate(cells):
        for place, cause in enumerate(causes):
            if cause.ranks != ANY_RANK and cause.pattern in (IRREGULAR, PERIODIC):
                grid = common_grid(_events(cause, launches), CHANCE_OF_KIND)
                if grid is not None:
                    grids[number, place] = grid
    return [
        tuple(
            _with_period(cause, launches, _grid_of((number, place), cause, launches, grids, cells))
            for place, cause in enumerate(causes)
        )
        for number, (causes, launches) in enumerate(cells)
    ]


def _grid_of(
    own: tuple[int, int],
    cause: CellCause,
    launches: Launches,
    grids: Mapping[tuple[int, int], Grid],
    cells: Sequence[tuple[Causes, Launches]],
) -> Grid | None:
    if cause.pattern != IRREGULAR or cause.ranks == ANY_RANK:
        return None
    if own in grids:
        return grids[own]
    events = _events(cause, launches)
    for (number, place), grid in grids.items():
        other = cells[number][0][place]
        if other.phase == cause.phase and is_on(grid, events, CHANCE_OF_KIND):
            return grid
    return None


def _with_period(cause: CellCause, launches: Launches, grid: Grid | None) -> CellCause:
    """The cause as periodic; its events beside the grid stay in it."""
    if grid is None or len(cause.members) != len(launches):
        return cause
    members = tuple(
        tuple(
            replace(
                one,
                pattern=PERIODIC,
                period_steps=float(grid.period),
                epoch_steps=float(grid.epoch) if grid.epoch else one.epoch_steps,
            )
            for one in own
        )
        for own in cause.members
    )
    return replace(cause, pattern=PERIODIC, members=members)


def _events(cause: CellCause, launches: Launches) -> list[Launch]:
    """Of each launch the numbers of the steps in which an event begins, and of all its steps.

    Launches of which a row is several steps have none.
    """
    return [
        (np.concatenate([_starts(one, of) for one in own] or [np.zeros(0, np.int64)]), of.steps)
        for own, of in zip(cause.members, launches, strict=True)
        if of.steps_per_row == 1
    ]


def _starts(one: NamedCause, times: RankTimes) -> np.ndarray:
    in_step = np.asarray(one.affected.any(axis=1))
    return np.asarray(times.steps[run_starts(in_step, 2 if one.kind == PAUSE else 1)])
