from typing import Any

import pytest

from hvdprof.machine.doctor import check_settings as checks
from hvdprof.machine.doctor.check_result import State
from tests.builders.survey import make_survey


@pytest.mark.parametrize(
    ("check", "environment", "state", "word", "fix"),
    [
        (checks.check_threads, {"OMP_NUM_THREADS": "1"}, State.FOUND, "OMP_NUM_THREADS=1", ""),
        (checks.check_threads, {}, State.UNSET, "starts 4 threads", "export OMP_NUM_THREADS=1"),
        (checks.check_threads, {"MKL_NUM_THREADS": "8"}, State.RISK, "more than the 4", "unset"),
        (checks.check_timeline, {}, State.FOUND, "not set", ""),
        (
            checks.check_timeline,
            {"HOROVOD_TIMELINE": "/t.json"},
            State.RISK,
            "/t.json",
            "unset HOROVOD_TIMELINE",
        ),
        (checks.check_autotune, {}, State.FOUND, "off", ""),
        (checks.check_autotune, {"HOROVOD_AUTOTUNE": "0"}, State.FOUND, "off", ""),
        (checks.check_autotune, {"HOROVOD_AUTOTUNE": "1"}, State.RISK, "change", "unset"),
        (checks.check_settings, {}, State.FOUND, "none set", ""),
        (
            checks.check_settings,
            {"HOROVOD_CYCLE_TIME": "5"},
            State.FOUND,
            "HOROVOD_CYCLE_TIME",
            "",
        ),
        (
            checks.check_settings,
            {"HOROVOD_CACHE_CAPACITY": "0", "NCCL_DEBUG": "info"},
            State.RISK,
            "negotiates",
            "unset HOROVOD_CACHE_CAPACITY NCCL_DEBUG",
        ),
        (checks.check_settings, {"HOROVOD_CACHE_CAPACITY": "1024"}, State.FOUND, "CACHE", ""),
        (checks.check_settings, {"NCCL_P2P_DISABLE": "0"}, State.FOUND, "NCCL_P2P", ""),
        (checks.check_settings, {"NCCL_P2P_DISABLE": "1"}, State.RISK, "memory", "unset NCCL_P2P"),
    ],
)
def test_finding(
    check: Any, environment: dict[str, str], state: State, word: str, fix: str
) -> None:
    finding = check(make_survey(environment=environment))
    assert finding.state == state
    assert not finding.stops_bench
    assert word in finding.detail
    assert (fix in finding.fix) if fix else (finding.fix == "")


def test_a_shell_that_is_a_rank_itself() -> None:
    assert checks.check_job_variables(make_survey()).state == State.FOUND
    finding = checks.check_job_variables(make_survey(launcher_variables=["PMI_RANK"]))
    assert (finding.state, finding.fix) == (State.RISK, "unset PMI_RANK")
