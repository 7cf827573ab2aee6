"""Rules on stalls that Horovod's stall check or hvdprof's watchdog saw.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.advice import advice, as_sentence, sentences
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding
from hvdprof.rank_names import ranks_named
from hvdprof.rundir.failures.launcher_failures import Failure, FailureKind
from hvdprof.rundir.recording.stall_format import (
    CHECKPOINT_STEP,
    STALLS_FILE,
    UNEQUAL_MORE,
    UNEQUAL_STEP,
    StallCause,
)

_READ_STACK = advice(
    "look at the quoted line of code, where the stalled rank was: slow input, a checkpoint or a "
    "lock"
)
_MISSING = advice(
    "look at what the missing ranks did at that time: evaluation, a checkpoint, an exception",
    "With uneven numbers of batches, use hvd.join() of Horovod or model.join() of DDP.",
)
_HUNG = advice(
    "check the network between the hosts and the log of NCCL or Gloo",
    "Every rank had submitted its tensors.",
    command="hvdprof net --hosts",
    first="Check the network between the hosts (`hvdprof net --hosts`) and the log of NCCL or "
    "Gloo.",
)
_MISMATCHED = advice(
    "call the same collectives in the same order on every rank",
    "Compare the conditions that lead to these lines, and the number of batches of each rank.",
)
_CHECKPOINT = advice(CHECKPOINT_STEP)
_UNEQUAL_TITLE = "unequal numbers of batches"
_UNEQUAL_ACTION = advice(UNEQUAL_STEP, UNEQUAL_MORE)
_BY_CAUSE = {
    StallCause.UNEQUAL: ("unequal-batches", _UNEQUAL_TITLE, _UNEQUAL_ACTION),
    StallCause.CHECKPOINT: ("stalled-tensors", "stalled tensors", _CHECKPOINT),
    StallCause.RANK: ("stalled-tensors", "stalled tensors", _READ_STACK),
    StallCause.MISMATCH: ("stalled-tensors", "mismatched collectives", _MISMATCHED),
    StallCause.COLLECTIVE: ("stalled-tensors", "hung collective", _HUNG),
}
"""Rule, title and action."""


def stalled_tensors(evidence: Evidence) -> Iterator[Finding]:
    """Stalls, one finding for hvdprof's watchdog and one for Horovod's stall check."""
    stalls, incidents = evidence.table("stalls"), evidence.table("incidents")
    incidents = incidents[(incidents["kind"] == "stall").to_numpy()]
    seen = incidents[_by_watchdog(incidents)]
    if len(seen):
        passes = [PurePath(str(file)).parent.name for file in seen["file"]]
        hung = seen[
            seen["until_end"].to_numpy() | np.isin(passes, list(_passes_that_hung(evidence)))
        ]
        # The last stall of a launch that hung is the hang; those before it ended.
        first = hung.iloc[-1] if len(hung) else seen.iloc[0]
        yield _of_watchdog(
            first, len(seen), stalls[_by_watchdog(stalls)], ended_the_job=len(hung) > 0
        )
    warned = stalls[~_by_watchdog(stalls)]
    if len(warned):
        yield _of_horovod(warned, incidents)


def unequal_batches(evidence: Evidence) -> Iterator[Finding]:
    """Ranks that lost a peer which had ended its loop: the job failed before anything stalled."""
    for _, failed in _failures(evidence):
        if failed.kind == FailureKind.UNEQUAL:
            said = as_sentence(failed.detail)
            yield Finding(
                "unequal-batches",
                "error",
                "ranks" if failed.rank is None else f"rank {failed.rank}",
                _UNEQUAL_TITLE,
                said,
                _UNEQUAL_ACTION,
                "certain",
                lead=said,
            )
            return


def _by_watchdog(rows: pd.DataFrame) -> "pd.Series[bool]":
    return rows["file"].astype(str).map(lambda file: PurePath(file).name == STALLS_FILE).eq(True)


def _passes_that_hung(evidence: Evidence) -> set[str]:
    """The launches that hvdprof ended because no rank made progress."""
    return {pass_id for pass_id, failure in _failures(evidence) if failure.kind == FailureKind.HUNG}


def _failures(evidence: Evidence) -> Iterator[tuple[str, Failure]]:
    """The failures of the run, each with its launch."""
    return (
        (record.id, segment.failure)
        for record in evidence.run.manifest.passes
        for segment in record.segments
        if segment.failure is not None
    )


def _of_watchdog(
    first: "pd.Series[Any]", num_seen: int, stalls: pd.DataFrame, *, ended_the_job: bool
) -> Finding:
    own = stalls[(stalls["line"] == first["line"]) & (stalls["file"] == first["file"])]
    number = "a stall" if num_seen == 1 else f"{units.count(num_seen)} stalls"
    said, stack = as_sentence(str(first["message"])), str(first["stack"])
    rule, title, action = _BY_CAUSE[StallCause(first["cause"])]
    hangs = f"Rank {first['hanging_rank']} hangs at {first['hangs_at']}."
    return Finding(
        rule,
        "error" if ended_the_job else "warning",
        "ranks" if pd.isna(first["failed_rank"]) else f"rank {int(first['failed_rank'])}",
        title,
        sentences(f"hvdprof's watchdog saw {number}.", said, _first_tensor(own)),
        _MISSING if action is _READ_STACK and not stack else action,
        "certain",
        file=str(first["file"]),
        line=int(first["line"]),
        quote=stack,
        lead=sentences(said, hangs if ended_the_job and first["hangs_at"] else ""),
    )


def _of_horovod(stalls: pd.DataFrame, incidents: pd.DataFrame) -> Finding:
    # Horovod 0.13 and earlier list the ranks that were ready: they wait, too.
    missing = stalls[(stalls["state"] != "ready").to_numpy()]
    ranks = sorted({int(rank) for rank in missing["stalled_rank"] if rank >= 0})
    where = f", missing on {ranks_named(ranks)}" if ranks else ""
    longest_s = float(stalls["waited_s"].max())
    lasting = f" for {units.seconds(longest_s)} or more" if longest_s > 0 else ""
    said = (
        f"Horovod's stall check warned {_times(int(stalls['warning'].nunique()))} that tensors "
        f"stalled{lasting}{where}."
    )
    first = (stalls if missing.empty else missing).iloc[0]
    logged = incidents[
        ((incidents["file"] == first["file"]) & (incidents["line"] == first["line"])).to_numpy()
    ]
    return Finding(
        "stalled-tensors",
        "error" if stalls["shutdown"].any() else "warning",
        f"rank {ranks[0]}" if len(ranks) == 1 else "ranks",
        "stalled tensors",
        sentences(
            said,
            _first_tensor(stalls if missing.empty else missing),
        ),
        _MISSING,
        "certain",
        file=str(first["file"]),
        line=int(first["line"]),
        quote=str(logged["message"].iloc[0]) if len(logged) else "",
        lead=said,
    )


def _first_tensor(stalls: pd.DataFrame) -> str:
    tensor = str(stalls["tensor"].iloc[0]) if len(stalls) else ""
    return f"The first stalled tensor is {tensor}." if tensor else ""


def _times(number: int) -> str:
    return "once" if number == 1 else f"{units.count(number)} times"
