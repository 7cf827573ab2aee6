"""Which named causes of launches of a cell are the same, and what only all of them show."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.causes.shapley import MOST_PLAYERS
from hvdprof.analyze.ranks.events import CHANCE_OF_KIND
from hvdprof.analyze.ranks.named_cause import (
    IRREGULAR,
    LASTING,
    PAUSE,
    PERIODIC,
    STRAGGLER,
    NamedCause,
    run_starts,
)
from hvdprof.analyze.ranks.rank_times import MIXED, RankTimes
from hvdprof.analyze.stats.regularity import Grid, Launch, common_grid, is_on
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.cells import Cell
from hvdprof.model.causes import ALL_RANKS, ANY_RANK

SHARE_OF_LAUNCHES = 0.5
"""A cause is named in at least this share of the launches of its cell."""

MOST_NAMED = MOST_PLAYERS - 3
"""Waits for input, jitter and exposed transfer are players, too."""

_Key = tuple[str, ...]
_KeyOf = Callable[[NamedCause], _Key | None]


@dataclass(frozen=True, slots=True)
class CellCause:
    """A named cause of a cell: its members in each launch, none where a launch lacks it.

    ``ranks`` is text as in WATERFALL: numbers, ANY_RANK or ALL_RANKS.
    """

    kind: str
    ranks: str
    phase: str
    pattern: str
    members: tuple[tuple[NamedCause, ...], ...]

    @property
    def every(self) -> tuple[NamedCause, ...]:
        """The members of all launches."""
        return tuple(itertools.chain.from_iterable(self.members))

    @property
    def period_steps(self) -> float:
        """Median over members; NaN where none is periodic."""
        return _median_of(cause.period_steps for cause in self.every)

    @property
    def epoch_steps(self) -> float:
        """Median over members; NaN where no counter restarts with each epoch."""
        return _median_of(cause.epoch_steps for cause in self.every)

    @property
    def chance(self) -> float:
        """The chance that equal ranks give any of them as much in all launches that have it.

        Events at random are independent from launch to launch; where a rank lasts to be slower,
        its place on the host is, which ``launch_scatter`` judges: there it is that of one launch.
        """
        of_launches = [max(one.chance for one in own) for own in self.members if own]
        if self.pattern in LASTING:
            return max(of_launches, default=0.0)
        return math.prod(of_launches)


def _median_of(values: Iterable[float]) -> float:
    known = [value for value in values if value == value]
    return float(np.median(known)) if known else NAN


def cell_causes(launches: Sequence[Sequence[NamedCause]], num_ranks: int) -> tuple[CellCause, ...]:
    """The named causes of a cell, at most ``MOST_NAMED``.

    Causes of different launches are the same if kind, ranks, pattern and phase agree. One that is
    left over joins the same ranks with another phase or pattern, because noise may blur either; if
    rare delays hit other ranks in other launches, they are of any rank. What is not in at least
    half of the launches has no name, unless the cell has one rank: its pauses would pass for the
    usual time of a baseline.

    Args:
        launches: The named causes of each launch, largest first.
        num_ranks: Ranks of the cell.
    """
    left = [list(own) for own in launches]
    least = max(1.0, SHARE_OF_LAUNCHES * len(launches)) if num_ranks > 1 else 1.0
    found: list[CellCause] = []
    for key_of in (_exactly, _but_for_phase, _but_for_pattern, _at_random):
        found = [_joined(cause, left, key_of, num_ranks) for cause in found]
        for members in _groups(left, key_of):
            if sum(bool(own) for own in members) >= least:
                found.append(_cause(members, num_ranks))
                _take(left, members)
    return tuple(found[:MOST_NAMED])


def _exactly(one: NamedCause) -> _Key:
    return one.kind, str(one.ranks), one.pattern, one.phase


def _but_for_phase(one: NamedCause) -> _Key:
    return one.kind, str(one.ranks), one.pattern


def _but_for_pattern(one: NamedCause) -> _Key:
    return one.kind, str(one.ranks)


def _at_random(one: NamedCause) -> _Key | None:
    return (one.kind, one.pattern) if (one.kind, one.pattern) == (STRAGGLER, IRREGULAR) else None


def _groups(
    left: Sequence[Sequence[NamedCause]], key_of: _KeyOf
) -> list[tuple[tuple[NamedCause, ...], ...]]:
    """The causes that are left, by key, in the order of their first appearance."""
    keys = dict.fromkeys(key for own in left for cause in own if (key := key_of(cause)) is not None)
    return [
        tuple(tuple(cause for cause in own if key_of(cause) == key) for own in left) for key in keys
    ]


def _joined(
    cause: CellCause, left: list[list[NamedCause]], key_of: _KeyOf, num_ranks: int
) -> CellCause:
    """The cause with what is left of the same key in launches that lack it."""
    keys = {key for member in cause.every if (key := key_of(member)) is not None}
    added = tuple(
        () if had else tuple(other for other in own if key_of(other) in keys)
        for had, own in zip(cause.members, left, strict=True)
    )
    if not any(added):
        return cause
    _take(left, added)
    both = tuple(a + b for a, b in zip(cause.members, added, strict=True))
    return _cause(both, num_ranks)


def _take(left: list[list[NamedCause]], members: Sequence[Sequence[NamedCause]]) -> None:
    for own, taken in zip(left, members, strict=True):
        own[:] = [cause for cause in own if not any(cause is other for other in taken)]


def _cause(members: tuple[tuple[NamedCause, ...], ...], num_ranks: int) -> CellCause:
    every = tuple(itertools.chain.from_iterable(members))
    phases = Counter(cause.phase for cause in every)
    known = {phase: number for phase, number in phases.items() if phase != MIXED}
    phase = (
        max(known, key=lambda name: known[name]) if len(known) == 1 else phases.most_common(1)[0][0]
    )
    return CellCause(
        kind=every[0].kind,
        ranks=_ranks(every, num_ranks),
        phase=phase,
        pattern=Counter(cause.pattern for cause in every).most_common(1)[0][0],
        members=members,
    )


def _ranks(every: Sequence[NamedCause], num_ranks: int) -> str:
    ranks = {cause.ranks for cause in every}
    if every[0].kind != STRAGGLER:
        return ALL_RANKS
    if len(ranks) > 1 or len(every[0].ranks) == num_ranks:
        return ANY_RANK
    return ", ".join(map(str, every[0].ranks))


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
