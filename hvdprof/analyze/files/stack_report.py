"""What stacks of processes say: which rank is where, in what it waits, and which rank is behind."""

from collections.abc import Sequence
from pathlib import PurePath

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.hang_verdict import hang_facts, hang_sentence, progress_hang
from hvdprof.analyze.files.set_pages import first_and_more, page_of
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.file_page import Fact, FilePage, FileVerdict, Gravity
from hvdprof.model.run import Run
from hvdprof.model.tables.printed_tables import FR_TRACE, RANK_STACKS
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.recording.stall_format import CHECKPOINT_STEP

_WAITS = ("collective", "backward", "synchronize", "setup")
_DOES = {
    "collective": ("waits in {operation}", "wait in {operation}"),
    "backward": ("is in backward", "are in backward"),
    "synchronize": ("waits for its GPU ({operation})", "wait for their GPUs ({operation})"),
    "setup": ("sets up a group ({operation})", "set up a group ({operation})"),
    "checkpoint": ("is in a checkpoint", "are in a checkpoint"),
    "data": ("is loading data", "are loading data"),
    "own code": ("is", "are"),
    "no stack": ("has no stack", "have no stack"),
    "launcher": ("is a launcher or worker", "are launchers or workers"),
    "wait counters": ("is in {operation}", "are in {operation}"),
}
_FIXES = {
    "checkpoint": CHECKPOINT_STEP,
    "data": "look at the input of {who}: the sample, its storage, its workers",
    "own code": "look at what {who} does there",
}
_PYTHON_FIX = "dump the Python stack of {who}, too (py-spy dump --pid PID)"
_NETWORK_FIX = "look at ranks without a stack here, then at the network (dmesg, NCCL's log)"
_ORDER_FIX = "call the same collectives in the same order on every rank"
_MOMENT = "A stack is one moment: who hangs has the same line in a second dump."
_NO_ENDS = "fr_trace prints no completions: a rank that is stuck in a collective looks blocked."
_MOST_CLAUSES = 4


def stack_verdict(stacks: pd.DataFrame) -> FileVerdict:
    """The ranks that are in no wait while others wait; empty without a stack.

    Args:
        stacks: Rows of RANK_STACKS of one dump, or of the dumps of one job.
    """
    seen = stacks[stacks["state"].isin((*_WAITS, *_FIXES)).to_numpy()]
    is_waiting = seen["state"].isin(_WAITS).to_numpy()
    waiting, late = seen[is_waiting], seen[~is_waiting]
    absent = stacks[stacks["state"].eq("no stack").to_numpy()]
    caveat = f"No stack of {_who(absent)}. {_MOMENT}" if len(absent) else _MOMENT
    if len(seen) < 2 or waiting.empty:
        if stacks.empty:
            return FileVerdict("")
        text = _clauses(stacks if seen.empty else seen)
        whom = "; the stacks of other ranks say for whom" if len(waiting) else ""
        return FileVerdict(f"{text[0].upper()}{text[1:]}{whom}.", caveat)
    if len(late):
        first = late.iloc[0]
        fix = (_FIXES[first["state"]] if first["place"] else _PYTHON_FIX).format(who=_who(late[:1]))
        # In backward ranks compute, too, and native frames without a name may be a wait.
        in_call = waiting["state"].isin(("collective", "setup")).any()
        certain = bool(in_call and late["place"].ne("").all())
        what = f"{'Hang' if certain else 'Suspect'}: {_clauses(late)}, while {_clauses(waiting)}"
    elif len(waiting.groupby(["state", "operation", "place"], observed=True)) == 1:
        what, fix, certain = f"No rank seen is behind: {_clauses(waiting)}", _NETWORK_FIX, False
    else:
        what, fix = f"Ranks wait at different places: {_clauses(waiting)}", _ORDER_FIX
        certain = bool(waiting["state"].eq("collective").all())
    return FileVerdict(f"{what}. Fix: {fix}.", caveat, Gravity.HANG if certain else Gravity.WARNING)


def stack_facts(stacks: pd.DataFrame) -> list[Fact]:
    """Who is where, a line for each place, and the innermost frames of the first one behind."""
    lines = _places(stacks)
    late = stacks[stacks["state"].isin(_FIXES).to_numpy()][:1]
    return [
        Fact("num_processes", "processes", len(stacks)),
        Fact("process_places", "where", len(lines), text="\n".join(lines)),
        *(Fact("stack", f"stack of {_who(late)}", str(text)) for text in late["stack"]),
    ]


def stack_pages(run: Run, files: Sequence[FrameRow]) -> list[FilePage]:
    """A page for each job: files of one process each are together, others alone.

    Args:
        run: The run with RANK_STACKS.
        files: Rows of FILES that hold nothing but stacks.
    """
    stacks, rows = run.table(RANK_STACKS.name), {str(row["file"]): row for row in files}
    pages = []
    for names in _jobs(stacks, list(rows)):
        own, members = stacks[stacks["file"].isin(names).to_numpy()], [rows[one] for one in names]
        name, verdict = first_and_more(members), stack_verdict(own)
        pages.append(page_of(members, name, stack_facts(own), (), verdict, "dumps of stacks"))
    return pages


def fr_trace_verdict(progress: pd.DataFrame) -> FileVerdict:
    """The ranks that a hang begins with, by ``fr_trace``; empty for rows of other sources."""
    rows = progress[progress["source"].eq(FR_TRACE).to_numpy()]
    if rows.empty:
        return FileVerdict("")
    if sentence := hang_sentence(progress_hang(rows)):
        return FileVerdict(sentence, _NO_ENDS, Gravity.HANG)
    wrong = rows[rows["status"].ne("").to_numpy()].to_dict("records")
    if wrong:
        ranks = ranks_named(row["rank"] for row in wrong if row["group"] == wrong[0]["group"])
        return FileVerdict(
            f"Collectives of process group {wrong[0]['description'] or wrong[0]['group']} do not "
            f"match: fr_trace names {ranks} ({wrong[0]['status']}). Fix: {_ORDER_FIX}.",
            "Where one rank differs, fr_trace may name the others.",
            Gravity.ERROR,
        )
    number = units.counted(rows["rank"].nunique(), "rank")
    return FileVerdict(f"{number} joined all collectives that fr_trace lists.", _NO_ENDS)


def fr_trace_facts(progress: pd.DataFrame) -> list[Fact]:
    """The ranks behind and where; none of other sources."""
    return hang_facts(progress_hang(progress[progress["source"].eq(FR_TRACE).to_numpy()]))


def _jobs(stacks: pd.DataFrame, files: Sequence[str]) -> list[list[str]]:
    """Files of one job together: of one process each, in one folder or of different ranks."""
    in_file = stacks.groupby("file", observed=True)["line"].transform("size")
    single = stacks[in_file.eq(1).to_numpy()].astype({"file": str})
    folders = single["file"].map(lambda file: str(PurePath(file).parent))
    groups = [single] if _distinct(single) else [rows for _, rows in single.groupby(folders)]
    jobs = [list(rows["file"]) for rows in groups if _distinct(rows)]
    known = {file for members in jobs for file in members}
    return [*jobs, *([file] for file in files if file not in known)]


def _distinct(rows: pd.DataFrame) -> bool:
    """Whether rows are of different ranks, or where one is unknown of different processes."""
    column = rows["rank"] if rows["rank"].notna().all() else rows["pid"]
    return len(rows) > 0 and bool(column.notna().all() and column.is_unique)


def _clauses(rows: pd.DataFrame) -> str:
    clauses = _places(rows)
    more = [f"and {len(clauses) - _MOST_CLAUSES} more"] if len(clauses) > _MOST_CLAUSES else []
    return "; ".join([*clauses[:_MOST_CLAUSES], *more])


def _places(rows: pd.DataFrame) -> list[str]:
    """A clause for each place, ``rank 2 is loading data at train.py:14 (read_batch)``."""
    clauses = []
    keys = ["state", "operation", "place", "function"]
    for (state, operation, place, function), members in rows.groupby(
        keys, observed=True, sort=False
    ):
        does = _DOES[str(state)][len(members) > 1].format(operation=operation)
        innermost = str(members["stack"].iloc[0]).partition("\n")[0].rpartition(" ")[2]
        at = f" in {innermost}" if innermost and state == "own code" else ""
        if place:
            at = f" at {place} ({function})" if function else f" at {place}"
        clauses.append(f"{_who(members)} {does}{at}")
    return clauses


def _who(rows: pd.DataFrame) -> str:
    """Ranks, or processes by their number, else by the line where their stacks begin."""
    if rows["rank"].notna().all():
        return ranks_named(rows["rank"])
    named = [
        f"of line {row['line']}" if is_missing(row["pid"]) else str(row["pid"])
        for row in rows.head(_MOST_CLAUSES).to_dict("records")
    ]
    more = f" and {len(rows) - len(named)} more" if len(rows) > len(named) else ""
    return f"process{'es' * (len(rows) > 1)} {', '.join(named)}{more}"
