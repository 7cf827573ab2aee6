"""What is wrong or unusual in a run: its rules applied, and their findings sorted."""

from collections.abc import Callable, Iterable, Iterator

import pandas as pd

from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding, by_gravity, by_severity
from hvdprof.model.job_losses import EVALUATION_EXCLUDED
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.model.tables.log_tables import INCIDENTS, STALLS
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_TIMEOUTS

Rule = Callable[[Evidence], Iterable[Finding]]


def by_rules(evidence: Evidence, rules: Iterable[Rule]) -> pd.DataFrame:
    """FINDINGS of a run and of its NCCL logs: errors first, within a severity the costliest first.

    A loss is a finding from 5 % of the step on, a warning from 10 % and an error from 20 %.

    Args:
        evidence: The run and its tables.
        rules: Those of the steps of the analysis, in their order.
    """
    found = [finding for rule in rules for finding in rule(evidence)]
    outside = {
        _cell(finding): finding.job_share for finding in found if finding.id == EVALUATION_EXCLUDED
    }
    of_run = sorted(
        found, key=lambda finding: by_gravity(finding, outside.get(_cell(finding), 0.0))
    )
    own = FINDINGS.frame([finding.row() for finding in of_run])
    return by_severity(own, *_of_logs(evidence))


def _of_logs(evidence: Evidence) -> Iterator[pd.DataFrame]:
    # Runs without logs need none of these modules.
    if any(table.name in evidence.run.frames for table in (COLLECTIVE_TIMEOUTS, INCIDENTS, STALLS)):
        from hvdprof.analyze.findings.log_findings import log_findings

        yield log_findings(evidence.run)
    if evidence.run.nccl:
        from hvdprof.analyze.findings.nccl_findings import findings_of_run
        from hvdprof.analyze.findings.nccl_rules.nccl_network_rules import WRONG_INTERFACE

        nccl = findings_of_run(evidence.run.nccl)
        yield nccl[(nccl["id"] != WRONG_INTERFACE).to_numpy()] if evidence.is_on_one_host else nccl


def _cell(finding: Finding) -> tuple[str, int | None, str]:
    return finding.model, finding.np, finding.engine
