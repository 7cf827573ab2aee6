"""A series of runs: sections, JSON, and CSV in the layout of Apache Otava.

Tested in ``tests/cli/test_history.py``.
"""

from functools import partial

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cell_key import cell_label
from hvdprof.model.results.comparison import History, change_at
from hvdprof.report.answer import Answer
from hvdprof.report.comparison.comparison_csv import write_values
from hvdprof.report.json_values import JsonObject, json_rows
from hvdprof.report.sections.section import Head, Page, Section, Tone

HISTORY_SCHEMA_VERSION = 1


def history_answer(found: History) -> Answer:
    """The verdict, a section for every cell, and what was left out."""
    rows = [row | {"metric": found.metric.name} for row in found.rows.to_dict("records")]
    run = ("time", "time", "commit", "run")
    values = [
        (tuple(str(row[name]) for name in run), row, found.metric.unit, "value") for row in rows
    ]
    return Answer(
        partial(_page, found), partial(_object, found), {"csv": partial(write_values, values)}
    )


def _page(found: History) -> Page:
    labels = [cell_label(row) for row in found.rows.to_dict("records")]
    cells = (
        _section(label, found, [other == label for other in labels])
        for label in dict.fromkeys(labels)
    )
    return Page((Section(verdict=found.sentence), *cells), notes=found.notes)


def _object(found: History) -> JsonObject:
    """Verdict, metric, rows of HISTORY, notes."""
    return {
        "schema_version": HISTORY_SCHEMA_VERSION,
        "sentence": found.sentence,
        "metric": found.metric.name,
        "unit": found.metric.unit,
        "history": json_rows(found.rows),
        "notes": list(found.notes),
    }


def _section(label: str, found: History, chosen: list[bool]) -> Section:
    metric = found.metric
    rows = found.rows[chosen].to_dict("records")
    return Section(
        label,
        heads=(
            *(Head(name, is_text=True) for name in ("time", "run", "commit")),
            Head(f"{metric.title} (95 % CI)"),
            Head("change", is_outcome=True),
        ),
        rows=tuple(
            (
                str(row["time"])[:16].replace("T", " "),
                str(row["run"]),
                str(row["commit"])[:9],
                units.interval_of_unit(row["value"], row["low"], row["high"], metric.unit),
                change_at(row, metric),
            )
            for row in rows
        ),
        tones=tuple(_tone(row, metric.worse) for row in rows),
    )


def _tone(row: FrameRow, worse: int) -> Tone:
    if not row["is_change"]:
        return "caution" if row["is_suspected"] else ""
    return "bad" if worse * float(row["change"]) > 0 else "good"
