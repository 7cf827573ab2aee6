"""The checks of the doctor: a tuple, each from the survey to one finding."""

from collections.abc import Callable, Iterable

from hvdprof.machine.doctor import check_hardware, check_settings, check_software
from hvdprof.machine.doctor.check_result import Finding
from hvdprof.machine.doctor.survey import Survey

# From what everything rests on to what only makes numbers better.
CHECKS: tuple[Callable[[Survey], Finding], ...] = (
    check_software.check_python,
    check_software.check_torch,
    check_software.check_horovod,
    check_software.check_controllers,
    check_software.check_operations,
    check_software.check_mpi,
    check_software.check_mpi_alone,
    check_software.check_nccl,
    check_hardware.check_gpus,
    check_hardware.check_topology,
    check_hardware.check_nics,
    check_hardware.check_hostname,
    check_hardware.check_cores,
    check_hardware.check_load,
    check_settings.check_threads,
    check_settings.check_timeline,
    check_settings.check_autotune,
    check_settings.check_job_variables,
    check_settings.check_settings,
    check_hardware.check_build_tools,
    check_hardware.check_disk,
)


def findings_of(survey: Survey) -> list[Finding]:
    """Every finding about a survey, in the order of ``CHECKS``."""
    return [check(survey) for check in CHECKS]


def can_bench(findings: Iterable[Finding]) -> bool:
    """Whether ``hvdprof bench`` can run: nothing was found that stops it."""
    return not any(finding.stops_bench for finding in findings)
