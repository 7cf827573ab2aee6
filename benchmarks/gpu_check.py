"""What the GPU paths need to be checked, on a machine with one NVIDIA GPU and no network.

    make gpu-check         in the folder that `make gpu-pack` packed; Python's own library alone
    make gpu-check ARGS=--without-gpu      a rehearsal: all that runs on a machine without a GPU

Steps run in the order of ``STEPS``; one whose needs failed is skipped. Everything lands in
``results/``: a log per step, the run directories, ``report.md``, and ``results.tar.gz`` of all.
Exit codes: 0 all done, 1 a step failed, 5 the machine lacks something, which the report names.
"""

import argparse
import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DONE, FAILED, SKIPPED = "done", "failed", "skipped"
NOT_READY = 5
MACHINE = "machine"

_TORCH = """
import json, torch
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda,
                  "available": torch.cuda.is_available(),
                  "gpus": torch.cuda.device_count()}))
"""
_MARKED = "gpu"
_GPU_TESTS = (
    "tests/bench_models/test_gpu_marks.py",
    "tests/collect/devices/test_copy_source.py",
    "tests/collect/engines/test_stream_waits.py",
)
_COST_MODELS = (("mnist", "28", "64"), ("resnet18", "224", "64"), ("resnet50", "224", "64"))
"""Model, edge of the image and batch size: a step of launches alone, and longer ones."""
_ON_CPU = ("--device", "cpu", "--model", "mnist", "--steps", "20")
NO_GPU = "not run: no GPU here"
USUAL_NVCC = Path("/usr/local/cuda/bin/nvcc")


class StepFailedError(Exception):
    """A step did not do what it should; the message says what happened."""


@dataclass(slots=True)
class Check:
    """The check on one machine.

    Attributes:
        pack: The unpacked folder: the source tree with ``wheels/``.
        results: The folder of everything that is written.
        python: The interpreter whose torch is used.
        has_gpu: Whether steps that need a GPU run; launches train on the CPU where not.
    """

    pack: Path
    results: Path
    python: str = sys.executable
    has_gpu: bool = True

    @property
    def own_python(self) -> str:
        """The interpreter of the environment that the check makes."""
        return str(self.results / "venv" / "bin" / "python")

    def run(self, name: str, command: Sequence[str], timeout_s: float = 1800.0) -> str:
        """Run a command to its end, its output into the log of the step; what it printed.

        Raises:
            StepFailedError: It failed; the last line of its output says why.
        """
        wheels = self.pack / "wheels"
        environment = {
            **os.environ,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONPATH": str(self.pack),
            "HVDPROF_CACHE_DIR": str(self.results / "cache"),
            "PATH": f"{self.results / 'venv' / 'bin'}:{os.environ.get('PATH', '')}",
        }
        log = self.results / f"{name}.log"
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=self.pack,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout_s,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise StepFailedError(str(error)) from error
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n{done.stdout}\n")
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            last = lines[-1].strip() if lines else "no output"
            raise StepFailedError(f"exit code {done.returncode}: {last}")
        return done.stdout


@dataclass(frozen=True, slots=True)
class Step:
    """A step: ``act`` returns what it found, in lines; ``needs`` are steps that must be done."""

    name: str
    what: str
    act: Callable[[Check], list[str]]
    needs: tuple[str, ...] = ()
    on_gpu: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a step."""

    step: Step
    status: str
    seconds: float = 0.0
    lines: list[str] = field(default_factory=list)


def missing_on(machine: Check) -> list[str]:
    """What the machine lacks, each as one sentence; empty where the check can run."""
    missing = _missing_of_cuda() if machine.has_gpu else []
    missing += [f"{name} is not in PATH." for name in ("g++", "make") if shutil.which(name) is None]
    if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
        missing.append("Python's headers (Python.h) are missing.")
    try:
        torch = json.loads(machine.run(MACHINE, [machine.python, "-c", _TORCH]))
    except (StepFailedError, ValueError) as error:
        missing.append(f"{machine.python} cannot import torch ({error}).")
    else:
        if machine.has_gpu and torch["cuda"] is None:
            missing.append(f"torch {torch['version']} is a build for the CPU.")
        elif machine.has_gpu and not torch["available"]:
            missing.append(f"torch {torch['version']} sees no GPU.")
    return missing


def _missing_of_cuda() -> list[str]:
    missing = []
    if shutil.which("nvidia-smi") is None:
        missing.append("nvidia-smi is not in PATH: no NVIDIA driver.")
    homes = [os.environ.get(name, "") for name in ("HOROVOD_CUDA_HOME", "CUDA_HOME", "CUDA_PATH")]
    places = [Path(home) / "bin" / "nvcc" for home in homes if home]
    places.append(USUAL_NVCC)
    if shutil.which("nvcc") is None and not any(place.is_file() for place in places):
        missing.append("nvcc is not in PATH, CUDA_HOME or /usr/local/cuda: no CUDA toolkit.")
    return missing


def survey(check: Check) -> list[str]:
    """The GPU, its driver, and torch.

    Raises:
        StepFailedError: The machine lacks something; the message names all of it.
    """
    missing = missing_on(check)
    if missing:
        raise StepFailedError(" ".join(missing))
    if not check.has_gpu:
        return [check.run(MACHINE, [check.python, "-c", _TORCH]).strip()]
    query = "--query-gpu=name,driver_version,memory.total,compute_cap"
    gpus = check.run(MACHINE, ["nvidia-smi", query, "--format=csv,noheader"]).splitlines()
    torch = check.run(MACHINE, [check.python, "-c", _TORCH]).strip()
    return [*gpus, torch]


def make_environment(check: Check) -> list[str]:
    """An environment with the packed wheels that sees the torch of this interpreter."""
    check.run("environment", [check.python, "-m", "venv", str(check.results / "venv")])
    purelib = check.run(
        "environment",
        [check.own_python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
    ).strip()
    wheels = [str(path) for path in sorted((check.pack / "wheels").glob("*.whl"))]
    check.run("environment", [check.own_python, "-m", "pip", "install", "--no-deps", *wheels])
    # Behind its own packages, and after them: pip installs nothing that it finds there, and the
    # programs of CMake and Open MPI would be missing.
    torch_places = [place for place in [*sys.path, *site.getsitepackages()] if "-packages" in place]
    text = "\n".join(dict.fromkeys(torch_places)) + "\n"
    (Path(purelib) / "torch_of_the_machine.pth").write_text(text, encoding="utf-8")
    check.run("environment", [check.own_python, "-c", "import torch"])
    return [f"{len(wheels)} wheels"]


def build_with_nccl(check: Check) -> list[str]:
    """Horovod with NCCL for the GPU, against the torch that is there."""
    return _build(check, "build-nccl", "--gpu")


def build_without_nccl(check: Check) -> list[str]:
    """Horovod that reduces tensors of a GPU on the CPU: NCCL refuses two ranks on one GPU."""
    return _build(check, "build-cpu", "--force")


def _build(check: Check, name: str, *options: str) -> list[str]:
    command = [check.own_python, "-m", "hvdprof", "install-horovod", "--no-cache", *options]
    printed = check.run(name, command)
    return [line for line in printed.splitlines() if line.startswith(("Horovod ", "  works:"))]


def one_rank(check: Check) -> list[str]:
    """One rank that trains ResNet-18 on the GPU."""
    return _launch(check, "np1", "--np", "1", "--controller", "gloo")


def two_ranks(check: Check) -> list[str]:
    """Two ranks on one GPU, by Gloo and by MPI; without a GPU, one rank on the CPU before."""
    lines = [] if check.has_gpu else _launch(check, "np1-cpu", "--np", "1", "--controller", "gloo")
    for controller in ("gloo", "mpi"):
        lines += _launch(check, f"np2-{controller}", "--np", "2", "--controller", controller)
    return lines


def _launch(check: Check, name: str, *options: str) -> list[str]:
    device = ("--device", "cuda") if check.has_gpu else _ON_CPU
    command = [check.own_python, "-m", "benchmarks.gpu_check_launch", *device, *options]
    printed = check.run(name, [*command, "--output", str(check.results / name)])
    return [line for line in printed.splitlines() if line.startswith("np ")]


def nccl_log(check: Check) -> list[str]:
    """The NCCL log of the launch with one rank.

    Raises:
        StepFailedError: There is none, or it says nothing of NCCL.
    """
    logs = sorted((check.results / "np1").glob("passes/*/nccl/*.log"))
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines() if line]
    known = [line for line in lines if "NCCL INFO" in line or "NCCL version" in line]
    if not known:
        raise StepFailedError(f"{len(logs)} logs, none with a line of NCCL")
    found = [f"{len(logs)} logs, {len(known)} lines of NCCL", *known[:3]]
    packages = "import pandas, pyarrow, typer, rich"
    try:
        check.run("nccl-log", [check.own_python, "-c", packages])
    except StepFailedError:
        return [*found, "not analyzed here: pandas or pyarrow is missing. hvdprof analyze np1"]
    run = str(check.results / "np1")
    text = check.run("nccl-log", [check.own_python, "-m", "hvdprof", "analyze", run])
    return [*found, *text.splitlines()[:1]]


def marks(check: Check) -> list[str]:
    """CUDA events of the recorder against torch.profiler."""
    printed = check.run("marks", [check.own_python, "-m", "hvdprof.bench_models.gpu_marks"])
    found = json.loads(printed[printed.index('{"marks"') :].splitlines()[0])["marks"]
    return [
        f"{one['name']}: {one['event_ns'] / 1e6:.3f} ms by CUDA events, "
        f"{one['profiler_ns'] / 1e6:.3f} ms by the profiler, difference "
        f"{one['error_ns'] / 1e6:.3f} ms"
        for one in found
    ]


def copies(check: Check) -> list[str]:
    """Copies of batches as the recorder sees them, beside events around the copies."""
    printed = check.run("copies", [check.own_python, "-m", "benchmarks.gpu_check_copies"])
    found = json.loads(printed[printed.index('{"copies"') :].splitlines()[0])["copies"]
    return [
        f"{one['way']}: {one['batch_mb']:.1f} MB, {100 * one['pageable_share']:.0f} % pageable; "
        f"{one['recorder_ms']:.3f} ms from batch to forward pass by the recorder, "
        f"{one['copy_ms']:.3f} ms by events around the copy"
        for one in found
    ]


def cost(check: Check) -> list[str]:
    """The step time with the recorder against that without it, and the time of its own code."""
    device = "cuda" if check.has_gpu else "cpu"
    command = [check.own_python, "-m", "hvdprof.bench_models.recorder_cost", "--device", device]
    lines = []
    for name, edge, batch in _COST_MODELS if check.has_gpu else _COST_MODELS[:1]:
        sizes = ("--model", name, "--image-size", edge, "--batch-size", batch)
        printed = check.run("cost", [*command, *sizes, "--pairs", "10", "--steps", "30"])
        found = json.loads(printed[printed.index('{"step_s"') :].splitlines()[0])
        wall, cpu = (
            "{1:.4f} ({0:.4f} to {2:.4f})".format(*found[which]) for which in ("wall", "cpu")
        )
        lines.append(
            f"{name}, batch {batch}: step {found['step_s'] * 1e3:.3f} ms, recorder's own code "
            f"{found['direct_s'] * 1e6:.1f} us per step; with / without: step time {wall}, "
            f"processor time {cpu}"
        )
    return lines


def gpu_tests(check: Check) -> list[str]:
    """The tests that are marked ``gpu``."""
    command = [check.own_python, "-m", "pytest", "-m", _MARKED, "-q", "-p", "no:cacheprovider"]
    printed = check.run("gpu-tests", [*command, *_GPU_TESTS])
    return printed.splitlines()[-1:]


STEPS: tuple[Step, ...] = (
    Step(MACHINE, "what the machine has", survey),
    Step("environment", "an environment without network", make_environment, (MACHINE,)),
    Step("marks", "CUDA events against torch.profiler", marks, ("environment",), True),
    Step("copies", "copies of batches to the GPU", copies, ("environment",), True),
    Step("cost", "the recorder's cost per step", cost, ("environment",)),
    Step("gpu-tests", "tests marked gpu", gpu_tests, ("environment",)),
    Step("build-nccl", "Horovod with NCCL", build_with_nccl, ("environment",), True),
    Step("np1", "one rank with NCCL", one_rank, ("build-nccl",), True),
    Step("nccl-log", "the NCCL log of that run", nccl_log, ("np1",), True),
    Step("build-cpu", "Horovod without NCCL", build_without_nccl, ("environment",)),
    Step("np2", "two ranks on one device", two_ranks, ("build-cpu",)),
)


def run_steps(check: Check, steps: Sequence[Step] = STEPS) -> list[Result]:
    """Run the steps in their order; one whose needs are not done is skipped."""
    results: list[Result] = []
    for step in steps:
        done = {one.step.name for one in results if one.status == DONE}
        lacking = [need for need in step.needs if need not in done]
        if step.on_gpu and not check.has_gpu:
            result = Result(step, SKIPPED, lines=[NO_GPU])
        elif lacking:
            result = Result(step, SKIPPED, lines=[f"needs {', '.join(lacking)}"])
        else:
            begin_s = time.monotonic()
            try:
                status, lines = DONE, step.act(check)
            except (StepFailedError, OSError, ValueError, KeyError) as error:
                status, lines = FAILED, [str(error)]
            result = Result(step, status, time.monotonic() - begin_s, lines)
        results.append(result)
        sys.stdout.write(f"{result.status:8} {step.name}: {step.what}\n")
        sys.stdout.flush()
    return results


def report(results: Sequence[Result]) -> str:
    """The report as Markdown: a table of the steps, then what each found."""
    lines = [
        "# Check of the GPU paths",
        "",
        "| step | what | result | seconds |",
        "|---|---|---|---|",
    ]
    for one in results:
        cells = (one.step.name, one.step.what, one.status, f"{one.seconds:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    for one in results:
        lines += [
            "",
            f"## {one.step.name}: {one.status}",
            "",
            *(f"    {line}" for line in one.lines),
        ]
    return "\n".join(lines) + "\n"


def exit_code(results: Sequence[Result]) -> int:
    """0 where all is done that can be, 5 where the machine lacks something, else 1."""
    if results and results[0].step.name == MACHINE and results[0].status == FAILED:
        return NOT_READY
    return 0 if all(one.status == DONE or one.lines == [NO_GPU] for one in results) else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check and write the report."""
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument(
        "--without-gpu", action="store_true", help="train on the CPU, and omit what needs a GPU"
    )
    options = parser.parse_args(arguments)
    pack = Path(__file__).resolve().parents[1]
    check = Check(pack, options.results.resolve(), has_gpu=not options.without_gpu)
    if not (pack / "wheels").is_dir():
        sys.stderr.write(f"{pack} has no wheels/. Pack it with network: make gpu-pack\n")
        return NOT_READY
    check.results.mkdir(parents=True, exist_ok=True)
    results = run_steps(check)
    text = report(results)
    (check.results / "report.md").write_text(text, encoding="utf-8")
    with tarfile.open(check.results / "results.tar.gz", "w:gz") as archive:
        for path in sorted(check.results.iterdir()):
            if path.name not in ("venv", "cache", "results.tar.gz"):
                archive.add(path, path.name)
    sys.stdout.write(f"\n{text}\nReport: {check.results / 'report.md'}\n")
    return exit_code(results)


if __name__ == "__main__":
    sys.exit(main())
