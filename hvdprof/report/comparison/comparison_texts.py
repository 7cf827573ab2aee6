"""The texts of a comparison, shaped once for every format.

Tested in ``tests/report/comparison/test_comparison_formats.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hvdprof import units
from hvdprof.model.cause_names import cause_name
from hvdprof.model.cell_key import cell_label
from hvdprof.model.frame_row import FrameRow, is_missing
from hvdprof.model.results.comparison import (
    FINAL_LOSS,
    METRICS,
    THROUGHPUT,
    Comparison,
    ComparisonOutcome,
    GateResult,
    change_text,
)

_METRIC_OF = {metric.name: metric for metric in METRICS}
_CHANGED = (ComparisonOutcome.REGRESSED, ComparisonOutcome.IMPROVED)
_SMALLEST_SHOWN = 0.0005
"""A cause that moved by less than this share of the step is not shown."""


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric of one cell."""

    title: str
    first: str
    second: str
    change: str
    outcome: str
    detects: str


@dataclass(frozen=True, slots=True)
class CellLines:
    """One cell: its name, its metrics, and why it is not comparable."""

    name: str
    launches: str
    lines: tuple[MetricLine, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class CauseLine:
    """One cause in both runs; ``moved`` where the difference is significant."""

    name: str
    first: str
    second: str
    difference: str
    moved: bool


@dataclass(frozen=True, slots=True)
class CellCauses:
    """What moved in one cell; all its terms, those not shown included, sum to the step times."""

    name: str
    lines: tuple[CauseLine, ...]
    first: str
    second: str
    difference: str


@dataclass(frozen=True, slots=True)
class ComparisonTexts:
    """Everything that a page on a comparison says, in its order."""

    sentence: str
    caveat: str
    sides: str
    change_head: str
    cells: tuple[CellLines, ...]
    pooled: tuple[str, ...]
    causes: tuple[CellCauses, ...]
    settings: tuple[str, ...]
    gate: tuple[str, ...]
    notes: tuple[str, ...]


def comparison_texts(comparison: Comparison) -> ComparisonTexts:
    """The texts of a comparison: cells in order, what moved in those that changed most."""
    return ComparisonTexts(
        sentence=comparison.sentence,
        caveat=comparison.caveat,
        sides=f"{comparison.first.name} (first) and {comparison.second.name} (second)",
        change_head=f"change ({units.percent_limit(comparison.confidence)} CI)",
        cells=tuple(_cells(comparison)),
        pooled=tuple(_pooled(comparison)),
        causes=tuple(_causes(comparison)),
        settings=tuple(_setting(row) for row in comparison.settings.to_dict("records")),
        gate=tuple(gate_text(result) for result in comparison.gate),
        notes=comparison.notes,
    )


def gate_text(result: GateResult) -> str:
    """One condition with its outcome: ``step_time>2%: failed by resnet18 on 2 ranks``."""
    if result.outcome is ComparisonOutcome.REGRESSED:
        return f"{result.condition.text}: failed by {', '.join(result.cells)}"
    shown = "passed" if result.outcome is ComparisonOutcome.EQUAL else result.outcome
    apart = f" (not judged: {', '.join(result.not_judged)})" if result.not_judged else ""
    return f"{result.condition.text}: {shown}{apart}"


def _cells(comparison: Comparison) -> Iterator[CellLines]:
    rows = comparison.cells
    names = [cell_label(row) for row in rows.to_dict("records")]
    for name in dict.fromkeys(names):
        own = rows[[label == name for label in names]].to_dict("records")
        first = own[0]
        how = "pairs" if first["paired"] else "launches"
        counts = f"{first['num_first']} and {first['num_second']} {how}"
        yield CellLines(
            name=name,
            launches=f"{first['num_first']} pairs" if first["paired"] else counts,
            lines=tuple(_line(row) for row in own if _is_shown(row, comparison)),
            reason=str(first["reason"])
            if first["outcome"] == ComparisonOutcome.NOT_COMPARABLE
            else "",
        )


def _is_shown(row: FrameRow, comparison: Comparison) -> bool:
    """Whether a metric is news.

    The final loss guards the numerics: it is news only where it changed. With equal batches the
    throughput says the same as the step time.
    """
    name = str(row["metric"])
    if name in {result.condition.metric.name for result in comparison.gate}:
        return True
    if name == THROUGHPUT.name:
        return comparison.metric is THROUGHPUT
    return name != FINAL_LOSS.name or str(row["outcome"]) != ComparisonOutcome.EQUAL


def _line(row: FrameRow) -> MetricLine:
    metric = _METRIC_OF[str(row["metric"])]
    sign = "%" if metric.is_ratio else "points"
    detectable = float(row["detectable"])
    return MetricLine(
        title=metric.title,
        first=units.of_unit(float(row["first"]), metric.unit),
        second=units.of_unit(float(row["second"]), metric.unit),
        change=change_text(row, metric),
        outcome=str(row["outcome"]),
        detects="-" if is_missing(detectable) else f"{100 * detectable:.1f} {sign}",
    )


def _pooled(comparison: Comparison) -> Iterator[str]:
    for row in comparison.pooled.to_dict("records"):
        if not _is_shown(row, comparison):
            continue
        metric = _METRIC_OF[str(row["metric"])]
        yield (
            f"{metric.title}: {change_text(row, metric)}, mean of {row['num_cells']} cells: "
            f"{row['outcome']}"
        )


def _causes(comparison: Comparison) -> Iterator[CellCauses]:
    """The cells whose deciding metric changed, or with a cause that moved beyond chance."""
    rows = comparison.causes
    names = [cell_label(row) for row in rows.to_dict("records")]
    changed = {
        cell_label(row)
        for row in comparison.cells.to_dict("records")
        if row["metric"] == comparison.metric.name and row["outcome"] in _CHANGED
    }
    moved = {name for name, is_moved in zip(names, rows["moved"], strict=True) if is_moved}
    for name in dict.fromkeys(name for name in names if name in changed | moved):
        own = rows[[label == name for label in names]]
        total = float(own["one_ns"].sum())
        shown = own[own["difference_ns"].abs() >= _SMALLEST_SHOWN * total]
        if len(shown):
            yield CellCauses(
                name,
                tuple(_cause(row) for row in shown.to_dict("records")),
                units.milliseconds(total),
                units.milliseconds(float(own["other_ns"].sum())),
                units.milliseconds(float(own["difference_ns"].sum())),
            )


def _cause(row: FrameRow) -> CauseLine:
    return CauseLine(
        name=cause_name(row),
        first=units.milliseconds(row["one_ns"]),
        second=units.milliseconds(row["other_ns"]),
        difference=units.interval_of_unit(
            row["difference_ns"], row["low_ns"], row["high_ns"], "ns"
        ),
        moved=bool(row["moved"]),
    )


def _setting(row: FrameRow) -> str:
    text = f"{row['place']}: {row['name']}: {row['first'] or 'unset'} -> {row['second'] or 'unset'}"
    return f"{text} (not comparable)" if row["matters"] else text
