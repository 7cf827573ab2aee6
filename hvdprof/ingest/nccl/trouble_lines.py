"""Warnings, error trails, failed work requests, watchdogs, and the versions that a log states."""

import re

from hvdprof.ingest.nccl.logbook import Logbook, Message
from hvdprof.ingest.nccl.trouble_counts import Problem, Stated
from hvdprof.rundir.log_prefixes import tagged_rank

_VERSION = re.compile(
    r"[NR]CCL version(?: :)? (\d{1,3}\.\d{1,3}\.\d{1,3})(?:[+-]([a-z]+\d+(?:\.\d+)*))?"
)
_TRAIL = re.compile(r"^(\S+\.(?:cc|cu|cpp|c|h)):(\d{1,7}) -> (\d{1,4})\b")
_COMPLETION = re.compile(
    r"Got completion from peer \S+ with (?:error|status)[ =](?:[A-Z_]+\()?(\d{1,4})"
)
_WATCHDOG = re.compile(
    r"\[Rank (\d{1,7})\] (Watchdog caught collective operation timeout: WorkNCCL\([^)]*\)?.{0,200})"
)
_DIED = re.compile(r"\brank (\d{1,7}) died from signal (\d{1,3})")
_FAILURE = re.compile(
    r"Test NCCL failure|NCCL error|nccl(?:UnhandledCuda|System|Internal|Remote|Invalid\w+)\w*Error"
)


def read_version(log: Logbook, said: Message) -> bool:
    """`NCCL version 2.22.3+cuda12.2` with a prefix."""
    process = log.processes[said.process]
    log.quote(said)
    return _versions(log, said.text, (process.host, process.pid, said.file, said.line))


def read_trail(log: Logbook, said: Message) -> bool:
    """`transport/net.cc:1134 -> 6`: a caller that passed an error on."""
    found = _TRAIL.match(said.text)
    if found is None:
        return False
    _keep(log, said, "trail", (int(found[3]), f"{found[1]}:{found[2]}"))
    return True


def read_warning(log: Logbook, said: Message) -> bool:
    """Any line of level WARN; failed InfiniBand work requests have a kind of their own."""
    found = _COMPLETION.search(said.text)
    if found is not None:
        _keep(log, said, "completion", (int(found[1]), said.where))
    else:
        _keep(log, said, "warning", (None, said.where))
    return True


def read_foreign(log: Logbook, text: str, file: str, line: int) -> bool:
    """A line without NCCL's prefix: bare versions, PyTorch's watchdog, a launcher's last words."""
    understood = _foreign(log, text, file, line)
    if understood:
        log.quote_text(file, line, text)
    return understood


def _foreign(log: Logbook, text: str, file: str, line: int) -> bool:
    if _versions(log, text, ("", None, file, line)):
        return True
    watchdog = _WATCHDOG.search(text)
    if watchdog is not None:
        _outside(log, "watchdog", (None, int(watchdog[1]), watchdog[2].strip()), (file, line))
        return True
    died = _DIED.search(text)
    if died is not None:
        _outside(log, "died", (int(died[2]), int(died[1]), text.strip()), (file, line))
        return True
    if _FAILURE.search(text):
        _outside(log, "failure", (None, tagged_rank(text), text.strip()[:500]), (file, line))
        return True
    return False


def _versions(log: Logbook, text: str, speaker: tuple[str, int | None, str, int]) -> bool:
    found = _VERSION.findall(text)
    host, pid, file, line = speaker
    for version, build in found:
        log.troubles.keep_version(Stated(version, build, host, pid, 1, file, line))
    return bool(found)


def _keep(log: Logbook, said: Message, kind: str, told: tuple[int | None, str]) -> None:
    process = log.processes[said.process]
    code, where = told
    log.quote(said)
    log.troubles.keep(
        Problem(
            kind,
            code,
            where,
            said.text.strip(),
            process.tag_rank,
            process.host,
            process.pid,
            1,
            said.file,
            said.line,
            said.line,
        )
    )


def _outside(
    log: Logbook,
    kind: str,
    told: tuple[int | None, int | None, str],
    place: tuple[str, int],
) -> None:
    code, rank, text = told
    file, line = place
    log.troubles.keep(Problem(kind, code, "", text, rank, "", None, 1, file, line, line))
