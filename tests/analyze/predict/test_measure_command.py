import shlex
from dataclasses import replace
from typing import Any

import pytest

from hvdprof.analyze.predict.measure_command import measure_command
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
