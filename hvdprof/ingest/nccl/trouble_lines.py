"""Warnings, error trails, failed work requests, watchdogs, and the versions that a log states."""

import re
from dataclasses import replace

from hvdprof.ingest.nccl.line_reader import reads
from hvdprof.ingest.nccl.logbook import Logbook, Message, Problem, Stated

_VERSION = re.compile(
    r"[NR]CCL version(?: :)? (\d{1,3}\.\d{1,3}\.\d{1,3})(?:[+-]([a-z]+\d+(?:\.\d+)*))?"
)
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


@reads(r"^(\S+\.(?:cc|cu|cpp|c|h)):(\d{1,7})(?: \([^\s()]{1,200}\))? -> (\d{1,4})\b")
def read_trail(log: Logbook, said: Message, match: re.Match[str]) -> None:
    """`transport/net.cc:1134 -> 6`: a caller that passed an error on; 2.30 adds `(function)`."""
    _keep(log, said, "trail", int(match[3]), f"{match[1]}:{match[2]}")


def read_warning(log: Logbook, said: Message) -> bool:
    """Any line of level WARN; failed InfiniBand work requests have a kind of their own."""
    completion = _COMPLETION.search(said.text)
    code = int(completion[1]) if completion else None
    _keep(log, said, "completion" if completion else "warning", code, said.where)
    return True


def read_retry(log: Logbook, said: Message) -> bool:
    """`Call to connect returned Connection timed out, retrying`, which is no warning yet.

    From 2.23 on `socketPollConnect: connect to ADDRESS returned ..., retrying (1/34) after ...`.
    """
    is_call = "Call to " in said.text or "connect to " in said.text
    retries = is_call and "retrying" in said.text
    if retries:
        _keep(log, said, "retry", None, said.where)
    return retries


def read_foreign(log: Logbook, text: str, rank: int | None, place: tuple[str, int]) -> bool:
    """A line without NCCL's prefix: bare versions, PyTorch's watchdog, a launcher's report.

    Args:
        log: Gets what the line says.
        text: The line.
        rank: The rank in its log prefix.
        place: Its file and line.
    """
    understood = _foreign(log, text, rank, place)
    if understood:
        log.quote_text(*place, text)
    return understood


def _foreign(log: Logbook, text: str, rank: int | None, place: tuple[str, int]) -> bool:
    file, line = place
    if _versions(log, text, ("", None, file, line)):
        return True
    watchdog, died = _WATCHDOG.search(text), _DIED.search(text)
    if watchdog is not None:
        problem = Problem("watchdog", text=watchdog[2].strip(), tag_rank=int(watchdog[1]))
    elif died is not None:
        problem = Problem("died", int(died[2]), text=text.strip(), tag_rank=int(died[1]))
    elif _FAILURE.search(text):
        problem = Problem("failure", text=text.strip()[:500], tag_rank=rank)
    else:
        return False
    log.troubles.keep(replace(problem, file=file, line=line))
    return True


def _versions(log: Logbook, text: str, speaker: tuple[str, int | None, str, int]) -> bool:
    found = _VERSION.findall(text)
    host, pid, file, line = speaker
    for version, build in found:
        log.troubles.keep_version(Stated(version, build, host, pid, 1, file, line))
    return bool(found)


def _keep(log: Logbook, said: Message, kind: str, code: int | None, where: str) -> None:
    process = log.processes[said.process]
    log.quote(said)
    log.troubles.keep(
        Problem(
            kind=kind,
            code=code,
            where=where,
            text=said.text.strip(),
            tag_rank=process.tag_rank,
            host=process.host,
            pid=process.pid,
            file=said.file,
            line=said.line,
            process=said.process,
        )
    )
