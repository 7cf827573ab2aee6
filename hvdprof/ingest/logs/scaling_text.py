"""A scaling table that a user typed or exported: numbers of ranks and the rate of each.

Tested in ``tests/cli/test_scaling.py``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.ingest.logs.throughput_table import ThroughputTable
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.model.tables.log_tables import THROUGHPUT

SAMPLES_PER_S, STEPS_PER_S, S_PER_STEP, MS_PER_STEP = "samples/s", "steps/s", "s/step", "ms/step"
SPEED_UP = "speed-up"
UNITS = (SAMPLES_PER_S, STEPS_PER_S, S_PER_STEP, MS_PER_STEP, SPEED_UP)

_PAIRS = re.compile(r"^(?:\s*\d{1,7}\s*:\s*\d+(?:\.\d+)?[\s,;]*)+$")
_PAIR = re.compile(r"(\d+)\s*:\s*(\d+(?:\.\d+)?)")
_ROW = re.compile(r"^[\s|*]*\d+[\s*]*[,;:|\t ]")

_ABOVE_ZERO = re.compile(r"^(?=.*[1-9])\d[\d, ]*(?:\.\d+)?(?:e[+-]?\d+)?x?$")
_MOST_SKIPPED = 3
_MOST_SHOWN = 60
_MOST_NAMES = 8

_STEP = r"(?:steps?|iterations?|iters?|its?|batch(?:es)?)"
_PER = r"_?(?:/|per|_per)_?"
_TIME = r"(?:(?:step|iteration|batch)_?)?time"
_COLUMNS: dict[str, re.Pattern[str] | None] = {
    SAMPLES_PER_S: None,
    STEPS_PER_S: re.compile(rf"^{_STEP}{_PER}(?:s|sec|second)\b"),
    MS_PER_STEP: re.compile(rf"^(?:(?:ms|milliseconds){_PER}{_STEP}|{_TIME}_?\(?_?ms(?:ec)?\)?$)"),
    S_PER_STEP: re.compile(
        rf"^(?:(?:s|sec|seconds){_PER}{_STEP}|{_TIME}(?:_?\(?_?s(?:ec(?:onds)?)?\)?)?$)"
    ),
    SPEED_UP: re.compile(r"^speed_?up\b"),
}
_ANY_STEPS = re.compile(
    "|".join(one.pattern for name, one in _COLUMNS.items() if one and name != SPEED_UP)
)


@dataclass(frozen=True, slots=True)
class ScalingText:
    """A scaling table of a user.

    ``throughput`` holds rows of THROUGHPUT whose rates compare sizes; ``unit`` is what was given,
    one of ``UNITS``: only with samples/s are they samples per second. ``notes`` say what was
    omitted or assumed.
    """

    throughput: pd.DataFrame
    unit: str
    notes: tuple[str, ...] = ()


def read_scaling_text(
    lines: Iterable[str], *, name: str, unit: str | None = None, strong: bool = False
) -> ScalingText:
    """A table in CSV, tab-separated, Markdown, or pairs such as ``8:6679 16:12828``.

    Steps and times of steps become rates of the whole job: under weak scaling every rank brings a
    batch of its own to a step, so the job's rate is the steps times the ranks (in batches
    per second); under strong scaling a step is the same work at every size. Speed-ups without a row
    of 1 are taken against one rank, which becomes a row.

    Args:
        lines: The text.
        name: What messages and rows call it.
        unit: One of ``UNITS``; where not given, the name of the column decides, and columns
            without names hold samples/s.
        strong: The batch of all ranks together is the same at every size.

    Raises:
        UsageError: There is no such unit.
        UnreadableInputError: There are no two sizes with a number above 0.
    """
    if unit is not None and unit not in UNITS:
        raise UsageError(f"--unit {unit}: not known.", hint=f"Known: {', '.join(UNITS)}")
    text = list(lines)
    tables = ((kind, _table(text, name, column)) for kind, column in _readings(unit).items())
    given, table = next(
        (reading for reading in tables if len(reading[1])), (SAMPLES_PER_S, THROUGHPUT.empty())
    )
    valid = table[table["samples_per_s"] > 0]
    sizes = set(valid["np"]) | ({1} if given == SPEED_UP and len(valid) else set())
    if len(sizes) == 1:
        (only,) = sizes
        raise UnreadableInputError(
            f"{name} needs rows for at least two rank counts; found np={only} only.",
            hint="Add the row of the baseline, usually np=1.",
        )
    if not sizes:
        raise UnreadableInputError(
            f"{name} {_lack(text)}.",
            hint="Two columns, np and samples/s (or steps/s, step time, speed-up), or pairs "
            "such as 1:872 8:6679. `hvdprof scaling` also takes the logs of several rank counts "
            "together.",
        )
    notes = list(_omitted(text, valid, given))
    rates = valid.assign(samples_per_s=_rates(valid, given, strong=strong))
    if given == SPEED_UP:
        rates, implied = _with_one_rank(rates)
        notes += ["No row has a speed-up of 1: they are taken against one rank."] * implied
    return ScalingText(rates, given, tuple(notes))


def _lack(text: Sequence[str]) -> str:
    """What a text without a table holds: nothing, a table with other columns, or something else."""
    filled = [line.strip() for line in text if line.strip()]
    if not filled:
        return "is empty"
    names = [cell.strip(" *") for cell in re.split(r"[|,;\t]", filled[0].strip("|"))]
    if len(names) > 1 and any(_ROW.match(line) for line in filled[1:]):
        shown = ", ".join(name[:_MOST_SHOWN] for name in names[:_MOST_NAMES])
        return f"has the columns {shown}: no pair of a number of ranks and a speed"
    return "holds no table of two numbers of ranks or more"


def _readings(unit: str | None) -> dict[str, re.Pattern[str] | None]:
    """What the numbers may be and the names of such columns, in the order of preference."""
    if unit is None:
        return _COLUMNS
    return {unit: _COLUMNS[unit] if unit in (SAMPLES_PER_S, SPEED_UP) else _ANY_STEPS}


def _table(text: Sequence[str], name: str, column: re.Pattern[str] | None) -> pd.DataFrame:
    reader = ThroughputTable(name, own_rate=column)
    for number, line in enumerate(text, start=1):
        pairs = _PAIR.findall(line) if _PAIRS.match(line) else None
        for row in [line] if pairs is None else [f"{size},{rate}" for size, rate in pairs]:
            reader.take(PrintedLine(number, row.rstrip("\n"), None))
    table = reader.tables().get(THROUGHPUT.name, THROUGHPUT.empty())
    return table[table["samples_per_s"].notna()]


def _omitted(text: Sequence[str], valid: pd.DataFrame, unit: str) -> Iterator[str]:
    used = set(valid["line"])
    lost = [
        (number, line.strip())
        for number, line in enumerate(text, start=1)
        if _ROW.match(line) and number not in used
    ]
    for number, line in lost[:_MOST_SKIPPED]:
        cells = [cell.strip(" *") for cell in re.split(r"[|,;\t]", line.strip("|"))]
        number_given = len(cells) > 1 and any(_ABOVE_ZERO.match(cell) for cell in cells[1:])
        reason = (
            f"it stands outside the table, or holds no {unit} above 0"
            if number_given
            else f"{unit} is not a number above 0"
        )
        yield f"Line {number} `{line[:_MOST_SHOWN]}` was skipped: {reason}."
    if len(lost) > _MOST_SKIPPED:
        yield f"{len(lost) - _MOST_SKIPPED} more lines were skipped."


def _rates(table: pd.DataFrame, unit: str, *, strong: bool) -> "pd.Series[float]":
    given = table["samples_per_s"]
    if unit in (SAMPLES_PER_S, SPEED_UP):
        return given
    if unit in (S_PER_STEP, MS_PER_STEP):
        given = (1e3 if unit == MS_PER_STEP else 1.0) / given
    return given if strong else given * table["np"]


def _with_one_rank(table: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    lacking = [
        members.head(1).assign(np=1, samples_per_s=1.0)
        for _, members in table.groupby("series", observed=True, sort=False)
        if members["np"].min() > 1 and not (members["samples_per_s"] == 1).any()
    ]
    return THROUGHPUT.frame(pd.concat([*lacking, table])), bool(lacking)
