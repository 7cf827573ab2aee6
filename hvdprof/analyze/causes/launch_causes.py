"""Causes of the step time of one launch, each with its credit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.causes.delays import (
    COMPUTE,
    COMPUTE_PHASES,
    DATA,
    OUTSIDE,
    Delays,
    Rows,
    delays_of,
    later_rows,
    rows_of,
)
from hvdprof.analyze.causes.rank_delay import RankDelay, own_times_of, without_delays
from hvdprof.analyze.causes.shapley import shapley
from hvdprof.analyze.ranks.account import shared
from hvdprof.analyze.ranks.named_cause import NamedCause
from hvdprof.analyze.ranks.queues import QueueWaits, queue_waits
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import StepWork, Times


@dataclass(frozen=True, slots=True)
class Credit:
    """Shapley value, and saving if this alone is removed, as shares of the mean step time."""

    share: float
    saved_if_removed: float


@dataclass(frozen=True, slots=True)
class Extent:
    """How many of the steps a named cause delays, and by how much on average, ns.

    A launch without the cause has the share 0 and a delay of NaN.
    """

    affected_share: float
    delay_ns: float


@dataclass(frozen=True, slots=True)
class LaunchCauses:
    """What makes up the step time of a launch, as shares of its mean step time.

    The credits and ``normal_share``, the time of the normal ranks, sum to 1. ``queues`` is that of
    waits for the input in the ranks' own order, and ``longest`` the ranks that wait longest
    (``ranks.queues``). ``normal`` splits the time of the normal ranks into DATA, COMPUTE and
    OUTSIDE, and ``phases`` COMPUTE into its phases; both are empty for steps without phases.
    """

    named: tuple[Credit, ...]
    queues: Credit | None
    longest: tuple[int, ...]
    extents: tuple[Extent, ...]
    jitter: Credit
    transfer: Credit
    normal_share: float
    normal: Mapping[str, float]
    phases: Mapping[str, float]

    def part(self, name: str) -> float:
        """Share of DATA, COMPUTE or OUTSIDE; of DATA with the waits behind queues."""
        is_waiting = name == DATA and self.queues is not None
        return self.normal[name] + (self.queues.share if is_waiting and self.queues else 0.0)


def launch_causes(work: StepWork, named: Sequence[Sequence[NamedCause]]) -> LaunchCauses:
    """The causes of one launch (``analyze.causes.delays``), with their Shapley values.

    The time of the normal ranks shifts all ranks alike, so it adds to the step time by itself.
    Named delays, waits behind queues that most ranks have, jitter and the time after the last
    arrival overlap: they are the players of the game.

    Args:
        work: Its steady steps.
        named: For each named cause of the cell its members in this launch.
    """
    whole = float(work.step_times.sum())
    waits = _queue_waits(work)
    of_queues: list[Times] = []
    if waits is not None:
        without = without_delays(work, _as_delays(work, waits))
        of_queues = [own_times_of(work) - own_times_of(without)]
        work = without
    first = rows_of(work)
    rows = [first, *later_rows(work)]
    parts = [delays_of(row, named) for row in rows]
    players = [
        *(_joined([part.named[number] for part in parts]) for number in range(len(named))),
        *of_queues,
        _joined([part.jitter for part in parts]),
        _joined([row.tail for row in rows]),
    ]
    credits = shapley(_joined([row.begin for row in rows]), players)
    delays = _of_steps(parts)
    share = float(delays.normal.sum()) / whole
    in_phase = _in_phases(rows, delays, share) if work.own.any() else {}
    *of_causes, jitter, transfer = (
        Credit(value / whole, saved / whole)
        for value, saved in zip(credits.values, credits.alone, strict=True)
    )
    return LaunchCauses(
        named=tuple(of_causes[: len(named)]),
        queues=of_causes[-1] if waits is not None else None,
        longest=() if waits is None else tuple(work.ranks[list(waits.longest)].tolist()),
        extents=tuple(_extent(delay, len(work.steps)) for delay in delays.named),
        jitter=jitter,
        transfer=transfer,
        normal_share=share,
        normal=_of_normal_ranks(in_phase),
        phases={name: in_phase[name] for name in COMPUTE_PHASES} if in_phase else {},
    )


def _queue_waits(work: StepWork) -> QueueWaits | None:
    """Of one rank, or without phases, the waits are in its own time."""
    if len(work.ranks) < 2 or not work.own.any():
        return None
    return queue_waits(rank_times(work), float(work.step_times.mean()))


def _as_delays(work: StepWork, waits: QueueWaits) -> list[RankDelay]:
    """The waits of each rank in every step; their mean in steps without a known previous one."""
    times = rank_times(work)
    of_steps = times.of_steps(waits.waits_ns)
    filled = np.tile(of_steps.mean(axis=0), (len(work.steps), 1))
    filled[times.rows] = of_steps
    return [RankDelay(place, DATA, filled[:, place]) for place in range(len(work.ranks))]


def _joined(times: Sequence[Times]) -> Times:
    return times[0] if len(times) == 1 else np.concatenate(times, axis=1)


def _of_steps(parts: Sequence[Delays]) -> Delays:
    """The sums over the synchronizations of each step, in the rows of the first of them."""
    first, *later = parts
    if not later:
        return first
    normal, jitter = first.normal.copy(), first.jitter.copy()
    named = tuple(times.copy() for times in first.named)
    num_steps = len(later[0].normal)
    for part in later:
        normal[:num_steps] += part.normal
        jitter[:, :num_steps] += part.jitter
        for whole, delay in zip(named, part.named, strict=True):
            whole[:, :num_steps] += delay
    return Delays(normal, first.is_normal, named, jitter)


def _extent(delay: Times, num_steps: int) -> Extent:
    longest = delay.max(axis=0)
    acts = delay.any(axis=0)
    if not acts.any():
        return Extent(0.0, NAN)
    return Extent(min(1.0, float(acts.sum()) / num_steps), float(longest[acts].mean()))


def _in_phases(rows: Sequence[Rows], delays: Delays, normal_share: float) -> dict[str, float]:
    """What the normal ranks share in each phase and OUTSIDE, as shares that sum to theirs.

    Steps without a normal rank have the shares of the others.
    """
    first, *later = rows
    whole = first.window.copy()
    for row in later:
        whole[:, : row.window.shape[1]] += row.window
    parts = list(first.parts.values())
    own = np.stack([*parts, whole - np.sum(parts, axis=0)], axis=2).swapaxes(0, 1)
    known = delays.is_normal.any(axis=0)
    counted = known & first.is_window if (known & first.is_window).any() else known
    common = shared(own[counted], is_normal=delays.is_normal[:, counted].T).sum(axis=0)
    total = float(common.sum())
    scale = normal_share / total if total > 0 else 0.0
    return dict(zip((*first.parts, OUTSIDE), (common * scale).tolist(), strict=True))


def _of_normal_ranks(in_phase: Mapping[str, float]) -> dict[str, float]:
    """DATA, COMPUTE and OUTSIDE, which sum to the share of the normal ranks."""
    if not in_phase:
        return {}
    return {
        DATA: in_phase[DATA],
        COMPUTE: sum(in_phase[name] for name in COMPUTE_PHASES),
        OUTSIDE: in_phase[OUTSIDE],
    }
