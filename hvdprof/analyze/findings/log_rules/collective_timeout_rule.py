"""Who timed out, and what follows from it.

A collective ends on no rank before all ranks have come. A rank that times out has come itself:
where all did, the collective hangs; where some did, the others are the suspects.
"""

import re
from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice, in_turn, sentences, set_to
from hvdprof.analyze.findings.finding import Finding
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.rank_names import ranks_named

TIMEOUT_RULE = "collective-timeout"

_UNEVEN = ("ALLTOALL", "SEND", "RECV", "COALESCED", "GATHER", "SCATTER")
"""Collectives in which ranks may differ in sizes, or ranks in what they do."""

_CHECK_NETWORK = advice(
    "check the network between the hosts with `hvdprof net --hosts`", command="hvdprof net --hosts"
)
_LOG_NCCL = Advice(
    "Set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,NET on all ranks to log what NCCL waits for."
)
_DUMP = Advice(
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 record the collectives of "
    "every rank."
)
_DUMP_FIRST = set_to(
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
    " and TORCH_NCCL_DUMP_ON_TIMEOUT=1, which record the collectives of every rank",
    "Read the output of the ranks without a time-out.",
)
_READ_OTHERS = advice("read the output of the ranks without a time-out first")
_COMPARE_GROUPS = advice(
    "call the collectives of all process groups in one order on every rank",
    "Compare what these ranks run there. TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and "
    "TORCH_NCCL_DUMP_ON_TIMEOUT=1 record the order on every rank.",
)
_MOST_GROUPS = 4
_GROUP = re.compile(r"(\d+|[^\s(]+)(?: PG GUID (\d+|[^\s(]+))?")
_COMPARE = advice(
    "compare what these ranks run there: branches on the rank, uneven data, unused parameters",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL names the call.",
)


def collective_timeout(
    timeouts: pd.DataFrame, num_ranks: int | None, *, logs_nccl: bool = False
) -> Iterator[Finding]:
    """The time-outs of one job as one finding.

    Args:
        timeouts: Rows of COLLECTIVE_TIMEOUTS of its output, in one file or in one per rank.
        num_ranks: Ranks of the job where other lines or files state them, else None.
        logs_nccl: Lines of NCCL_DEBUG=INFO are in the output already.
    """
    rows = timeouts[timeouts["timed_out"].to_numpy()]
    if rows.empty:
        return
    # Later time-outs of a rank follow from its first.
    first = rows[~rows.duplicated("rank").to_numpy()]
    row = first.iloc[0].to_dict()
    ranks = sorted({int(rank) for rank in first["rank"].dropna()})
    detail, evidence, action, confidence = _conclusion(timeouts, first, ranks, num_ranks)
    if action.command == _CHECK_NETWORK.command and not logs_nccl:
        action = in_turn(action, _LOG_NCCL)
    yield Finding(
        TIMEOUT_RULE,
        "error",
        ranks_named(ranks) or "job",
        "collective timeout",
        evidence,
        action,
        confidence,
        str(row["file"]),
        int(row["line"]),
        str(row["message"]),
        detail=detail,
    )


def _conclusion(
    timeouts: pd.DataFrame, first: pd.DataFrame, ranks: list[int], num_ranks: int | None
) -> tuple[str, str, Advice, str]:
    """What of the title, evidence, action and confidence."""
    if len(groups := _groups(first)) > 1:
        return _of_groups(first, groups)
    different = _different(first)
    if different:
        return "ranks called different collectives", different, _COMPARE, "likely"
    row = _fullest(first)
    what = _collective(row)
    if len({*first["sequence"].dropna()}) > 1:
        return _out_of_step(first)
    name = str(row["operation"]) or "collective"
    waited = _waited(first)
    came, lacking = _by_state(timeouts, row)
    if absent := sorted(lacking - {*ranks}):
        lack = f"{_who(absent)} had not enqueued it."
        evidence = sentences(f"{_who(ranks)} timed out in {what}{waited}.", lack)
        action = in_turn(_read_first(absent), _DUMP)
        return f"{name}, without {_short(absent)}", evidence, action, "likely"
    known = first["num_group_ranks"].dropna()
    size = num_ranks if known.empty else int(known.iloc[0])
    if size is None or not ranks or len(ranks) > size:
        gaps = sorted(set(range(max(ranks, default=0))) - set(ranks)) if _is_of_all(first) else []
        reported = first["reported_by"].dropna()
        evidence = sentences(
            f"{_who(ranks)} timed out in {what}{waited}"
            f"{f', says {ranks_named(reported)}' if len(reported) == len(first) else ''}.",
            "The output does not state the number of ranks.",
            _open_suspicion(gaps, max(ranks))
            if gaps
            else "Ranks without a time-out, if any, are the suspects.",
            _beginning(row),
        )
        first_step = _READ_OTHERS if gaps else _CHECK_NETWORK
        return f"{name} on {_short(ranks)}", evidence, in_turn(first_step, _DUMP), "possible"
    if len(ranks) == size:
        evidence = sentences(
            f"All {size} ranks timed out in {what}{waited}.",
            "None is missing, so the collective itself hangs: in the network or in NCCL.",
            _beginning(row),
        )
        return f"{name} on all {size} ranks", evidence, _CHECK_NETWORK, "likely"
    others = sorted(set(range(size)) - {*ranks, *came})
    if not others:
        evidence = sentences(
            f"{_who(ranks)} of {size} timed out in {what}{waited}.", "All ranks had enqueued it."
        )
        return f"{name} on {_short(ranks)}", evidence, _CHECK_NETWORK, "likely"
    if not _is_of_all(first) or max(ranks) >= size:
        # A process group may hold any ranks of the job.
        evidence = sentences(
            f"{_who(ranks)} of a process group of {size} timed out in {what}{waited}.",
            "No time-out of its other ranks is printed: if the output is complete, they are the "
            "suspects.",
            _beginning(row),
        )
        return f"{name} on {len(ranks)} of {size} ranks", evidence, _DUMP_FIRST, "possible"
    evidence = sentences(
        f"{_who(ranks)} of {size} timed out in {what}{waited}.", _suspicion(others), _beginning(row)
    )
    action = in_turn(_read_first(others), _DUMP)
    return f"{name}, without {_short(others)}", evidence, action, "likely"


def _read_first(ranks: list[int]) -> Advice:
    return advice(f"read the output of {ranks_named(ranks)} first")


def _is_of_all(first: pd.DataFrame) -> bool:
    """Whether the process group is that of all ranks: the default one, or none is named."""
    return all(group == "0" for group in _groups(first))


def _suspicion(others: list[int]) -> str:
    named = ranks_named(others)
    verb = "is the suspect" if len(others) == 1 else "are the suspects"
    pronoun = "it was" if len(others) == 1 else "they were"
    return (
        f"No time-out of {named} is printed. If the output is complete and {pronoun} not ended "
        f"first, {named} {verb}."
    )


def _open_suspicion(gaps: list[int], highest: int) -> str:
    """The same where the job may have more ranks than are named."""
    return (
        f"No time-out of {ranks_named(gaps)} is printed, nor of any above rank {highest}. If the "
        "output is complete and they were not ended first, the other ranks of the job are the "
        "suspects."
    )


def _groups(rows: pd.DataFrame) -> list[str]:
    """The process groups that rows name, by their unique ids where those are printed."""
    return sorted({_group(str(group)) for group in rows["group"]} - {""})


def _group(printed: str) -> str:
    """``0`` of ``0 (default_pg)`` and ``0 PG GUID 0(default_pg)``, ``3 GUID 21`` of others."""
    found = _GROUP.match(printed)
    if found is None:
        return ""
    return found[1] if found[2] in (None, found[1]) else f"{found[1]} GUID {found[2]}"


def _of_groups(first: pd.DataFrame, groups: list[str]) -> tuple[str, str, Advice, str]:
    """Time-outs of several process groups, whose numbers do not compare."""
    calls = []
    for group in groups[:_MOST_GROUPS]:
        own = first[[_group(str(one)) == group for one in first["group"]]]
        ranks = sorted({int(rank) for rank in own["rank"].dropna()})
        calls.append(
            f"{ranks_named(ranks) or 'a rank'} in {_collective(_fullest(own))} of group {group}"
        )
    evidence = sentences(
        f"Of {len(groups)} process groups: {', '.join(calls)}.",
        "Each group counts its own SeqNums: they do not compare.",
    )
    return f"in {len(groups)} process groups", evidence, _COMPARE_GROUPS, "possible"


def _different(first: pd.DataFrame) -> str:
    """What ranks called at one number, where that differs; empty where it does not."""
    known = first[(first["sequence"].notna() & (first["operation"] != "")).to_numpy()]
    for _, members in known.groupby(["sequence"], sort=False):
        if len(members) < 2:
            continue
        sizes = ["num_elements_in", "num_elements_out"]
        names = {str(name) for name in members["operation"]}
        # A record that is cut does not state all its sizes: that is no difference.
        is_one = all(members[name].nunique() < 2 for name in sizes)
        sized = members.drop_duplicates(["operation", *sizes])
        if len(names) == 1 and (is_one or any(kind in min(names) for kind in _UNEVEN)):
            continue
        calls = [_call(row) for row in sized.to_dict("records")[:3]]
        number = int(members["sequence"].iloc[0])
        return f"At SeqNum {number}, {', '.join(calls)}. Every rank has to call the same."
    return ""


def _call(row: FrameRow) -> str:
    size = row["num_elements_in"]
    elements = "" if is_missing(size) else f" of {units.count(int(size))} elements"
    return f"{_rank(row)} waits in {row['operation']}{elements}"


def _out_of_step(first: pd.DataFrame) -> tuple[str, str, Advice, str]:
    ordered = first.dropna(subset=["sequence"]).sort_values("sequence", kind="stable")
    lowest, highest = ordered.iloc[0].to_dict(), ordered.iloc[-1].to_dict()
    is_one = len(_groups(first)) == 1
    where = "Both are of one process group:" if is_one else "Where both are of one process group,"
    evidence = (
        f"{_place(lowest)}, {_place(highest)}: at different SeqNums. {where} the rank with the "
        "lower number is behind."
    )
    who = ", ".join(f"{_rank(row)} at SeqNum {int(row['sequence'])}" for row in (lowest, highest))
    return who, evidence[0].upper() + evidence[1:], _COMPARE, "possible"


def _rank(row: FrameRow) -> str:
    return "a rank" if is_missing(row["rank"]) else f"rank {int(row['rank'])}"


def _place(row: FrameRow) -> str:
    return f"{_rank(row)} timed out in {_collective(row)}"


def _collective(row: FrameRow) -> str:
    name = str(row["operation"]) or "a collective"
    number = "" if is_missing(row["sequence"]) else f" (SeqNum {int(row['sequence'])})"
    return f"{name}{number}"


def _fullest(first: pd.DataFrame) -> FrameRow:
    """The first row that names its collective, else the first."""
    named = first[(first["operation"] != "").to_numpy()]
    return (first if named.empty else named).iloc[0].to_dict()


def _waited(first: pd.DataFrame) -> str:
    longest = first["waited_ns"].dropna()
    return "" if longest.empty else f" after {units.seconds(int(longest.max()) / 1e9, whole=True)}"


def _beginning(row: FrameRow) -> str:
    """That the group had completed no collective before: its first contact failed."""
    none = not is_missing(row["sequence"]) and int(row["sequence"]) == 1
    return "It is the first collective of its process group." if none else ""


def _by_state(timeouts: pd.DataFrame, row: FrameRow) -> tuple[set[int], set[int]]:
    """Ranks that had enqueued this collective of this group, and that had not, as they print."""
    if is_missing(row["sequence"]):
        return set(), set()
    own = _group(str(row["group"]))
    same = timeouts["group"].map(lambda group: not own or _group(str(group)) == own).astype(bool)
    known = timeouts[(same & timeouts[["rank", "last_enqueued"]].notna().all(axis=1)).to_numpy()]
    # A rank that prints its state twice may have come in between.
    last = known.groupby(known["rank"].astype(int))["last_enqueued"].max()
    is_there = last.ge(int(row["sequence"])).to_numpy(bool)
    return set(last.index[is_there]), set(last.index[~is_there])


def _who(ranks: list[int]) -> str:
    return (ranks_named(ranks) or "ranks").capitalize()


def _short(ranks: list[int]) -> str:
    if not ranks:
        return "unnamed ranks"
    return ranks_named(ranks) if len(ranks) <= 2 else f"{len(ranks)} ranks"
