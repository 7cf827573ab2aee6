"""The change of each metric of the cells of two sides, and the conditions of a gate on them."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.compare.outcomes import Design
from hvdprof.analyze.compare.sides import CellKey, SideCell
from hvdprof.analyze.scaling.toggles import loss_before
from hvdprof.analyze.stats.uncertainty import NAN, Spread, less, spread
from hvdprof.errors import UsageError
from hvdprof.model.cell_key import cell_label
from hvdprof.model.results.comparison import (
    EFFICIENCY,
    FINAL_LOSS,
    METRICS,
    STEP_TIME,
    ComparisonOutcome,
    Condition,
    GateResult,
    Metric,
)
from hvdprof.rundir.plan import KERAS_TWIN

_CONDITION = re.compile(
    r"\s*(?P<metric>[a-z0-9_]+)\s*(?P<sign>[<>])\s*(?P<value>[+-]?[0-9.]+)\s*(?P<unit>%|pt)\s*"
)
_EXAMPLES = "--fail-on 'step_time>2%', --fail-on 'efficiency<-2pt'"


@dataclass(frozen=True, slots=True)
class CellChange:
    """One metric of one cell: its values, and its change, positive where the metric is larger."""

    key: CellKey
    metric: Metric
    first: float
    second: float
    change: Spread
    design: Design
    differences: Mapping[int, float]


def shared_cells(
    first: Mapping[CellKey, SideCell], second: Mapping[CellKey, SideCell]
) -> tuple[list[tuple[SideCell, SideCell]], str]:
    """The pairs of cells with the same names, and a note on how they were matched.

    Two scripts that differ in their name alone are matched: where no cell is shared and each side
    has one model, cells of the same number of ranks and toggles belong together.
    """
    pairs = [(cell, second[key]) for key, cell in first.items() if key in second]
    if pairs:
        return pairs, ""
    models = [{str(key[0]) for key in side} for side in (first, second)]
    if any(len(names) != 1 for names in models):
        return [], ""
    by_rest = {key[1:]: cell for key, cell in second.items()}
    pairs = [(cell, by_rest[key[1:]]) for key, cell in first.items() if key[1:] in by_rest]
    (one,), (other,) = models
    return pairs, f"{one} of the first run is compared with {other} of the second."


def twins_apart(first: Iterable[SideCell], second: Iterable[SideCell]) -> str:
    """Why no cell is shared where one side trained Keras twins of the other's models, else ""."""
    models = [{cell.name[0] for cell in side} for side in (first, second)]
    for some, others in (models, models[::-1]):
        for name in sorted(some):
            if KERAS_TWIN + name in others:
                return (
                    f"{KERAS_TWIN}{name} is the twin of {name} in Keras: other code under another "
                    "framework, so their step times differ by more than the engine. Compare runs "
                    "of one framework, and read the efficiencies of these two side by side. "
                )
    return ""


def changes_of(first: SideCell, second: SideCell, *, is_paired: bool) -> Iterator[CellChange]:
    """The changes of all metrics that both sides have, in the order of ``METRICS``.

    Args:
        first: The cell of the first run.
        second: The same cell of the second.
        is_paired: Whether the launches of both runs were interleaved: repeats are pairs.
    """
    for metric in METRICS:
        if metric is FINAL_LOSS:
            yield from _loss_change(first, second)
            continue
        sides = [side.spreads.get(metric.name) for side in (first, second)]
        if sides[0] is None or sides[1] is None or _is_left_out(metric, first, second):
            continue
        differences = _differences(first, second, metric) if is_paired else {}
        if len(differences) > 1:
            change = spread(list(differences.values()))
        else:
            change = less(sides[1], sides[0])
            if metric is EFFICIENCY and not (_is_spread_known(first) and _is_spread_known(second)):
                # The spread of its steps alone, not that of launches, as with the step time.
                change = Spread(change.value, NAN, 0.0)
        scale = math.exp if metric.is_ratio else float
        yield CellChange(
            first.key,
            metric,
            scale(sides[0].value),
            scale(sides[1].value),
            change,
            _design(first, second, differences),
            differences if len(differences) > 1 else {},
        )


def _is_spread_known(side: SideCell) -> bool:
    own = side.spreads.get(STEP_TIME.name)
    return own is None or not math.isnan(own.variance)


def _design(first: SideCell, second: SideCell, differences: Mapping[int, float]) -> Design:
    if len(differences) > 1:
        return Design(len(differences), len(differences), True)
    return Design(first.num_launches, second.num_launches, False)


def pooled_change(changes: list[CellChange]) -> Spread:
    """The mean change of several cells, each with the same weight.

    Cells that were measured in pairs share the conditions of a repeat, so their mean is taken per
    repeat. Otherwise all cells of a run share the state of the machine at its time: their errors
    count as equal in sign, which is the widest interval.
    """
    repeats = [set(change.differences) for change in changes]
    common = set.intersection(*repeats)
    if len(common) > 1:
        return spread(
            [
                float(np.mean([change.differences[repeat] for change in changes]))
                for repeat in sorted(common)
            ]
        )
    value = float(np.mean([change.change.value for change in changes]))
    error = float(np.mean([math.sqrt(change.change.variance) for change in changes]))
    return Spread(value, error**2, min(change.change.degrees for change in changes))


def _is_left_out(metric: Metric, first: SideCell, second: SideCell) -> bool:
    """Whether a metric says nothing: efficiencies of other baselines, steps of other batches."""
    if metric is EFFICIENCY:
        return first.baseline != second.baseline
    samples = [side.conditions.get("samples per rank and step") for side in (first, second)]
    return metric is STEP_TIME and samples[0] != samples[1]


def _differences(first: SideCell, second: SideCell, metric: Metric) -> dict[int, float]:
    one, other = (side.by_repeat.get(metric.name, {}) for side in (first, second))
    return {repeat: other[repeat] - one[repeat] for repeat in one if repeat in other}


def _loss_change(first: SideCell, second: SideCell) -> Iterator[CellChange]:
    """The final loss after the samples that all launches of both sides have trained on."""
    curves = [*first.losses, *second.losses]
    if not first.losses or not second.losses:
        return
    num_samples = min(float(seen[-1]) for seen, _ in curves)
    sides = [
        spread([_log_loss(*curve, num_samples) for curve in side.losses])
        for side in (first, second)
    ]
    if any(math.isnan(side.value) for side in sides):
        return
    yield CellChange(
        first.key,
        FINAL_LOSS,
        math.exp(sides[0].value),
        math.exp(sides[1].value),
        less(sides[1], sides[0]),
        Design(first.num_launches, second.num_launches, False),
        {},
    )


def _log_loss(seen: NDArray[np.float64], loss: NDArray[np.float64], num_samples: float) -> float:
    mean = loss_before(seen, loss, num_samples)
    return math.log(mean) if mean > 0 else NAN


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
