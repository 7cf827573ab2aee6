"""What is wrong or unusual, from NCCL logs alone: the list of rules, and what applies them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pandas as pd

from hvdprof.analyze.findings.finding import Finding, by_severity
from hvdprof.analyze.findings.nccl_rules import nccl_error_rules as errors
from hvdprof.analyze.findings.nccl_rules import nccl_host_rules as host
from hvdprof.analyze.findings.nccl_rules import nccl_network_rules as network
from hvdprof.analyze.findings.nccl_rules import nccl_trouble_rules as trouble
from hvdprof.analyze.findings.nccl_rules.nccl_settings_rules import settings_that_hurt
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.model.tables.finding_tables import FINDINGS, SEVERITIES

Rule = Callable[[NcclRecording], Iterable[Finding]]

RULES: tuple[Rule, ...] = (
    errors.optional_part_failed,
    errors.known_warning,
    errors.error_trail,
    errors.failed_work_request,
    trouble.stuck_in_init,
    trouble.died,
    trouble.aborted,
    trouble.versions_differ,
    network.socket_despite_fast_network,
    network.unopened_devices,
    network.plugin_missing,
    network.wrong_interface,
    network.gpudirect_off,
    host.peer_access_off,
    host.shared_memory_off,
    host.few_channels,
    host.topology_file,
    settings_that_hurt,
    network.slow_network_beside_fabric,
)

_GENERIC = ("nccl-error-trail", "nccl-warnings")
"""Rules that quote a line without naming its cause."""


def nccl_findings(recording: NcclRecording) -> pd.DataFrame:
    """The findings on NCCL logs, errors first, then warnings, then notes.

    A healthy log gives notes at most. The quote of a finding is the log line itself.

    Returns:
        A frame of ``FINDINGS``.
    """
    found = _most_specific([finding for rule in RULES for finding in rule(recording)])
    found = _once_per_setting(found, recording)
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    quotes = recording.quotes
    texts = dict(zip(zip(quotes["file"], quotes["line"], strict=True), quotes["text"], strict=True))
    return FINDINGS.frame(
        [
            replace(finding, quote=str(texts.get((finding.file, finding.line), ""))).row()
            for finding in found
        ]
    )


def _most_specific(found: Sequence[Finding]) -> list[Finding]:
    """Without the generic findings on lines that another finding explains."""
    explained = {
        (finding.file, finding.line)
        for finding in found
        if finding.id not in _GENERIC and finding.line is not None
    }
    return [
        finding
        for finding in found
        if finding.id not in _GENERIC or (finding.file, finding.line) not in explained
    ]


def _once_per_setting(found: Sequence[Finding], recording: NcclRecording) -> list[Finding]:
    """Without further findings whose evidence is a setting that an earlier one has explained."""
    settings = recording.settings
    variables = {
        (str(file), int(line)): str(variable)
        for file, line, variable in zip(
            settings["file"], settings["line"], settings["variable"], strict=True
        )
    }
    first: list[Finding] = []
    seen: set[str] = set()
    for finding in found:
        variable = None if finding.line is None else variables.get((finding.file, finding.line))
        if variable is None or variable not in seen:
            first.append(finding)
        if variable is not None:
            seen.add(variable)
    return first


def findings_of_jobs(recordings: Sequence[NcclRecording]) -> pd.DataFrame:
    """The findings on the logs of several jobs, job by job, as a frame of ``FINDINGS``."""
    frames = [nccl_findings(recording).astype(object) for recording in recordings]
    return FINDINGS.frame(pd.concat(frames, ignore_index=True)) if frames else FINDINGS.empty()


def findings_of_run(recordings: Sequence[NcclRecording]) -> pd.DataFrame:
    """The findings on the logs of the passes of one run, errors first, each once.

    The passes of a run repeat one job: a finding on many of them has the quote of the first.

    Returns:
        A frame of ``FINDINGS``.
    """
    found = findings_of_jobs(recordings)
    return by_severity(found.drop_duplicates(["id", "severity", "subject", "evidence"]))
