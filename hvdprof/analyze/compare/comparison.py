"""The comparison of two runs, or of two tables of throughputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pandas as pd

from hvdprof.analyze.compare.cell_changes import (
    changes_of,
    gate_results,
    margins_of,
    shared_cells,
    twins_apart,
)
from hvdprof.analyze.compare.cell_launches import ReadTimes, launch_times, no_times
from hvdprof.analyze.compare.compared_rows import Limits, compared_cells, compared_pooled
from hvdprof.analyze.compare.comparison_verdict import comparison_caveat, comparison_sentence
from hvdprof.analyze.compare.moved_causes import moved_causes
from hvdprof.analyze.compare.outcomes import overall
from hvdprof.analyze.compare.rank_changes import line_changes
from hvdprof.analyze.compare.setting_diffs import clock_reason, core_caveats, setting_diffs
from hvdprof.analyze.compare.sides import CellKey, SideCell, cells_of_run, cells_of_throughput
from hvdprof.analyze.verdict.caveats import carried_caveats
from hvdprof.errors import NotComparableError
from hvdprof.model.cell_key import CELL_KEY, cell_label
from hvdprof.model.results.comparison import (
    STEP_TIME,
    THROUGHPUT,
    Comparison,
    ComparisonOutcome,
    Metric,
    Rules,
    SideName,
)
from hvdprof.model.run import RunAnalysis, standing
from hvdprof.model.tables.comparison_tables import SETTING_DIFFS
from hvdprof.model.tables.line_tables import LINES
from hvdprof.rundir.manifest import Manifest, PassRecord
from hvdprof.rundir.stopping import look_level

OTHER_LOAD_CORES = 0.5
"""Cores that other processes kept busy more during one run than during the other."""


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """One side of a comparison.

    Attributes:
        name: Its name in texts; the path where both have the same.
        path: Where it lies.
        cells: Its measured cells.
        read_times: Gives the own times of some launches; none for a table of throughputs.
        manifest: The manifest of a run; None for a table.
        notes: What of it is missing.
        caveats: What limits its numbers, each after its name.
        lines: LINES of a run.
    """

    name: str
    path: str
    cells: Mapping[CellKey, SideCell]
    read_times: ReadTimes
    manifest: Manifest | None = None
    notes: Sequence[str] = ()
    caveats: Sequence[str] = ()
    lines: pd.DataFrame = field(default_factory=LINES.empty)


def side_of_run(analysis: RunAnalysis) -> ComparedSide:
    """An analysed run as one side of a comparison."""
    return ComparedSide(
        name=analysis.run.shown_name,
        path=str(analysis.run.folder),
        cells=cells_of_run(analysis),
        read_times=partial(launch_times, analysis),
        manifest=analysis.run.manifest,
        notes=tuple(_notes(analysis)),
        caveats=[f"{analysis.run.shown_name}: {note.text}" for note in carried_caveats(analysis)],
        lines=analysis.table(LINES.name),
    )


def side_of_throughput(name: str, scaling: pd.DataFrame, throughput: pd.DataFrame) -> ComparedSide:
    """A table of throughputs as one side of a comparison.

    Args:
        name: Its name in texts.
        scaling: Its rows of THROUGHPUT_SCALING.
        throughput: Its rows of THROUGHPUT; several of one size are repeats.
    """
    cells = cells_of_throughput(scaling, throughput)
    return ComparedSide(name, name, cells, no_times)


def compare_sides(first: ComparedSide, second: ComparedSide, rules: Rules) -> Comparison:
    """The comparison of two sides.

    1.  Cells of the same names are pairs; what differs besides forbids the comparison of some.
    2.  The change of every metric of every pair, held against its margin.
    3.  The mean change over all cells, and the outcome of the whole.
    4.  The causes of lost time that moved, and the settings that differ.

    Args:
        first: The side that the other is compared with.
        second: The other side.
        rules: Margins, conditions and level.

    Raises:
        NotComparableError: Both have no cell in common.
    """
    if first.name == second.name:
        first, second = (replace(side, name=side.path) for side in (first, second))
    pairs, note = shared_cells(first.cells, second.cells)
    if not pairs:
        raise NotComparableError(
            f"{first.name} and {second.name} have no cell in common.",
            hint=f"{twins_apart(first.cells.values(), second.cells.values())}"
            "Compare runs that share a model and a number of ranks. "
            f"{first.name}: {_labels(first)}. {second.name}: {_labels(second)}.",
        )
    is_paired = _is_paired(first, second)
    rules = _with_level_of_looks(first, rules) if is_paired else rules
    diffs, whole = _differences(first, second, is_paired=is_paired)
    reasons = [_reason(pair, whole, rules) for pair in pairs]
    machines = ((_label(one), one.machine, other.machine) for one, other in pairs)
    changes = [list(changes_of(*pair, is_paired=is_paired)) for pair in pairs]
    limits = Limits(
        margins_of(rules.conditions, rules.margin),
        rules.level,
        frozenset(condition.metric.name for condition in rules.conditions),
    )
    cells = compared_cells(changes, reasons, limits)
    pooled = compared_pooled(changes, reasons, limits)
    metric = _deciding_metric(cells)
    outcome = overall(
        [ComparisonOutcome(text) for text in cells.loc[cells["metric"] == metric.name, "outcome"]],
        _pooled_outcome(pooled, metric),
    )
    carried = [
        *core_caveats(machines, (first.name, second.name), rules),
        *first.caveats,
        *second.caveats,
    ]
    alike = [pair for pair, reason in zip(pairs, reasons, strict=True) if not reason]
    causes = moved_causes(
        (first.read_times, second.read_times),
        alike,
        is_paired=is_paired,
        level=rules.level,
    )
    return Comparison(
        first=side_name(first),
        second=side_name(second),
        outcome=outcome,
        metric=metric,
        confidence=rules.confidence,
        sentence=comparison_sentence(outcome, metric, cells, pooled, causes),
        caveat=comparison_caveat(
            outcome,
            metric,
            cells,
            whole,
            rules,
            carried=carried,
        ),
        cells=cells,
        pooled=pooled,
        causes=causes,
        settings=diffs,
        gate=gate_results(rules.conditions, cells, pooled),
        notes=(*([note] if note else []), *first.notes, *second.notes, *_only(first, second)),
        lines=line_changes((first.lines, second.lines), alike, rules.level),
    )


def _is_paired(first: ComparedSide, second: ComparedSide) -> bool:
    """Whether the launches of both were interleaved, so that their repeats are pairs."""
    if first.manifest is None or second.manifest is None:
        return False
    return bool(first.manifest.paired_by) and first.manifest.paired_by == second.manifest.paired_by


def side_name(side: ComparedSide) -> SideName:
    """What a side is called, with its time and commit where known."""
    if side.manifest is None:
        return SideName(side.name)
    commit = (side.manifest.git or {}).get("commit")
    return SideName(side.name, side.manifest.created_at, str(commit or ""))


def _with_level_of_looks(side: ComparedSide, rules: Rules) -> Rules:
    """The rules of pairs, at the level of each look of the measurement that ended it."""
    repeats = side.manifest.settings.get("repeats") if side.manifest is not None else None
    level = min(rules.level, look_level(repeats)) if repeats else rules.level
    return replace(rules, level=level, is_paired=True)


def _differences(
    first: ComparedSide, second: ComparedSide, *, is_paired: bool
) -> tuple[pd.DataFrame, list[str]]:
    """SETTING_DIFFS, and why both are not comparable."""
    if first.manifest is None or second.manifest is None:
        return SETTING_DIFFS.empty(), []
    diffs = setting_diffs(first.manifest, second.manifest)
    return diffs, run_reasons(first.manifest, second.manifest, diffs, is_paired=is_paired)


def _reason(pair: tuple[SideCell, SideCell], whole: Sequence[str], rules: Rules) -> str:
    if rules.is_forced:
        return ""
    first, second = pair
    own = (cell_reason(first, second), clock_reason(first.machine, second.machine, rules))
    return "; ".join([*whole, *filter(None, own)])


def _deciding_metric(cells: pd.DataFrame) -> Metric:
    """Step time where both sides have it, else throughput: of tables, and of other batches."""
    return STEP_TIME if (cells["metric"] == STEP_TIME.name).any() else THROUGHPUT


def _pooled_outcome(pooled: pd.DataFrame, metric: Metric) -> ComparisonOutcome:
    found = pooled.loc[pooled["metric"] == metric.name, "outcome"].tolist()
    return ComparisonOutcome(found[0]) if found else ComparisonOutcome.INCONCLUSIVE


def _notes(analysis: RunAnalysis) -> Iterator[str]:
    """What of a run is missing in the comparison."""
    name = analysis.run.shown_name
    if stands := standing(analysis.run.manifest):
        yield f"{name} {stands}: what is measured so far is compared."
    for failed in analysis.failed:
        cell = {name: getattr(failed, name) for name in CELL_KEY}
        yield f"{name}: {cell_label(cell)} failed: {failed.reason}"


def _only(first: ComparedSide, second: ComparedSide) -> Iterator[str]:
    """The cells that one side alone has."""
    models = [{str(key[0]) for key in side.cells} for side in (first, second)]
    if not models[0] & models[1]:
        return
    for one, other in ((first, second), (second, first)):
        missing = [cell for key, cell in one.cells.items() if key not in other.cells]
        if missing:
            names = ", ".join(_label(cell) for cell in missing)
            yield f"Only {one.name} has {names}."


def _labels(side: ComparedSide) -> str:
    return "; ".join(_label(cell) for cell in side.cells.values()) or "no measured cell"


def _label(cell: SideCell) -> str:
    return cell_label(dict(zip(CELL_KEY, cell.key, strict=True)))


def run_reasons(
    first: Manifest, second: Manifest, diffs: pd.DataFrame, *, is_paired: bool = False
) -> list[str]:
    """Why two runs are not comparable; empty where they are.

    Args:
        first: The manifest of the first run.
        second: The manifest of the second run.
        diffs: SETTING_DIFFS of both.
        is_paired: Whether their launches were interleaved: other load then falls on both.
    """
    named = [
        f"{row['place']}: {row['name']} {row['first'] or 'unset'} and {row['second'] or 'unset'}"
        for row in diffs[diffs["matters"]].to_dict("records")
    ]
    return named if is_paired else [*named, *_other_load(first, second)]


def cell_reason(first: SideCell, second: SideCell) -> str:
    """Why a cell of two runs is not comparable; empty where it is."""
    names = [name for name in first.conditions if name in second.conditions]
    differing = [
        f"{name} {_shown(first.conditions[name])} and {_shown(second.conditions[name])}"
        for name in names
        if first.conditions[name] != second.conditions[name]
    ]
    return "; ".join(differing)


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _other_load(first: Manifest, second: Manifest) -> Iterator[str]:
    loads = [_mean_load(manifest.passes) for manifest in (first, second)]
    known = [load for load in loads if load is not None]
    if len(known) == 2 and abs(known[1] - known[0]) > OTHER_LOAD_CORES:
        yield f"other load: other processes kept {known[0]:.1f} and {known[1]:.1f} cores busy"


def _mean_load(passes: list[PassRecord]) -> float | None:
    known = [record.other_cpu_cores for record in passes if record.other_cpu_cores is not None]
    return sum(known) / len(known) if known else None
