"""Conditions of a gate, such as ``step_time>2%``."""

import re
from collections.abc import Sequence

import pandas as pd

from hvdprof.errors import UsageError
from hvdprof.model.cell_key import cell_label
from hvdprof.model.results.comparison import METRICS, ComparisonOutcome, Condition, GateResult

_CONDITION = re.compile(
    r"\s*(?P<metric>[a-z0-9_]+)\s*(?P<sign>[<>])\s*(?P<value>[+-]?[0-9.]+)\s*(?P<unit>%|pt)\s*"
)
_EXAMPLES = "--fail-on 'step_time>2%', --fail-on 'efficiency<-2pt'"


def parse_condition(text: str) -> Condition:
    """A condition of a gate: a metric, ``>`` or ``<``, and the change that is accepted.

    Changes of times, rates and losses are in ``%``, those of ratios in ``pt`` (points).

    Raises:
        UsageError: It has another form, an unknown metric, the wrong unit, or asks to fail on an
            improvement.
    """
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"--fail-on {text!r} is not a condition.", hint=f"Examples: {_EXAMPLES}.")
    metric = next((metric for metric in METRICS if metric.name == match["metric"]), None)
    if metric is None:
        raise UsageError(
            f"--fail-on {text!r}: no metric is named {match['metric']!r}.",
            hint=f"Metrics: {', '.join(metric.name for metric in METRICS)}.",
        )
    sign, unit = (">", "<")[metric.worse < 0], "%" if metric.is_ratio else "pt"
    try:
        value = float(match["value"]) / 100
    except ValueError:
        raise UsageError(
            f"--fail-on {text!r}: {match['value']!r} is not a number.",
            hint=f"Examples: {_EXAMPLES}.",
        ) from None
    if match["sign"] != sign or match["unit"] != unit or value * metric.worse < 0:
        lead = "" if metric.worse > 0 else "-"
        raise UsageError(
            f"--fail-on {text!r}: {metric.title} is worse where it is "
            f"{'larger' if metric.worse > 0 else 'smaller'}, and changes in {unit}.",
            hint=f"--fail-on '{metric.name}{sign}{lead}2{unit}'",
        )
    if metric.is_ratio and metric.worse < 0 and abs(value) >= 1:
        raise UsageError(
            f"--fail-on {text!r}: {metric.title} cannot fall by 100 %.", hint=_EXAMPLES
        )
    return Condition(text.strip(), metric, abs(value))


def margins_of(conditions: Sequence[Condition], margin: float) -> dict[str, float]:
    """The margin of every metric: that of its condition, else the given one.

    Raises:
        UsageError: Two conditions are about the same metric.
    """
    margins = {metric.name: margin for metric in METRICS}
    seen: set[str] = set()
    for condition in conditions:
        if condition.metric.name in seen:
            raise UsageError(
                f"Two conditions are about {condition.metric.name}.",
                hint="Give one --fail-on for each metric.",
            )
        seen.add(condition.metric.name)
        margins[condition.metric.name] = condition.margin
    return margins


def gate_results(
    conditions: Sequence[Condition], cells: pd.DataFrame, pooled: pd.DataFrame
) -> tuple[GateResult, ...]:
    """What became of each condition: regressed where one cell, or their mean, did.

    Args:
        conditions: The conditions.
        cells: COMPARED_CELLS.
        pooled: COMPARED_POOLED.
    """
    return tuple(_result(condition, cells, pooled) for condition in conditions)


def _result(condition: Condition, cells: pd.DataFrame, pooled: pd.DataFrame) -> GateResult:
    name = condition.metric.name
    own = cells[cells["metric"] == name].to_dict("records")
    failing = tuple(cell_label(row) for row in own if row["outcome"] == ComparisonOutcome.REGRESSED)
    of_mean = pooled.loc[pooled["metric"] == name, "outcome"].tolist()
    if not failing and ComparisonOutcome.REGRESSED in of_mean:
        failing = ("the mean of all cells",)
    found = {str(row["outcome"]) for row in own}
    judged = {cell_label(row) for row in own if row["outcome"] != ComparisonOutcome.NOT_COMPARABLE}
    labels = dict.fromkeys(cell_label(row) for row in cells.to_dict("records"))
    apart = tuple(label for label in labels if label not in judged)
    if failing:
        outcome = ComparisonOutcome.REGRESSED
    elif found <= {ComparisonOutcome.NOT_COMPARABLE}:
        outcome = ComparisonOutcome.NOT_COMPARABLE
    else:
        outcome = (
            ComparisonOutcome.INCONCLUSIVE
            if ComparisonOutcome.INCONCLUSIVE in found
            else ComparisonOutcome.EQUAL
        )
    return GateResult(condition, outcome, failing, apart)
