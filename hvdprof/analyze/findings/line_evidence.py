"""What findings say of the lines of code that explain their causes.

Tested in ``tests/analyze/findings/test_line_evidence.py``.
"""

from dataclasses import dataclass
from typing import TypedDict

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice, sentences
from hvdprof.analyze.findings.cell_finding import CostlyCause
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import code_place, place_of, ranks_of
from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.tables.line_tables import (
    ALONE,
    BASELINE,
    EXACT,
    LINE_CAUSES,
    OTHER_RANKS,
)
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording.line_format import WORKER_PROCESS

_EXACT_ADVICE = {
    "torch.save": advice("write the checkpoint at {place} less often, or in a thread of its own"),
    "garbage collection": advice(
        "call gc.freeze() behind the first steps, or gc.disable() and collect every few hundred"
    ),
}


class CodeColumns(TypedDict):
    """The fields of a finding that name a line."""

    code_file: str
    code_line: int | None
    code_function: str


@dataclass(frozen=True, slots=True)
class LineEvidence:
    """The lines of a cause: sentences, what to do there, and the first one as columns."""

    sentence: str
    fix: Advice
    columns: CodeColumns


NO_LINES = LineEvidence("", Advice(), {"code_file": "", "code_line": None, "code_function": ""})
"""Of a cause that no line explains."""


def line_evidence(evidence: Evidence, cause: CostlyCause) -> LineEvidence:
    """What LINE_CAUSES says of a cause; empty where it has no line of it."""
    rows = [
        row
        for row in evidence.table(LINE_CAUSES.name).to_dict("records")
        if row["cause_id"] == cause.cause_id
        and all(row[name] == cause.row[name] for name in CELL_KEY)
    ]
    if not rows:
        return NO_LINES
    # An evaluation is a call without a line: what is sampled in it has one.
    is_evaluation = rows[0]["against"] == EXACT and not rows[0]["file"]
    first = next((row for row in rows if row["file"]), rows[0]) if is_evaluation else rows[0]
    place = place_of(first)
    # The function stands beside the line already.
    leaf = "" if first["file"] else str(first["leaf"])
    general = _EXACT_ADVICE.get(str(first["leaf"])) if first["against"] == EXACT else None
    return LineEvidence(
        sentences(*(line_sentence(row) for row in rows)),
        Advice()
        if is_evaluation
        else general.formatted(place=place)
        if general
        else advice(f"look at {code_place(str(first['file']), int(first['line']), leaf)}"),
        {
            "code_file": str(first["file"]),
            "code_line": int(first["line"]) if first["file"] else None,
            "code_function": str(first["function"]) or str(first["leaf"]),
        },
    )


def line_sentence(row: FrameRow) -> str:
    """A row of LINE_CAUSES as a sentence."""
    place = place_of(row)
    if row["against"] in (EXACT, "usual steps"):
        each = units.interval_of_unit(
            row["excess_ns"], row["excess_low_ns"], row["excess_high_ns"], "ns"
        )
        more = "" if row["against"] == EXACT else " more than usual"
        return f"{row['num_events']} of {row['of_events']} events: {place}, {each}{more} each."
    is_worker = row["process"] == WORKER_PROCESS
    is_each = not ranks_of(row) and row["against"] == ALONE
    who = _who(row)
    if row["against"] == ALONE and is_worker:
        share = units.percent(float(row["share"]), 0)
        least = "At least " if is_each and share != units.percent(1.0, 0) else ""
        return f"{least}{share} of the busy samples of {who} are at {place}."
    time = units.interval_of_unit(
        row["excess_ns"], row["excess_low_ns"], row["excess_high_ns"], "ns"
    )
    is_one = not is_worker and (is_each or len(ranks_of(row)) == 1)
    verb = "spends" if is_one else "spend"
    least = "at least " if is_each else "" if ranks_of(row) else "a mean of "
    than = {
        OTHER_RANKS: " more per step than the other ranks",
        BASELINE: " more per step than the baseline",
    }.get(str(row["against"]), " per step")
    return f"{who[0].upper()}{who[1:]} {verb} {least}{time}{than} at {place}."


def _who(row: FrameRow) -> str:
    # Held against nothing, the numbers are those of the rank with least; else they are means.
    of_all = "each rank" if row["against"] == ALONE else "the ranks"
    named = ranks_named(ranks_of(row)) or of_all
    return f"the DataLoader workers of {named}" if row["process"] == WORKER_PROCESS else named
