"""Rules on what broke: ranks stuck in init, error trails, watchdogs, versions that differ.

Tested in ``tests/analyze/findings/test_nccl_findings.py``.
"""

import signal
from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.nccl_rules.nccl_rule import (
    first_row,
    hosts_of,
    is_several,
    matching,
    ranks_text,
    shown,
)
from hvdprof.model.frame_row import is_missing
from hvdprof.model.nccl_recording import NcclRecording

_HARMLESS = r"ibv_open_device failed|Unable to open device|Failed to find .* symbol"

_TOP_CALLERS = r"^(?:\w+/)*(?:init|group|enqueue|proxy|bootstrap|net)\.(?:cc|cu)"
"""Source files whose callers give up; codes of the topology search are harmless."""

_COMPLETIONS = {
    4: "local protection error",
    5: "work request flushed",
    9: "remote invalid request",
    10: "remote access error",
    12: "retries used up: the peer is gone, or the fabric drops packets",
    13: "receiver not ready, retries used up",
}
"""Meanings of ``ibv_wc_status`` in libibverbs' verbs.h."""

_RESULTS = {
    1: "CUDA call failed",
    2: "system call failed",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote process exited or network error",
}
"""Meanings of ``ncclResult_t`` in nccl.h."""


def stuck_in_init(recording: NcclRecording) -> Iterator[Finding]:
    """Ranks that started to initialise and never completed it, or never appeared."""
    for row in recording.communicators.to_dict("records"):
        ranks = recording.ranks[recording.ranks["communicator"] == row["communicator"]]
        complete = ranks[ranks["complete"]]
        begun = ranks[ranks["started"] & ~ranks["complete"] & (ranks["end"] == "")]
        if not begun.empty:
            stuck = sorted({int(rank) for rank in begun["rank"]} - set(complete["rank"]))
            if stuck:
                silent = set(range(int(row["num_ranks"]))) - set(ranks["rank"].dropna())
                yield _stuck(begun, stuck, sorted(silent))
        elif _lacks_ranks(row, recording):
            yield _absent(complete, int(row["num_ranks"]))


def _stuck(begun: pd.DataFrame, stuck: list[int], silent: list[int]) -> Finding:
    file, line = shown(begun[begun["rank"].isin(stuck)])
    return Finding(
        "nccl-stuck-in-init",
        "error",
        ranks_text(stuck),
        "Hang during NCCL initialization",
        f"{ranks_text(stuck).capitalize()} began to initialize and never completed it."
        + (f" {ranks_text(silent).capitalize()} left no line at all." if silent else ""),
        "Set NCCL_SOCKET_IFNAME=<interface> to one on which the hosts reach each other. Check that "
        "the other ranks run. Set NCCL_DEBUG_SUBSYS=INIT,NET on all ranks to log more.",
        "likely",
        file,
        line,
    )


def _lacks_ranks(row: dict[object, object] | dict[str, object], recording: NcclRecording) -> bool:
    """Some ranks completed and others are not in the log, although another job of it failed."""
    stated, complete = row["num_ranks"], row["num_ranks_complete"]
    several = is_several(recording.ranks, "host") or is_several(recording.ranks, "pid")
    failed = bool(recording.problems["kind"].isin(["watchdog", "died", "failure"]).any())
    return (
        isinstance(stated, int)
        and isinstance(complete, int)
        and 0 < complete < stated
        and several
        and failed
    )


def _absent(complete: pd.DataFrame, num_ranks: int) -> Finding:
    lacking = sorted(set(range(num_ranks)) - {int(rank) for rank in complete["rank"].dropna()})
    file, line = shown(complete)
    return Finding(
        "nccl-ranks-missing",
        "error",
        ranks_text(lacking),
        "Ranks missing after NCCL initialization",
        f"{ranks_text(lacking).capitalize()} of {num_ranks} never reached Init COMPLETE in a job "
        "that failed.",
        "Read the output of these ranks first. Their failure came before the others.",
        "likely",
        file,
        line,
    )


def failed_work_request(recording: NcclRecording) -> Iterator[Finding]:
    """InfiniBand work requests that failed."""
    problems = recording.problems[recording.problems["kind"] == "completion"]
    if problems.empty:
        return
    code = int(first_row(problems)["code"])
    meaning = _COMPLETIONS.get(code, "see ibv_wc_status in verbs.h")
    file, line = shown(problems)
    yield Finding(
        "nccl-ib-completion-error",
        "error",
        hosts_of(problems),
        "Failed InfiniBand work request",
        f"An InfiniBand work request failed with status {code} ({meaning}).",
        "Check whether the peer died before this. Then run `ibstat` and `perfquery` on both hosts. "
        "A lossy fabric tolerates more with NCCL_IB_TIMEOUT=22 and NCCL_IB_RETRY_CNT=7.",
        "certain",
        file,
        line,
    )


def error_trail(recording: NcclRecording) -> Iterator[Finding]:
    """The first error and what followed it."""
    problems = recording.problems
    trail = matching(problems[problems["kind"] == "trail"], "where", _TOP_CALLERS)
    warned = problems[
        (problems["kind"] == "warning") & ~problems["text"].astype(str).str.contains(_HARMLESS)
    ]
    failed = problems[problems["kind"] == "failure"]
    requests = problems[problems["kind"] == "completion"]
    if trail.empty and failed.empty:
        yield from _warning_without_error(warned)
        return
    first = problems.loc[
        trail.index.union(warned.index).union(failed.index).union(requests.index).sort_values()
    ]
    row = first_row(first)
    code = first_row(trail)["code"] if not trail.empty else None
    meaning = "" if code is None else f" ({_RESULTS.get(int(code), f'code {int(code)}')})"
    followed = int(trail["count"].sum() + failed["count"].sum())
    rank = f" on rank {int(row['tag_rank'])}" if not is_missing(row["tag_rank"]) else ""
    file, line = shown(first)
    yield Finding(
        "nccl-error-trail",
        "error",
        str(row["host"]) or "job",
        "NCCL error",
        f"NCCL failed{meaning}{rank}. {_lines(followed)} the error on.",
        "Read the log from this line on. Later errors on other ranks usually follow from the "
        "first.",
        "certain" if not trail.empty else "likely",
        file,
        line,
    )


def _warning_without_error(warned: pd.DataFrame) -> Iterator[Finding]:
    if not warned.empty:
        file, line = shown(warned)
        number = int(warned["count"].sum())
        often = "once" if number == 1 else f"{units.count(number)} times"
        yield Finding(
            "nccl-warnings",
            "note",
            hosts_of(warned),
            "NCCL warnings",
            f"NCCL warned {often} and continued.",
            "Read the first warning. NCCL_DEBUG=INFO logs what led to it.",
            "possible",
            file,
            line,
        )


def _lines(number: int) -> str:
    return "1 line passes" if number == 1 else f"{units.count(number)} lines pass"


def died(recording: NcclRecording) -> Iterator[Finding]:
    """A launcher reports that a signal ended a rank."""
    problems = recording.problems[recording.problems["kind"] == "died"]
    problems = problems[~problems["code"].isin(_consequent_signals(recording.problems))]
    if not problems.empty:
        row = first_row(problems)
        file, line = shown(problems)
        yield Finding(
            "nccl-rank-died",
            "error",
            f"rank {row['tag_rank']}",
            f"Dead process: rank {row['tag_rank']}",
            f"Rank {row['tag_rank']} died from signal {row['code']}.",
            "Run `dmesg -T` on its host: signal 9 often comes from the out-of-memory killer. For "
            "signals 6 and 11, read the last lines of the rank.",
            "certain",
            file,
            line,
        )


def _consequent_signals(problems: pd.DataFrame) -> tuple[signal.Signals, ...]:
    """Signals that end a rank because of what the log reports elsewhere."""
    if (problems["kind"] == "watchdog").any():
        # The watchdog aborts its process; launchers terminate the ranks that are left.
        return (signal.SIGABRT, signal.SIGTERM)
    others = problems[(problems["kind"] == "died") & (problems["code"] != signal.SIGTERM)]
    return (signal.SIGTERM,) if len(others) else ()


def versions_differ(recording: NcclRecording) -> Iterator[Finding]:
    """Ranks with different versions of NCCL."""
    versions = recording.versions
    different = versions.drop_duplicates(["version"])
    if len(different) > 1:
        other = different.iloc[1:]
        file, line = shown(other)
        names = " and ".join(str(version) for version in different["version"])
        yield Finding(
            "nccl-version-mismatch",
            "error",
            "job",
            "Different NCCL versions",
            f"The ranks report different versions of NCCL: {names}.",
            "Install one version of NCCL on every host. Check with `python -c 'from torch.cuda "
            "import nccl; print(nccl.version())'`. Look for a second libnccl.so on "
            "LD_LIBRARY_PATH.",
            "likely",
            file,
            line,
        )


def aborted(recording: NcclRecording) -> Iterator[Finding]:
    """Communicators ended by abort."""
    ranks = recording.ranks[recording.ranks["end"] == "aborted"]
    if not ranks.empty:
        file, line = shown(ranks)
        yield Finding(
            "nccl-aborted",
            "note",
            ranks_text([int(rank) for rank in ranks["rank"].dropna()] or [0]),
            "Aborted communicators",
            f"Communicators of {units.count(len(ranks))} ranks were aborted, not destroyed. "
            "Either the job failed, or the program ends that way.",
            "Check the exit code and the last lines of the ranks.",
            "possible",
            file,
            line,
        )
