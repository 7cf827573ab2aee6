import sys
from pathlib import Path

import pytest

from hvdprof.api.options import BenchOptions, RunOptions
from hvdprof.api.slurm_job import job_script, queue
from hvdprof.errors import StorageError, UsageError


def test_the_job_asks_for_the_largest_number_of_ranks(tmp_path: Path) -> None:
    options = BenchOptions(np=[2, 8], num_threads=3, launcher="srun", output=tmp_path / "run")
    script = job_script(options, display=["--quiet"])
    assert (script.num_ranks, script.cpus_per_task, script.name) == (8, 3, "bench")
    assert script.path == tmp_path / "run.sbatch"
    assert list(script.command)[-9:] == [
        *("--output", str(tmp_path / "run"), "--quiet"),
        *("--np", "2,8", "--launcher", "srun", "--num-threads", "3"),
    ]


def test_options_of_the_script_stay_its_own(tmp_path: Path) -> None:
    train = (sys.executable, "-c", "pass", "--output", "weights")
    script = job_script(RunOptions(np=2, launcher="srun", command=train, output=tmp_path / "r"))
    words = list(script.command)
    assert words[words.index("--") + 1 :] == list(train)
    assert words[: words.index("--")].count("--output") == 1


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (BenchOptions(np=2), "--launcher srun"),
        (BenchOptions(launcher="srun"), "--np 1,2,4,8"),
    ],
)
def test_what_cannot_be_queued(options: BenchOptions, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        job_script(options)
    assert hint in raised.value.hint


def test_a_script_is_not_overwritten(tmp_path: Path) -> None:
    script = job_script(BenchOptions(np=2, launcher="srun", output=tmp_path / "run"))
    script.path.write_text("mine")
    with pytest.raises(StorageError, match="not overwritten"):
        queue(script)
    assert script.path.read_text() == "mine"
