import socket
from dataclasses import replace

import pytest

from hvdprof.errors import EnvironmentNotReadyError, UsageError
from hvdprof.launch.launchers.batch_launch import Torchrun, TorchrunForDdp
from hvdprof.launch.launchers.launch_job import Job
from hvdprof.launch.plan.settings import read_settings
from hvdprof.launch.run.bench_run import planned_manifest, prepare_bench, sweep_of
from hvdprof.launch.run.script_launcher import Tools, launcher_of
from hvdprof.launch.run.sweep_state import SilentProgress
from hvdprof.rundir.manifest import Status
from tests.builders.bench_settings import (
    FOUR_CORES,
    KNOWN_MODELS,
    bench_options,
    bench_settings,
)
from tests.builders.survey import make_build, make_mpi


def test_a_horovod_without_torch_cannot_run_the_reference_models():
    build = make_build(torch=False, torch_version="", tensorflow_version="2.15.1")

    with pytest.raises(EnvironmentNotReadyError, match=r"for TensorFlow 2\.15\.1 alone") as caught:
        prepare_bench(bench_options(), {}, Tools(build, None))
    assert "hvdprof run" in caught.value.hint


def test_engines_of_torch_alone_need_no_horovod():
    # What a machine without Horovod answers.
    tools = Tools(make_build(version="", mpi=False, gloo=False), None)
    ddp = bench_options(engine="ddp", preset="quick", device="cpu")

    manifest = prepare_bench(ddp, KNOWN_MODELS, tools)
    assert manifest.settings["launcher"] == "torchrun"
    assert launcher_of(read_settings(manifest), tools) == Torchrun()
    named = prepare_bench(replace(ddp, launcher="torchrun"), KNOWN_MODELS, tools)
    assert named.settings["launcher"] == "torchrun"

    both = bench_settings(engines=("horovod", "ddp"), launcher="auto", controller="mpi")
    assert isinstance(launcher_of(both, Tools(make_build(), make_mpi())), TorchrunForDdp)
    with pytest.raises(UsageError, match="not ranks of Horovod"):
        launcher_of(bench_settings(launcher="torchrun"), Tools(make_build(), make_mpi()))


@pytest.mark.parametrize(
    ("device", "num_gpus", "said"),
    [("cpu", 0, "would run on CPUs"), ("cpu", 8, "on CPUs"), ("cuda", 1, "would run on 1 GPU")],
)
def test_data_parallel_is_refused_without_two_gpus(device, num_gpus, said):
    cuda = device == "cuda"
    build = make_build(cuda_available=cuda, cuda_device_count=num_gpus)
    options = bench_options(engine="data-parallel", device=device)

    with pytest.raises(EnvironmentNotReadyError, match="needs two GPUs") as caught:
        prepare_bench(options, KNOWN_MODELS, Tools(build, None))
    assert f"{said}." in caught.value.message
    assert "--engine ddp" in caught.value.hint


def test_data_parallel_is_one_process_of_torchrun():
    options = bench_options(
        engine="data-parallel", models="mnist", np="1,2,4", preset="standard", device="cuda"
    )
    tools = Tools(make_build(cuda_available=True, cuda_device_count=2), None)
    manifest = prepare_bench(options, KNOWN_MODELS, tools)

    assert [(record.engine, record.size) for record in manifest.passes] == [
        ("torch", 1),
        ("data-parallel", 2),
    ]
    record = manifest.passes[1]
    assert (record.num_processes, record.controller) == (1, "copies")
    job = Job(
        size=2,
        program=("python",),
        hosts=None,
        environment={},
        passed_on=(),
        device="cuda",
        engine=record.engine,
    )
    assert "--nproc-per-node=1" in launcher_of(read_settings(manifest), tools).command(job)
    assert not record.oversubscribed
    reasons = {cell.size: cell.reason for cell in manifest.skipped}
    assert reasons == {
        1: "with one replica DataParallel is plain torch",
        4: "DataParallel needs 4 GPUs, not 2",
    }


def test_a_launcher_of_a_batch_system_needs_no_mpirun_and_asks_for_the_slots_of_its_job(
    monkeypatch, tmp_path
):
    (tmp_path / "nodes").write_text("n1\n" * 64 + "n2\n" * 64)
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    options = bench_options(launcher="pals", models="mnist", preset="standard", device="cpu")

    manifest = prepare_bench(options, KNOWN_MODELS, Tools(make_build(), None))
    assert manifest.settings["controller"] == "mpi"
    assert max(record.size for record in manifest.passes) == 128
    # How many cores its nodes have is not known here.
    assert not any(record.oversubscribed for record in manifest.passes)
    monkeypatch.delenv("PBS_NODEFILE")
    with pytest.raises(EnvironmentNotReadyError, match="not inside a job of PBS"):
        prepare_bench(options, KNOWN_MODELS, Tools(make_build(), None))


@pytest.mark.parametrize(
    ("host", "is_crowded"),
    [("localhost", True), ("127.0.0.1", True), (socket.gethostname(), True), ("192.0.2.1", False)],
)
def test_the_cores_of_this_host_are_known_under_each_of_its_names(host, is_crowded):
    settings = bench_settings(sizes=(8,), hosts=f"{host}:8")
    manifest = planned_manifest(settings, FOUR_CORES, Tools(make_build(), None))

    # Of another host that is only known once it is asked.
    assert {record.oversubscribed for record in manifest.passes} == {is_crowded}
    assert {record.pinned for record in manifest.passes} == {not is_crowded}


def test_launches_of_other_versions_are_not_mixed_silently(tmp_path):
    tools = Tools(make_build(), make_mpi())
    manifest = planned_manifest(bench_settings(), FOUR_CORES, tools)
    sweep_of(manifest, tmp_path, tools, SilentProgress())
    assert manifest.warnings == []

    manifest.passes[0].status = Status.DONE
    sweep_of(manifest, tmp_path, tools, SilentProgress())
    assert manifest.warnings == []
    newer = Tools(make_build(torch_version="2.14.0"), make_mpi())
    for _ in range(2):
        sweep_of(manifest, tmp_path, newer, SilentProgress())
    assert manifest.warnings == [
        "Launches of this run cannot be compared: they had torch 2.13.0+cpu and 2.14.0."
    ]


def test_numbers_of_ranks_inside_slurm_are_those_that_the_job_has_room_for(monkeypatch):
    monkeypatch.setattr("hvdprof.launch.run.bench_run.usable_cores", lambda: 2)
    options = bench_options(
        preset="standard", models="mnist", launcher="srun", controller="gloo", device="cpu"
    )

    def sizes():
        manifest = prepare_bench(options, KNOWN_MODELS, Tools(make_build(), None))
        return manifest.settings["sizes"]

    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(EnvironmentNotReadyError, match="not inside a Slurm allocation"):
        sizes()
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n1")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "8")
    assert sizes() == (1, 2, 4, 8)


def test_a_price_of_the_environment_is_recorded_as_that_of_the_option(monkeypatch):
    monkeypatch.setenv("HVDPROF_PRICE", "2.5")
    tools = Tools(make_build(), None)
    manifest = planned_manifest(bench_settings(), FOUR_CORES, tools)
    assert manifest.options["price"] == 2.5
    assert read_settings(manifest).options.price == 2.5

    given = replace(bench_settings(), options=replace(bench_settings().options, price=0.0))
    assert planned_manifest(given, FOUR_CORES, tools).options["price"] == 0.0
    monkeypatch.setenv("HVDPROF_PRICE", "cheap")
    with pytest.raises(UsageError, match="HVDPROF_PRICE cheap is no price"):
        planned_manifest(bench_settings(), FOUR_CORES, tools)
