"""Two runs side by side: what changed, by how much, and which cause moved."""

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from hvdprof.analyze.causes.waterfall_diff import waterfall_diff
from hvdprof.analyze.compare.cell_changes import margins_of, parse_condition
from hvdprof.analyze.compare.comparison import (
    ComparedSide,
    compare_sides,
    side_of_run,
    side_of_throughput,
)
from hvdprof.analyze.compare.history import history as history_of_sides
from hvdprof.analyze.scaling.throughput_scaling import throughput_scaling
from hvdprof.api.run_entries import list_runs
from hvdprof.api.runs import analyze_run
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.ingest.load import is_run_directory, read_scaling_text, small_text
from hvdprof.model.results.comparison import (
    DEFAULT_LEVEL,
    DEFAULT_MARGIN,
    FINAL_LOSS,
    METRICS,
    STEP_TIME,
    Comparison,
    ComparisonOutcome,
    GateResult,
    History,
    Rules,
)
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.log_tables import THROUGHPUT
from hvdprof.report.shown_result import shown

__all__ = [
    "Comparison",
    "ComparisonOutcome",
    "GateResult",
    "History",
    "compare",
    "histories_of_analyses",
    "history",
    "waterfall_diff",
]

_ATTACH = "`hvdprof attach` makes a run directory of timelines, traces and logs."


def compare(
    first: str | Path | RunAnalysis,
    second: str | Path | RunAnalysis,
    *,
    margin: float = DEFAULT_MARGIN,
    fail_on: Sequence[str] = (),
    force: bool = False,
    level: float = DEFAULT_LEVEL,
) -> Comparison:
    """The comparison of two run directories, or tables of ranks and speeds.

    >>> compare("runs/example", "runs/sweep")
    Traceback (most recent call last):
    hvdprof.errors.NotComparableError: ...
    >>> print(compare("rates.csv", "faster.csv").outcome)
    inconclusive

    ``outcome`` is regressed, improved, equal, inconclusive or not comparable; ``sentence`` says it
    with the change that decides. ``cells`` has a row for each cell and metric, ``causes`` for each
    cause of lost time, ``settings`` for each setting that differs (docs/howto/compare.md).

    Args:
        first: The run that the other is compared with, its analysis, or a table as of
            ``scaling_of_text``.
        second: The other run, analysis or table.
        margin: Largest relative change, or difference of ratios, that does not matter.
        fail_on: Conditions of a gate, such as ``step_time>2%``; each sets the margin of its metric.
        force: Compare what is not comparable: other hosts, versions, batches, load.
        level: Accepted probability of a wrong outcome, one-sided.

    Raises:
        UsageError: A condition cannot be read, the margin is not between 0 and 1, or both are one.
        NotComparableError: Both have no cell in common.
        UnreadableInputError: A path holds nothing to compare.
    """
    rules = comparison_rules(margin, fail_on, force=force, level=level)
    one, other = (
        side.run.folder if isinstance(side, RunAnalysis) else Path(side) for side in (first, second)
    )
    if one.resolve() == other.resolve():
        raise UsageError(f"{one} is on both sides: a run equals itself.", hint="Name two runs.")
    return compare_by_rules(first, second, rules)


def history(
    runs: Sequence[str | Path], *, metric: str = STEP_TIME.name, margin: float = DEFAULT_MARGIN
) -> History:
    """A metric over a series of runs, with the runs from which on it changed.

    >>> history(["runs"], metric="step_time")
    Traceback (most recent call last):
    hvdprof.errors.UnreadableInputError: ...

    ``rows`` has a row for each cell and run in order of time: value, low, high, is_change, change.

    Args:
        runs: Run directories, or folders that hold some; runs without a result are left out.
        metric: The name of one of ``hvdprof.model.results.comparison.METRICS``.
        margin: Largest change that does not matter.

    Raises:
        UsageError: No metric has that name, or it cannot be followed over runs.
        UnreadableInputError: Fewer than two runs, or no cell in two of them.
    """
    followed = next(
        (choice for choice in METRICS if choice.name == metric and choice is not FINAL_LOSS), None
    )
    if followed is None:
        known = ", ".join(metric.name for metric in METRICS if metric is not FINAL_LOSS)
        raise UsageError(f"No metric to follow is named {metric!r}.", hint=f"Metrics: {known}.")
    _check_margin(margin)
    found = [folder.resolve() for path in runs for folder in _runs_in(Path(path))]
    folders = list(dict.fromkeys(found))
    if len(folders) < 2:
        raise UnreadableInputError(
            f"A history needs two runs; {', '.join(map(str, runs))} holds {len(folders)}.",
            hint="hvdprof history runs/",
        )
    return history_of_sides([_side(folder) for folder in folders], followed, margin)


def histories_of_analyses(
    analyses: Sequence[RunAnalysis], *, margin: float = DEFAULT_MARGIN
) -> dict[tuple[str, str], History]:
    """Every series of runs that are analyzed already, by model and name of the metric.

    A model and metric that fewer than two of the runs hold is left out.

    Args:
        analyses: The runs.
        margin: Largest change that does not matter.
    """
    sides = [_side_of(analysis) for analysis in analyses]
    models = dict.fromkeys(str(key[0]) for side in sides for key in side.cells)
    found = {}
    for model in models:
        of_model = [_of_model(side, model) for side in sides]
        own = [side for side in of_model if side.cells]
        for metric in METRICS:
            if metric is FINAL_LOSS:
                continue
            # Without a cell in two of the runs there is no series.
            with contextlib.suppress(UnreadableInputError):
                found[model, metric.name] = history_of_sides(own, metric, margin)
    return found


def _of_model(side: ComparedSide, model: str) -> ComparedSide:
    own = {key: cell for key, cell in side.cells.items() if key[0] == model}
    return dataclasses.replace(side, cells=own)


def _runs_in(path: Path) -> list[Path]:
    if is_run_directory(path):
        return [path]
    return [entry.folder for entry in list_runs(path) if not entry.problem]


def comparison_rules(
    margin: float, fail_on: Sequence[str], *, force: bool, level: float = DEFAULT_LEVEL
) -> Rules:
    """The rules of a comparison; the arguments are those of ``compare``.

    Raises:
        UsageError: A condition cannot be read, two are about one metric, or the margin is not
            between 0 and 1.
    """
    _check_margin(margin)
    conditions = tuple(parse_condition(text) for text in fail_on)
    margins_of(conditions, margin)
    return Rules(margin, conditions, is_forced=force, level=level)


def compare_by_rules(
    first: str | Path | RunAnalysis, second: str | Path | RunAnalysis, rules: Rules
) -> Comparison:
    """The same as ``compare`` by rules that are checked already.

    Raises:
        NotComparableError: Both have no cell in common.
        UnreadableInputError: A path holds nothing to compare.
    """
    return shown(compare_sides(_side(first), _side(second), rules))


def _check_margin(margin: float) -> None:
    if not 0 < margin < 1:
        raise UsageError(
            f"A margin of {100 * margin:g} % is not between 0 and 100 %.", hint="--margin 2%"
        )


def _side(given: str | Path | RunAnalysis) -> ComparedSide:
    if isinstance(given, RunAnalysis):
        return _side_of(given)
    path = Path(given)
    if is_run_directory(path):
        return _side_of(analyze_run(path))
    if path.is_dir():
        raise UnreadableInputError(
            f"{path} is not a run directory: it holds no manifest.json.", hint=_ATTACH
        )
    lines = small_text(path).splitlines()
    try:
        text = read_scaling_text(lines, name=str(path), unit=None, strong=False)
    except UnreadableInputError as error:
        error.hint = f"{error.hint} {_ATTACH}"
        raise
    scaling = throughput_scaling(text.throughput, repeats=True)
    return side_of_throughput(str(path), scaling, text.throughput)


def _side_of(analysis: RunAnalysis) -> ComparedSide:
    throughput = analysis.run.table(THROUGHPUT.name)
    if analysis.scaling.empty and len(throughput):
        # An attached job: no recorder watched it, but it printed its speed.
        scaling = throughput_scaling(throughput, repeats=True)
        return side_of_throughput(analysis.run.shown_name, scaling, throughput)
    return side_of_run(analysis)
