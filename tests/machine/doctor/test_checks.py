from hvdprof.machine.doctor.check_result import State
from hvdprof.machine.doctor.checks import CHECKS, can_bench, findings_of
from tests.builders.survey import make_build, make_survey


def test_a_machine_without_faults_can_bench_and_has_no_trap() -> None:
    findings = findings_of(make_survey())
    assert len(findings) == len(CHECKS)
    assert can_bench(findings)
    assert [finding.name for finding in findings if finding.state == State.RISK] == []


def test_names_are_unique_and_every_trap_names_its_cure() -> None:
    worst = make_survey(
        horovod=make_build(cuda_available=True, mpi=False),
        hostname_resolves=False,
        load_average=99.0,
        free_disk_bytes=1,
        environment={"HOROVOD_TIMELINE": "x", "HOROVOD_AUTOTUNE": "1", "NCCL_DEBUG": "INFO"},
        launcher_variables=["HOROVOD_RANK"],
        externally_managed=True,
    )
    findings = findings_of(worst)
    assert len({finding.name for finding in findings}) == len(CHECKS)
    risks = [finding for finding in findings if finding.state == State.RISK]
    assert len(risks) >= 8
    assert all(risk.fix for risk in risks)
    assert not can_bench(findings)


def test_analysis_only_cannot_bench_and_says_so_once_each() -> None:
    findings = findings_of(make_survey(torch=None, horovod=None, mpi=None))
    stopping = [finding.name for finding in findings if finding.stops_bench]
    assert stopping == ["torch", "horovod"]
