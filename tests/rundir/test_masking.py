import pytest

from hvdprof.rundir.masking import mask_command, mask_value, recorded_environment


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HOROVOD_SECRET_KEY", "abc", "***"),
        ("SLURM_JWT_TOKEN", "abc", "***"),
        ("HOROVOD_CYCLE_TIME", "1", "1"),
        ("HOROVOD_SECRET_KEY", "", ""),
        ("NCCL_X", "http://user:pw@host/x", "http://***@host/x"),
    ],
)
def test_values(name: str, value: str, expected: str) -> None:
    assert mask_value(name, value) == expected


def test_only_what_shapes_a_job_is_recorded() -> None:
    environment = {"HOME": "/h", "NCCL_DEBUG": "INFO", "HOROVOD_SECRET_KEY": "s", "OMP_X": "1"}
    assert recorded_environment(environment) == {
        "HOROVOD_SECRET_KEY": "***",
        "NCCL_DEBUG": "INFO",
        "OMP_X": "1",
    }


def test_commands() -> None:
    command = ["run", "API_KEY=abc", "--token", "abc", "--password=abc", "--np", "2", "A=b"]
    assert mask_command(command) == [
        *("run", "API_KEY=***", "--token", "***", "--password=***", "--np", "2", "A=b"),
    ]
