"""Steps of training out of a timeline alone: the same set of gradients recurs, after a pause.

This is a guess with a stated confidence. It is refused where the recording is not periodic:
unnamed tensors, sets that alternate (two optimizers), ranks that train on different numbers of
batches. Nothing here sees gradients that were accumulated without being reduced.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from hvdprof.ingest.timeline.meaning.rounds import Reductions, Rounds, SetFilter, first_start
from hvdprof.model.arrays import Bools, Int64s

FEWEST_STEPS = 3
LEAST_SHARE = 0.9
"""Share of the inner rounds that must hold the whole set, and of reductions that must be in it."""

LEAST_CONFIDENCE = 0.3

Parts = Callable[[], Iterable[Reductions]]
"""Gives the reductions of a file part by part, anew each time it is called."""


@dataclass(frozen=True, slots=True)
class InferredSteps:
    """One row per step.

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
    complete: Bools
    confidence: float
    refusal: str

    def __len__(self) -> int:
        """The number of steps."""
        return len(self.start_us)


def infer_steps(parts: Parts) -> InferredSteps:
    """The steps that a timeline shows, or the reason why it shows none.

    The set is every tensor reduced at least half as often as the one reduced most. A round ends
    where a tensor of the set comes again; a recording that began within a step is aligned so that
    rounds are whole and begin after pauses. The confidence is the product of: the share of rounds
    (the first and the last left out) that hold the whole set; the share of reductions that are of
    the set; and the share of rounds that begin after the longest pause since the one before began.
    """
    counts = counted(parts())
    if counts.max() < FEWEST_STEPS:
        return _refused(f"no tensor is reduced {FEWEST_STEPS} times")
    in_set = recurring(counts)
    set_size = int(in_set.sum())
    coverage = float(counts[in_set].sum() / counts.sum())
    if coverage < LEAST_SHARE:
        return _refused("tensors are reduced unequally often, as with several optimizers")
    of_set = SetFilter(in_set)
    rounds = Rounds(first_start(map(of_set.rows, parts()), set_size) or 0)
    for rows in map(SetFilter(in_set).rows, parts()):
        rounds.add(rows)
    found = rounds.finished()
    complete = found.num_tensors == set_size
    inner = complete[1:-1]
    if len(complete) < FEWEST_STEPS or not len(inner) or inner.mean() < LEAST_SHARE:
        return _refused("the same set of tensors does not recur from step to step")
    evidence = found.share_after_longest_pause(set_size)
    confidence = float(inner.mean()) * coverage * evidence
    if confidence < LEAST_CONFIDENCE:
        return _refused("no pause separates one step from the next")
    return InferredSteps(
        start_us=found.start_us,
        end_us=found.end_us,
        num_tensors=found.num_tensors,
        size_bytes=found.size_bytes,
        complete=complete,
        confidence=confidence,
        refusal="",
    )


def counted(parts: Iterable[Reductions]) -> Int64s:
    """How often each tensor is reduced; one zero where nothing is."""
    counts = np.zeros(1, dtype=np.int64)
    for part in parts:
        more = np.bincount(part.tensor, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    return counts


def recurring(counts: Int64s) -> Bools:
    """Which tensors are of the set."""
    return np.asarray(counts >= max(FEWEST_STEPS, counts.max() / 2))


def _refused(reason: str) -> InferredSteps:
    nothing = np.empty(0, dtype=np.int64)
    return InferredSteps(nothing, nothing, nothing, nothing, nothing.astype(bool), 0.0, reason)
