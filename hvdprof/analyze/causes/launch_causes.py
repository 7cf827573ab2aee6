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
from hvdprof.analyze.ranks.named_cause import NamedCause
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

    The credits and ``normal_share``, the time of the normal ranks, sum to 1. ``alone`` holds those
    of ranks that exceed the others, by part. ``normal`` splits the latter into DATA, COMPUTE and
    OUTSIDE, and ``phases`` COMPUTE into its phases; both are empty for steps without phases.
    """

    named: tuple[Credit, ...]
    alone: Mapping[str, Credit]
    extents: tuple[Extent, ...]
    jitter: Credit
    transfer: Credit
    normal_share: float
    normal: Mapping[str, float]
    phases: Mapping[str, float]

    def part(self, name: str) -> float:
        """Share of DATA, COMPUTE or OUTSIDE, with the cost of a rank alone in it."""
        return self.normal[name] + (self.alone[name].share if name in self.alone else 0.0)


def launch_causes(
    work: StepWork,
    named: Sequence[Sequence[NamedCause]],
    alone: Mapping[str, Sequence[RankDelay]] | None = None,
) -> LaunchCauses:
    """The causes of one launch (``analyze.causes.delays``), with their Shapley values.

    The time of the normal ranks shifts all ranks alike, so it adds to the step time by itself.
    Named delays, those of ranks alone, jitter and the time after the last arrival overlap: they are
    the players of the game.

    Args:
        work: Its steady steps.
        named: For each named cause of the cell its members in this launch.
        alone: By part, what a rank spends more than the others; taken out of the steps first.
    """
    whole = float(work.step_times.sum())
    of_alone: dict[str, Times] = {}
    for part, of_part in (alone or {}).items():
        without = without_delays(work, of_part)
        of_alone[part] = own_times_of(work) - own_times_of(without)
        work = without
    first = rows_of(work)
    rows = [first, *later_rows(work)]
    parts = [delays_of(row, named) for row in rows]
    players = [
        *(_joined([part.named[number] for part in parts]) for number in range(len(named))),
        *of_alone.values(),
        _joined([part.jitter for part in parts]),
        _joined([row.tail for row in rows]),
    ]
    credits = shapley(_joined([row.begin for row in rows]), players)
    delays = _of_steps(parts)
    in_phase = _in_phases(first, delays, whole) if work.own.any() else {}
    *of_causes, jitter, transfer = (
        Credit(value / whole, saved / whole)
        for value, saved in zip(credits.values, credits.alone, strict=True)
    )
    return LaunchCauses(
        named=tuple(of_causes[: len(named)]),
        alone=dict(zip(of_alone, of_causes[len(named) :], strict=True)),
        extents=tuple(_extent(delay, len(work.steps)) for delay in delays.named),
        jitter=jitter,
        transfer=transfer,
        normal_share=float(delays.normal.sum()) / whole,
        normal=_of_normal_ranks(in_phase, float(delays.normal.sum()) / whole),
        phases={name: in_phase[name] for name in COMPUTE_PHASES} if in_phase else {},
    )


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


def _in_phases(rows: Rows, delays: Delays, whole: float) -> dict[str, float]:
    """The time of the normal ranks in each phase, as a share.

    Steps without a normal rank have the shares of the others.
    """
    count = delays.is_normal.sum(axis=0)
    known = count > 0
    means = {
        name: np.where(delays.is_normal, times, 0.0).sum(axis=0)[known] / count[known]
        for name, times in rows.parts.items()
    }
    seen = float(delays.normal[known].sum())
    scale = float(delays.normal.sum()) / seen if seen else 0.0
    return {name: float(times.sum()) * scale / whole for name, times in means.items()}


def _of_normal_ranks(in_phase: Mapping[str, float], normal_share: float) -> dict[str, float]:
    """DATA, COMPUTE and OUTSIDE, which sum to the share of the normal ranks."""
    if not in_phase:
        return {}
    shares = {
        DATA: in_phase[DATA],
        COMPUTE: sum(in_phase[name] for name in COMPUTE_PHASES),
    }
    return shares | {OUTSIDE: normal_share - sum(shares.values())}
