"""A comparison as sections, for every format that readers see."""

from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name, code_place
from hvdprof.model.cell_key import cell_label
from hvdprof.model.results.comparison import (
    FINAL_LOSS,
    METRICS,
    THROUGHPUT,
    Comparison,
    ComparisonOutcome,
    GateResult,
    change_text,
)
from hvdprof.report.sections.section import Head, Page, Section, Tone

_METRIC_OF = {metric.name: metric for metric in METRICS}
_CHANGED = (ComparisonOutcome.REGRESSED, ComparisonOutcome.IMPROVED)
_SMALLEST_SHOWN = 0.0005
"""A cause that moved by less than this share of the step is not shown."""

_TONES: dict[ComparisonOutcome, Tone] = {
    ComparisonOutcome.REGRESSED: "bad",
    ComparisonOutcome.IMPROVED: "good",
    ComparisonOutcome.INCONCLUSIVE: "caution",
    ComparisonOutcome.NOT_COMPARABLE: "dim",
}
_CAUSE_HEADS = (
    Head("cause", is_text=True),
    *map(Head, ("first", "second", "difference (95 % CI)", "beyond\nchance")),
)


def comparison_page(comparison: Comparison) -> Page:
    """Verdict, gate, cells in order, what moved in those that changed most, and what differs."""
    sides = f"{comparison.first.name} (first) and {comparison.second.name} (second)"
    lists = {
        "Gate": tuple(map(gate_text, comparison.gate)),
        "Mean of all cells": tuple(_pooled(comparison)),
        "Lines of code beyond chance": line_texts(comparison),
        "What differs": setting_texts(comparison),
    }
    gate, pooled, lines, differs = (
        (Section(title, sentences=sentences),) if sentences else ()
        for title, sentences in lists.items()
    )
    numbers = (int(comparison.cells[f"num_{side}"].min()) for side in ("first", "second"))
    moved, unmoved = tuple(cause_sections(comparison)), no_cause_text(comparison.causes, *numbers)
    return Page(
        (
            Section(verdict=comparison.sentence, caveat=comparison.caveat, caption=sides),
            *gate,
            *cell_sections(comparison),
            *pooled,
            *(moved or ([Section("What moved", caption=unmoved)] if unmoved else [])),
            *lines,
            *differs,
        ),
        notes=comparison.notes,
    )


def no_cause_text(differences: pd.DataFrame, num_first: int, num_second: int) -> str:
    """What is known where no cause is significant; empty where none was recorded.

    Args:
        differences: Causes with the interval of their difference.
        num_first: Launches of the first run.
        num_second: Launches of the second run.
    """
    if differences.empty:
        return ""
    if differences[["low_ns", "high_ns"]].notna().to_numpy(dtype=bool).all(axis=1).any():
        return "No cause differs significantly."
    alone = "the first run" if num_first == 1 else "the second run"
    few = "one launch each" if num_first == num_second else f"one launch in {alone}"
    return f"Whether a cause differs is unknown: {few}."


def line_texts(comparison: Comparison) -> tuple[str, ...]:
    """A sentence on each line of code that became slower or faster."""
    return tuple(_code_line(row) for row in comparison.lines.to_dict("records"))


def _code_line(row: FrameRow) -> str:
    """A line that became slower or faster, with both its numbers where they differ."""
    function, numbers = str(row["function"]), (int(row["first_line"]), int(row["second_line"]))
    place = code_place(str(row["file"]), numbers[1] or numbers[0], function)
    moved = f", line {numbers[0]} before," if all(numbers) and len(set(numbers)) == 2 else ""
    value, low, high = (float(row[f"{name}_ns"]) for name in ("difference", "low", "high"))
    how, ends = ("slower", (value, low, high)) if value > 0 else ("faster", (-value, -high, -low))
    by = units.interval_of_unit(*ends, "ns")
    both = " -> ".join(units.milliseconds(float(row[name])) for name in ("one_ns", "other_ns"))
    return f"{cell_label(row)}, {row['phase']}: {place}{moved} is {how} by {by} per step, {both}"


def gate_text(result: GateResult) -> str:
    """One condition with its outcome: ``step_time>2%: failed by resnet18 on 2 ranks``."""
    if result.outcome is ComparisonOutcome.REGRESSED:
        return f"{result.condition.text}: failed by {', '.join(result.cells)}"
    shown = "passed" if result.outcome is ComparisonOutcome.EQUAL else result.outcome
    apart = f" (not judged: {', '.join(result.not_judged)})" if result.not_judged else ""
    return f"{result.condition.text}: {shown}{apart}"


def cell_sections(comparison: Comparison) -> Iterator[Section]:
    """A section for every cell, in order."""
    rows = comparison.cells
    names = [cell_label(row) for row in rows.to_dict("records")]
    change = f"change ({units.percent_limit(comparison.confidence)} CI)"
    heads = (
        Head("metric", is_text=True),
        *map(Head, ("first", "second", change)),
        Head("outcome", is_outcome=True),
    )
    for name in dict.fromkeys(names):
        own = rows[[label == name for label in names]].to_dict("records")
        first, shown = own[0], [row for row in own if _is_shown(row, comparison)]
        how = "pairs" if first["paired"] else "launches"
        counts = f"{first['num_first']} and {first['num_second']} {how}"
        is_refused = first["outcome"] == ComparisonOutcome.NOT_COMPARABLE
        # The verdict gives the reason that holds for the whole.
        is_news = is_refused and first["reason"] and first["reason"] != comparison.reason
        yield Section(
            name,
            f"{first['num_first']} pairs" if first["paired"] else counts,
            heads=heads,
            rows=tuple(map(_metric_row, shown)),
            sentences=(f"Not comparable: {first['reason']}.",) if is_news else (),
            tones=tuple(_TONES.get(ComparisonOutcome(row["outcome"]), "") for row in shown),
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


def _metric_row(row: FrameRow) -> tuple[str, ...]:
    metric = _METRIC_OF[str(row["metric"])]
    return (
        metric.title,
        units.of_unit(float(row["first"]), metric.unit),
        units.of_unit(float(row["second"]), metric.unit),
        change_text(row, metric),
        str(row["outcome"]),
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


def cause_sections(comparison: Comparison) -> Iterator[Section]:
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
        shown = own[own["difference_ns"].abs() >= _SMALLEST_SHOWN * float(own["one_ns"].sum())]
        if len(shown):
            yield Section(
                "What moved",
                name,
                "Time per step by cause; causes that are not shown are in the sum.",
                _CAUSE_HEADS,
                (*(_cause(row) for row in shown.to_dict("records")), _step_time(own)),
            )


def _cause(row: FrameRow) -> tuple[str, ...]:
    return (
        cause_name(row),
        units.milliseconds(row["one_ns"]),
        units.milliseconds(row["other_ns"]),
        units.interval_of_unit(row["difference_ns"], row["low_ns"], row["high_ns"], "ns"),
        "yes" if row["moved"] else "",
    )


def _step_time(causes: pd.DataFrame) -> tuple[str, ...]:
    sums = (float(causes[name].sum()) for name in ("one_ns", "other_ns", "difference_ns"))
    return ("sum: step time", *map(units.milliseconds, sums), "")


def setting_texts(comparison: Comparison) -> tuple[str, ...]:
    """What differs between both runs, a line each."""
    return tuple(_setting(row) for row in comparison.settings.to_dict("records"))


def _setting(row: FrameRow) -> str:
    text = f"{row['place']}: {row['name']}: {row['first'] or 'unset'} -> {row['second'] or 'unset'}"
    return f"{text} (not comparable)" if row["matters"] else text
