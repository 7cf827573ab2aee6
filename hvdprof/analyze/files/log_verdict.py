"""The verdict on a standalone log: its worst finding, first failure, stalls or bandwidth."""

import re
import signal
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.log_rules.collective_timeout_rule import TIMEOUT_RULE
from hvdprof.analyze.findings.log_rules.ranks_behind_rule import BEHIND_RULE
from hvdprof.analyze.findings.log_rules.stall_rule import STALLED, stall_sentence
from hvdprof.analyze.findings.nccl_rules.nccl_trouble_rules import ABORTED
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.file_page import FileVerdict, Gravity
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.failures.known_failures import known_cause

_PROBLEMS = ("error", "warning")
_HANGS = (BEHIND_RULE, TIMEOUT_RULE)
# What follows from the failure of another rank or warns of one, never the failure itself.
_CONSEQUENCES = (
    "later-end",
    "internal-error",
    "shutdown",
    "background-loop",
    "stall",
    "stall-setting",
    "cache-eviction",
    "timeline-file",
    "adasum",
    "network-timeout",
)
_REPORTS = ("process-end", "job-end", "nccl-tests", "nccl-error", "mpi", "cancelled")
"""What launchers and libraries report of a failure elsewhere; it causes no error behind it."""

_ABORTED = "Communicators were aborted: the job failed, or its program ends that way."
_LOCAL = re.compile(r"local_rank: (\d{1,7}) \(pid: (\d{1,9})\)")
_MOST_CHARACTERS = 120
_FALLEN = 0.5


def log_verdict(
    findings: pd.DataFrame, stalls: pd.DataFrame, incidents: pd.DataFrame
) -> FileVerdict:
    """What went wrong first, else the worst finding with its fix; empty where nothing is wrong.

    A failure that stands before an error is its cause, and a failure after a stall follows from it.

    Args:
        findings: Rows of FINDINGS whose quote is in the file, the worst first.
        stalls: Rows of STALLS of the file.
        incidents: Rows of INCIDENTS of the file.
    """
    problems = findings[findings["severity"].isin(_PROBLEMS).to_numpy()]
    errors = problems[(problems["severity"] == "error").to_numpy()]
    if len(stalls):
        # Their own sentence names the ranks.
        problems, errors = (rows[(rows["id"] != STALLED).to_numpy()] for rows in (problems, errors))
    failures = incidents[~incidents["kind"].isin(_CONSEQUENCES).to_numpy()]
    # Behind another failure it follows from the lost rank.
    is_first = failures["line"] == failures["line"].min()
    failures = failures[(is_first | (failures["kind"] != "rendezvous")).to_numpy()]
    if len(stalls):
        failures = failures[(failures["line"] < stalls["line"].min()).to_numpy()]
    if len(errors):
        gravity = Gravity.HANG if errors["id"].isin(_HANGS).any() else Gravity.ERROR
        earlier = failures[(failures["line"] < errors["line"].min()).fillna(False).to_numpy()]
        earlier = earlier[~earlier["kind"].isin(_REPORTS).to_numpy()]
        if not len(earlier):
            return _of_findings(problems, gravity)
        first, behind = _of_failures(earlier), f" Behind it: {_titles(errors)}."
        short = first.short and f"{first.short}{behind}"
        return FileVerdict(f"{first.sentence}{behind}", gravity=gravity, short=short)
    if len(failures):
        others = incidents[(incidents["kind"] == "later-end").to_numpy()]
        return _of_failures(failures, others)
    if len(stalls):
        return FileVerdict(stall_sentence(stalls), gravity=Gravity.HANG)
    if not len(problems):
        return FileVerdict("")
    worst = _of_findings(problems, Gravity.WARNING)
    if not (findings["id"] == ABORTED).any():
        return worst
    # A job that may have failed comes before what makes it slow.
    return replace(
        worst, sentence=f"{_ABORTED} {worst.sentence}", short=f"{_ABORTED} {worst.headline}"
    )


def _titles(errors: pd.DataFrame) -> str:
    further = len(errors) - 1
    more = f" and {units.counted(further, 'further error')}" if further else ""
    return f"{errors['phrase'].iloc[0]}{more}"


def nccl_tests_verdict(runs: pd.DataFrame, rows: pd.DataFrame) -> FileVerdict:
    """The highest bus bandwidth of nccl-tests, or what is wrong with the result.

    Of several runs, the sentence names the one that it speaks of.

    Args:
        runs: Rows of NCCL_TEST_RUNS of the file.
        rows: Rows of NCCL_TESTS of the file.
    """
    number = len(runs)
    failed = runs[runs["failed"].to_numpy()]
    if len(failed):
        several = f"{len(failed)} of {number} runs failed, first" if number > 1 else ""
        begins = f"the run that begins in line {failed.iloc[0]['line']}"
        clause = f"{several} {begins}" if several else f"{begins} failed"
        return FileVerdict(f"Error: {clause}.", gravity=Gravity.ERROR)
    wrong = runs[(runs["num_wrong"].fillna(0) > 0).to_numpy()]
    if len(wrong):
        elements = units.counted(int(wrong["num_wrong"].sum()), "wrong element")
        where = f" in {_runs_of(wrong)}" if number > 1 else _wrong_sizes(rows)
        return _with_fix(
            f"Error: {elements}{where}", "run `dcgmi diag -r 3` on each host", Gravity.ERROR
        )
    measured = runs[runs["peak_busbw_gb_s"].notna().to_numpy()]
    if not len(measured):
        if not len(rows):
            return FileVerdict("")
        length = units.milliseconds(float(rows["time_ns"].median()))
        return FileVerdict(
            f"No bandwidth: with -C 1, nccl-tests times the call on the host (median {length})."
        )
    best = measured.iloc[int(measured["peak_busbw_gb_s"].to_numpy().argmax())].to_dict()
    if not best["peak_busbw_gb_s"]:
        largest = units.byte_size(int(rows["size_bytes"].max()))
        return FileVerdict(f"Bus bandwidth below 0.01 GB/s at every size here, up to {largest}.")
    sentence = _peak(best, best["np"], str(best["operation"]))
    if number == 1:
        fall = _fall(rows, best)
        gravity = Gravity.WARNING if fall else Gravity.NONE
        return FileVerdict(f"{sentence}{fall}", _still_rising(rows, best), gravity)
    return FileVerdict(_best_of(number, "runs", best["line"], sentence))


def _runs_of(runs: pd.DataFrame) -> str:
    lines = [int(line) for line in runs["line"]]
    if len(lines) == 1:
        return f"the run that begins in line {lines[0]}"
    return f"{len(lines)} runs, first the one of line {lines[0]}"


def allreduce_bench_verdict(rows: pd.DataFrame) -> FileVerdict:
    """The highest bus bandwidth of all_reduce_bench.py, from rows of ALLREDUCE_BENCH of a file."""
    if not len(rows):
        return FileVerdict("")
    row = rows.iloc[int(rows["busbw_gb_s"].to_numpy().argmax())].to_dict()
    best: FrameRow = {"peak_busbw_gb_s": row["busbw_gb_s"], "peak_size_bytes": row["size_bytes"]}
    sentence = _peak(best, row["np"], "all_reduce")
    number = int(rows["run"].nunique())
    if number == 1:
        return FileVerdict(sentence)
    return FileVerdict(_best_of(number, "tables", row["line"], sentence))


def _best_of(number: int, nouns: str, line: object, sentence: str) -> str:
    return f"Best of {number} {nouns} (line {line}): {sentence[0].lower()}{sentence[1:]}"


def _peak(best: FrameRow, np: object, operation: str) -> str:
    of = f" of {operation}" if operation else ""
    ranks = "" if is_missing(np) else f" on {units.counted(int(str(np)), 'rank')}"
    bandwidth = units.of_unit(best["peak_busbw_gb_s"], "GB/s")
    return (
        f"Peak bus bandwidth{of}{ranks}: {bandwidth} at {units.byte_size(best['peak_size_bytes'])}."
    )


def _still_rising(rows: pd.DataFrame, best: FrameRow) -> str:
    largest = int(rows["size_bytes"].max())
    if int(best["peak_size_bytes"]) < largest:
        return ""
    smaller = rows[(rows["size_bytes"] < largest).to_numpy()]["busbw_gb_s"]
    if not len(smaller) or float(best["peak_busbw_gb_s"]) < 1.1 * float(smaller.max()):
        return ""
    if is_missing(best["avg_busbw_gb_s"]):
        return (
            "The bandwidth still rises at the last size here, and the output has no `Avg bus "
            "bandwidth` line: it may be cut. Take the whole output."
        )
    return "The bandwidth still rises at the largest size; measure larger messages with -e."


def _fall(rows: pd.DataFrame, best: FrameRow) -> str:
    """A sentence on the size from which on the bandwidth is far below the peak; empty without."""
    peak, at = float(best["peak_busbw_gb_s"]), int(best["peak_size_bytes"])
    of_sizes = rows.groupby("size_bytes")["busbw_gb_s"].max().dropna().sort_index()
    larger = of_sizes[(of_sizes.index > at)]
    low = larger[(larger < _FALLEN * peak).to_numpy()]
    # A single slow size in between is no end of the fast ones.
    if low.empty or not (larger[low.index[0] :] < _FALLEN * peak).all():
        return ""
    size, bandwidth = units.byte_size(int(low.index[0])), units.of_unit(float(low.iloc[0]), "GB/s")
    return f" From {size} on it falls to {bandwidth}."


def _wrong_sizes(rows: pd.DataFrame) -> str:
    """At which sizes elements are wrong."""
    sizes = sorted(
        {int(size) for size in rows.loc[rows["num_wrong"].gt(0).fillna(False), "size_bytes"]}
    )
    if not sizes:
        return ""
    if len(sizes) == 1:
        return f" at {units.byte_size(sizes[0])}"
    ends = " to ".join(units.byte_size(sizes[end]) for end in (0, -1))
    return f" at {len(sizes)} sizes, {ends}"


def _with_fix(what: str, fix: str, gravity: Gravity) -> FileVerdict:
    return FileVerdict(f"{what}; fix: {fix}.", gravity=gravity, short=f"{what}.")


def _of_failures(failures: pd.DataFrame, others: pd.DataFrame | None = None) -> FileVerdict:
    rows = failures.to_dict("records")
    texts = [_reason(row, others) for row in rows]
    causes = [known_cause(text) for text in texts]
    at = next((place for place, cause in enumerate(causes) if cause), _first(rows))
    place = f"line {rows[at]['line']}"
    reason = texts[at].strip().rstrip(".,:;")
    if len(reason) > _MOST_CHARACTERS:
        reason = f"{reason[: _MOST_CHARACTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
    what, cause = f"Failure in {place}: {reason}", causes[at]
    if cause is None:
        return FileVerdict(f"{what}.", gravity=Gravity.ERROR)
    return _with_fix(f"{what}; cause: {cause.cause}", cause.action, Gravity.ERROR)


def _first(rows: Sequence[Mapping[Hashable, object]]) -> int:
    """The first exception, as launchers report ends late; else the first row, or earliest end."""
    kinds = [str(row["kind"]) for row in rows]
    if "exception" in kinds:
        return kinds.index("exception")
    first = next((place for place, kind in enumerate(kinds) if kind != "job-end"), 0)
    timed = [place for place, row in enumerate(rows) if row["failed_at"]]
    return min(timed, key=lambda place: str(rows[place]["failed_at"])) if first in timed else first


def _reason(row: FrameRow, others: pd.DataFrame | None) -> str:
    if row["kind"] == "job-end" and others is not None and len(others):
        named = ranks_named(others["failed_rank"])
        return f"{named} failed; which rank failed first is not in this file"
    if row["kind"] == "job-end":
        return "a process ended with a non-zero exit code; which rank is not in this file"
    if row["kind"] != "process-end":
        rank = "" if is_missing(row["rank"]) else f"rank {row['rank']}: "
        return f"{rank}{row['message']}"
    named = ended_process(row)
    code = 0 if is_missing(row["exit_code"]) else int(row["exit_code"])
    number = code - 128 if is_missing(row["signal"]) else int(row["signal"])
    first = f", first of all ranks ({row['host']}, {row['failed_at']})" if row["host"] else ""
    if is_missing(row["signal"]) and is_missing(row["exit_code"]):
        return f"{named} failed{first}"
    if number in {int(sign) for sign in signal.Signals}:
        return f"{named} was ended by {signal.Signals(number).name}{first}"
    return f"{named} ended with exit code {code}{first}"


def ended_process(row: FrameRow) -> str:
    """The process whose end a row of INCIDENTS reports: its rank, or its number on its host."""
    if not is_missing(row["failed_rank"]):
        return f"rank {row['failed_rank']}"
    local = _LOCAL.search(str(row["message"]))
    return f"local rank {local[1]} (pid {local[2]})" if local else "a rank"


def _of_findings(problems: pd.DataFrame, gravity: Gravity) -> FileVerdict:
    worst = problems.iloc[0]
    numbers = problems["severity"].astype(str).value_counts()
    counted = " and ".join(
        units.counted(int(numbers[name]), name) for name in _PROBLEMS if name in numbers
    )
    lead = f"{counted}, first" if len(problems) > 1 else str(worst["severity"]).capitalize()
    return _with_fix(f"{lead}: {worst['phrase']}", str(worst["fix"]), gravity)
