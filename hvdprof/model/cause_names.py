"""Names of the causes of lost time: one name for waterfall, findings and verdict."""

from hvdprof import units
from hvdprof.model.causes import ALL_RANKS, ANY_RANK, CAUSES, PAUSE, STRAGGLER, TERMS
from hvdprof.model.frame_row import FrameRow, is_missing

MOST_NAMED_RANKS = 2
"""More ranks are counted instead of named."""

_BETWEEN_STEPS = "pause"
_EVALUATION = "evaluation"
_UNATTRIBUTED = "unattributed"


def cause_name(row: FrameRow) -> str:
    """Name of the cause of a row of WATERFALL, such as ``straggler: rank 1, data phase``."""
    if row["term"] not in (STRAGGLER, PAUSE):
        return TERMS[str(row["term"])]
    name = _name(row)
    return name[0].lower() + name[1:]


def cause_title(row: FrameRow) -> str:
    """The same as the title of a finding; delays at random with their frequency and length."""
    if row["term"] not in (STRAGGLER, PAUSE):
        name = CAUSES[str(row["term"])]
        return name[0].upper() + name[1:]
    if row["pattern"] != "irregular":
        return _name(row)
    often = units.percent(float(row["affected_share"]), 0)
    length = units.of_unit(float(row["delay_ns"]), "ns")
    return f"{_name(row, with_phase=False)}: {often} of the steps, {length}"


def where(phase: str) -> str:
    """A phase as a place: ``data phase``, ``between steps``, ``no single phase``."""
    if phase == _BETWEEN_STEPS:
        return "between steps"
    if phase == _EVALUATION:
        return "between steps (evaluation)"
    return "no single phase" if phase == _UNATTRIBUTED else f"{phase} phase"


def ranks_of(row: FrameRow) -> tuple[int, ...]:
    """The ranks of a straggler; empty where they are any or all ranks."""
    text = str(row["ranks"])
    return () if text in ("", ANY_RANK, ALL_RANKS) else tuple(map(int, text.split(", ")))


def _name(row: FrameRow, *, with_phase: bool = True) -> str:
    phase = str(row["phase"])
    place = f", {where(phase)}" if with_phase else ""
    how = _how(row)
    if row["term"] == PAUSE:
        shown = place if phase not in (_BETWEEN_STEPS, _UNATTRIBUTED) else ""
        return f"{'Pauses' if row.get('np') == 1 else 'All ranks pause'} {how}{shown}"
    ranks = ranks_of(row)
    if row["pattern"] in ("persistent", "from-step"):
        since = f" {how}" if how else ""
        several = "s" if len(ranks) != 1 else ""
        return f"Straggler{several}{since}: {_who(row)}{place}"
    who = _who(row)
    if phase == _EVALUATION and ranks:
        several = "" if len(ranks) > 1 else "s"
        return f"{who[0].upper()}{who[1:]} evaluate{several} alone {how}"
    late = "pauses" if phase == _BETWEEN_STEPS and len(ranks) == 1 else "late"
    return f"{who[0].upper()}{who[1:]} {late} {how}{place}"


def _how(row: FrameRow) -> str:
    # Differences of two cells have neither periods nor first steps.
    match row["pattern"]:
        case "periodic":
            if is_missing(row.get("period_steps")):
                return "periodically"
            return f"every {float(row['period_steps']):.0f} steps"
        case "from-step":
            if is_missing(row.get("first_step")):
                return "from a step on"
            return f"from step {int(row['first_step'])}"
        case "irregular":
            return "at random"
    return ""


def _who(row: FrameRow) -> str:
    ranks = ranks_of(row)
    if not ranks:
        return "any rank"
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    is_long = len(ranks) > MOST_NAMED_RANKS or row["pattern"] != "persistent"
    return f"{len(ranks)} ranks" if is_long else f"ranks {ranks[0]} and {ranks[1]}"
