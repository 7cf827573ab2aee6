"""What works on this machine, and the installation of Horovod: check_machine, install_horovod."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from hvdprof.machine.doctor.check_result import Finding, State
from hvdprof.machine.doctor.checks import can_bench, findings_of
from hvdprof.machine.doctor.survey import take_survey
from hvdprof.machine.install.horovod_install import (
    Installer,
    InstallRequest,
    InstallResult,
    Progress,
)

__all__ = [
    "Finding",
    "InstallProgress",
    "InstallRequest",
    "InstallResult",
    "MachineReport",
    "State",
    "check_machine",
    "install_horovod",
]

InstallProgress = Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """What works on this machine.

    Attributes:
        findings: One per thing that was checked, in the order of ``hvdprof doctor``.
        can_bench: Whether ``hvdprof bench`` can run.
        facts: What the findings rest on, as JSON values; secrets are masked.
    """

    findings: tuple[Finding, ...]
    can_bench: bool
    facts: dict[str, object]


def check_machine() -> MachineReport:
    """Check this machine, as ``hvdprof doctor`` does; nothing is changed.

    >>> [finding.name for finding in check_machine().findings][:2]
    ['python', 'torch']
    """
    survey = take_survey()
    findings = findings_of(survey)
    facts = {name: _as_json(value) for name, value in dataclasses.asdict(survey).items()}
    return MachineReport(findings=tuple(findings), can_bench=can_bench(findings), facts=facts)


def install_horovod(request: InstallRequest, progress: InstallProgress) -> InstallResult:
    """Build Horovod for the torch of this Python, install it and try it out.

    Args:
        request: What to build.
        progress: Shows the progress.

    Raises:
        MissingExtraError: torch or another requirement of the build is not installed.
        EnvironmentNotReadyError: The machine lacks something, which the message names.
        BuildFailedError: The build or the trial failed; the message names the log.
        StorageError: The wheel or the log cannot be written.
    """
    return Installer(request, progress).install()


def _as_json(value: object) -> object:
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return str(value) if isinstance(value, Path) else value
