"""Verdict and facts of a hang, from the progress of each rank in each process group.

Tested in ``tests/analyze/files/test_dump_pages.py``.
"""

from collections.abc import Sequence

import pandas as pd

from hvdprof import units
from hvdprof.analyze.files.blocked_ranks import (
    MISSING,
    STUCK,
    BlockedCollective,
    Hang,
    groups_of,
    hang_of,
)
from hvdprof.model.file_page import Fact, FileVerdict, Gravity
from hvdprof.rank_names import ranks_listed, ranks_named

_MOST_COLLECTIVES = 4
_STUCK_FIX = "look for GPU and network errors on their hosts (dmesg, nvidia-smi -q)"
_MISSING_FIX = "look at the end of the output of these ranks, and at what they do instead"
_ABSENT_FIX = "look at the end of their output, and collect their dumps"


def progress_hang(progress: pd.DataFrame) -> Hang:
    """The hang of one job, from its rows of COLLECTIVE_PROGRESS."""
    return hang_of(groups_of(progress))


def hang_sentence(hang: Hang) -> str:
    """Which ranks are behind in which collective, and how to find out why; empty without any."""
    if not hang.culprits:
        return ""
    clauses = []
    absent = tuple(rank for rank in hang.missing if rank not in hang.stuck)
    if absent:
        clauses.append(f"{_have(absent)} not submitted {_what(_widest(hang, MISSING, absent))}")
    if hang.stuck:
        what = _what(_widest(hang, STUCK, hang.stuck))
        clauses.append(f"{_have(hang.stuck)} not completed {what}, which other ranks completed")
    if hang.blocked:
        clauses.append(f"{units.counted(len(hang.blocked), 'other rank')} blocked")
    fix = _STUCK_FIX if hang.stuck else _MISSING_FIX
    return f"Hang: {'; '.join(clauses)}. Fix: {fix}."


def hang_facts(hang: Hang) -> list[Fact]:
    """The ranks behind, those blocked, and the first collectives, a line for each."""
    if not hang.culprits:
        return []
    lines = [_line(call) for call in hang.first[:_MOST_COLLECTIVES]]
    if more := len(hang.first) - len(lines):
        lines.append(f"and {more} more")
    facts = [
        Fact("hang_ranks", "hang begins with ranks", ranks_listed(hang.culprits)),
        Fact("missing_in", "first collectives affected", "\n".join(lines)),
    ]
    if hang.stuck:
        facts.append(
            Fact("stuck_ranks", "ranks stuck where others completed", ranks_listed(hang.stuck))
        )
    facts.append(Fact("num_blocked", "ranks blocked by them", len(hang.blocked)))
    return facts


def no_hang_verdict(hang: Hang, num_ranks: int, absent: Sequence[int]) -> FileVerdict:
    """What ranks have in common that are not behind each other.

    Args:
        hang: Without culprits.
        num_ranks: Ranks with a dump.
        absent: Ranks without one.
    """
    if hang.pending and absent:
        return FileVerdict(
            f"Suspects: {ranks_named(absent)}, without a dump; {ranks_named(hang.pending)} "
            f"wait{'s' if len(hang.pending) == 1 else ''} in collectives that all ranks with a "
            f"dump submitted. Fix: {_ABSENT_FIX}.",
            gravity=Gravity.HANG,
        )
    if hang.pending:
        count = units.counted(len(hang.pending), "rank")
        return FileVerdict(
            f"No rank is behind: all {num_ranks} ranks submitted the same collectives, and on "
            f"{count} some are not completed. Fix: look for network and GPU errors (dmesg).",
            gravity=Gravity.WARNING,
        )
    done = "submitted and completed" if hang.completions_known else "submitted"
    return FileVerdict(f"No rank is behind: all {num_ranks} ranks {done} the same collectives.")


def _widest(hang: Hang, kind: str, ranks: Sequence[int]) -> BlockedCollective:
    """The collective that most of these ranks are missing in; the first of them."""
    of_kind = [call for call in hang.first if call.kind == kind]
    return max(of_kind, key=lambda call: len(set(call.ranks) & set(ranks)))


def _have(ranks: Sequence[int]) -> str:
    return f"{ranks_named(ranks)} {'has' if len(ranks) == 1 else 'have'}"


def _line(one: BlockedCollective) -> str:
    verb = "not submitted" if one.kind == MISSING else "not completed"
    return f"{_name(one)}, Seq {one.seq} of {one.group}: {verb} by {ranks_named(one.ranks)}"


def _what(one: BlockedCollective) -> str:
    group = one.group.partition(" (")[0]
    return f"{_name(one)} (Seq {one.seq} of process group {group})"


def _name(one: BlockedCollective) -> str:
    return one.name or "collective"
