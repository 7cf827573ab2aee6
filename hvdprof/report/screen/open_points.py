"""The verdict as a stranger reads it first, and open points where no finding explains it."""

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name, place_of, plain_sentence
from hvdprof.model.causes import CAUSES
from hvdprof.model.cell_key import LAUNCH, of_base_cell, place_name
from hvdprof.model.run import RunAnalysis
from hvdprof.model.schema import as_text
from hvdprof.model.tables.line_tables import LINE_CAUSES
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.finding_texts import finding_texts
from hvdprof.report.screen.rank_phases import rank_phases
from hvdprof.report.screen.tiles import (
    BAD,
    CAUTION,
    GOOD,
    is_too_busy,
    needs_repeats,
    tiles,
    verdict_cell,
)
from hvdprof.rundir.attached import attached_files

EXPLAINED = 0.9
"""From this efficiency on, no explanation is due."""

_OFTEN_LAST = 0.75
_MOST_TERMS = 3
_SMALLEST_TERM = 0.01

TONE_ICONS: dict[str, str] = {GOOD: "✔", CAUTION: "▲", BAD: "✖"}


@dataclass(frozen=True, slots=True)
class OpenPoints:
    """Sentences on an efficiency without a finding.

    Attributes:
        title: ``65.0 % efficiency without a finding``.
        known: What was measured.
        suspected: What the numbers point at, without being certain.
        next_step: What to measure next.
        command: The command for it.
    """

    title: str
    known: tuple[str, ...]
    suspected: tuple[str, ...]
    next_step: str
    command: str


def open_points(analysis: RunAnalysis) -> OpenPoints | None:
    """The open points of the verdict's cell; None from 90 % on, or with a finding on the cell.

    None, too, where the machine was too busy: more repeats on it make nothing certain.
    """
    cell = verdict_cell(analysis)
    if cell is None or cell["oversubscribed"] or not float(cell["efficiency"]) < EXPLAINED:
        return None
    if is_too_busy(analysis, cell) or _has_finding(analysis, cell):
        return None
    more = "More repeats narrow the intervals until a cause is certain."
    return OpenPoints(
        title=f"{units.percent(float(cell['efficiency']))} efficiency without a finding",
        known=tuple(_known(analysis, cell)),
        suspected=tuple(_suspected(analysis, cell)),
        next_step=more if len(analysis.table(WATERFALL.name)) else "The recorder names the causes.",
        command=repeated_command(analysis)
        or (
            f"hvdprof run --np {int(cell['np'])} --repeats 6 -- python train.py"
            if attached_files(analysis.run.manifest)
            else "hvdprof bench --preset quick --repeats 6"
        ),
    )


def _has_finding(analysis: RunAnalysis, cell: FrameRow) -> bool:
    """Whether a finding with a cost is about the cell, or about the whole run."""
    for row in analysis.findings.to_dict("records"):
        if not row["model"] and row["severity"] != "note":
            return True
        if all(str(row[key]) == str(cell[key]) for key in ("model", "np", "engine")) and not (
            math.isnan(float(row["cost_share"]))
        ):
            return True
    return False


def _known(analysis: RunAnalysis, cell: FrameRow) -> Iterator[str]:
    lost = 1 - float(cell["efficiency"])
    yield f"The cell loses {units.points(lost).removeprefix('+')} against {cell['baseline']}."
    rows = _of_cell(analysis.table(WATERFALL.name), cell).to_dict("records")
    terms = sorted(
        (row for row in rows if row["term"] in CAUSES and row["share"] >= _SMALLEST_TERM),
        key=lambda row: -float(row["share"]),
    )
    for row in terms[:_MOST_TERMS]:
        text = units.interval_of_unit(row["share"], row["share_low"], row["share_high"], "ratio")
        name = cause_name(row)
        yield f"{name[0].upper()}{name[1:]}: {text} of the step."
    if math.isfinite(float(cell["blocked_share"])):
        yield f"Ranks are blocked for {units.percent(float(cell['blocked_share']))} of the step."


def _suspected(analysis: RunAnalysis, cell: FrameRow) -> Iterator[str]:
    segments = as_text(_of_cell(analysis.run.segments, cell)[LAUNCH], LAUNCH)
    waits = analysis.table(CAUSED_WAIT.name)
    own = as_text(waits, LAUNCH).merge(segments, on=list(LAUNCH))
    if len(own):
        last = own.groupby("rank", as_index=False)["share_last"].mean()
        worst = last.iloc[int(last["share_last"].to_numpy().argmax())]
        if worst["share_last"] >= _OFTEN_LAST:
            often = units.percent(float(worst["share_last"]), 0)
            yield f"Rank {int(worst['rank'])} is the last to arrive in {often} of the steps."
    strip = rank_phases(analysis, cell)
    if strip is not None:
        yield strip.sentence


def _of_cell(rows: pd.DataFrame, cell: FrameRow) -> pd.DataFrame:
    return of_base_cell(rows, str(cell["model"]), int(cell["np"]), str(cell["engine"]))


@dataclass(frozen=True, slots=True)
class Band:
    """The texts of the first card of a run.

    Attributes:
        sentence: The verdict in one line.
        cost: What it costs, and what is reached without it; may be empty.
        trust: ``good``, ``limited`` or ``low``.
        reason: Why.
        tone: That of the trust: ``good``, ``caution`` or ``bad``.
        edge: That of the card: the same, but ``bad`` where the job stalled or failed.
        command: The command with more repeats; empty where these do not help.
    """

    sentence: str
    cost: str
    trust: str
    reason: str
    tone: str
    edge: str
    command: str


def verdict_band(analysis: RunAnalysis, cell: FrameRow | None) -> Band:
    """The band of a cell, or of a run in which nothing is measured."""
    efficiency, throughput, _, potential, trust = tiles(analysis, cell)
    parts = []
    lead = analysis.verdict.parts.lead
    plain = lead or _plain(analysis)
    if plain and cell is not None:
        parts.append(place_name(cell["model"], int(cell["np"]), str(cell["engine"])))
    if (finding := main_finding(analysis)) is not None:
        parts.append(finding_texts(finding).cost)
    # The headline has it already; beside a stall it would be taken for the cost of that.
    if plain and not lead and analysis.verdict.loss_cost is not None:
        parts.append(analysis.verdict.loss_cost.sentence)
    if not lead and (place := _line(analysis)):
        parts.append(f"At {place}")
    known = efficiency if efficiency.value != units.MISSING else throughput
    # Without a loss the headline holds it.
    if known.value != units.MISSING and (plain or known.value not in analysis.verdict.headline):
        name = "Efficiency" if known is efficiency else "Throughput"
        unit = "" if known is efficiency else " samples/s"
        has_gain = not lead and potential.value != units.MISSING
        gain = f", {potential.value} without it" if has_gain else ""
        parts.append(f"{name} {known.value}{unit}{gain}")
    return Band(
        sentence=plain or analysis.verdict.headline,
        cost=". ".join(part for part in parts if part) + ("." if any(parts) else ""),
        trust=f"Trust {trust.value}",
        reason=trust.detail,
        tone=trust.tone or CAUTION,
        edge=BAD if lead else trust.tone or CAUTION,
        command=repeated_command(analysis) if needs_repeats(analysis, cell) else "",
    )


def _plain(analysis: RunAnalysis) -> str:
    """The main cause in plain words; empty where none stands out."""
    rows = analysis.table(WATERFALL.name).to_dict("records")
    verdict = analysis.verdict
    own = [
        row
        for row in rows
        if row["cause_id"] == verdict.parts.cause_id
        and (row["model"], row["np"], row["engine"]) == (verdict.model, verdict.np, verdict.engine)
    ]
    if own and not verdict.parts.rival and (plain := plain_sentence(own[0])):
        return plain
    main = main_finding(analysis)
    rival = f", and {verdict.parts.rival}" if verdict.parts.rival else ""
    # The numbers of the headline stand below it, with their doubts.
    return "" if main is None else f"Largest loss: {finding_texts(main).title}{rival}."


def _line(analysis: RunAnalysis) -> str:
    """The line of code behind the cause of the verdict, ``train.py:6 (crop)``; empty without."""
    verdict = analysis.verdict
    causes = analysis.table(LINE_CAUSES.name)
    behind = of_base_cell(causes, verdict.model, verdict.np, verdict.engine)
    own = behind[(behind["cause_id"] == verdict.parts.cause_id).to_numpy(dtype=bool)]
    return place_of(own.iloc[0].to_dict()) if len(own) else ""


def main_finding(analysis: RunAnalysis) -> FrameRow | None:
    """The finding on the stall or the cause of the verdict; None without one."""
    parts = analysis.verdict.parts
    column, wanted = ("lead", parts.lead) if parts.lead else ("cause_id", parts.cause_id)
    rows = analysis.findings.to_dict("records") if wanted else []
    return next((row for row in rows if row[column] == wanted), None)


def repeated_command(analysis: RunAnalysis) -> str:
    """The command of the run with more repeats; empty of a run that hvdprof did not launch.

    It does not name the folder of the run, which no other run may be written into.
    """
    words = [word for word in analysis.run.manifest.command if word]
    if words[:2] not in (["hvdprof", "bench"], ["hvdprof", "run"]):
        return ""
    end = words.index("--") if "--" in words else len(words)
    without: list[str] = []
    own = iter(words[:end])
    for word in own:
        if word in ("--repeats", "-o", "--output"):
            next(own, None)
        elif not word.startswith(("--repeats=", "--output=")):
            without.append(word)
    return shlex.join([*without, "--repeats", "6", *words[end:]])
