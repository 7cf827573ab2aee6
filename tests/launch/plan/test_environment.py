from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hvdprof.launch.plan.environment import (
    inherited_environment,
    names_to_pass_on,
    pass_environment,
)
from hvdprof.launch.plan.settings import ScriptSettings
from hvdprof.machine.mpi import Mpi
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.manifest import PassRecord, SegmentRecord
from tests.builders.bench_settings import bench_settings
from tests.builders.survey import make_mpi
from tests.builders.training_job import segment

SCRIPT = ScriptSettings(command=("train",))
PATHS = PassPaths(Path("/runs/r/passes/p"))


def _record(mode: str = "throughput") -> PassRecord:
    return PassRecord(
        id="p",
        mode=mode,
        size=2,
        repeat=1,
        controller="mpi",
        oversubscribed=False,
        pinned=True,
        segments=[],
    )


def test_what_would_change_the_measurement_is_not_inherited() -> None:
    surrounding = {
        "PATH": "/bin",
        "HOROVOD_TIMELINE": "x.json",
        "HOROVOD_AUTOTUNE": "1",
        "HOROVOD_RANK": "3",
        "HOROVOD_LOCAL_SIZE": "4",
        "HOROVOD_FUSION_THRESHOLD": "1",
        "OMPI_COMM_WORLD_RANK": "3",
        "PMIX_RANK": "3",
        "WORLD_SIZE": "4",
        "TORCHELASTIC_RUN_ID": "x",
        # It would wait for another node.
        "PET_NNODES": "2",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
    }
    assert inherited_environment(surrounding) == {"PATH": "/bin", "HOROVOD_FUSION_THRESHOLD": "1"}


def test_names_for_other_hosts() -> None:
    surrounding = {"PATH": "", "HOME": "", "NCCL_DEBUG": "", "HOROVOD_TIMELINE": "", "OMP_X": ""}
    assert names_to_pass_on(surrounding) == ("NCCL_DEBUG", "OMP_X", "PATH")


def test_ranks_on_other_hosts_are_as_fast_as_those_here_on_gpus_of_their_own() -> None:
    fast = ("KMP_BLOCKTIME", "LD_PRELOAD", "OPENBLAS_NUM_THREADS", "TORCH_X", "UCX_TLS")
    surrounding = dict.fromkeys((*fast, "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_VISIBLE_DEVICES"), "1")
    assert names_to_pass_on(surrounding) == ("CUDA_DEVICE_MAX_CONNECTIONS", *fast)


@pytest.mark.parametrize(
    ("mode", "timeline", "cache"),
    [
        ("throughput", None, "7"),
        ("trace", "DYNAMIC", "7"),
        ("attribution", "DYNAMIC", "0"),
    ],
)
def test_modes(mode: str, timeline: str | None, cache: str) -> None:
    variables = pass_environment(bench_settings(cache_capacity=7), _record(mode), PATHS, None)
    assert variables.get("HOROVOD_TIMELINE") == timeline
    assert variables["HOROVOD_CACHE_CAPACITY"] == cache


def test_knobs_are_only_set_where_they_were_given() -> None:
    plain = pass_environment(bench_settings(), _record(), PATHS, None)
    assert not any(name.startswith("HOROVOD_") for name in plain)
    knobs = bench_settings(fusion_threshold_mb=0.5, cycle_time_ms=2.5, num_threads=3)
    set_ = pass_environment(knobs, _record(), PATHS, None)
    assert set_["HOROVOD_FUSION_THRESHOLD"] == "524288"
    assert set_["HOROVOD_CYCLE_TIME"] == "2.5"
    assert set_["OMP_NUM_THREADS"] == "3"
    assert set_["HVDPROF_RECORDER_DIR"] == "/runs/r/passes/p/recorder"


@pytest.mark.parametrize(
    ("flavour", "controller", "unbuffered"),
    [
        ("openmpi", "mpi", "1"),
        # Empty is off, even where a value is inherited.
        ("mpich", "mpi", ""),
        ("intel", "mpi", ""),
        ("mpich", "gloo", "1"),
    ],
)
def test_lines_are_written_whole_where_pieces_would_be_tagged(
    flavour: str, controller: str, unbuffered: str
) -> None:
    record = replace(_record(), controller=controller)
    variables = pass_environment(bench_settings(), record, PATHS, make_mpi(flavour=flavour))
    assert variables["PYTHONUNBUFFERED"] == unbuffered


def test_nccl_logs_are_asked_for_on_gpus_only() -> None:
    assert "NCCL_DEBUG" not in pass_environment(bench_settings(), _record(), PATHS, None)
    on_gpu = pass_environment(bench_settings(device="cuda"), _record(), PATHS, None)
    assert on_gpu["NCCL_DEBUG"] == "INFO"
    assert on_gpu["NCCL_DEBUG_SUBSYS"] == "INIT,ENV,GRAPH,NET"
    traced = pass_environment(bench_settings(device="cuda"), _record("trace"), PATHS, None)
    assert traced["NCCL_DEBUG_SUBSYS"] == "INIT,ENV,GRAPH,NET,TUNING,COLL"
    assert on_gpu["NCCL_DEBUG_FILE"] == "/runs/r/passes/p/nccl/%h.%p.log"


def test_ranks_load_the_mpi_that_starts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/cuda")
    mpi = Mpi("openmpi", "4.1.8", "/v/bin/mpirun", "/v/lib", True, "")
    variables = pass_environment(bench_settings(), _record(), PATHS, mpi)
    assert variables["LD_LIBRARY_PATH"] == "/v/lib:/cuda"


@pytest.mark.parametrize(
    ("changes", "flavour", "inherited", "expected"),
    [
        ({}, "openmpi", None, "^ofi,tcp"),
        ({}, "mpich", None, None),
        ({}, "openmpi", "self,tcp", None),
        ({"hosts": "a:1,b:1"}, "openmpi", None, None),
        ({"launcher": "srun"}, "openmpi", None, None),
        # A script may use one-sided operations.
        ({"script": SCRIPT}, "openmpi", None, "^tcp"),
        ({"script": SCRIPT, "host_discovery_script": "./hosts.sh"}, "openmpi", None, None),
    ],
)
def test_ranks_on_one_host_use_neither_libfabric_nor_tcp(
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    flavour: str,
    inherited: str | None,
    expected: str | None,
) -> None:
    if inherited is None:
        monkeypatch.delenv("OMPI_MCA_btl", raising=False)
    else:
        monkeypatch.setenv("OMPI_MCA_btl", inherited)
    mpi = make_mpi(flavour=flavour)
    variables = pass_environment(bench_settings(**changes), _record(), PATHS, mpi)
    assert variables.get("OMPI_MCA_btl") == expected


def test_ranks_of_ddp_get_none_of_horovods_knobs() -> None:
    settings = bench_settings(cache_capacity=7, fusion_threshold_mb=2.0, cycle_time_ms=3.0)
    record = _record("trace")
    record.segments = [SegmentRecord(segment=segment("s", engine="ddp"))]
    variables = pass_environment(settings, record, PATHS, None)
    assert not any(name.startswith("HOROVOD_") for name in variables)
    assert variables["OMP_NUM_THREADS"] == "1"


def test_variables_of_the_user_reach_reference_models_and_yield_to_hvdprofs_own() -> None:
    env = ("NCCL_ALGO=Ring", "HOROVOD_CYCLE_TIME=9", "OMP_NUM_THREADS=9")
    set_ = pass_environment(
        bench_settings(env=env, cycle_time_ms=2.5, num_threads=3),
        _record(),
        PATHS,
        None,
    )
    assert set_["NCCL_ALGO"] == "Ring"
    assert set_["HOROVOD_CYCLE_TIME"] == "2.5"
    assert set_["OMP_NUM_THREADS"] == "3"
