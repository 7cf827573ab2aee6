"""`--sbatch` as users call it where there is no Slurm: the script is written all the same."""

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.builders.running_command import hvdprof

pytestmark = pytest.mark.slow


def queue(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    nowhere = folder / "nowhere"
    nowhere.mkdir(exist_ok=True)
    return hvdprof(*arguments, cwd=folder, PATH=str(nowhere))


def lines(folder: Path, name: str) -> list[str]:
    return (folder / f"{name}.sbatch").read_text().splitlines()


def words_behind(script: list[str], option: str) -> list[str]:
    """The words of the command behind the run directory."""
    words = shlex.split(script[-1])
    return words[words.index(option) + 2 :]


SLURM = ("--launcher", "srun", "--sbatch")
TRAIN = ("--", "python", "train.py")


def test_a_script_with_its_own_options_is_queued_as_it_was_typed(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    run = ("run", *SLURM, "--no-net", "--no-trace", "--np", "2,4", "--num-threads", "3")
    script = ("--", "python", "train.py", "--lr", "0.1", "--name", "a b")
    done = queue(tmp_path, *run, "--output", "my run", *script)

    assert done.returncode == 0, done.stderr
    assert "This machine has no sbatch" in done.stderr
    # The command may hold a secret.
    assert (tmp_path / "my run.sbatch").stat().st_mode & 0o777 == 0o600
    written = lines(tmp_path, "my run")
    assert "#SBATCH --ntasks=4" in written
    assert "#SBATCH --cpus-per-task=3" in written
    assert "#SBATCH --job-name=hvdprof-train" in written
    behind = words_behind(written, "--output")
    own, of_script = behind[: behind.index("--")], behind[behind.index("--") :]
    assert own == [
        *("--np", "2,4", "--launcher", "srun", "--num-threads", "3", "--no-trace", "--no-net")
    ]
    assert of_script == list(script)
    assert str(tmp_path / "my run") in shlex.split(written[-1])
    assert not (tmp_path / "my run").exists()


def test_a_benchmark_is_queued_as_it_was_typed(tmp_path: Path) -> None:
    done = queue(
        tmp_path, "bench", *SLURM, "--no-net", "--np", "1,2", "--models", "mnist", "--output", "run"
    )

    assert done.returncode == 0, done.stderr
    assert words_behind(lines(tmp_path, "run"), "--output") == [
        *("--np", "1,2", "--models", "mnist", "--launcher", "srun", "--no-net")
    ]


def test_a_queued_job_is_watched_as_it_was_typed(tmp_path: Path) -> None:
    watch = ("--metrics-port", "9402", "--watch")
    done = queue(tmp_path, "bench", *SLURM, *watch, "--np", "2", "--output", "run")

    assert done.returncode == 0, done.stderr
    assert words_behind(lines(tmp_path, "run"), "--output")[:3] == list(watch)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--sbatch", "--np", "2", *TRAIN), "Add --launcher srun."),
        (("run", *SLURM, "--np", "two", *TRAIN), "two"),
        (("run", *SLURM, "--np", "2", "--repeats", "0", *TRAIN), "--repeats 0"),
        (
            ("run", *SLURM, *("--min-np", "1", "--host-discovery-script", "./hosts"), *TRAIN),
            "elastic",
        ),
        (("bench", *SLURM, "--models", "lenet"), "lenet"),
        (("bench", *SLURM), "Add --np"),
        (("bench", "--sbatch", "--resume", "runs/before"), "--sbatch cannot change"),
        (("run", "--sbatch", "--resume", "runs/before"), "--sbatch cannot change"),
    ],
)
def test_a_mistake_writes_no_script(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "train.py").touch()
    done = queue(tmp_path, *arguments)

    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not list(tmp_path.rglob("*.sbatch"))


def test_a_script_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "run.sbatch").write_text("mine")
    done = queue(tmp_path, "bench", *SLURM, "--np", "2", "--output", "run")

    assert done.returncode == 7
    # There is no --force here.
    assert "Name another --output." in done.stderr
    assert (tmp_path / "run.sbatch").read_text() == "mine"


def test_a_job_that_others_could_exchange_is_not_queued(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    done = queue(tmp_path, "bench", *SLURM, "--np", "1,2", "--output", "open/run")
    assert done.returncode == 7
    assert "every user may write to" in done.stderr
    assert list((tmp_path / "open").iterdir()) == []


def test_a_dry_run_of_a_job_is_its_script_alone(tmp_path: Path) -> None:
    done = queue(tmp_path, "bench", *SLURM, "--np", "2", "--output", "50%", "--dry-run")

    assert done.returncode == 0, done.stderr
    written = done.stdout.splitlines()
    assert written[0] == "#!/bin/bash"
    assert "--dry-run" not in written[-1]
    # An unescaped % would start a pattern of Slurm.
    assert f"#SBATCH --output={tmp_path}/50%%.slurm-%j.out" in written
    assert not list(tmp_path.rglob("*.sbatch"))
