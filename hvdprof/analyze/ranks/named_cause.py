"""What happened in a launch: the ranks, the phase and the pattern of a significant delay.

Tested in ``tests/analyze/ranks/test_names.py``.
"""

from dataclasses import dataclass

from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.arrays import Bools
from hvdprof.model.tables.waiting_tables import LASTING_PATTERNS

STRAGGLER, PAUSE = "straggler", "pause"
"""Kinds: one rank or ranks alike, later than the others; all ranks at once."""

PERSISTENT, PERIODIC, IRREGULAR, FROM_STEP = "persistent", "periodic", "irregular", "from-step"
"""Patterns: in most steps; in every k-th step; at no regular steps; from one step to the end."""

FOR_A_WHILE, GROWING = "for-a-while", "growing"
"""From one step to another one; longer and longer."""

LASTING = LASTING_PATTERNS
"""Patterns of ranks that are slower, in contrast to events."""


@dataclass(frozen=True, slots=True)
class NamedCause:
    """A significant delay of one launch.

    ``ranks`` are rank numbers, ascending; those of a pause are all ranks. A straggler of all ranks
    is any rank at random: ``affected`` says which one in which step. ``phase`` is data,
    forward, backward, before_update (from the end of backward to the update), optimizer, pause
    (outside every phase), evaluation (the same, of a rank that
    evaluates while others do not) or mixed, and ``phase_share`` the share of the excess in
    the largest phase. ``period_steps`` is NaN unless the pattern is
    periodic, and ``epoch_steps`` unless its counter restarts with each epoch of so many steps.
    ``num_events`` counts runs of affected steps; of a straggler that lasts, affected
    steps. ``first_step`` and ``last_step`` are the numbers of the first and last affected step.
    ``last_delay_ns`` is the delay at the end of one that grows, else NaN. ``chance`` is that of
    equal ranks to give any of them as much in a launch; 0 of a pause.

    ``affected`` [steps, ranks] of the RankTimes is true where the delay lies between the release of
    the step before and the arrival.
    """

    kind: str
    ranks: tuple[int, ...]
    phase: str
    phase_share: float
    pattern: str
    period_steps: float
    num_events: int
    first_step: int
    last_step: int
    last_delay_ns: float
    affected: Bools
    epoch_steps: float = NAN
    chance: float = 0.0
