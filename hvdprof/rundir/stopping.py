"""When a measurement stops: after which repeats it is looked at, and what is recorded of it.

Who looks at a comparison three times and stops at the first decision is wrong more often than who
looks once. All looks have the same level (as S. J. Pocock, Biometrika 64, 1977), with which all
together keep 5 %, one-sided. Pocock's constants are those of known variances and equal distances.
The looks here are after 3, 6 and N repeats, and Student's t of few launches forgets more between
two looks. So the levels are simulated: 4,000,000 series of normal differences for every N (``python
-m benchmarks.compare_simulated`` checks them).

Who looks at a run after every repeat and stops at the first look that suffices, stops too often
where the launches agree by chance. So a run stops by an interval of a higher confidence than the 95
% that it reports: at each of K looks the one of S. J. Pocock, "Group sequential methods in the
design and analysis of clinical trials", Biometrika 64 (1977), with which all K together keep 5 %
(constants: Jennison and Turnbull, Group Sequential Methods with Applications to Clinical Trials,
2000, table 2.1). The first look, with the fewest launches, spends a quarter of that. How often the
reported intervals then cover the truth is in docs/explain/efficiency.md.
"""

import bisect
import math
from dataclasses import dataclass, field
from enum import StrEnum

FIRST, SECOND = 3, 6
_LEVELS = {
    3: 0.05,
    4: 0.0320,
    5: 0.0293,
    6: 0.0281,
    7: 0.0232,
    8: 0.0218,
    9: 0.0210,
    10: 0.0204,
    12: 0.0198,
    15: 0.0194,
    20: 0.0189,
    30: 0.0186,
    50: 0.0184,
    100: 0.0182,
}
"""One-sided level of every look, by the most repeats; for numbers between, the larger one counts.
"""

_LEVEL_OF_MORE = 0.05 / 3
"""That of three independent looks."""

FIRST_LOOK = 3
"""The repeat after which a run can stop first."""

FIRST_SHARE = 0.25
_POCOCK = (1.960, 2.178, 2.289, 2.361, 2.413, 2.453, 2.485, 2.512, 2.535, 2.555)
"""Quantile of the normal distribution at each of that many looks."""

MOST_LOOKS = len(_POCOCK)


class StopReason(StrEnum):
    """Why no more repeats were measured."""

    PRECISION = "precision"
    BUDGET = "budget"
    REPEATS = "repeats"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCell:
    """How well the cell is known by which a model is judged.

    The cell is the model's largest size that is not oversubscribed, without toggles. ``half_width``
    is half of the 95 % interval of its efficiency, as reports print it; ``stopping_half_width`` is
    that of the wider interval by which the run stops. Where one size was measured alone they are
    those of the throughput, as a share of it. ``step_noise`` is the variance of a launch's mean
    step time that its steps explain, divided by the rest of the variance between launches. What is
    not known is None.
    """

    model: str
    size: int
    engine: str
    baseline_size: int
    baseline_engine: str
    half_width: float | None
    stopping_half_width: float | None
    step_noise: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was known after a repeat, ``elapsed_s`` seconds into the measurement."""

    repeat: int
    elapsed_s: float
    cells: list[KnownCell] = field(default_factory=list)

    @property
    def widest(self) -> KnownCell | None:
        """The cell with the widest interval; None without any cell."""
        return max(self.cells, key=width, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The end of a run that stops by precision or by time.

    ``half_width`` is that of the widest cell at the end. ``missing_s`` are the seconds that the
    precision is estimated to need beyond those used; None where it is reached or unknown.
    """

    reason: str
    num_repeats: int
    most_repeats: int
    half_width: float | None
    precision: float | None
    budget_s: float | None
    elapsed_s: float
    missing_s: float | None = None


def width(cell: KnownCell) -> float:
    """The half width by which the run stops; infinite where it is unknown."""
    return float("inf") if cell.stopping_half_width is None else cell.stopping_half_width


def comparison_looks(most: int) -> tuple[int, ...]:
    """The repeats after which it is looked at, the last one included; three at most."""
    return (*(look for look in (FIRST, SECOND) if look < most), most)


def look_level(most: int) -> float:
    """The one-sided level of every look of a comparison of at most so many repeats."""
    known = list(_LEVELS)
    place = bisect.bisect_left(known, most)
    return _LEVELS[known[place]] if place < len(known) else _LEVEL_OF_MORE


def look_repeats(most: int) -> list[int]:
    """The repeats after which a run of at most so many can stop, the last one included."""
    every = max(1, math.ceil((most - FIRST_LOOK) / (MOST_LOOKS - 1)))
    return [*range(FIRST_LOOK, most, every), most]


def stopping_confidence(repeat: int, most: int) -> float:
    """The confidence by which a run of at most ``most`` repeats stops after one of them."""
    risk = math.erfc(_POCOCK[len(look_repeats(most)) - 1] / math.sqrt(2))
    return 1 - (risk * FIRST_SHARE if repeat <= FIRST_LOOK else risk)
