"""The windows of a launch as a sum of normal time, named delays and jitter.

All ranks leave a synchronization together; Horovod and DDP have one per step. With ``W`` the time
of a rank from there to its next arrival (its window) and ``tail`` the time from the last arrival to
its release, the sum of all step times is the sum of the largest ``tail + W`` of each
synchronization. The windows split exactly:

    W[rank, step] = N[step] + sum over named causes of E[rank, step] + J[rank, step]

``N`` is what the normal ranks, those without a named cause in that step, share
(``ranks.account.shared``). ``E`` is what a named cause adds, ``J`` (jitter) the rest.

Tested in ``tests/analyze/causes/test_launch_causes.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.ranks.account import shared
from hvdprof.analyze.ranks.named_cause import FROM_STEP, GROWING, PAUSE, PERSISTENT, NamedCause
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.arrays import Bools

RARE_SHARE = 1 / 3
"""A cause that acts in a smaller share of the steps of each rank is rare, unless it lasts."""

DATA, COMPUTE, OUTSIDE = "data", "compute", "outside"
"""Parts of a window: the data phase; forward, backward and optimizer; outside all phases."""

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
COMPUTE_PHASES = (FORWARD, BACKWARD, OPTIMIZER)
"""The phases of COMPUTE."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Windows of a launch, arrays [ranks, rows], ns: a row per step, then one per end.

    A step without a known previous step has its part before the arrival alone in its row; a run of
    consecutive steps ends with a row of the part after the last release. ``is_window`` [rows] marks
    whole windows, and ``carried`` [rows] the part of a window before its own step, in the mean of
    the ranks. ``begin`` is how much later than the last rank each rank begins: 0 but in steps
    without a known previous one. ``parts`` holds DATA and COMPUTE.
    """

    window: Times
    tail: Times
    begin: Times
    parts: Mapping[str, Times]
    is_window: Bools
    carried: Times


@dataclass(frozen=True, slots=True)
class Delays:
    """The split of the windows, ns.

    Attributes:
        normal: [rows] What the normal ranks share.
        is_normal: [ranks, rows] Whether no named cause acts.
        named: For each named cause what it adds, [ranks, rows].
        jitter: [ranks, rows] The rest.
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


def rows_of(work: StepWork) -> Rows:
    """The windows of a launch up to the first synchronization of each step."""
    starts = ~work.follows
    starts[0] = True
    ends = np.flatnonzero(np.append(starts[1:], True))

    def carried(after: Times) -> Times:
        return np.where(starts[:, None], 0.0, np.roll(after, 1, axis=0))

    def joined(before: Times, after: Times) -> Times:
        return np.ascontiguousarray(np.concatenate([before + carried(after), after[ends]]).T)

    nothing = np.zeros_like(work.own_before_sync)
    late = work.begin - work.begin.max(axis=1, keepdims=True)
    begin = np.concatenate([np.where(starts[:, None], late, 0.0), nothing[ends]])
    parts, points = work.parts, work.points
    return Rows(
        window=joined(points.at(0, points.before), work.own_after_release),
        tail=joined(nothing, points.at(-1, points.tail)),
        begin=np.ascontiguousarray(begin.T),
        parts={
            **{name: joined(parts[name], nothing) for name in (DATA, FORWARD, BACKWARD)},
            OPTIMIZER: joined(nothing, parts["optimizer"]),
        },
        is_window=np.append(~starts, np.zeros(len(ends), dtype=bool)),
        carried=np.append(carried(work.own_after_release).mean(axis=1), np.zeros(len(ends))),
    )


def later_rows(work: StepWork) -> list[Rows]:
    """The windows up to each further synchronization of the steps, a row per step."""
    points, num_steps = work.points, len(work.steps)
    nothing = np.zeros((len(work.ranks), num_steps))
    return [
        Rows(
            window=np.ascontiguousarray(points.at(place, points.before).T),
            tail=np.ascontiguousarray(points.at(place - 1, points.tail).T),
            begin=nothing,
            parts={},
            is_window=np.ones(num_steps, dtype=bool),
            carried=np.zeros(num_steps),
        )
        for place in range(1, points.per_step)
    ]


def delays_of(rows: Rows, named: Sequence[Sequence[NamedCause]]) -> Delays:
    """The split of the windows of a launch.

    1.  Rare straggler: the rank takes the time of the normal ranks. Rare pause of all ranks: each
        takes its own median.
    2.  Otherwise each rank loses its mean excess over the normal ranks (in a pause: over its own
        median) where the cause acts, and keeps its jitter. Steady causes also act in the windows
        that a rare one hides.

    Args:
        rows: The windows.
        named: For each named cause of the cell its members in this launch; they do not overlap.
    """
    window = rows.window
    causes = [_cause(rows, members) for members in named]
    is_normal, rare = np.ones(window.shape, dtype=bool), np.zeros(window.shape, dtype=bool)
    for cause in causes:
        is_normal &= ~cause.acts
        if cause.is_rare:
            rare |= cause.acts
    normal = _shared(rows, is_normal)
    found: list[Times] = [np.zeros(0)] * len(causes)
    own = _median_where(window, ~rare & rows.is_window)
    steady, usual = np.zeros_like(window), own
    for place, cause in enumerate(causes):
        if not cause.is_rare:
            found[place], excess = _steady_delay(rows, cause, normal, rare)
            steady += found[place]
            usual = usual - excess
    # A step without a steady one before it has only its own part of the window in its row.
    missing = np.where(rows.is_window, 0.0, _typical(rows.carried[rows.is_window]))
    normal = np.where(np.isnan(normal), usual.mean() - missing, normal)
    for place, cause in enumerate(causes):
        if cause.is_rare:
            expected = own[:, None] - missing if cause.is_pause else normal + steady
            found[place] = np.where(cause.acts, window - expected, 0.0)
    jitter = window - normal
    for delay in found:
        jitter -= delay
    return Delays(normal, is_normal, tuple(found), jitter)


def _cause(rows: Rows, members: Sequence[NamedCause]) -> _Cause:
    acts = np.zeros(rows.window.shape, dtype=bool)
    for member in members:
        acts[:, : len(member.affected)] |= member.affected.T
    lasting = _lasting(rows, members)
    often = acts.sum(axis=1) >= RARE_SHARE * rows.is_window.sum()
    return _Cause(
        acts=acts | (lasting & ~rows.is_window),
        is_rare=not (lasting.any() or (often & acts.any(axis=1)).any()),
        is_pause=any(member.kind == PAUSE for member in members),
    )


def _lasting(rows: Rows, members: Sequence[NamedCause]) -> Bools:
    """[ranks, rows] Where a cause that lasts must act, also in rows that are no windows."""
    found = np.zeros(rows.window.shape, dtype=bool)
    row = np.arange(len(rows.is_window))
    for member in members:
        if member.pattern in (PERSISTENT, FROM_STEP, GROWING):
            first = 0 if member.pattern == PERSISTENT else int(member.affected.any(axis=1).argmax())
            own = np.asarray(member.affected.any(axis=0))
            found |= own[:, None] & (row >= first)
    return found


def _steady_delay(rows: Rows, cause: _Cause, normal: Times, rare: Bools) -> tuple[Times, Times]:
    """[ranks, rows] The delay of a cause that is not rare, and [ranks] its mean excess."""
    window, whole = rows.window, rows.is_window
    reference = (
        _median_where(window, ~cause.acts & ~rare & whole)[:, None] if cause.is_pause else normal
    )
    over = window - reference
    known = cause.acts & whole & ~np.isnan(over)
    count = known.sum(axis=1)
    excess = np.where(known, over, 0.0).sum(axis=1) / np.maximum(count, 1)
    row = np.arange(len(rows.is_window))
    first = int(cause.acts.any(axis=0).argmax())
    hidden = rare & (row >= first) & (count > 0)[:, None] & whole
    delay = np.where((cause.acts & whole) | hidden, excess[:, None], 0.0)
    # Parts of a window have no mean of their own: they take the time of the normal ranks.
    part = cause.acts & ~whole & ~np.isnan(over)
    return np.where(part, over, delay), excess


def _typical(times: Times) -> float:
    return float(np.median(times)) if len(times) else 0.0


def _shared(rows: Rows, is_normal: Bools) -> Times:
    """[rows] What the normal ranks share; NaN where there are none.

    Parts of windows have no usual time: there it is the lower median.
    """
    ordered = np.sort(np.where(is_normal, rows.window, np.nan), axis=0)
    middle = np.maximum(is_normal.sum(axis=0) - 1, 0) // 2
    found = np.asarray(ordered[middle, np.arange(ordered.shape[1])])
    whole = rows.is_window
    window = rows.window[:, whole].T[..., None]
    found[whole] = shared(window, is_normal=is_normal[:, whole].T)[:, 0]
    return found


def _median_where(times: Times, mask: Bools) -> Times:
    """[ranks] The median over rows; of all rows where the mask holds none of a rank."""
    return np.array(
        [
            np.median(own[chosen] if chosen.any() else own)
            for own, chosen in zip(times, mask, strict=True)
        ]
    )
