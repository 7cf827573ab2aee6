"""Rules on what broke: ranks stuck in init, error trails, watchdogs, versions that differ."""

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
from hvdprof.model.nccl_recording import NcclRecording

_HARMLESS = r"ibv_open_device failed|Unable to open device|Failed to find .* symbol"

_TOP_CALLERS = r"^(?:\w+/)*(?:init|group|enqueue|proxy|bootstrap|net)\.(?:cc|cu)"
"""Source files whose callers give up; the topology search passes harmless codes on to no one."""

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
        f"{ranks_text(stuck).capitalize()} began to initialise and never completed it"
        + (f"; {ranks_text(silent)} left no line at all." if silent else "."),
        "Check that the other ranks run and that hosts reach each other on this interface: "
        "export NCCL_SOCKET_IFNAME=<interface>; NCCL_DEBUG_SUBSYS=INIT,NET on all ranks.",
        "likely",
        file,
        line,
    )


def _lacks_ranks(row: dict[object, object] | dict[str, object], recording: NcclRecording) -> bool:
    """Some ranks completed and others are not in the log, although another job of it failed."""
    told, complete = row["num_ranks"], row["num_ranks_complete"]
    several = is_several(recording.ranks, "host") or is_several(recording.ranks, "pid")
    failed = bool(recording.problems["kind"].isin(["watchdog", "died", "failure"]).any())
    return (
        isinstance(told, int)
        and isinstance(complete, int)
        and 0 < complete < told
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
        f"{ranks_text(lacking).capitalize()} of {num_ranks} never reached Init COMPLETE in a job "
        "that failed.",
        "Look at the output of these ranks first: what happened to them came before.",
        "likely",
        file,
        line,
    )


def watchdog(recording: NcclRecording) -> Iterator[Finding]:
    """PyTorch's watchdog gave up on a collective."""
    problems = recording.problems[recording.problems["kind"] == "watchdog"]
    if problems.empty:
        return
    ranks = [int(rank) for rank in problems["tag_rank"].dropna()]
    file, line = shown(problems)
    yield Finding(
        "nccl-watchdog-timeout",
        "error",
        ranks_text(ranks) if ranks else "job",
        f"PyTorch gave up waiting for a collective on {ranks_text(ranks)}: a rank did not take "
        "part, or the network stands still.",
        "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 names the rank that did "
        "not come; py-spy dump --pid <pid> shows where it stands.",
        "certain",
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
        f"An InfiniBand work request failed with status {code} ({meaning}).",
        "First look whether the peer died before this; then ibstat and perfquery on both hosts; "
        "a lossy fabric bears more with NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7.",
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
        yield from _lone_warning(warned)
        return
    first = problems.loc[
        trail.index.union(warned.index).union(failed.index).union(requests.index).sort_values()
    ]
    row = first_row(first)
    code = first_row(trail)["code"] if not trail.empty else None
    meaning = "" if code is None else f" ({_RESULTS.get(int(code), f'code {int(code)}')})"
    followed = units.count(int(trail["count"].sum() + failed["count"].sum()))
    rank = f" on rank {int(row['tag_rank'])}" if not pd.isna(row["tag_rank"]) else ""
    file, line = shown(first)
    yield Finding(
        "nccl-error-trail",
        "error",
        str(row["host"]) or "job",
        f"NCCL failed{meaning}{rank}; {followed} lines pass the error on.",
        "Read from this line on: later errors on other ranks usually follow from the first.",
        "certain" if not trail.empty else "likely",
        file,
        line,
    )


def _lone_warning(warned: pd.DataFrame) -> Iterator[Finding]:
    if not warned.empty:
        file, line = shown(warned)
        number = int(warned["count"].sum())
        often = "once" if number == 1 else f"{units.count(number)} times"
        yield Finding(
            "nccl-warnings",
            "note",
            hosts_of(warned),
            f"NCCL warned {often} and went on.",
            "Read the first one; NCCL_DEBUG=INFO shows what led to it.",
            "possible",
            file,
            line,
        )


def died(recording: NcclRecording) -> Iterator[Finding]:
    """A launcher says that a rank was ended by a signal."""
    problems = recording.problems[recording.problems["kind"] == "died"]
    if not problems.empty:
        row = first_row(problems)
        file, line = shown(problems)
        yield Finding(
            "nccl-rank-died",
            "error",
            f"rank {row['tag_rank']}",
            f"Rank {row['tag_rank']} died from signal {row['code']}.",
            "Signal 9: look for the out-of-memory killer (dmesg -T); 6 and 11: its last lines.",
            "certain",
            file,
            line,
        )


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
            f"The ranks state different versions of NCCL: {names}.",
            'python -c "import torch; print(torch.cuda.nccl.version())" on every host; install '
            "one version everywhere and look for a second libnccl.so on LD_LIBRARY_PATH.",
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
            f"Communicators of {units.count(len(ranks))} ranks were aborted, not destroyed: after "
            "a failure, or by a program that ends that way.",
            "Look at the exit code and at the last lines of the ranks.",
            "possible",
            file,
            line,
        )
