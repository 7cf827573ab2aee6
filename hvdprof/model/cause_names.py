"""How causes of lost time and lines of code are named, in waterfall, findings and verdict alike."""

from hvdprof import units
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.causes import (
    ALL_RANKS,
    ANY_RANK,
    CAUSES,
    COMPARED_TERMS,
    INPUT_BOUND,
    JITTER,
    OUTSIDE_PHASES,
    OWN_WORK,
    PAUSE,
    RANK_CHANGE,
    SHARED_PHASES,
    SHORT_NAMES,
    STRAGGLER,
    TERMS,
)
from hvdprof.model.tables.waiting_tables import LASTING_PATTERNS
from hvdprof.rank_names import ranks_named

MOST_NAMED_RANKS = 2
"""More ranks are counted instead of named."""

FEW_EVENTS = 6
"""Events at no regular distance below which they are counted, and not called irregular."""

_OUTSIDE = "outside"
_BEFORE_UPDATE = "before_update"
_EVALUATION = "evaluation"
_MIXED = "mixed"

_PHASE_OF = {
    INPUT_BOUND: "data",
    OUTSIDE_PHASES: _OUTSIDE,
    OWN_WORK: _MIXED,
    **{phase: phase for phase in SHARED_PHASES},
}
"""The phases of the terms that all ranks share."""


_OF_RANKS = {INPUT_BOUND: "input ({} waits longest)", JITTER: "jitter (most of it {})"}
"""Names of terms that lie mostly on some ranks."""

_INPUT_IN_TURN = "input (ranks wait in turn)"


def cause_name(row: FrameRow) -> str:
    """Name of the cause of a row of WATERFALL, such as ``straggler: rank 1, data phase``.

    Rows of MOVED_CAUSES have names, too: ``rank 1 slower in forward``.
    """
    term = str(row["term"])
    if term == RANK_CHANGE:
        how = "slower" if float(row["own_change_ns"]) > 0 else "faster"
        return f"rank {row['ranks']} {how}{within(str(row['phase']))}"
    ranks = ranks_of(row) if term in _OF_RANKS and row.get("ranks") else ()
    if ranks:
        place = f", {where(str(row['phase']))}" if row.get("phase") else ""
        name = _OF_RANKS[term].format(f"{ranks_named(ranks)}{place}")
        return name if len(ranks) == 1 else name.replace("waits", "wait")
    if term == INPUT_BOUND and row.get("np") == 1:
        return SHORT_NAMES[term]
    if term == INPUT_BOUND and row.get("ranks") == ANY_RANK:
        return _INPUT_IN_TURN
    if term not in (STRAGGLER, PAUSE):
        return TERMS[term] if term in TERMS else COMPARED_TERMS[term]
    return _titled(*_name(row))


def cause_title(row: FrameRow) -> tuple[str, str]:
    """Title and detail of a finding on it; delays at no regular steps with their frequency."""
    if row["term"] not in (STRAGGLER, PAUSE):
        return CAUSES[str(row["term"])], ""
    return _name(row, counted=True)


def short_cause_name(row: FrameRow) -> str:
    """The name where there is little room: the phase stands elsewhere, as in a finding."""
    if row["term"] not in (STRAGGLER, PAUSE):
        return SHORT_NAMES[str(row["term"])]
    return _titled(*_name(row, with_phase=False))


def plain_sentence(row: FrameRow) -> str:
    """What one straggler does, ``Rank 1 loads data too slowly every 2 steps.``; else empty."""
    ranks = ranks_of(row)
    if row["term"] != STRAGGLER or len(ranks) != 1:
        return ""
    phase = str(row["phase"])
    does = "loads data too slowly" if phase == "data" else f"is too slow{within(phase)}"
    how = _how(row)
    return f"Rank {ranks[0]} {does}{f' {how}' if how else ''}."


def where(phase: str) -> str:
    """A phase as a place: ``data phase``, ``before the update``, ``between steps``."""
    if phase == _OUTSIDE:
        return "between steps"
    if phase == _BEFORE_UPDATE:
        return "before the update"
    if phase == _EVALUATION:
        return "between steps (evaluation)"
    return "no single phase" if phase == _MIXED else f"{phase} phase"


def change_sentence(row: FrameRow) -> str:
    """What moved in a row of MOVED_CAUSES, as a sentence."""
    interval = units.interval_of_unit(row["difference_ns"], row["low_ns"], row["high_ns"], "ns")
    how = "slower" if float(row["difference_ns"]) > 0 else "faster"
    term = str(row["term"])
    if term == RANK_CHANGE:
        own, low, high = (float(row[f"own_change{end}_ns"]) for end in ("", "_low", "_high"))
        ends = (own, low, high) if own > 0 else (-own, -high, -low)
        how = "slower" if own > 0 else "faster"
        by = units.interval_of_unit(ends[0], ends[1], ends[2], "ns")
        effect = "costs" if float(row["difference_ns"]) > 0 else "saves"
        cost = units.of_unit(abs(float(row["difference_ns"])), "ns")
        where_slow = within(str(row["phase"]))
        return f"Rank {row['ranks']} is {how}{where_slow} by {by}, which {effect} {cost} per step."
    phase = _PHASE_OF.get(term)
    if phase is not None:
        value, low, high = (abs(float(row[f"{end}_ns"])) for end in ("difference", "low", "high"))
        by = units.interval_of_unit(value, min(low, high), max(low, high), "ns")
        return f"All ranks are {how}{within(phase)} by {by}."
    return f"Largest part: {cause_name(row)}, {interval} per step."


def ranks_of(row: FrameRow) -> tuple[int, ...]:
    """The ranks of a straggler, or of most of a term; empty where they are any or all ranks."""
    text = str(row["ranks"])
    return () if text in ("", ANY_RANK, ALL_RANKS) else tuple(map(int, text.split(", ")))


def within(phase: str) -> str:
    """A phase behind a verb: `` in forward``, `` outside all phases``; empty for no single one."""
    if phase == _MIXED:
        return ""
    return {
        _OUTSIDE: " outside all phases",
        _BEFORE_UPDATE: " before the update",
        "optimizer": " in the optimizer",
    }.get(phase, f" in {phase}")


def _titled(title: str, detail: str) -> str:
    return f"{title}: {detail}" if detail else title


def _name(row: FrameRow, *, with_phase: bool = True, counted: bool = False) -> tuple[str, str]:
    """Title and detail, as they stand inside a sentence."""
    phase = str(row["phase"])
    place = f", {where(phase)}" if with_phase else ""
    is_counted = counted and row["pattern"] == "irregular"
    how = _how_often(row) if is_counted else _how(row)
    if row["term"] == PAUSE:
        shown = "" if phase == _MIXED else place
        return f"{'pauses' if row.get('np') == 1 else 'all ranks pause'} {how}{shown}", ""
    ranks = ranks_of(row)
    if row["pattern"] in LASTING_PATTERNS:
        since = f" {how}" if how else ""
        several = "s" if len(ranks) != 1 else ""
        return f"straggler{several}{since}", f"{_who(row)}{place}"
    who = _who(row)
    if phase == _EVALUATION and ranks:
        several = "" if len(ranks) > 1 else "s"
        return f"{who} evaluate{several} alone {how}", ""
    late = "pauses" if phase == _OUTSIDE and len(ranks) == 1 else "late"
    return f"{who} {late} {how}{place}", ""


def _how(row: FrameRow) -> str:
    # Differences of two cells have neither periods nor first steps.
    match row["pattern"]:
        case "periodic":
            if is_missing(row.get("period_steps")):
                return "periodically"
            within_epochs = "" if is_missing(row.get("epoch_steps")) else " within epochs"
            return f"every {float(row['period_steps']):.0f} steps{within_epochs}"
        case "from-step":
            if is_missing(row.get("first_step")):
                return "from a step on"
            return f"from step {int(row['first_step'])}"
        case "for-a-while":
            if is_missing(row.get("first_step")) or is_missing(row.get("last_step")):
                return "for a while"
            return f"in steps {int(row['first_step'])} to {int(row['last_step'])}"
        case "growing":
            if is_missing(row.get("last_delay_ns")):
                return "that grows"
            return f"that grows to {units.of_unit(float(row['last_delay_ns']), 'ns')}"
        case "irregular":
            return "now and then"
    return ""


def _how_often(row: FrameRow) -> str:
    """Of few events the number: their share of the steps says little about the job."""
    number = 0 if is_missing(row.get("num_events")) else int(row["num_events"])
    if 0 < number < FEW_EVENTS:
        return {1: "once", 2: "twice"}.get(number, f"{number} times")
    return f"in {units.percent(float(row['affected_share']), 0)} of steps"


def _who(row: FrameRow) -> str:
    ranks = ranks_of(row)
    if not ranks:
        return "any rank"
    is_long = len(ranks) > MOST_NAMED_RANKS or row["pattern"] != "persistent"
    return f"{len(ranks)} ranks" if is_long and len(ranks) > 1 else ranks_named(ranks)


def code_place(file: str, line: int, function: str) -> str:
    """``transforms.py:41 (Dataset.__getitem__)``; the function alone where the file is unknown."""
    if not file:
        return function
    name = file_name(file)
    return f"{name}:{line} ({function})" if function else f"{name}:{line}"


def file_name(file: str) -> str:
    """The last part of a path, of any system; the name of a cell as it is."""
    return file.replace("\\", "/").rpartition("/")[2]


def code_of_finding(row: FrameRow) -> str:
    """The line that a row of FINDINGS names; empty without one."""
    line = 0 if is_missing(row["code_line"]) else int(row["code_line"])
    return code_place(str(row["code_file"]), line, str(row["code_function"]))


def place_of(row: FrameRow) -> str:
    """The line of a row of LINES or LINE_CAUSES; of an exact call with its name."""
    function = str(row["function"]) or str(row["leaf"])
    return code_place(str(row["file"]), int(row["line"]), function)
