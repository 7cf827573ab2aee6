"""The own times of a launch as a sum of normal time, named delays and jitter.

All ranks leave a synchronization together, so a step takes the largest sum of transfer and own time
of a rank. The own times split exactly:

    own[rank, step] = N[step] + sum over named causes of E[rank, step] + J[rank, step]

``N`` is what the normal ranks, those without a named cause in that step, share
(``ranks.account.shared``). ``E`` is what a named cause adds, ``J`` (jitter) the rest.

Tested in ``tests/analyze/causes/test_launch_causes.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.ranks.account import shared
from hvdprof.analyze.ranks.named_cause import FROM_STEP, GROWING, PAUSE, PERSISTENT, NamedCause
from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.arrays import Bools

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
    is_rare: bool
    is_pause: bool


def delays_of(own: Times, named: Sequence[Sequence[NamedCause]]) -> Delays:
    """The split of the own times of a launch, [ranks, steps].

    1.  Rare straggler: the rank takes the time of the normal ranks. Rare pause of all ranks: each
        takes its own median.
    2.  Otherwise each rank loses its mean excess over the normal ranks (in a pause: over its own
        median) where the cause acts, and keeps its jitter. Steady causes also act in the steps that
        a rare one hides.

    Args:
        own: From the release of the synchronization before to the arrival.
        named: For each named cause of the cell its members in this launch; they do not overlap.
    """
    causes = [_cause(own, members) for members in named]
    is_normal, rare = np.ones(own.shape, dtype=bool), np.zeros(own.shape, dtype=bool)
    for cause in causes:
        is_normal &= ~cause.acts
        if cause.is_rare:
            rare |= cause.acts
    normal = shared(own.T[..., None], is_normal=is_normal.T)[:, 0]
    found: list[Times] = [np.zeros(0)] * len(causes)
    medians = _median_where(own, ~rare)
    steady, usual = np.zeros_like(own), medians
    for place, cause in enumerate(causes):
        if not cause.is_rare:
            found[place], excess = _steady_delay(own, cause, normal, rare)
            steady += found[place]
            usual = usual - excess
    normal = np.where(np.isnan(normal), usual.mean(), normal)
    for place, cause in enumerate(causes):
        if cause.is_rare:
            expected = medians[:, None] if cause.is_pause else normal + steady
            found[place] = np.where(cause.acts, own - expected, 0.0)
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
