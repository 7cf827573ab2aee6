"""Runs of the same cells: two side by side, or a series; outcomes, what moved, what differs."""

from dataclasses import dataclass, field
from enum import StrEnum

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.cell_key import CELL_COLUMNS, cell_label
from hvdprof.model.schema import Column, Table

HISTORY = Table(
    "history",
    "One metric of one cell in one run of a series, in order of time.",
    (
        *CELL_COLUMNS,
        Column("time", "str", "Begin of the run, UTC; empty where unknown."),
        Column("commit", "str", "Commit of the working directory; empty where unknown."),
        Column("run", "str", "Name of the run."),
        Column("value", "float64", "The metric, in its unit."),
        Column("low", "float64", "Lower end of the 95 % interval; NaN where unknown."),
        Column("high", "float64", "Upper end of the 95 % interval; NaN where unknown."),
        Column("segment", "int64", "Number of change points of the cell up to this run, from 0."),
        Column("is_change", "bool", "The metric changed from this run on."),
        Column(
            "change",
            "float64",
            "At a change, suspected ones included: mean of the runs from here to the next one "
            "against that of the runs before; relative, or in points of a ratio. Else NaN.",
            "ratio",
        ),
        Column(
            "is_suspected",
            "bool",
            "It seems to have changed from this run on: more than the margin and all intervals, "
            "not confirmed, as too few runs lie on either side.",
        ),
    ),
)


LINE_CHANGES = Table(
    "line_changes",
    "A line of code whose time changed from one run to the other beyond chance, per step, mean "
    "over ranks and launches.",
    (
        *CELL_COLUMNS,
        Column("process", "str", "`main`, or `worker`: DataLoader workers."),
        Column("phase", "str", "Phase of the step."),
        Column("file", "str", "Name of the file; empty where none of the user's code ran."),
        Column("function", "str", "Function that the line is in."),
        Column("first_line", "int64", "Its line with most samples in the first run, or 0."),
        Column("second_line", "int64", "The same in the second run."),
        Column("one_ns", "float64", "Time in the first run.", "ns"),
        Column("other_ns", "float64", "Time in the second run.", "ns"),
        Column("difference_ns", "float64", "Second minus first.", "ns"),
        Column("low_ns", "float64", "Lower end of its 95 % interval over launches.", "ns"),
        Column("high_ns", "float64", "Upper end of that interval.", "ns"),
    ),
)


class ComparisonOutcome(StrEnum):
    """What is known of a change, held against a margin."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    EQUAL = "equal"
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Metric:
    """A quantity that two runs are compared by.

    Attributes:
        name: Its name in tables and in conditions of a gate.
        title: Its name in texts.
        unit: Unit of its values, as declared tables have it.
        is_ratio: Whether its change is relative; otherwise it is a difference of ratios (points).
        worse: 1 where more is worse, -1 where less is.
    """

    name: str
    title: str
    unit: str
    is_ratio: bool
    worse: int


STEP_TIME = Metric("step_time", "step time", "ns", True, 1)


THROUGHPUT = Metric("throughput", "throughput", "samples/s", True, -1)


EFFICIENCY = Metric("efficiency", "scaling efficiency", "ratio", False, -1)


EXPOSED_TRANSFER = Metric("exposed_transfer", "exposed transfer", "ratio", False, 1)


STEP_TIME_P95 = Metric("step_time_p95", "step time, p95", "ns", True, 1)


STARTUP = Metric("startup", "start-up", "ns", True, 1)


FINAL_LOSS = Metric("final_loss", "final loss", "", True, 1)


METRICS: tuple[Metric, ...] = (
    STEP_TIME,
    THROUGHPUT,
    EFFICIENCY,
    EXPOSED_TRANSFER,
    STEP_TIME_P95,
    STARTUP,
    FINAL_LOSS,
)
"""In the order of tables."""


_SIDES = ("first", "second")

_COARSE_POINTS = 10.0
"""Beyond this half width a decimal of a change says nothing."""


_NEAR_ZERO_POINTS = 0.5
"""An end of an interval closer to 0 has a decimal: it decides, and rounds to 0."""


DEFAULT_LEVEL = 0.05


DEFAULT_MARGIN = 0.02
"""Changes of up to 2 % (or 2 points) do not matter by default."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a gate: it fails where a metric is worse by more than the margin."""

    text: str
    metric: Metric
    margin: float


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a comparison.

    Attributes:
        margin: Largest relative change, or difference of ratios, that does not matter.
        conditions: The conditions of a gate; each has the margin of its metric.
        is_forced: Whether runs and cells that are not comparable are compared nevertheless.
        level: Accepted probability of a wrong outcome, one-sided; lower where it is looked several
            times.
        is_paired: Whether the launches of both were interleaved.
    """

    margin: float = DEFAULT_MARGIN
    conditions: tuple[Condition, ...] = ()
    is_forced: bool = False
    level: float = DEFAULT_LEVEL
    is_paired: bool = False

    @property
    def confidence(self) -> float:
        """The confidence of the interval that is held against the margin."""
        return 1 - 2 * self.level


@dataclass(frozen=True, slots=True)
class GateResult:
    """A condition and what became of it.

    ``cells`` names the cells that fail it, ``not_judged`` those that are not comparable.
    """

    condition: Condition
    outcome: ComparisonOutcome
    cells: tuple[str, ...]
    not_judged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SideName:
    """What a run is called in a comparison; time and commit are empty where unknown."""

    name: str
    created_at: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A finished comparison; reports only format it. ``print`` shows verdict and cells.

    Attributes:
        first: The run that the other is compared with.
        second: The other run.
        outcome: The outcome of all cells together, by ``metric``.
        metric: The metric that decides.
        confidence: That of the intervals of changes.
        sentence: The verdict in at most two sentences.
        caveat: What limits it, empty where nothing does.
        cells: COMPARED_CELLS.
        pooled: COMPARED_POOLED.
        causes: MOVED_CAUSES.
        settings: SETTING_DIFFS.
        gate: The conditions that were asked for, with their outcomes.
        notes: What was left out, and why.
        lines: LINE_CHANGES.
    """

    first: SideName
    second: SideName
    outcome: ComparisonOutcome
    metric: Metric
    confidence: float
    sentence: str
    caveat: str
    cells: pd.DataFrame
    pooled: pd.DataFrame
    causes: pd.DataFrame
    settings: pd.DataFrame
    gate: tuple[GateResult, ...] = ()
    notes: tuple[str, ...] = ()
    lines: pd.DataFrame = field(default_factory=LINE_CHANGES.empty)

    def __str__(self) -> str:
        """The verdict, its caveat, and a line for each cell on the metric that decides."""
        caveat = [f"Caveat: {self.caveat}"] if self.caveat else []
        rows = self.cells[self.cells["metric"] == self.metric.name].to_dict("records")
        return "\n".join([self.sentence, *caveat, *(self._line(row) for row in rows)])

    def _line(self, row: FrameRow) -> str:
        first, second = (units.of_unit(float(row[end]), self.metric.unit) for end in _SIDES)
        change = f"{change_text(row, self.metric)}, {row['outcome']}"
        return f"{cell_label(row)}: {self.metric.title} {first} to {second}, {change}"

    def __repr__(self) -> str:
        """Both runs and the outcome; the tables themselves fill screens."""
        return f"<Comparison of {self.first.name} and {self.second.name}: {self.outcome}>"

    @property
    def reason(self) -> str:
        """Why the whole is not comparable, as its sentence says; empty where it is."""
        is_refused = self.outcome is ComparisonOutcome.NOT_COMPARABLE
        return str(self.cells["reason"].iloc[0]) if is_refused else ""


def change_text(row: FrameRow, metric: Metric) -> str:
    """A change with its sign and its interval: ``+6.1 % (+4.2 to +8.1)``; ``(CI unknown)``."""
    value, low, high = (100 * float(row[name]) for name in ("change", "change_low", "change_high"))
    if is_missing(low) or is_missing(high):
        return size_text(float(row["change"]), metric) + " (CI unknown)" * (value == value)
    unit = _change_unit(metric)
    is_coarse = min(high - value, value - low) >= _COARSE_POINTS
    digits = 0 if is_coarse and min(abs(low), abs(high)) >= _NEAR_ZERO_POINTS else 1
    return f"{value:+z.{digits}f} {unit} ({low:+z.{digits}f} to {high:+z.{digits}f})"


def size_text(change: float, metric: Metric) -> str:
    """A change without an interval: ``+6.1 %`` or ``-2.0 points``; ``-`` for NaN."""
    return "-" if is_missing(change) else f"{100 * change:+z.1f} {_change_unit(metric)}"


def change_at(row: FrameRow, metric: Metric) -> str:
    """What a row of HISTORY says of a change: ``+6.1 %, not confirmed``; empty without one."""
    if not row["is_change"] and not row["is_suspected"]:
        return ""
    size = size_text(float(row["change"]), metric)
    return size if row["is_change"] else f"{size}, not confirmed"


def _change_unit(metric: Metric) -> str:
    return "%" if metric.is_ratio else "points"


@dataclass(frozen=True, slots=True)
class History:
    """A finished series; reports only format it.

    Attributes:
        metric: What was followed.
        sentence: The verdict in at most two sentences.
        rows: HISTORY.
        notes: Runs that were left out, and why.
    """

    metric: Metric
    sentence: str
    rows: pd.DataFrame
    notes: tuple[str, ...] = ()
