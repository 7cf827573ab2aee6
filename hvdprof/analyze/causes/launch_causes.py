"""Causes of the step time of one launch: normal time, named delays, jitter, with credits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.causes.shapley import shapley
from hvdprof.analyze.ranks.account import shared
from hvdprof.analyze.ranks.named_cause import FROM_STEP, GROWING, PAUSE, PERSISTENT, NamedCause
from hvdprof.analyze.ranks.queues import queue_waits, without_waits
from hvdprof.analyze.ranks.rank_times import RankTimes
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools
from hvdprof.model.causes import SHARED_PHASES

RARE_SHARE = 1 / 3
"""A cause that acts in a smaller share of the steps of each rank is rare, unless it lasts."""


@dataclass(frozen=True, slots=True)
class Delays:
    """The split of own times, ns.

    Attributes:
        normal: [steps] What the normal ranks share.
        is_normal: [ranks, steps] Whether no named cause acts.
        named: For each named cause what it adds, [ranks, steps].
        jitter: [ranks, steps] The rest.
    """

    normal: Times
    is_normal: Bools
    named: tuple[Times, ...]
    jitter: Times


@dataclass(frozen=True, slots=True)
class _Cause:
    acts: Bools
    lasts: bool
    is_rare: bool
    is_pause: bool


def delays_of(own: Times, named: Sequence[Sequence[NamedCause]]) -> Delays:
    """The split of the own times of a launch, [ranks, steps].

    1.  Rare straggler: the rank takes the time of the normal ranks. Rare pause of all ranks: each
        loses its excess over its own median; where a straggler acts too, what all lose.
    2.  Otherwise each rank loses its mean excess over the normal ranks (in a pause: over its own
        median) where the cause acts, and keeps its jitter. What lasts also acts in the steps of
        events, which lose what is beyond it.

    Args:
        own: From the release of the synchronization before to the arrival.
        named: For each named cause of the cell its members in this launch; they do not overlap, but
            for stragglers in pauses.
    """
    causes = [_cause(own, members) for members in named]
    is_normal = np.ones(own.shape, dtype=bool)
    rare, events = np.zeros_like(is_normal), np.zeros_like(is_normal)
    for cause in causes:
        is_normal &= ~cause.acts
        rare |= cause.acts & cause.is_rare
        events |= cause.acts & (not cause.lasts)
    normal = shared(own.T[..., None], is_normal=is_normal.T)[:, 0]
    found: list[Times] = [np.zeros(0)] * len(causes)
    medians = _median_where(own, ~rare)
    steady, usual = np.zeros_like(own), medians
    for place, cause in sorted(enumerate(causes), key=lambda entry: not entry[1].lasts):
        if not cause.is_rare:
            hidden = events if cause.lasts else rare
            found[place], excess = _steady_delay(own - steady, cause, normal, hidden)
            steady = steady + found[place]
            usual = usual - excess
    normal = np.where(np.isnan(normal), usual.mean(), normal)
    rare_causes = [(place, cause) for place, cause in enumerate(causes) if cause.is_rare]
    of_ranks, paused = np.zeros_like(rare), np.zeros_like(own)
    for _, cause in rare_causes:
        of_ranks |= cause.acts & (not cause.is_pause)
    for place, cause in sorted(rare_causes, key=lambda entry: not entry[1].is_pause):
        if cause.is_pause:
            over = own - medians[:, None]
            if (cause.acts & of_ranks).any():
                common = shared(own.T[..., None])[:, 0]
                over = np.where(of_ranks, np.minimum(over, common - np.median(common)), over)
            found[place] = np.where(cause.acts, over, 0.0)
            paused += found[place]
        else:
            found[place] = np.where(cause.acts, own - normal - steady - paused, 0.0)
    jitter = own - normal
    for delay in found:
        jitter -= delay
    return Delays(normal, is_normal, tuple(found), jitter)


def _cause(own: Times, members: Sequence[NamedCause]) -> _Cause:
    acts = np.zeros(own.shape, dtype=bool)
    for member in members:
        acts |= member.affected.T
    lasts = any(member.pattern in (PERSISTENT, FROM_STEP, GROWING) for member in members)
    is_often = bool((acts.any(axis=1) & (acts.mean(axis=1) >= RARE_SHARE)).any())
    return _Cause(
        acts=acts,
        lasts=lasts,
        is_rare=not lasts and not is_often,
        is_pause=any(member.kind == PAUSE for member in members),
    )


def _steady_delay(own: Times, cause: _Cause, normal: Times, rare: Bools) -> tuple[Times, Times]:
    """[ranks, steps] The delay of a cause that is not rare, and [ranks] its mean excess."""
    usual = _median_where(own, ~cause.acts & ~rare)[:, None] if cause.is_pause else normal
    over = own - usual
    known = cause.acts & ~np.isnan(over)
    count = known.sum(axis=1)
    excess = np.where(known, over, 0.0).sum(axis=1) / np.maximum(count, 1)
    first = int(cause.acts.any(axis=0).argmax())
    hidden = rare & (np.arange(own.shape[1]) >= first) & (count > 0)[:, None]
    return np.where(cause.acts | hidden, excess[:, None], 0.0), excess


def _median_where(times: Times, mask: Bools) -> Times:
    """[ranks] The median over steps; of all steps where the mask holds none of a rank."""
    return np.array(
        [
            np.median(own[chosen] if chosen.any() else own)
            for own, chosen in zip(times, mask, strict=True)
        ]
    )


DATA, COMPUTE, OUTSIDE = "data", "compute", "outside"
"""Parts of a step: the data phase; SHARED_PHASES; all that is in none of them."""


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
    (``ranks.queues``), ``in_turn`` the part of it in which not all ranks wait. ``normal`` splits
    the time of the normal ranks into DATA, COMPUTE and OUTSIDE, and ``phases`` COMPUTE into its
    phases; both are empty for steps without phases.
    """

    named: tuple[Credit, ...]
    queues: Credit | None
    in_turn: float
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


def launch_causes(times: RankTimes, named: Sequence[Sequence[NamedCause]]) -> LaunchCauses:
    """The causes of one launch (``analyze.causes.delays``), with their Shapley values.

    The time of the normal ranks shifts all ranks alike, so it adds to the step time by itself.
    Named delays, waits behind queues that most ranks have, jitter and the time after the last
    arrival overlap: they are the players of the game.

    Args:
        times: Its own times.
        named: For each named cause of the cell its members in this launch.
    """
    whole = times.job_ns
    # Of one rank, or without phases, the waits are in its own time.
    waits = queue_waits(times) if len(times.ranks) > 1 and times.has_phases else None
    of_queues = [] if waits is None else [_by_place(times, waits.waits_ns)]
    if waits is not None:
        times = without_waits(times, waits)
    own = times.own_ns.sum(axis=2)
    parts = [delays_of(times.at(place, own).T, named) for place in range(times.per_step)]
    players = [
        *(_joined([part.named[number] for part in parts]) for number in range(len(named))),
        *of_queues,
        _joined([part.jitter for part in parts]),
        _by_place(times, times.transfer_ns),
    ]
    credits = shapley(np.zeros_like(players[-1]), players)
    share = float(sum(part.normal.sum() for part in parts)) / whole
    in_phase = _in_phases(times, parts[0], share) if times.has_phases else {}
    *of_causes, jitter, transfer = (
        Credit(value / whole, saved / whole)
        for value, saved in zip(credits.values, credits.alone, strict=True)
    )
    return LaunchCauses(
        named=tuple(of_causes[: len(named)]),
        queues=of_causes[-1] if waits is not None else None,
        in_turn=0.0 if waits is None else of_causes[-1].share * waits.in_turn,
        longest=() if waits is None else tuple(times.ranks[list(waits.longest)].tolist()),
        extents=tuple(
            _extent(np.sum([part.named[number] for part in parts], axis=0))
            for number in range(len(named))
        ),
        jitter=jitter,
        transfer=transfer,
        normal_share=share,
        normal=_of_normal_ranks(in_phase),
        phases={name: in_phase[name] for name in SHARED_PHASES} if in_phase else {},
    )


def _by_place(times: RankTimes, of_points: Times) -> Times:
    """[ranks, points] Of [points, ranks], the first points of all steps before the second."""
    return _joined([times.at(place, of_points).T for place in range(times.per_step)])


def _joined(times: Sequence[Times]) -> Times:
    return np.ascontiguousarray(np.concatenate(times, axis=1))


def _extent(delay: Times) -> Extent:
    longest = delay.max(axis=0)
    acts = delay.any(axis=0)
    if not acts.any():
        return Extent(0.0, NAN)
    return Extent(float(acts.mean()), float(longest[acts].mean()))


def _in_phases(times: RankTimes, delays: Delays, normal_share: float) -> dict[str, float]:
    """What the normal ranks share in each phase and OUTSIDE, as shares that sum to theirs.

    Steps without a normal rank have the shares of the others, and so have those behind a step that
    does not count.
    """
    own, is_normal = times.of_steps(times.own_ns), delays.is_normal.T
    known = is_normal.any(axis=1)
    if not known.any():
        known, is_normal = ~known, np.ones_like(is_normal)
    if (known & times.follows).any():
        known &= times.follows
    own, is_normal = own[known], is_normal[known]
    names = (DATA, *SHARED_PHASES)
    of_names = [own[..., times.phases.index(name)] for name in names]
    rest = own.sum(axis=2) - np.sum(of_names, axis=0)
    common = shared(np.stack([*of_names, rest], axis=2), is_normal=is_normal).sum(axis=0)
    total = float(common.sum())
    scale = normal_share / total if total > 0 else 0.0
    return dict(zip((*names, OUTSIDE), (common * scale).tolist(), strict=True))


def _of_normal_ranks(in_phase: Mapping[str, float]) -> dict[str, float]:
    """DATA, COMPUTE and OUTSIDE, which sum to the share of the normal ranks."""
    if not in_phase:
        return {}
    return {
        DATA: in_phase[DATA],
        COMPUTE: sum(in_phase[name] for name in SHARED_PHASES),
        OUTSIDE: in_phase[OUTSIDE],
    }
