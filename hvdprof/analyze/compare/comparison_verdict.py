"""The verdict of a comparison in at most two sentences, and its caveat."""

from collections.abc import Iterator, Sequence

import pandas as pd

from hvdprof import units
from hvdprof.analyze.compare.outcomes import MOST_LAUNCHES
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.cause_names import change_sentence
from hvdprof.model.cell_key import CELL_KEY, TORCH_ENGINE, cell_label
from hvdprof.model.results.comparison import (
    FINAL_LOSS,
    METRICS,
    ComparisonOutcome,
    Metric,
    Rules,
    change_text,
)

FEW_LAUNCHES = 3
"""Fewer launches a side hardly show how much launches differ."""

_CHANGED = (ComparisonOutcome.REGRESSED, ComparisonOutcome.IMPROVED)


def comparison_sentence(
    outcome: ComparisonOutcome,
    metric: Metric,
    cells: pd.DataFrame,
    pooled: pd.DataFrame,
    causes: pd.DataFrame,
) -> str:
    """The verdict: the outcome with the change that decides it, and what moved or what to do.

    Args:
        outcome: The outcome of the whole.
        metric: The metric that decides.
        cells: COMPARED_CELLS.
        pooled: COMPARED_POOLED.
        causes: MOVED_CAUSES.
    """
    of_metric = cells[cells["metric"] == metric.name]
    if outcome is ComparisonOutcome.NOT_COMPARABLE:
        reason = of_metric["reason"].iloc[0]
        anyhow = "To compare them nevertheless: --force, or force=True in Python."
        return f"{outcome.upper()}: {reason}. {anyhow}"
    rows = of_metric[of_metric["outcome"] != ComparisonOutcome.NOT_COMPARABLE].to_dict("records")
    also = _also(cells)
    if outcome is ComparisonOutcome.EQUAL:
        margin = units.percent_limit(float(rows[0]["margin"]))
        which = cell_label(rows[0]) if len(rows) == 1 else f"all {len(rows)} cells"
        largest = change_text(max(rows, key=_size), metric)
        text = f"{metric.title} of {which} within {margin}, largest change: {largest}{also}."
    elif outcome is ComparisonOutcome.INCONCLUSIVE:
        text = _inconclusive(rows, metric, causes, also)
    else:
        text = _decided(outcome, metric, rows, pooled, causes)
    return f"{outcome.upper()}: {text}"


def _also(cells: pd.DataFrame) -> str:
    """The other metric that is decided where the deciding one is not; empty without one."""
    for metric in METRICS:
        own = cells[(cells["metric"] == metric.name) & cells["outcome"].isin(_CHANGED)]
        if len(own) and metric is not FINAL_LOSS:
            row = max(own.to_dict("records"), key=_size)
            change = f"{row['outcome']}, {change_text(row, metric)}"
            return f"; {metric.title} of {cell_label(row)} {change}"
    return ""


def comparison_caveat(
    outcome: ComparisonOutcome,
    metric: Metric,
    cells: pd.DataFrame,
    reasons: Sequence[str],
    rules: Rules,
    *,
    carried: Sequence[str] = (),
) -> str:
    """What limits the verdict; empty where nothing does.

    Args:
        outcome: The outcome of the whole.
        metric: The metric that decides.
        cells: COMPARED_CELLS.
        reasons: Why the runs are not comparable.
        rules: The rules of the comparison.
        carried: The caveats of both runs, each with their names.
    """
    if outcome is ComparisonOutcome.NOT_COMPARABLE:
        return ""
    return " ".join([*_caveats(metric, cells, reasons, rules), *carried])


def _caveats(
    metric: Metric, cells: pd.DataFrame, reasons: Sequence[str], rules: Rules
) -> Iterator[str]:
    if rules.is_forced and reasons:
        yield f"Compared by force although they differ in {'; '.join(reasons)}."
    of_metric = cells[cells["metric"] == metric.name]
    rows = of_metric[of_metric["outcome"] != ComparisonOutcome.NOT_COMPARABLE].to_dict("records")
    left_out = cells[cells["outcome"] == ComparisonOutcome.NOT_COMPARABLE].to_dict("records")
    if left_out:
        names = ", ".join(dict.fromkeys(cell_label(row) for row in left_out))
        yield f"Not compared: {names} ({left_out[0]['reason']})."
    if not rules.is_paired:
        yield from _of_machine(rows, metric)
    fewest = min(min(row["num_first"], row["num_second"]) for row in rows)
    if 1 < fewest < FEW_LAUNCHES:
        yield f"Some cells have {fewest} launches a side: measure at least {FEW_LAUNCHES}."


def _of_machine(rows: Sequence[FrameRow], metric: Metric) -> Iterator[str]:
    """What a drift of the machine between both runs does: plain torch shows it, if measured."""
    changed = [
        row
        for row in rows
        if row["engine"] == TORCH_ENGINE and not row["change_low"] <= 0 <= row["change_high"]
    ]
    if changed and not is_missing(changed[0]["change_low"]):
        row = max(changed, key=_size)
        yield (
            f"Without Horovod, {row['model']} changed as well, by "
            f"{change_text(row, metric)}: the machine or torch may have changed. Compare "
            "efficiencies, or measure both interleaved."
        )
    else:
        yield "Measured one after the other: a drift of the machine counts as a change."


def _inconclusive(rows: Sequence[FrameRow], metric: Metric, causes: pd.DataFrame, also: str) -> str:
    """The open cell of most ranks; what moved in it nevertheless, and what would decide."""
    own = [row for row in rows if row["outcome"] == ComparisonOutcome.INCONCLUSIVE]
    row = max(own, key=lambda row: (int(row["np"]), _size(row)))
    text = f"{cell_label(row)}: {metric.title} {change_text(row, metric)}{also}"
    if row["reason"]:
        return f"{text}. {row['reason'][0].upper()}{row['reason'][1:]}: measure at least 3."
    needed = None if is_missing(row["launches_needed"]) else int(row["launches_needed"])
    moved = _moved(causes, row)
    if moved:
        would = "" if needed is None else f"; about {needed} launches a side would decide"
        return f"{text}{would}. {change_sentence(max(moved, key=_difference))}"
    if is_missing(row["detectable"]):
        return f"{text}. The uncertainty of this change is unknown: measure more launches a side."
    detects = units.two_digit_percent(float(row["detectable"]))
    text = f"{text}. These launches detect a change of {detects}"
    if needed is None:
        return f"{text}: {MOST_LAUNCHES:,} launches a side would not decide either."
    return f"{text}: about {needed} launches a side would decide."


def _decided(
    outcome: ComparisonOutcome,
    metric: Metric,
    rows: Sequence[FrameRow],
    pooled: pd.DataFrame,
    causes: pd.DataFrame,
) -> str:
    own = [row for row in rows if row["outcome"] == outcome]
    if not own:
        (mean,) = pooled[pooled["metric"] == metric.name].to_dict("records")
        return (
            f"{metric.title} {change_text(mean, metric)}, mean of {mean['num_cells']} cells. "
            "No cell alone decides."
        )
    # What plain torch does says how the machine changed, not the job; the caveat has it.
    worst = max(own, key=lambda row: (row["engine"] != TORCH_ENGINE, _size(row)))
    others = f" (and {len(own) - 1} more cells)" if len(own) > 1 else ""
    first = f"{cell_label(worst)}{others}: {metric.title} {change_text(worst, metric)}."
    return " ".join([first, *_largest_cause(causes, worst)])


def _largest_cause(causes: pd.DataFrame, row: FrameRow) -> Iterator[str]:
    """The cause that moved most in the direction of the change, where one moved."""
    sign = 1 if row["change"] > 0 else -1
    moved = [cause for cause in _moved(causes, row) if sign * cause["difference_ns"] > 0]
    if moved:
        yield change_sentence(max(moved, key=_difference))


def _moved(causes: pd.DataFrame, row: FrameRow) -> list[FrameRow]:
    """The causes of a cell that moved."""
    own = causes[causes["moved"]]
    for name in CELL_KEY:
        own = own[own[name] == row[name]]
    return list(own.to_dict("records"))


def _difference(row: FrameRow) -> float:
    return abs(float(row["difference_ns"]))


def _size(row: FrameRow) -> float:
    return abs(float(row["change"]))
