"""The first screen: five numbers, and how far a run is that is being measured."""

import math
from dataclasses import dataclass

from hvdprof import units
from hvdprof.model.arrays import FrameRow
from hvdprof.model.cause_names import cause_name
from hvdprof.model.causes import CAUSES, PAUSE, STRAGGLER
from hvdprof.model.cell_key import CELL_KEY, cell_label, has_no_toggles
from hvdprof.model.job_losses import JobLosses, job_losses
from hvdprof.model.limits import WIDE_SHARE
from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.finding_texts import first_clause
from hvdprof.rundir.attached import attached_files
from hvdprof.rundir.manifest import NOT_ENDED, Manifest, Status

GOOD, CAUTION, BAD = "good", "caution", "bad"

CAUSE_TITLE = "Largest cause"

EFFICIENCY_FACT, THROUGHPUT_FACT = "efficiency", "throughput"
STEP_TIME_FACT, STEPS_FACT = "step-time-median", "steady-steps"
"""Names of the numbers of the verdict's cell, which several pages show."""

TRUST_WORDS: dict[str, str] = {GOOD: "good", CAUTION: "limited", BAD: "low"}
"""What the tile of trust says for each tone."""

_NOISY = "too noisy"
_TOO_BUSY = "the machine is too busy to judge"
_SMALLEST_CAUSE = 0.05
"""The share of the step from which a cause is named, as in the verdict."""

_VERY_WIDE = 0.25
"""Half of an interval, as a share of its value, beyond which a number is not to be trusted."""

_THROUGHPUT, _POTENTIAL = "Throughput, samples/s", "Potential efficiency"


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio with its interval on a scale from 0 to 1; NaN where an end is unknown."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the first screen.

    Attributes:
        title: Name of the number.
        value: The number as text.
        detail: What it refers to, or the reason for it; may be empty.
        tone: ``good``, ``caution`` or ``bad``; empty where the number is no judgement.
        bar: The number as a bar; None where it has none.
        fact: Its name where other pages show the same number of the cell.
    """

    title: str
    value: str
    detail: str
    tone: str = ""
    bar: Bar | None = None
    fact: str = ""


def tiles(analysis: RunAnalysis, cell: FrameRow | None = None) -> tuple[Tile, ...]:
    """The five tiles of a cell.

    Args:
        analysis: The finished analysis.
        cell: A row of SCALING; that of the verdict by default.
    """
    row = verdict_cell(analysis) if cell is None else cell
    if row is None:
        missing = units.MISSING
        return (
            Tile("Scaling efficiency", missing, "No throughput is measured yet."),
            Tile(_THROUGHPUT, missing, ""),
            Tile(CAUSE_TITLE, missing, ""),
            Tile(_POTENTIAL, missing, ""),
            _trust(analysis, None),
        )
    rate = throughput_text(row)
    efficiency = float(row["efficiency"])
    known = efficiency > 0 and not row["oversubscribed"]
    ideal = f"ideal {units.rate(row['samples_per_s'] / efficiency)}" if known else ""
    return (
        _efficiency(row),
        Tile(_THROUGHPUT, rate, ideal, fact=THROUGHPUT_FACT),
        _cause(analysis, row),
        _potential(analysis, row),
        _trust(analysis, row),
    )


def verdict_cell(analysis: RunAnalysis) -> FrameRow | None:
    """The row of SCALING that the verdict is about; None where nothing is measured."""
    verdict = analysis.verdict
    scaling, wanted = analysis.scaling, (verdict.model, verdict.np)
    places = zip(scaling["model"].tolist(), scaling["np"].tolist(), strict=True)
    same = [number for number, place in enumerate(places) if place == wanted]
    rows = scaling.iloc[same].to_dict("records") if same else []
    own = (row for row in rows if row["engine"] == verdict.engine and has_no_toggles(row))
    return next(own, rows[-1] if rows else None)


def _efficiency(row: FrameRow) -> Tile:
    title = "Scaling efficiency"
    place = cell_label(row)
    value, low, high = (float(row[f"efficiency{end}"]) for end in ("", "_low", "_high"))
    if math.isnan(value) or row["baseline"] == f"{row['engine']} np={row['np']}":
        return Tile(title, units.MISSING, f"{place}: no baseline to compare with")
    if row["oversubscribed"]:
        detail = f"{place}: oversubscribed, no statement on scaling"
        return Tile(title, units.MISSING, detail, CAUTION)
    return Tile(
        title,
        efficiency_text(row),
        f"{place}, against {row['baseline']}",
        bar=Bar(value, low, high),
        fact=EFFICIENCY_FACT,
    )


def efficiency_text(row: FrameRow) -> str:
    """The efficiency with its interval; the interval alone where that is wider than the value."""
    value, low, high = (float(row[f"efficiency{end}"]) for end in ("", "_low", "_high"))
    if high - low > value:
        return f"{_NOISY}: {units.percent(low, 0)} to {units.percent(high, 0)}"
    return units.percent_interval(value, low, high)


def throughput_text(row: FrameRow) -> str:
    """The throughput in the same way."""
    value, low, high = (float(row[f"samples_per_s{end}"]) for end in ("", "_low", "_high"))
    if high - low > value:
        return f"{_NOISY}: {units.rate(low)} to {units.rate(high)}"
    return units.rate_interval(value, low, high)


def _cause(analysis: RunAnalysis, row: FrameRow) -> Tile:
    title, verdict = CAUSE_TITLE, analysis.verdict
    of_cell = [
        cause
        for cause in analysis.table(WATERFALL.name).to_dict("records")
        if all(cause[key] == row[key] for key in CELL_KEY)
    ]
    is_of_verdict = bool(verdict.biggest_loss) and _is_of_verdict(analysis, row)
    costly = [cause for cause in of_cell if _is_costly(cause)]
    worst = max(costly, key=lambda cause: float(cause["share"]), default=None)
    in_steps = math.nan if worst is None else float(worst["share"])
    share = verdict.biggest_loss_share if is_of_verdict else in_steps
    beyond = _losses(analysis, row).larger_beyond(share) if has_no_toggles(row) else None
    if beyond is not None:
        return Tile(title, f"{units.percent(beyond.share)} of the recorded time", beyond.phrase)
    if is_of_verdict:
        same = [
            _share_text(cause) for cause in of_cell if cause["cause_id"] == verdict.parts.cause_id
        ]
        text = same[0] if same else units.percent(share)
        detail = ", ".join(filter(None, (verdict.biggest_loss, verdict.parts.rival)))
        return Tile(title, f"{text} of the step", detail)
    least = _SMALLEST_CAUSE if worst is None else in_steps
    # Larger in the figure beside it, and perhaps nothing.
    unsure = [
        cause for cause in of_cell if cause["term"] in CAUSES and float(cause["share"]) >= least
    ]
    names = ", ".join(cause_name(cause) for cause in unsure if cause is not worst)
    if worst is None:
        none = "no cause of 5 % of the step or more"
        return Tile(title, "none", f"{names}: uncertain, the 95 % CI includes 0" if names else none)
    more = f"; {names}: larger, but uncertain" if names else ""
    return Tile(title, f"{_share_text(worst)} of the step", f"{cause_name(worst)}{more}")


def _share_text(row: FrameRow) -> str:
    return units.percent_within(row["share"], row["share_low"], row["share_high"])


def _is_of_verdict(analysis: RunAnalysis, row: FrameRow) -> bool:
    own = verdict_cell(analysis)
    return own is not None and all(own[key] == row[key] for key in CELL_KEY)


def _is_costly(row: FrameRow) -> bool:
    if row["term"] not in CAUSES or not row["share"] >= _SMALLEST_CAUSE:
        return False
    return row["term"] in (STRAGGLER, PAUSE) or not row["share_low"] <= 0


def _potential(analysis: RunAnalysis, row: FrameRow) -> Tile:
    """The efficiency after the fix that saves most of the job, or by how much throughput rises.

    Efficiency is that of training steps; throughput is that of the whole loop.
    """
    if is_too_busy(analysis, row):
        return Tile(_POTENTIAL, units.MISSING, _TOO_BUSY)
    losses = _losses(analysis, row)
    best = losses.largest_gain
    if best is None:
        return Tile(_POTENTIAL, units.MISSING, "no finding here has a known gain")
    detail = f"if fixed: {best.phrase}"
    # A cell that is its own baseline has no efficiency to gain, nor has a loss outside the steps.
    efficiency = float(row["efficiency"]) / (1 - best.step_gain)
    if not efficiency <= 1 or row["oversubscribed"]:
        more = units.percent(1 / (1 - best.gain) - 1, 0)
        over = "; of the whole loop, evaluation included" if losses.outside else ""
        return Tile("Potential throughput", f"up to {more} more samples/s", detail + over)
    return Tile(_POTENTIAL, f"up to {units.percent(efficiency, 0)}", detail)


def is_too_busy(analysis: RunAnalysis, row: FrameRow) -> bool:
    """Whether the verdict is that the machine was too busy to judge this cell."""
    return analysis.verdict.is_too_busy and _is_of_verdict(analysis, row)


def _losses(analysis: RunAnalysis, row: FrameRow) -> JobLosses:
    return job_losses(analysis.findings, str(row["model"]), int(row["np"]), str(row["engine"]))


def _trust(analysis: RunAnalysis, row: FrameRow | None) -> Tile:
    tone, reason = _tone(analysis, row)
    return Tile("Trust", TRUST_WORDS[tone], reason, tone)


def needs_repeats(analysis: RunAnalysis, row: FrameRow | None) -> bool:
    """Whether the trust in the number of a cell is limited by what more launches would add."""
    if row is None or row["oversubscribed"] or is_too_busy(analysis, row):
        return False
    # A job whose files are attached exists already, and cannot be launched again.
    is_single = row["num_launches"] == 1 and not attached_files(analysis.run.manifest)
    return _width(row) > WIDE_SHARE or is_single


def _width(row: FrameRow) -> float:
    """Half of the interval of the efficiency, as a share of it."""
    half = (float(row["efficiency_high"]) - float(row["efficiency_low"])) / 2
    return half / float(row["efficiency"])


def _tone(analysis: RunAnalysis, row: FrameRow | None) -> tuple[str, str]:
    """How far to trust the number of a cell, and the first reason."""
    if row is None:
        return BAD, "nothing is measured"
    if row["oversubscribed"]:
        return BAD, "more ranks than cores or GPUs"
    if is_too_busy(analysis, row):
        return BAD, f"{_TOO_BUSY}: measure on an idle one"
    width = _width(row)
    if width > WIDE_SHARE:
        reason = f"95 % CI is ±{units.percent(width, 0)} of the value: measure more repeats"
        return BAD if width > _VERY_WIDE else CAUTION, reason
    if needs_repeats(analysis, row):
        return CAUTION, "one launch per cell: add --repeats"
    notes = [text for text in (analysis.verdict.caveat, *analysis.warnings) if text]
    if not notes:
        return GOOD, f"{units.count(row['num_launches'])} launches agree, no warnings"
    return CAUTION, first_clause(notes[0])


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress as a sentence, ``1 of 3 passes ended, about 1 min left.``, and as a share 0..1."""

    text: str
    share: float


def progress_of(manifest: Manifest) -> Progress | None:
    """Passes that ended, the present one, and the time that is left; None of an ended run."""
    if manifest.status != Status.RUNNING:
        return None
    ended = [record for record in manifest.passes if record.status not in NOT_ENDED]
    total = len(manifest.passes)
    now = next((record.id for record in manifest.passes if record.status == Status.RUNNING), "")
    texts = [f"{units.count(len(ended))} of {units.count(total)} passes ended"]
    if now:
        texts.append(f"now {now}")
    if durations := [record.duration_s for record in ended if record.duration_s]:
        left_s = (total - len(ended)) * sum(durations) / len(durations)
        texts.append(f"about {units.duration(left_s)} left")
    return Progress(f"{', '.join(texts)}.", len(ended) / total if total else 0.0)
