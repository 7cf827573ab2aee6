"""Facts about a host, on files as Linux and its drivers write them."""

import os
import subprocess
from pathlib import Path
from typing import get_type_hints

import pytest

from hvdprof.collect import host_facts as module
from hvdprof.collect.host_facts import (
    Identity,
    gpus,
    host_cores,
    host_facts,
    identity_from_environment,
    usable_cores,
)
from hvdprof.rundir.recording.sample_format import HostFacts


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control group of this process and its parent, both without limits."""
    own = tmp_path / "job" / "rank"
    own.mkdir(parents=True)
    monkeypatch.setattr(module, "_CGROUP_ROOT", tmp_path)
    monkeypatch.setattr(module, "_CGROUP_V1", tmp_path / "cpu")
    monkeypatch.setattr(module, "cgroups", lambda: [own, own.parent, tmp_path])
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    return own


def test_every_declared_fact_is_there() -> None:
    facts = host_facts()
    assert facts.keys() == get_type_hints(HostFacts).keys()
    assert 1 <= facts["num_cores"] <= (facts["num_machine_cores"] or 0)


def test_without_limits_the_job_has_all_cores(cgroup: Path) -> None:
    assert host_cores() == 64


@pytest.mark.parametrize(("listed", "cores"), [("0-3", 4), ("0-3,8,10-11", 7), ("5", 1)])
def test_cores_of_the_innermost_group_count(cgroup: Path, listed: str, cores: int) -> None:
    (cgroup / "cpuset.cpus.effective").write_text(f"{listed}\n")
    (cgroup.parent / "cpuset.cpus.effective").write_text("0-31\n")
    assert host_cores() == cores


@pytest.mark.parametrize(("quota", "cores"), [("250000 100000", 2), ("50000 100000", 1)])
def test_the_smallest_quota_bounds_the_cores(cgroup: Path, quota: str, cores: int) -> None:
    (cgroup / "cpu.max").write_text("max 100000\n")
    (cgroup.parent / "cpu.max").write_text(f"{quota}\n")
    assert host_cores() == cores
    assert usable_cores() <= cores


def test_a_quota_of_old_groups_counts_too(cgroup: Path, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("300000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert host_cores() == 3


def test_gpus_are_those_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "0, NVIDIA H100, 81559, 550.54\n1, NVIDIA H100, [N/A], 550.54\nno devices\n"
    answer = subprocess.CompletedProcess(["nvidia-smi"], 0, stdout=rows)
    monkeypatch.setattr("shutil.which", lambda _: "nvidia-smi")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    assert gpus() == [
        {"index": 0, "name": "NVIDIA H100", "memory_mib": 81559, "driver": "550.54"},
        {"index": 1, "name": "NVIDIA H100", "memory_mib": None, "driver": "550.54"},
    ]


def test_a_driver_that_fails_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("nvidia-smi", 20)

    monkeypatch.setattr("shutil.which", lambda _: "nvidia-smi")
    monkeypatch.setattr(subprocess, "run", failing)
    assert gpus() == []


@pytest.mark.parametrize(
    ("environment", "identity"),
    [
        (
            {
                "HOROVOD_RANK": "3",
                "HOROVOD_SIZE": "4",
                "HOROVOD_LOCAL_RANK": "1",
                "HOROVOD_LOCAL_SIZE": "2",
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "1",
            },
            Identity(3, 4, 1, 2),
        ),
        (
            {
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            Identity(1, 2, 1, 2),
        ),
        (
            {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"},
            Identity(5, 8, 1, 4),
        ),
        ({"PMI_RANK": "5", "PMI_SIZE": "8"}, Identity(5, 8, 0, 1)),
        (
            {
                "PMI_RANK": "5",
                "PMI_SIZE": "8",
                "PALS_RANKID": "5",
                "PALS_LOCAL_RANKID": "1",
                "PALS_LOCAL_SIZE": "4",
            },
            Identity(5, 8, 1, 4),
        ),
        (
            {
                "JSM_NAMESPACE_RANK": "5",
                "JSM_NAMESPACE_SIZE": "8",
                "JSM_NAMESPACE_LOCAL_RANK": "1",
                "JSM_NAMESPACE_LOCAL_SIZE": "4",
            },
            Identity(5, 8, 1, 4),
        ),
        (
            {
                "RANK": "3",
                "WORLD_SIZE": "4",
                "LOCAL_RANK": "1",
                "LOCAL_WORLD_SIZE": "2",
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "1",
            },
            Identity(3, 4, 1, 2),
        ),
        (
            {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "2"},
            Identity(2, 4, 2, 1),
        ),
        ({}, None),
        ({"HOROVOD_RANK": "1"}, None),
        ({"HOROVOD_RANK": "x", "HOROVOD_SIZE": "2"}, None),
    ],
)
def test_identity_of_each_launcher(environment, identity):
    assert identity_from_environment(environment) == identity
