"""What is wrong or unusual in a run: the list of rules, and the function that applies them."""

from collections.abc import Callable, Iterable

import pandas as pd

from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding, by_gravity, by_severity
from hvdprof.analyze.findings.log_findings import log_findings
from hvdprof.analyze.findings.nccl_findings import findings_of_run
from hvdprof.analyze.findings.nccl_rules.nccl_network_rules import WRONG_INTERFACE
from hvdprof.analyze.findings.run_rules import causes_rules as causes
from hvdprof.analyze.findings.run_rules import communication_rules as communication
from hvdprof.analyze.findings.run_rules import evaluation_rules as evaluation
from hvdprof.analyze.findings.run_rules import evidence_rules as of_evidence
from hvdprof.analyze.findings.run_rules import exposed_rules as exposed
from hvdprof.analyze.findings.run_rules import named_cause_rules as named
from hvdprof.analyze.findings.run_rules import network_rules as network
from hvdprof.analyze.findings.run_rules import settings_rules as settings
from hvdprof.analyze.findings.run_rules import shared_phase_rules as shared_phases
from hvdprof.analyze.findings.run_rules import stall_rules as stalls
from hvdprof.analyze.findings.run_rules import watchdog_rules as watchdog
from hvdprof.model.job_losses import EVALUATION_EXCLUDED
from hvdprof.model.tables.finding_tables import FINDINGS

Rule = Callable[[Evidence], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    named.named_causes,
    causes.jitter,
    shared_phases.input_bound,
    exposed.exposed_transfer,
    causes.compute_inflation,
    shared_phases.outside_phases,
    causes.size_cliff,
    network.slow_host_link,
    network.far_host,
    stalls.stalled_steps,
    evaluation.evaluations,
    settings.fusion_too_small,
    settings.cycle_too_long,
    settings.cache_off,
    settings.autotune_active,
    settings.timeline_slows,
    communication.many_small_messages,
    communication.fusion_too_large,
    watchdog.stalled_tensors,
    watchdog.unequal_batches,
    settings.cache_evictions,
    settings.fp16_without_gain,
    settings.adasum_costs,
    of_evidence.oversubscribed,
    settings.same_hostname,
    settings.tail_lost,
    settings.no_rank_evidence,
    of_evidence.faults_injected,
    of_evidence.clocks_contradict,
)


def findings(evidence: Evidence) -> pd.DataFrame:
    """FINDINGS of a run and of its NCCL logs: errors first, within a severity the costliest first.

    A loss is a finding from 5 % of the step on, a warning from 10 % and an error from 20 %.
    """
    found = [finding for rule in RULES for finding in rule(evidence)]
    outside = {
        _cell(finding): finding.job_share for finding in found if finding.id == EVALUATION_EXCLUDED
    }
    of_run = sorted(
        found, key=lambda finding: by_gravity(finding, outside.get(_cell(finding), 0.0))
    )
    own = FINDINGS.frame([finding.row() for finding in of_run])
    nccl = findings_of_run(evidence.run.nccl)
    if evidence.is_on_one_host:
        nccl = nccl[(nccl["id"] != WRONG_INTERFACE).to_numpy()]
    return by_severity(own, log_findings(evidence.run), nccl)


def _cell(finding: Finding) -> tuple[str, int | None, str]:
    return finding.model, finding.np, finding.engine
