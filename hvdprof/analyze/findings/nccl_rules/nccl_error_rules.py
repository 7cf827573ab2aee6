"""Rules on errors that NCCL prints: failed work requests, error trails, lost connections.

Tested in ``tests/analyze/findings/test_nccl_findings.py``.
"""

from collections.abc import Iterator

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import Advice, advice, sentences, set_to
from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.nccl_rules.nccl_rule import (
    HARMLESS,
    first_row,
    hosts_of,
    matching,
    shown,
)
from hvdprof.model.arrays import is_missing
from hvdprof.model.nccl_recording import NcclRecording

_UNCONNECTED = (
    r"(?i)\bconnect\b.*(?:timed out|refused|no route to host|unreachable|connection abort|reset)|"
    r"connect to \S+ (?:returned|failed)|^(?:Net : )?Connect to "
)
"""A connection between ranks that cannot be made, in the wording of all versions."""

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


_CHECK_CONNECTION = advice(
    "check that the hosts reach each other on this interface, firewalls included: `hvdprof net "
    "--hosts`",
    "Set NCCL_SOCKET_IFNAME=<interface> to one that both have.",
    command="hvdprof net --hosts",
)
_CHECK_PEER = advice(
    "check whether the peer died before this",
    "Then run `ibstat` and `perfquery` on both hosts. A lossy fabric tolerates more with "
    "NCCL_IB_TIMEOUT=22 and NCCL_IB_RETRY_CNT=7.",
)
_READ_ON = advice(
    "read the log from this line on",
    "Later errors on other ranks usually follow from the first.",
)


_PARTS = {
    "nvls": ("NVLS (NVLink SHARP)", "NCCL_NVLS_ENABLE=0"),
    "mnnvl": ("MNNVL (NVLink between hosts)", "NCCL_MNNVL_ENABLE=0"),
    "gin": ("GIN (networking from the GPU)", "NCCL_GIN_ENABLE=0"),
}


def optional_part_failed(recording: NcclRecording) -> Iterator[Finding]:
    """A part of NCCL that jobs can do without could not be set up."""
    problems = recording.problems
    warned = problems[problems["kind"] == "warning"]
    for key, (name, setting) in _PARTS.items():
        source = rf"(?:^|/){key}\w*(?:/\w+)?\.(?:cc|cu)\b"
        own = warned[warned["where"].astype(str).str.contains(source).astype(bool)]
        names = "nccl-optional-part-failed", f"{key.upper()} setup failed"
        fix = set_to(setting, " on all ranks to run without it")
        yield from _of_warning(own, problems, names, f"NCCL could not set up {name}", fix)


def _of_warning(
    own: pd.DataFrame, problems: pd.DataFrame, names: tuple[str, str], meaning: str, fix: Advice
) -> Iterator[Finding]:
    """A finding on warnings of one kind, by its id and title, with the first as evidence."""
    if own.empty:
        return
    row = first_row(own)
    continued = not is_missing(row["progress_line"])
    failed = not continued and (problems["kind"] == "trail").any()
    yield Finding(
        names[0],
        "error" if failed else "warning",
        hosts_of(own) or "job",
        names[1],
        sentences(
            f"{meaning}: {str(row['text']).rstrip('.')}.",
            "The process continued." if continued else "",
        ),
        fix,
        "likely",
        *shown(own),
    )


_MEANINGS: tuple[tuple[str, str, str, Advice], ...] = (
    (
        r"shared memory segment|extend /dev/shm|posix_fallocate failed",
        "shared memory of NCCL not created",
        "NCCL could not create a segment in /dev/shm of this host or container",
        advice(
            "run `df -h /dev/shm` where the ranks run",
            "If it is full or small, give the container more: `docker run --shm-size=1g`. In "
            "Kubernetes, mount an emptyDir with `medium: Memory` there.",
            command="df -h /dev/shm",
        ),
    ),
    (
        r"(?:ibv_|register memory).*Cannot allocate memory",
        "no memory for the network adapter",
        "The system gave the network adapter no memory",
        advice(
            "run `ulimit -l` within the job",
            "If it is not unlimited, raise memlock in /etc/security/limits.conf, or LimitMEMLOCK "
            "of the service that starts the job.",
            command="ulimit -l",
        ),
    ),
    (
        r"collective mismatch error, local size \d+ remote size \d+",
        "collective mismatch, says NCCL",
        "A rank sends more than its peer expects",
        advice(
            "check that all ranks call the same collectives in one order",
            "Compare NCCL's version on the hosts. Up to 2.7.7, send and receive print it in error.",
        ),
    ),
)
"""Pattern, title, meaning and action, from what NCCL's maintainers answer to such lines."""


def known_warning(recording: NcclRecording) -> Iterator[Finding]:
    """Warnings whose meaning is known, each kind once."""
    problems = recording.problems
    warned = problems[(problems["kind"] == "warning") & problems["progress_line"].isna()]
    for pattern, title, meaning, action in _MEANINGS:
        own = warned[warned["text"].astype(str).str.contains(pattern).astype(bool)]
        yield from _of_warning(own, problems, ("nccl-known-warning", title), meaning, action)


def failed_work_request(recording: NcclRecording) -> Iterator[Finding]:
    """InfiniBand work requests that failed."""
    problems = recording.problems[recording.problems["kind"] == "completion"]
    if problems.empty:
        return
    code = int(first_row(problems)["code"])
    meaning = _COMPLETIONS.get(code, "see ibv_wc_status in verbs.h")
    yield Finding(
        "nccl-ib-completion-error",
        "error",
        hosts_of(problems),
        "failed InfiniBand work request",
        f"An InfiniBand work request failed with status {code} ({meaning}).",
        _CHECK_PEER,
        "certain",
        *shown(problems),
    )


def error_trail(recording: NcclRecording) -> Iterator[Finding]:
    """The first error and what followed it."""
    problems = recording.problems
    trail = matching(problems[problems["kind"] == "trail"], "where", _TOP_CALLERS)
    warned = problems[
        (problems["kind"] == "warning") & ~problems["text"].astype(str).str.contains(HARMLESS)
    ]
    failed = problems[problems["kind"] == "failure"]
    requests = problems[problems["kind"] == "completion"]
    if trail.empty and failed.empty:
        yield from _warning_without_error(recording, warned)
        return
    first = problems.loc[
        trail.index.union(warned.index).union(failed.index).union(requests.index).sort_values()
    ]
    row = first_row(first)
    code = first_row(trail)["code"] if not trail.empty else None
    meaning = "" if code is None else f" ({_RESULTS.get(int(code), f'code {int(code)}')})"
    followed = int(trail["count"].sum() + failed["count"].sum())
    rank = f" on rank {int(row['tag_rank'])}" if not is_missing(row["tag_rank"]) else ""
    unconnected = bool(_is_unconnected(first.iloc[:1]).any())
    yield Finding(
        "nccl-error-trail",
        "error",
        str(row["host"]) or "job",
        "NCCL connection failed" if unconnected else "NCCL error",
        sentences(
            "Two ranks could not connect, or their connection broke." if unconnected else "",
            f"NCCL failed{meaning}{rank}. {_lines(followed)} the error on.",
        ),
        _CHECK_CONNECTION if unconnected else _READ_ON,
        "certain" if not trail.empty else "likely",
        *shown(first),
    )


def _warning_without_error(recording: NcclRecording, warned: pd.DataFrame) -> Iterator[Finding]:
    problems = recording.problems
    retried = problems[problems["kind"] == "retry"]
    lost = pd.concat([warned, retried]).sort_index()
    lost = lost[_is_unconnected(lost) & lost["progress_line"].isna()]
    if not lost.empty:
        yield _unconnected(lost)
    rest = warned[~warned.index.isin(lost.index)]
    if rest.empty:
        return
    number = int(rest["count"].sum())
    often = "once" if number == 1 else f"{units.count(number)} times"
    behind = rest["progress_line"].dropna()
    went_on = (
        f"It continued: line {int(behind.max())} shows progress of the same process."
        if len(behind) == len(rest)
        else "The log does not show whether the job continued."
    )
    yield Finding(
        "nccl-warnings",
        "note",
        hosts_of(rest),
        "NCCL warnings",
        f"NCCL warned {often}. {went_on}",
        advice(
            "read the first warning",
            "" if recording.has_info else "NCCL_DEBUG=INFO logs what led to it.",
        ),
        "possible",
        *shown(rest),
    )


def _is_unconnected(problems: pd.DataFrame) -> "pd.Series[bool]":
    return problems["text"].astype(str).str.contains(_UNCONNECTED).astype(bool)


def _unconnected(lost: pd.DataFrame) -> Finding:
    warned = lost[lost["kind"] == "warning"]
    number = int(lost["count"].sum())
    often = "once" if number == 1 else f"{units.count(number)} times"
    return Finding(
        "nccl-connection-failed",
        "error" if len(warned) else "warning",
        hosts_of(lost),
        "NCCL connection failed",
        f"Connecting to another rank failed {often}, and the log shows no progress of the process "
        "behind it.",
        _CHECK_CONNECTION,
        "likely",
        *shown(warned if len(warned) else lost),
    )


def _lines(number: int) -> str:
    return "1 line passes" if number == 1 else f"{units.count(number)} lines pass"
