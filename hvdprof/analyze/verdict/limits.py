"""Limits of one run, such as ``efficiency<80%``: failed, passed, or not decided."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.evidence import Cell, Evidence
from hvdprof.analyze.verdict.busy_machine import is_too_busy
from hvdprof.errors import UsageError
from hvdprof.model.arrays import FrameRow
from hvdprof.model.causes import (
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    INPUT_BOUND,
    JITTER,
    OUTSIDE_PHASES,
    STRAGGLER,
)
from hvdprof.model.cell_key import LAUNCH, cell_label
from hvdprof.model.limits import LimitOutcome, LimitResult
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT
from hvdprof.model.tables.waterfall_tables import WATERFALL

EFFICIENCY = "efficiency"

TERM_OF = {
    "straggler": STRAGGLER,
    "exposed_communication": EXPOSED_TRANSFER,
    "input": INPUT_BOUND,
    "jitter": JITTER,
    "outside": OUTSIDE_PHASES,
    "compute_slowdown": COMPUTE_INFLATION,
}
"""Shares of the mean step, and their rows in WATERFALL; of several stragglers the costliest."""

LEAST_NAMED = 0.05
"""Ranks that cost less than this share of the step are not named as stragglers."""

_LIMIT = re.compile(
    r"\s*(?P<name>[a-z_]+)\s*(?P<sign>[<>])\s*(?P<value>[0-9]+(?:\.[0-9]+)?)\s*%\s*"
)
_TOO_BUSY = "the machine is too busy to judge"
_MORE_LAUNCHES = "Measure with --repeats 3, or more."
_EXAMPLES = "--fail-on 'efficiency<80%', --fail-on 'straggler>10%'"


@dataclass(frozen=True, slots=True)
class _Limit:
    text: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class _Measured:
    """A share of a cell with its interval; ``note`` says why it has none."""

    cell: str
    value: float
    low: float
    high: float
    note: str = ""

    @property
    def shown(self) -> str:
        """``resnet18 on 2 ranks: 62 % (58 to 66)``."""
        share = units.percent_interval(self.value, self.low, self.high)
        return f"{self.cell}: {self.note or share}"


def limit_results(analysis: RunAnalysis, limits: Sequence[str]) -> tuple[LimitResult, ...]:
    """What became of each limit.

    A limit fails where the whole 95 % interval of one cell lies beyond it, passes where those
    of all cells lie on its other side, and is else undecided, as is every one of a single launch,
    which has no interval, and of a cell that other processes leave without an answer. Cells with
    more ranks than cores or GPUs are not judged.

    Args:
        analysis: The run.
        limits: Such as ``efficiency<80%`` or ``straggler>10%``: ``efficiency``, or a share of the
            mean step of ``TERM_OF``.

    Raises:
        UsageError: One of them has another form, or an unknown quantity.
    """
    parsed = [_parsed(limit) for limit in limits]
    return tuple(_result(limit, _measured(analysis, limit.name)) for limit in parsed)


def file_limit_results(scaling: pd.DataFrame, limits: Sequence[str]) -> tuple[LimitResult, ...]:
    """What became of each limit by the throughputs of files, which decide ``efficiency`` alone.

    Args:
        scaling: THROUGHPUT_SCALING of the files, rows of one size as repeats.
        limits: As for runs.

    Raises:
        UsageError: One of them has another form, or the files do not show its quantity.
    """
    parsed = [_parsed(limit) for limit in limits]
    rows = scaling[(scaling["np"] != scaling["baseline_np"]).fillna(False).to_numpy(bool)]
    for limit in parsed:
        if limit.name != EFFICIENCY:
            raise UsageError(
                f"--fail-on {limit.text!r}: files of other tools hold no steps of every rank.",
                hint="Record them: hvdprof run --np 1,2,4 -- python train.py",
            )
        if rows.empty:
            raise UsageError(
                f"--fail-on {limit.text!r}: these files show no throughput of several rank counts.",
                hint="Give the output of each size, or a table of (np, samples/s).",
            )
    return tuple(_result(limit, _of_throughputs(rows)) for limit in parsed)


def _of_throughputs(rows: pd.DataFrame) -> Iterator[_Measured]:
    for row in rows.to_dict("records"):
        cell = " on ".join(filter(None, (row["series"], units.counted(row["np"], "rank"))))
        value, low, high = (float(row[f"efficiency{end}"]) for end in ("", "_low", "_high"))
        note = "a single number has no interval" if math.isnan(low) else ""
        yield _Measured(cell, value, low, high, note)


def _parsed(text: str) -> _Limit:
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise UsageError(f"--fail-on {text!r} is no limit.", hint=f"Examples: {_EXAMPLES}.")
    name = match["name"]
    known = (EFFICIENCY, *TERM_OF)
    if name not in known:
        raise UsageError(
            f"--fail-on {text!r}: nothing is called {name!r}.", hint=f"One of {', '.join(known)}."
        )
    sign = "<" if name == EFFICIENCY else ">"
    if match["sign"] != sign:
        raise UsageError(
            f"--fail-on {text!r}: {name} is worse where it is "
            f"{'smaller' if sign == '<' else 'larger'}.",
            hint=f"--fail-on '{name}{sign}{match['value']}%'",
        )
    return _Limit(text.strip(), name, float(match["value"]) / 100)


def _result(limit: _Limit, measured: Iterator[_Measured]) -> LimitResult:
    of_outcome: dict[LimitOutcome, list[_Measured]] = {one: [] for one in LimitOutcome}
    for one in measured:
        of_outcome[_outcome(one, limit)].append(one)
    # The worst of them decides.
    order = (LimitOutcome.FAILED, LimitOutcome.UNDECIDED, LimitOutcome.PASSED)
    outcome = next((one for one in order if of_outcome[one]), None)
    if outcome is None:
        none = "no cell is judged (more ranks than cores or GPUs, or only the baseline)"
        return LimitResult(limit.text, LimitOutcome.UNDECIDED, none)
    cells = "; ".join(one.shown for one in of_outcome[outcome])
    # More launches narrow the interval of what was measured, and nothing else.
    is_open = outcome is LimitOutcome.UNDECIDED
    is_known = is_open and any(not math.isnan(one.value) for one in of_outcome[outcome])
    return LimitResult(limit.text, outcome, cells, _MORE_LAUNCHES if is_known else "")


def _outcome(one: _Measured, limit: _Limit) -> LimitOutcome:
    # Comparisons with NaN are false: without an interval nothing is decided.
    low, high, bound = one.low, one.high, limit.value
    if limit.name == EFFICIENCY:
        low, high, bound = -high, -low, -bound
    if low > bound:
        return LimitOutcome.FAILED
    return LimitOutcome.PASSED if high <= bound else LimitOutcome.UNDECIDED


def _measured(analysis: RunAnalysis, name: str) -> Iterator[_Measured]:
    tables = {one: analysis.table(one) for one in (SCALING.name, WATERFALL.name)}
    evidence = Evidence(analysis.run, tables)
    for cell in evidence.cells():
        is_baseline = cell["baseline"] == f"{cell['engine']} np={cell['np']}"
        if is_too_busy(analysis.run, cell) and not (name == EFFICIENCY and is_baseline):
            yield _Measured(cell_label(cell), math.nan, math.nan, math.nan, _TOO_BUSY)
            continue
        if name == EFFICIENCY:
            if not is_baseline:
                yield _of_row(cell, cell, EFFICIENCY, "no baseline to compare with")
            continue
        causes = evidence.causes_of(cell)
        rows = [row for row in causes if row["term"] == TERM_OF[name]]
        if rows:
            worst = max(rows, key=lambda row: float(row["share"]))
            yield _of_row(cell, worst, "share", "unknown")
        elif not causes:
            yield _Measured(cell_label(cell), math.nan, math.nan, math.nan, "no recorded steps")
        elif name == "straggler":
            yield _of_no_straggler(analysis, evidence, cell)
        elif not is_baseline:
            yield _Measured(cell_label(cell), math.nan, math.nan, math.nan, "not recorded")


def _of_row(cell: Cell, row: FrameRow | Cell, column: str, missing: str) -> _Measured:
    value, low, high = (float(row[f"{column}{end}"]) for end in ("", "_low", "_high"))
    note = missing if math.isnan(value) else _without_interval(cell, low)
    return _Measured(cell_label(cell), value, low, high, note)


def _of_no_straggler(analysis: RunAnalysis, evidence: Evidence, cell: Cell) -> _Measured:
    """At most what a rank costs that is not named: by chance, or a straggler all the same."""
    rows = evidence.rows_of(analysis.table(CAUSED_WAIT.name), cell)
    launches = evidence.rows_of(analysis.launches, cell).merge(rows[LAUNCH].drop_duplicates())
    by_rank = rows.groupby("rank")["cost_ns"].mean() / launches["step_time_ns"].mean()
    most = float(by_rank.max()) if len(by_rank) else 0.0
    none = f"no rank is named (from {units.percent(LEAST_NAMED, 0)} of the step on)"
    if most > LEAST_NAMED:
        share = units.percent(most, 0)
        none = f"no rank is named, but rank {by_rank.idxmax()} costs {share}, perhaps by chance"
    return _Measured(cell_label(cell), 0.0, 0.0, max(most, LEAST_NAMED), none)


def _without_interval(cell: Cell, low: float) -> str:
    if not math.isnan(low):
        return ""
    return "one launch has no interval" if cell["num_launches"] == 1 else "the interval is unknown"
