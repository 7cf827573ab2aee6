"""What a report of NCCL's RAS subsystem says: who does not answer, who is behind.

Nothing is called equal but what the report itself says: a count that it lacks is not zero.
"""

from dataclasses import dataclass, replace

import pandas as pd

from hvdprof import units
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.file_page import Fact, FileVerdict, Gravity
from hvdprof.rank_names import ranks_listed, ranks_named

_MOST_LINES = 6
_RUNNING = (
    "In a running job the counts differ from moment to moment: query again. In a hang "
    "they do not grow."
)
_EQUAL = "Ranks that hang in one collective have equal counts, too: query again, whether they grow."
_LOOK = "look at the process and its host (dmesg)"
_VERBS = {
    "missing": ("gives no data", "give no data"),
    "unresponsive": ("is unresponsive", "are unresponsive"),
    "dead": ("is dead", "are dead"),
}
_STATES = ("INIT", "RUNNING", "FINALIZE", "ABORT", "NOCOMM")
_NOT_OK = ("DEAD", "ERROR", "INCOMPLETE", "MISMATCH")


@dataclass(frozen=True, slots=True)
class _Gap:
    """Ranks of a communicator that launched fewer operations of one kind than others."""

    communicator: str
    collective: str
    low: int
    high: int
    behind: pd.DataFrame
    number: int


def ras_verdict(progress: pd.DataFrame, statements: pd.DataFrame) -> FileVerdict:
    """Processes and ranks that do not answer first, then ranks with fewer operations.

    Empty without a report.

    Args:
        progress: Rows of COLLECTIVE_PROGRESS of one file.
        statements: Rows of RAS_STATEMENTS of the file.
    """
    rows = _of_reports(progress)
    if rows.empty and statements.empty:
        return FileVerdict("")
    # Ranks that leave a communicator differ in state: that is no error of theirs.
    silent = rows[(~rows["status"].isin(("", *_STATES))).to_numpy()]
    of_processes = statements["num_communicators"].isna() & statements["communicator"].eq("")
    lost = statements[of_processes.to_numpy()]
    is_dead = bool(lost["problem"].eq("DEAD").any())
    if len(lost) and (silent.empty or is_dead):
        lost = lost[lost["problem"].eq("DEAD").to_numpy()] if is_dead else lost
        state = "dead" if is_dead else "without data"
        named = [_process(row) for row in lost.dropna(subset=["pid"]).to_dict("records")]
        number = "1 job process" if len(named) < 2 else f"{len(named)} job processes"
        first = f", {'first ' if len(named) > 1 else ''}{named[0]}" if named else ""
        return FileVerdict(f"RAS: {number} {state}{first}. Fix: {_LOOK}.", gravity=Gravity.ERROR)
    if len(silent):
        return _of_ranks(silent, Gravity.ERROR)
    gap = _largest_gap(rows, statements)
    if gap is not None:
        return FileVerdict(_behind(gap), _RUNNING, Gravity.WARNING)
    states = rows[(rows["status"] != "").to_numpy()]
    return _of_ranks(states, Gravity.WARNING) if len(states) else _of_table(rows, statements)


def ras_facts(progress: pd.DataFrame, statements: pd.DataFrame) -> list[Fact]:
    """Communicators, and the ranks that are named: which of them do not run or are behind.

    Args:
        progress: Rows of COLLECTIVE_PROGRESS of one file.
        statements: Rows of RAS_STATEMENTS of the file.
    """
    rows = _of_reports(progress)
    facts = _table_facts(statements) + _without_data(statements)
    if rows.empty:
        return facts
    if not facts:
        facts = [Fact("num_communicators", "communicators", int(rows["group"].nunique()))]
    number = len(rows.drop_duplicates(["group", "rank"]))
    facts.append(Fact("num_nccl_ranks", "ranks named", number))
    silent = rows[(rows["status"] != "").to_numpy()]
    if len(silent):
        facts.append(
            Fact("silent_ranks", "without an answer or not running", ranks_listed(silent["rank"]))
        )
    gap = _largest_gap(rows, statements)
    if gap is not None and len(gap.behind):
        named = ranks_listed(gap.behind["rank"])
        text = f"{named} ({gap.low} of {gap.high} launched)"
        facts.append(Fact("behind_ranks", "ranks with the fewest collectives", named, text=text))
    located = rows[(rows["host"] != "").to_numpy()].drop_duplicates(["rank", "pid"])
    shown = located.head(_MOST_LINES).to_dict("records")
    lines = [f"rank {row['rank']}: {_process(row)}" for row in shown]
    if lines:
        facts.append(Fact("ras_processes", "processes of named ranks", "\n".join(lines)))
    return facts


def _table_facts(statements: pd.DataFrame) -> list[Fact]:
    """The communicators of the report's own table, and what it says of them."""
    table = statements.dropna(subset=["num_communicators"])
    lines = [
        f"{units.counted(int(row['num_communicators']), 'communicator')} of "
        f"{units.counted(int(row['num_ranks']), 'rank')}: {row['problem']}"
        for row in table.head(_MOST_LINES).to_dict("records")
    ]
    number = int(table["num_communicators"].sum())
    return [Fact("num_communicators", "communicators", number, text="\n".join(lines))] * bool(lines)


def _without_data(statements: pd.DataFrame) -> list[Fact]:
    """How many ranks of which communicators give no data, as the report counts them."""
    counted = statements["num_ranks"].notna() & statements["communicator"].ne("")
    rows = statements[(counted & statements["last_enqueued"].isna()).to_numpy()]
    shown = rows.head(_MOST_LINES).to_dict("records")
    lines = [f"{row['num_ranks']} of communicator {row['communicator']}" for row in shown]
    fact = Fact("num_without_data", "ranks without data", int(rows["num_ranks"].sum()))
    return [replace(fact, text="\n".join(lines))] if lines else []


def _of_reports(progress: pd.DataFrame) -> pd.DataFrame:
    return progress[(progress["source"] == "ras").to_numpy()]


def _of_ranks(silent: pd.DataFrame, gravity: Gravity) -> FileVerdict:
    """The ranks of one status in one communicator: of the first that the report names."""
    first = silent.iloc[0].to_dict()
    same = silent["group"].eq(first["group"]) & silent["status"].eq(first["status"])
    ranks = silent[same.to_numpy()]
    verbs = _VERBS.get(str(first["status"]))
    verb = verbs[len(set(ranks["rank"])) > 1] if verbs else f"reported: {first['status']}"
    return FileVerdict(f"{_who(ranks, str(first['group']))} {verb}. Fix: {_LOOK}.", gravity=gravity)


def _who(rows: pd.DataFrame, communicator: str) -> str:
    named = ranks_named(rows["rank"]).capitalize()
    first = rows.iloc[0].to_dict()
    process = f" ({_process(first)})" if len(set(rows["rank"])) == 1 and first["host"] else ""
    return f"{named} of communicator {communicator}{process}"


def _process(row: FrameRow) -> str:
    gpu = f"GPU {row['gpu']}, " if row["gpu"] else ""
    pid = "" if is_missing(row["pid"]) else f"pid {row['pid']} "
    return f"{gpu}{pid}on {row['host']}"


def _largest_gap(rows: pd.DataFrame, statements: pd.DataFrame) -> _Gap | None:
    """The communicator and kind of collective whose ranks differ most; None where none do."""
    named = rows.dropna(subset=["last_enqueued"]).assign(num_ranks=1)
    counted = statements.dropna(subset=["last_enqueued"])
    numbers = pd.concat([named, counted.rename(columns={"communicator": "group"})])
    found = []
    for (communicator, collective), launched in numbers.astype(
        {"group": str, "collective": str}
    ).groupby(["group", "collective"], sort=False):
        low, high = int(launched["last_enqueued"].min()), int(launched["last_enqueued"].max())
        lowest = launched[launched["last_enqueued"].eq(low).to_numpy()]
        behind = lowest.dropna(subset=["rank"])
        number = max(len(behind), int(lowest["num_ranks"].max()))
        found.append(_Gap(str(communicator), str(collective), low, high, behind, number))
    gap = max(found, key=lambda gap: gap.high - gap.low, default=None)
    return gap if gap and gap.low < gap.high else None


def _behind(gap: _Gap) -> str:
    noun = f"{gap.collective} operations" if gap.collective else "collectives"
    verb = "is" if gap.number == 1 else "are"
    launched = f"{verb} behind: {gap.low} of {gap.high} {noun} launched"
    if len(gap.behind) < gap.number:
        who = f"{units.counted(gap.number, 'rank')} of communicator {gap.communicator}"
        return f"{who} {launched}. The report does not name them; fix: query with `ncclras -v`."
    return (
        f"{_who(gap.behind, gap.communicator)} {launched}. Fix: look at the end of "
        f"{'its' if gap.number == 1 else 'their'} output, and at what "
        f"{'it does' if gap.number == 1 else 'they do'} instead."
    )


def _of_table(rows: pd.DataFrame, statements: pd.DataFrame) -> FileVerdict:
    """What the report says of its communicators, where it names no rank."""
    problems = ",".join(str(problem) for problem in statements["problem"])
    wrong = next((name for name in _NOT_OK if name in problems), "")
    if wrong:
        return FileVerdict(
            f"RAS reports {wrong}, and this file does not say of which ranks. Fix: query with "
            "`ncclras -v`.",
            _RUNNING,
            Gravity.WARNING,
        )
    table = statements.dropna(subset=["num_communicators"])
    if len(table):
        number = units.counted(int(table["num_communicators"].sum()), "communicator")
        largest = units.counted(int(table["num_ranks"].max()), "rank")
        return FileVerdict(f"RAS reports OK for {number}, the largest of {largest}.", _EQUAL)
    if rows["last_enqueued"].isna().any():
        return FileVerdict("")
    named = len(set(rows["rank"]))
    number = units.counted(named, "rank")
    if unlisted := _without_data(statements):
        listed = (
            f"The {number} that the report lists launched the same number of collectives"
            if named > 1
            else f"The report lists {number}"
        )
        return FileVerdict(
            f"{listed}; it lacks {unlisted[0].value} more. Fix: query again, and look at the hosts "
            "of those.",
            _RUNNING,
            Gravity.WARNING,
        )
    return FileVerdict(
        f"All {number} of the report launched the same number of collectives.", _EQUAL
    )
