"""What happened in a launch: the ranks, the phase and the pattern of a significant delay.

Tested in ``tests/analyze/stragglers/test_patterns.py``.
"""

from dataclasses import dataclass

from hvdprof.model.arrays import Bools

STRAGGLER, PAUSE = "straggler", "pause"
"""Kinds: one rank or ranks alike, later than the others; all ranks at once."""

PERSISTENT, PERIODIC, IRREGULAR, FROM_STEP = "persistent", "periodic", "irregular", "from-step"
"""Patterns: in most steps; in every k-th step; at no regular steps; from one step to the end."""


@dataclass(frozen=True, slots=True)
class NamedCause:
    """A significant delay of one launch.

    ``ranks`` are rank numbers, ascending; those of a pause are all ranks. A straggler of all ranks
    is any rank at random: ``affected`` says which one in which step. ``phase`` is data,
    forward, backward, before_update (from the end of backward to the update), optimizer, pause
    (outside every phase), evaluation (the same, of a rank that
    evaluates while others do not) or mixed, and ``phase_share`` the share of the excess in
    the largest phase. ``period_steps`` is NaN unless the pattern is
    periodic. ``num_events`` counts runs of affected steps; of a persistent or from-step straggler,
    affected steps. ``first_step`` is the number of the first affected step.

    ``affected`` [steps, ranks] of the StepWork is true in row k where the delay lies between the
    release of step k-1 and the arrival of step k: in ``before`` of row k, or, of the phase
    optimizer, in ``after`` of row k-1. Rows without a previous step are never affected.
    """

    kind: str
    ranks: tuple[int, ...]
    phase: str
    phase_share: float
    pattern: str
    period_steps: float
    num_events: int
    first_step: int
    affected: Bools
