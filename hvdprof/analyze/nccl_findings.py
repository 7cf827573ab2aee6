"""What is wrong or unusual, from NCCL logs alone: the list of rules and the door to them."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace

import pandas as pd

from hvdprof.analyze import nccl_host_rules as host
from hvdprof.analyze import nccl_network_rules as network
from hvdprof.analyze import nccl_trouble_rules as trouble
from hvdprof.analyze.nccl_rule import Finding
from hvdprof.analyze.nccl_settings_rules import settings_that_hurt
from hvdprof.model.finding_tables import FINDINGS, SEVERITIES
from hvdprof.model.nccl_recording import NcclRecording

Rule = Callable[[NcclRecording], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    trouble.error_trail,
    trouble.failed_work_request,
    trouble.watchdog,
    trouble.stuck_in_init,
    trouble.died,
    trouble.versions_differ,
    network.socket_despite_fast_network,
    network.plugin_missing,
    network.wrong_interface,
    network.gpudirect_off,
    host.peer_access_off,
    host.shared_memory_off,
    host.few_channels,
    host.topology_file,
    settings_that_hurt,
    network.slow_network_beside_fabric,
    trouble.aborted,
)


def nccl_findings(recording: NcclRecording) -> pd.DataFrame:
    """The findings on NCCL logs, errors first, then warnings, then notes.

    A healthy log gives notes at most. The evidence of a finding is the line itself.

    Returns:
        A frame of ``FINDINGS``.
    """
    found = [finding for rule in RULES for finding in rule(recording)]
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    quotes = recording.quotes
    texts = dict(zip(zip(quotes["file"], quotes["line"], strict=True), quotes["text"], strict=True))
    return FINDINGS.frame(
        [
            asdict(replace(finding, evidence=str(texts.get((finding.file, finding.line), ""))))
            for finding in found
        ]
    )
