"""What is wrong or unusual, from the output of jobs: the rules, and what applies them."""

from collections.abc import Callable, Iterable, Iterator

import pandas as pd

from hvdprof.analyze.findings.finding import Finding
from hvdprof.analyze.findings.log_rules import printed_warning_rules as warnings
from hvdprof.analyze.findings.log_rules.collective_timeout_rule import collective_timeout
from hvdprof.analyze.findings.log_rules.ranks_behind_rule import ranks_behind
from hvdprof.analyze.findings.log_rules.stall_rule import stalled_ranks
from hvdprof.model.run import Run
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_TIMEOUTS

RULES: tuple[Callable[[pd.DataFrame], Iterable[Finding]], ...] = (
    warnings.network_timeout,
    warnings.adasum_on_cpu,
)
"""Rules on the incidents of one file."""


def log_findings(run: Run) -> pd.DataFrame:
    """The findings on the output of jobs, as a frame of ``FINDINGS``.

    Args:
        run: A run whose tables hold the output of jobs.
    """
    return FINDINGS.frame([finding.row() for finding in _findings(run)])


def _findings(run: Run) -> Iterator[Finding]:
    timeouts, incidents = run.table(COLLECTIVE_TIMEOUTS.name), run.table(INCIDENTS.name)
    yield from ranks_behind(timeouts)
    for own in _by_job(timeouts):
        stated = {int(size) for size in own["world_size"].dropna()}
        num_ranks = stated.pop() if len(stated) == 1 else _num_ranks(run, set(own["file"]))
        logs = [one for one in run.nccl if one.line_kinds["file"].isin(own["file"]).any()]
        yield from collective_timeout(own, num_ranks, logs_nccl=any(one.has_info for one in logs))
    # A run directory has the rule of its watchdog, which knows more of them.
    if not run.recorded:
        for _, stalls in run.table(STALLS.name).groupby("file", observed=True, sort=False):
            yield from stalled_ranks(stalls)
    for file in dict.fromkeys(str(file) for file in incidents["file"]):
        own = incidents[(incidents["file"] == file).to_numpy()]
        for rule in RULES:
            yield from rule(own)


def _by_job(timeouts: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of each job: of all files where each holds one other rank, else of one file."""
    if timeouts.empty:
        return
    pairs = timeouts[["file", "rank"]].drop_duplicates()
    is_by_rank = not (pairs["file"].duplicated() | pairs["rank"].duplicated()).any()
    if is_by_rank and len(pairs) and pairs["rank"].notna().all():
        yield timeouts
        return
    for file in dict.fromkeys(str(file) for file in timeouts["file"]):
        yield timeouts[(timeouts["file"] == file).to_numpy()]


def _num_ranks(run: Run, files: set[str]) -> int | None:
    """The size of the communicators of some logs, else of the job, where it is one number."""
    sizes = {
        int(size)
        for recording in run.nccl
        if recording.line_kinds["file"].isin(files).any()
        for size in recording.communicators["num_ranks"].dropna()
        if size > 1
    } or {record.size for record in run.manifest.passes}
    return sizes.pop() if len(sizes) == 1 else None
