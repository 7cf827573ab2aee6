"""Steps of training out of a timeline alone: the same set of gradients recurs, after a pause.

This is a guess with a stated confidence. It is refused where the recording is not periodic:
unnamed tensors, sets that alternate (two optimizers), ranks that train on different numbers of
batches. Nothing here sees gradients that were accumulated without being reduced.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]

FEWEST_STEPS = 3
LEAST_SHARE = 0.9
"""Share of the inner rounds that must hold the whole set, and of reductions that must be in it."""

LEAST_CONFIDENCE = 0.3
LONE_TENSOR = 0.5
"""Stands for the evidence of pauses where there is one tensor, so that no round has an inside."""

_ROUNDS_TO_ALIGN = 50
_STARTS_TO_TRY = 512
# Most recordings begin with a step, so a later start must explain more than noise does.
_CLEARLY_BETTER = 0.1


@dataclass(frozen=True, slots=True)
class Reductions:
    """The uses that reduce gradients, in the order in which their negotiation began.

    ``ready_us`` is where the negotiation began, ``end_us`` where the operation ended (where it
    began, if its end is not in the file); ``size_bytes`` is -1 where unknown.
    """

    tensor: Int32s
    ready_us: Int64s
    end_us: Int64s
    size_bytes: Int64s


@dataclass(frozen=True, slots=True)
class InferredSteps:
    """One row a step.

    Attributes:
        start_us: Where the first gradient of the step began to be negotiated.
        end_us: Where the last operation of the step ended.
        num_tensors: Different gradients in it.
        size_bytes: Their bytes, -1 where one of them is unknown.
        complete: It holds the whole recurring set.
        confidence: 0 to 1, one number for all: see ``infer_steps``.
        refusal: Why there are no steps; empty where there are.
    """

    start_us: Int64s
    end_us: Int64s
    num_tensors: Int64s
    size_bytes: Int64s
    complete: NDArray[np.bool_]
    confidence: float
    refusal: str

    def __len__(self) -> int:
        """The number of steps."""
        return len(self.start_us)


def infer_steps(reductions: Reductions) -> InferredSteps:
    """The steps that a timeline shows, or the reason why it shows none.

    The set is every tensor reduced at least half as often as the one reduced most. A round ends
    where a tensor of the set comes again; a recording that began within a step is aligned so that
    rounds are whole and begin after pauses. The confidence is the product of: the share of rounds
    (the first and the last left out) that hold the whole set; the share of reductions that are of
    the set; and the share of rounds that begin after the longest pause since the one before began.
    """
    counts = np.bincount(reductions.tensor) if len(reductions.tensor) else np.zeros(1, np.int64)
    if counts.max() < FEWEST_STEPS:
        return _refused(f"no tensor is reduced {FEWEST_STEPS} times")
    in_set = counts >= max(FEWEST_STEPS, counts.max() / 2)
    recurring = in_set[reductions.tensor]
    coverage = float(np.mean(recurring))
    if coverage < LEAST_SHARE:
        return _refused("tensors are reduced unequally often, as with several optimizers")
    # A large file has so many reductions that no copy is made where all are of the set.
    rows = slice(None) if recurring.all() else np.flatnonzero(recurring)
    tensor = reductions.tensor[rows]
    pause = _pauses(reductions.ready_us, reductions.end_us)[rows]
    starts = _aligned_starts(tensor, pause, int(in_set.sum()))
    complete = _num_different(tensor, starts) == in_set.sum()
    inner = complete[1:-1]
    if len(starts) < FEWEST_STEPS or not len(inner) or inner.mean() < LEAST_SHARE:
        return _refused("the same set of tensors does not recur from step to step")
    evidence = _share_after_longest_pause(pause, starts, int(in_set.sum()))
    confidence = float(inner.mean()) * coverage * evidence
    if confidence < LEAST_CONFIDENCE:
        return _refused("no pause separates one step from the next")
    return InferredSteps(
        start_us=reductions.ready_us[rows][starts],
        end_us=np.maximum.reduceat(reductions.end_us[rows], starts),
        num_tensors=_num_different(tensor, starts),
        size_bytes=_sums(reductions.size_bytes[rows], starts),
        complete=complete,
        confidence=confidence,
        refusal="",
    )


def _refused(reason: str) -> InferredSteps:
    nothing = np.empty(0, dtype=np.int64)
    return InferredSteps(nothing, nothing, nothing, nothing, nothing.astype(bool), 0.0, reason)


def _pauses(ready_us: Int64s, end_us: Int64s) -> Int64s:
    """Time before each reduction since all before it had ended; negative where one had not."""
    last_end = np.maximum.accumulate(end_us)
    pause = np.zeros_like(ready_us)
    np.subtract(ready_us[1:], last_end[:-1], out=pause[1:])
    return pause


def _aligned_starts(tensor: Int32s, pause: Int64s, set_size: int) -> Int64s:
    """Where rounds begin: of all rows at which the first may begin, that which fits best."""
    repeat = _first_repeat_after(tensor)
    best, best_fit = 0, -1.0
    for first in range(min(set_size, _STARTS_TO_TRY, len(tensor))):
        *starts, stop = [*_starts(repeat, first, _ROUNDS_TO_ALIGN), len(tensor)]
        if len(starts) == _ROUNDS_TO_ALIGN:
            stop = starts.pop()
        fit = _fit(pause[:stop], np.asarray(starts, dtype=np.int64), set_size)
        if fit > best_fit + (_CLEARLY_BETTER if first else 0):
            best, best_fit = first, fit
    aligned = _starts(repeat, best, len(tensor))
    return np.asarray([0, *aligned] if best else aligned, dtype=np.int64)


def _fit(pause: Int64s, starts: Int64s, set_size: int) -> float:
    complete = np.diff(np.append(starts, len(pause))) == set_size
    return float(complete.mean()) * _share_after_longest_pause(pause, starts, set_size)


def _first_repeat_after(tensor: Int32s) -> Int64s:
    """For each row the first row by which some tensor has come twice since."""
    length = len(tensor)
    order = np.argsort(tensor, kind="stable")
    again = np.full(length, length, dtype=np.int64)
    by_tensor = tensor[order]
    same = by_tensor[1:] == by_tensor[:-1]
    del by_tensor
    again[order[:-1][same]] = order[1:][same]
    return np.minimum.accumulate(again[::-1], out=again[::-1])[::-1]


def _starts(repeat: Int64s, first: int, most: int) -> list[int]:
    starts: list[int] = []
    while first < len(repeat) and len(starts) < most:
        starts.append(first)
        first = int(repeat[first])
    return starts


def _num_different(tensor: Int32s, starts: Int64s) -> Int64s:
    # No tensor comes twice in a round.
    return np.diff(np.append(starts, len(tensor)))


def _share_after_longest_pause(pause: Int64s, starts: Int64s, set_size: int) -> float:
    if set_size == 1:
        return LONE_TENSOR
    if len(starts) < 2:
        return 0.0
    within = pause.copy()
    within[starts] = np.iinfo(np.int64).min
    longest_within = np.maximum.reduceat(within, starts)
    return float(np.mean(pause[starts[1:]] > longest_within[:-1]))


def _sums(size_bytes: Int64s, starts: Int64s) -> Int64s:
    known = np.minimum.reduceat(size_bytes, starts) >= 0
    return np.where(known, np.add.reduceat(size_bytes, starts), -1)
