"""Ranks and lines of code that take longer or less long in the second of two runs.

Each side alone may not show a rank as straggler: its threshold is 5 % of the step, and launches
place ranks on cores anew. The difference of both sides is known better than either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hvdprof.analyze.compare.outcomes import chance_of, change_of
from hvdprof.analyze.compare.sides import SideCell
from hvdprof.analyze.ranks.named_cause import LASTING, LEAST_STEPS_OF_CAUSE, NamedCause
from hvdprof.analyze.ranks.rank_times import RankDelay, RankTimes
from hvdprof.analyze.stats.change_point import holm
from hvdprof.analyze.stats.uncertainty import Spread
from hvdprof.analyze.steps.step_work import Times, medians_of_others
from hvdprof.model.cause_names import file_name
from hvdprof.model.cell_key import CELL_KEY, LAUNCH
from hvdprof.model.results.comparison import LINE_CHANGES
from hvdprof.rundir.recording.line_format import BLOCKED_PHASE

SMALLEST_SHARE = 0.01
"""A smaller change, as a share of the step, is not named."""

MOST_CHANGES = 3
"""The largest changes have names; what is left is in the other terms."""

TRIMMED = 0.1
"""Longest and shortest steps count as the 90th and 10th percentile: rare stalls are no change."""

LEAST_LAUNCHES = 2
"""Launches of each run without which a difference has no interval."""

_LINE = ["process", "phase", "name", "function"]


@dataclass(frozen=True, slots=True)
class RankChange:
    """How much longer a rank, by its column, takes in a phase of each step, ns; negative: less."""

    place: int
    phase: str
    change: Spread

    def is_of(self, side: int) -> bool:
        """Whether the rank takes longer in the first run (0), or in the second (1)."""
        return (self.change.value > 0) == bool(side)

    @property
    def delay(self) -> RankDelay:
        """The change as a delay of the run in which the rank takes longer."""
        return RankDelay(self.place, self.phase, abs(self.change.value))


def usual_times(times: RankTimes, named: Sequence[NamedCause]) -> dict[str, Times]:
    """[ranks] Usual own time per step in each phase, ns, without steps of sparse named causes.

    Args:
        times: The own times of a launch.
        named: Its named causes.
    """
    is_free = np.ones(len(times.steps), dtype=bool)
    for cause in named:
        if cause.pattern not in LASTING:
            is_free &= ~cause.affected.any(axis=1)
    if is_free.sum() < LEAST_STEPS_OF_CAUSE:
        is_free[:] = True
    own = times.of_steps(times.own_ns)[is_free]
    low, high = np.quantile(own, (TRIMMED, 1 - TRIMMED), axis=0)
    usual = np.clip(own, low, high).mean(axis=0)
    return {phase: np.asarray(usual[:, place]) for place, phase in enumerate(times.phases)}


def rank_changes(
    first: Sequence[dict[str, Times]],
    second: Sequence[dict[str, Times]],
    *,
    is_paired: bool,
    step_ns: float,
    level: float,
) -> tuple[RankChange, ...]:
    """The ranks that changed alone, largest first: a rank may be in it with several phases.

    The lateness of a rank in a phase is its time less the median of the others. Its change must be
    beyond the scatter of launches (Student t, Holm over ranks and phases), be at least 1 % of the
    step, and be mostly the rank's own: what most ranks share is no change of a rank. Of two ranks
    the one whose time changed more is named.

    Args:
        first: The ``usual_times`` of each launch of the first run.
        second: Those of the second run.
        is_paired: Whether launches of the same place are pairs.
        step_ns: Step time of the first run.
        level: Accepted probability that any rank is named without a change.
    """
    phases = [name for name in first[0] if all(name in times for times in (*first, *second))]
    sides = [
        np.array([[times[phase] for phase in phases] for times in side]) for side in (first, second)
    ]
    num_ranks = sides[0].shape[-1]
    if num_ranks < 2:
        return ()
    late = [
        side - medians_of_others(side.reshape(-1, num_ranks)).reshape(side.shape) for side in sides
    ]
    tested = [
        (place, number)
        for number in range(len(phases))
        for place in (range(num_ranks) if num_ranks > 2 else (0,))
    ]
    changes = [
        change_of(*(side[:, number, place] for side in late), is_paired=is_paired)
        for place, number in tested
    ]
    chances = holm([chance_of(change, step_ns) for change in changes])
    own = _own_changes(sides[1].mean(axis=0) - sides[0].mean(axis=0))
    found = []
    for (place, number), change, chance in zip(tested, changes, chances, strict=True):
        if chance > level or abs(change.value) < SMALLEST_SHARE * step_ns:
            continue
        if num_ranks == 2:
            # The lateness of two ranks differs by its sign alone.
            place = int(np.abs(own[number]).argmax())
            value = change.value if place == 0 else -change.value
            change = Spread(value, change.variance, change.degrees)
        if own[number, place] * change.value >= change.value**2 / 2:
            found.append(RankChange(place, phases[number], change))
    found.sort(key=lambda rank: -abs(rank.change.value))
    return tuple(found[:MOST_CHANGES])


def _own_changes(changes: Times) -> Times:
    """[phases, ranks] Changes less what most ranks share.

    That is the median of the ranks. Of an even number no change counts as one more: of two ranks,
    the one that stays is what is usual.
    """
    num_ranks = changes.shape[1]
    if num_ranks % 2:
        return np.asarray(changes - np.median(changes, axis=1, keepdims=True))
    with_none = np.concatenate([changes, np.zeros((len(changes), 1))], axis=1)
    return np.asarray(changes - np.median(with_none, axis=1, keepdims=True))


def line_changes(
    sides: tuple[pd.DataFrame, pd.DataFrame],
    pairs: Sequence[tuple[SideCell, SideCell]],
    level: float,
) -> pd.DataFrame:
    """LINE_CHANGES: the lines whose time changed beyond chance, largest change first.

    The unit is the launch, mean over its ranks, so that the interval holds the samples as well as
    differences between launches (Welch); the chances are corrected for all lines of a cell (Holm).

    Args:
        sides: LINES of both runs.
        pairs: The cells of both.
        level: Accepted chance that any line of a cell is named without a change.
    """
    rows: list[dict[str, object]] = []
    if not any(table.empty for table in sides):
        for pair in pairs:
            own = [_of_launches(table, cell) for table, cell in zip(sides, pair, strict=True)]
            if all(len(times.columns) >= LEAST_LAUNCHES for times, _ in own):
                key = dict(zip(CELL_KEY, pair[0].key, strict=True))
                rows += [{**key, **row} for row in _changed(own, level)]
    return LINE_CHANGES.frame(rows)


def _of_launches(lines: pd.DataFrame, cell: SideCell) -> tuple[pd.DataFrame, pd.Series]:
    """[lines, launches] Times per step, ns, mean over the ranks, and the numbers of the lines."""
    keys = lines[LAUNCH].astype(str).agg("/".join, axis=1)
    own = lines.assign(launch=keys, name=[file_name(file) for file in lines["file"]])
    own = own[keys.isin({"/".join(key) for key in cell.repeat_of}).to_numpy()]
    own = own[(own["phase"] != BLOCKED_PHASE).to_numpy()]
    of_rank = ["launch", "rank", "process", "phase"]
    # Lines with too few samples have no time of their own, but a share of that of their phase.
    known = own[own["time_ns"].notna()].groupby(of_rank)[["time_ns", "samples"]].sum()
    per_sample = (known["time_ns"] / known["samples"]).rename("per_sample").reset_index()
    own = own.merge(per_sample, on=of_rank, how="inner")
    own = own.assign(time_ns=own["samples"] * own["per_sample"])
    ranks = own.groupby("launch")["rank"].nunique()
    times = own.pivot_table("time_ns", _LINE, "launch", aggfunc="sum", fill_value=0.0) / ranks
    ordered = own.sort_values("samples", ascending=False, kind="stable")
    return times, ordered.groupby(_LINE)["line"].first()


def _changed(
    sides: Sequence[tuple[pd.DataFrame, pd.Series]], level: float
) -> Iterator[dict[str, object]]:
    (first, first_lines), (second, second_lines) = sides
    everywhere = first.index.union(second.index)
    ones, others = (
        times.reindex(everywhere, fill_value=0.0).to_numpy(dtype=np.float64)
        for times in (first, second)
    )
    changes = [
        change_of(one, other, is_paired=False) for one, other in zip(ones, others, strict=True)
    ]
    step_ns = float(ones.sum(axis=0).mean())
    chances = holm([chance_of(change, step_ns) for change in changes])
    order = sorted(range(len(changes)), key=lambda place: -abs(changes[place].value))
    for place in order:
        if chances[place] > level:
            continue
        interval = changes[place].interval()
        key = everywhere[place]
        yield {
            **dict(zip(("process", "phase", "file", "function"), key, strict=True)),
            "first_line": int(first_lines.get(key, 0)),
            "second_line": int(second_lines.get(key, 0)),
            "one_ns": float(ones[place].mean()),
            "other_ns": float(others[place].mean()),
            "difference_ns": interval.value,
            "low_ns": interval.low,
            "high_ns": interval.high,
        }
