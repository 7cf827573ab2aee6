import shlex
from dataclasses import replace
from typing import Any

import pytest

from hvdprof.analyze.predict.measure_command import JOB_OPTIONS, measure_command
from hvdprof.launch.plan.bench_options import BenchOptions
from hvdprof.launch.plan.options import Option, declared, default_of
from hvdprof.launch.plan.run_options import RunOptions
from hvdprof.rundir.manifest import Manifest

HOST = {"num_cores": 4, "gpus": [{}, {}]}


def _run(**settings: Any) -> Manifest:
    return replace(Manifest.of_files("run"), settings=settings, hosts=[HOST])


def test_a_reference_model_is_measured_by_bench() -> None:
    command = measure_command(_run(device="cpu"), "vgg16")
    assert command.at([1, 2]) == "hvdprof bench --models vgg16 --np 1,2"
    assert command.at([4], "--num-steps 80") == "hvdprof bench --models vgg16 --np 4 --num-steps 80"
    assert "--engine ddp" in measure_command(_run(device="cpu"), "vgg16", "ddp").at([2])


def test_a_script_is_measured_by_run_without_its_secrets() -> None:
    script = {"command": ["python", "train.py", "--api-key", "Zq7wX2kLpR9vT4", "a b"]}
    line = measure_command(_run(script=script), "train").at([2], "--repeats 6")
    words = shlex.split(line)
    assert words[:6] == ["hvdprof", "run", "--np", "2", "--repeats", "6"]
    assert words[6:] == ["--", "python", "train.py", "--api-key", "***", "a b"]


def test_files_of_an_unknown_job_name_a_script_to_replace() -> None:
    manifest = Manifest.of_files("timeline.json")
    assert measure_command(manifest, "x").at([2]) == "hvdprof run --np 2 -- python train.py"


@pytest.mark.parametrize(
    ("device", "size", "hosts"),
    [
        ("cpu", 4, ""),
        ("cpu", 8, " --hosts HOST1:4,HOST2:4"),
        ("cpu", 12, " --hosts HOST1:4,...,HOST3:4"),
        ("cuda", 4, " --hosts HOST1:2,HOST2:2"),
    ],
)
def test_more_ranks_than_the_hosts_hold_need_more_hosts(device: str, size: int, hosts: str) -> None:
    line = measure_command(_run(device=device), "vgg16").at([size])
    assert line == f"hvdprof bench --models vgg16 --np {size}{hosts}"


FOUR_HOSTS = "n1:1,n2:1,n3:1,n4:1"


def _on_four_hosts(**options: Any) -> Manifest:
    return replace(_run(device="cpu", hosts=FOUR_HOSTS), hosts=[HOST] * 4, options=options)


def test_the_options_of_the_run_are_those_of_the_next_measurement() -> None:
    manifest = _on_four_hosts(
        np="4",
        repeats=1,
        output="runs/a",
        controller="gloo",
        launcher="auto",
        fusion_threshold_mb=0.25,
        cycle_time_ms=40.0,
        batch_size=64,
        num_steps=12,
        env=["NCCL_DEBUG=INFO", "A=b c"],
        cache_capacity=None,
    )
    line = measure_command(manifest, "emulate:resnet101:256@2.4").at([2, 4], "--repeats 6")

    assert line == (
        "hvdprof bench --models emulate:resnet101:256@2.4 --np 2,4 --repeats 6 "
        f"--hosts {FOUR_HOSTS} --controller gloo --batch-size 64 --num-steps 12 "
        "--env NCCL_DEBUG=INFO --env 'A=b c' --fusion-threshold-mb 0.25 --cycle-time-ms 40"
    )
    longer = measure_command(manifest, "m").at([4], "--num-steps 48")
    assert longer.count("--num-steps") == 1


def test_named_hosts_come_first_and_count_their_slots() -> None:
    """Each has one slot of its four cores: eight ranks need four further hosts."""
    command = measure_command(_on_four_hosts(), "vgg16")

    assert command.at([8]).endswith(f" --hosts {FOUR_HOSTS},HOST5:1,...,HOST8:1")
    assert command.at([6]).endswith(f" --hosts {FOUR_HOSTS},HOST5:1,HOST6:1")
    assert command.net() == "hvdprof net --hosts n1,n2"
    assert command.inside(4) == "hvdprof bench --models vgg16 --np 1,4 --hosts n1:4"
    assert measure_command(_run(), "m").net() == "hvdprof net --hosts HOST1,HOST2"


@pytest.mark.parametrize("name", JOB_OPTIONS)
def test_flags_and_defaults_are_those_of_the_command_line(name: str) -> None:
    kinds = [kind for kind in (BenchOptions, RunOptions) if name in dict(declared(kind))]

    assert kinds
    for kind in kinds:
        option: Option = dict(declared(kind))[name]
        assert JOB_OPTIONS[name] == (option.flags[0], default_of(kind, name))
