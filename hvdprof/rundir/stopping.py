"""What the manifest records of a run that stops by precision or by time.

Tested in ``tests/launch/run/test_repeats.py``.
"""

from dataclasses import dataclass, field
from enum import StrEnum


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
