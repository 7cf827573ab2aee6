"""Rules on ranks: stuck in init, dead, aborted, of different versions.

Tested in ``tests/analyze/findings/test_nccl_findings.py``.
"""

import signal
from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import advice, sentences, set_to
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.nccl_rules.nccl_rule import (
    HARMLESS,
    first_row,
    shown,
)
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.rank_names import ranks_named

ABORTED = "nccl-aborted"
_FAILURES = ("warning", "trail", "completion", "watchdog", "failure", "died")
"""Kinds of problems that show a failed job; a connection that is tried again is none yet."""


_PRINT_VERSION = "python -c 'from torch.cuda import nccl; print(nccl.version())'"


def stuck_in_init(recording: NcclRecording) -> Iterator[Finding]:
    """No rank of a communicator completed its init, and the log shows that something failed.

    A missing line proves nothing: logs are cut, and ranks write over each other's lines. One rank
    that completed needed all others for it.
    """
    problems = recording.problems
    if _is_under_way(problems):
        return
    failed = problems[
        problems["kind"].isin(_FAILURES)
        & ~problems["text"].astype(str).str.contains(HARMLESS)
        & problems["progress_line"].isna()
    ]
    for number, ranks in recording.ranks.groupby("communicator"):
        begun = ranks[ranks["started"] & ~ranks["complete"] & (ranks["end"] == "")]
        called = (recording.calls["communicator"] == number).fillna(False)
        if begun.empty or ranks["complete"].any() or called.any():
            continue
        yield _stuck(begun, failed, logs_net=recording.of_hvdprof)


def _is_under_way(problems: pd.DataFrame) -> bool:
    """Whether a time-out was not in the first collective: then every init was completed."""
    watched = problems.loc[problems["kind"] == "watchdog", "text"].astype(str)
    numbers = watched.str.extract(r"SeqNum=(\d{1,18})", expand=False).dropna()
    return bool((numbers.astype("int64") > 1).any())


def _stuck(begun: pd.DataFrame, failed: pd.DataFrame, *, logs_net: bool) -> Finding:
    stuck = sorted({int(rank) for rank in begun["rank"]})
    who = ranks_named(stuck)
    proven = not failed.empty
    clause = (
        f"The log reports a failure in line {int(failed.iloc[0]['line'])}."
        if proven
        else "The log ends there: it was cut, or the ranks hang."
    )
    return Finding(
        "nccl-stuck-in-init",
        "error" if proven else "note",
        who,
        "hang during NCCL initialization" if proven else "log ends during NCCL initialization",
        f"{who.capitalize()} began to initialize, and no rank of this communicator completed it. "
        f"{clause}",
        set_to(
            "NCCL_SOCKET_IFNAME=<interface>",
            " to one on which the hosts reach each other",
            sentences(
                "Check that the other ranks run.",
                "" if logs_net else "Set NCCL_DEBUG_SUBSYS=INIT,NET on all ranks to log more.",
            ),
        ),
        "likely" if proven else "possible",
        *shown(begun),
    )


def died(recording: NcclRecording) -> Iterator[Finding]:
    """A launcher reports that a signal ended a rank."""
    problems = recording.problems[recording.problems["kind"] == "died"]
    problems = problems[~problems["code"].isin(_consequent_signals(recording.problems))]
    if not problems.empty:
        row = first_row(problems)
        yield Finding(
            "nccl-rank-died",
            "error",
            f"rank {row['tag_rank']}",
            "dead process",
            f"Rank {row['tag_rank']} died from signal {row['code']}.",
            advice(
                "run `dmesg -T` on its host: signal 9 often comes from the out-of-memory killer",
                "For signals 6 and 11, read the last lines of the rank.",
                command="dmesg -T",
            ),
            "certain",
            *shown(problems),
            detail=f"rank {row['tag_rank']}",
        )


def _consequent_signals(problems: pd.DataFrame) -> tuple[signal.Signals, ...]:
    """Signals that end a rank because of what the log reports elsewhere."""
    if (problems["kind"] == "watchdog").any():
        # The watchdog aborts its process; launchers terminate the ranks that are left.
        return (signal.SIGABRT, signal.SIGTERM)
    others = problems[(problems["kind"] == "died") & (problems["code"] != signal.SIGTERM)]
    return (signal.SIGTERM,) if len(others) else ()


def versions_differ(recording: NcclRecording) -> Iterator[Finding]:
    """Ranks of one communicator with different versions, else several versions in the log.

    A line without a prefix names no process: two of them may be of two jobs.
    """
    versions = recording.versions
    different = versions.drop_duplicates(["version"])
    if len(different) < 2:
        return
    same = _of_one_communicator(recording)
    proven = len(same["version"].drop_duplicates()) > 1
    other = (same if proven else versions).drop_duplicates(["version"])
    names = " and ".join(str(version) for version in other["version"])
    yield Finding(
        "nccl-version-mismatch",
        "error" if proven else "note",
        "job",
        "different NCCL versions",
        f"Ranks of one communicator report different versions of NCCL: {names}."
        if proven
        else f"The log holds several versions of NCCL: {names}. It may hold several jobs.",
        advice(
            "install one version of NCCL on every host",
            f"Check with `{_PRINT_VERSION}`. Look for a second libnccl.so on LD_LIBRARY_PATH.",
            command=_PRINT_VERSION,
        ),
        "likely" if proven else "possible",
        *shown(other.iloc[1:]),
    )


def _of_one_communicator(recording: NcclRecording) -> pd.DataFrame:
    """The versions of the ranks of the first communicator that has several."""
    sure = recording.communicators["join"].isin(["commId", "complete"])
    numbers = recording.communicators.loc[sure, "communicator"]
    for number in numbers:
        ranks = recording.ranks[(recording.ranks["communicator"] == number).fillna(False)]
        members = set(zip(ranks["host"].astype(str), ranks["pid"], strict=True))
        stated = recording.versions
        own = stated[
            [
                (str(host), pid) in members
                for host, pid in zip(stated["host"], stated["pid"].fillna(-1), strict=True)
            ]
        ]
        if len(own["version"].drop_duplicates()) > 1:
            return own
    return recording.versions.iloc[:0]


def aborted(recording: NcclRecording) -> Iterator[Finding]:
    """Communicators ended by abort."""
    ranks = recording.ranks[recording.ranks["end"] == "aborted"]
    if not ranks.empty:
        yield Finding(
            ABORTED,
            "note",
            ranks_named([int(rank) for rank in ranks["rank"].dropna()] or [0]),
            "aborted communicators",
            f"Communicators of {units.counted(len(ranks), 'rank')} were aborted, not destroyed. "
            "Either the job failed, or the program ends that way.",
            advice("check the exit code and the last lines of the ranks"),
            "possible",
            *shown(ranks.assign(line=ranks["end_line"].fillna(ranks["line"]))),
        )
