"""The main job on real Horovod, from the command line to what is left on disk."""

import json
import os
import signal
import unittest.mock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.cli.main import main
from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.rundir.manifest import Manifest, Status
from tests.builders.processes import is_running
from tests.builders.running_command import fill_disk, hvdprof, pids_in_step, started, wait_for
from tests.builders.small_disk import small_disk

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(900)]

SHORT = ("--models", "mnist", "--num-steps", "12", "--repeats", "1", "--quiet")
LONG = ("--models", "mnist", "--np", "2", "--max-seconds", "120", "--repeats", "1", "--quiet")

ENDLESS = 200_000
"""Steps that no test waits for."""
LASTING = 417
"""Steps that last until a disk is filled."""


def _cells(rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(r["engine"], r["np"], r["compression"], r["reduction"]) for r in rows}


@pytest.mark.ran(
    "`hvdprof bench` by `mpirun`",
    "Open MPI 4.1.8",
    "one host",
)
def test_every_cell_is_measured_or_explained(tmp_path: Path) -> None:
    done = hvdprof(
        *("bench", *SHORT, "--np", "1,2", "--output", "run", "--format", "json"),
        *("--compression", "none,fp16", "--reduction", "average,adasum"),
        *("--controller", "mpi"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    measured = _cells(result["scaling"])
    assert measured == {
        ("torch", 1, "none", "average"),
        ("horovod", 1, "none", "average"),
        *(("horovod", 2, c, r) for c in ("none", "fp16") for r in ("average", "adasum")),
    }
    skipped = {(s["np"], s["compression"], s["reduction"]) for s in result["skipped"]}
    assert skipped == {
        *((1, "fp16", r) for r in ("average", "adasum")),
        (1, "none", "adasum"),
    }
    assert set(result["scaling"][0]) == set(SCALING.column_names)
    for row in result["scaling"]:
        assert row["samples_per_s"] > 0
        assert row["final_loss"] > 0
    by_cell = {
        (r["engine"], r["np"], r["compression"], r["reduction"]): r for r in result["scaling"]
    }
    plain, halved = (
        by_cell["horovod", 2, "none", "average"],
        by_cell["horovod", 2, "fp16", "average"],
    )
    assert plain["sent_bytes"] == 21_840 * 4
    assert halved["sent_bytes"] == 21_840 * 2

    run = tmp_path / "run"
    timeline = json.loads(
        (run / "passes/04-np2-trace-r1/timeline/mnist-fp16-adasum.json").read_text()
    )
    assert sum(event.get("name") == "ADASUM" for event in timeline) == 12 * 8
    assert list((run / "passes/03-np2-throughput-r1/timeline").iterdir()) == []
    again = hvdprof("analyze", "run", "--format", "json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["scaling"] == result["scaling"]
    _joins_timeline_and_steps(tmp_path, "mpi")


@pytest.mark.ran(
    "`hvdprof bench` by `horovodrun --gloo`",
    "Gloo",
    "one host, 3 ranks",
)
def test_three_ranks_by_gloo(tmp_path: Path) -> None:
    done = hvdprof(
        *("bench", *SHORT, "--np", "3", "-o", "run", "--controller", "gloo", "--attribution"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "mnist on 3 ranks: " in " ".join(done.stdout.split())
    modes = [record.mode for record in Manifest.read(tmp_path / "run").passes]
    assert modes == ["throughput", "trace", "attribution"]
    _is_closed_to_others(tmp_path / "run")
    _joins_timeline_and_steps(tmp_path, "gloo")


def _is_closed_to_others(run: Path) -> None:
    places = [run, *run.rglob("*")]
    # Horovod itself writes the timelines, by the umask.
    own = [one for one in places if one.is_dir() or one.parent.name != "timeline"]
    assert any(one.name == "rank-2.jsonl" for one in own)
    assert [one for one in own if one.stat().st_mode & 0o077] == []


def _joins_timeline_and_steps(folder: Path, controller: str) -> None:
    run = load_run(folder / "run")
    assert not analyze_run(run).failed
    reduced = f"{controller.upper()}_ALLREDUCE"
    assert reduced in set(run.events.query("source == 'timeline'").activity)
    trace = hvdprof("export", "run", "-o", "trace.json", cwd=folder)
    assert trace.returncode == 0, trace.stderr
    names = {
        event["name"] for event in json.loads((folder / "trace.json").read_text())["traceEvents"]
    }
    assert {"backward", reduced} <= names


def test_a_killed_rank_is_named_and_the_run_stays_readable(tmp_path: Path) -> None:
    with started("bench", *LONG, "-o", "run", cwd=tmp_path) as process:
        pids = wait_for(lambda: pids_in_step(tmp_path / "run", step=8))
        os.kill(pids[1], signal.SIGKILL)
        # The trace pass would take its two minutes.
        wait_for(lambda: (tmp_path / "run/passes/02-np2-trace-r1/recorder/rank-1.jsonl").exists())
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    failure = Manifest.read(tmp_path / "run").passes[0].segments[0].failure
    assert failure is not None
    assert failure.rank == 1
    assert failure.signal == "SIGKILL"
    steps = load_run(tmp_path / "run").steps
    assert set(steps["rank"]) == {0, 1}
    shown = hvdprof("analyze", "run", cwd=tmp_path)
    assert shown.returncode == 0
    assert "rank 1 was ended by SIGKILL" in " ".join(shown.stdout.split())


def test_an_interrupt_ends_every_rank_and_resume_continues(tmp_path: Path) -> None:
    arguments = ("bench", *SHORT, "--np", "2", "-o", "run", "--controller", "gloo")
    with started(*arguments, "--num-steps", str(ENDLESS), cwd=tmp_path) as process:
        pids = wait_for(lambda: pids_in_step(tmp_path / "run", step=8))
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "--resume run" in stderr
    assert "The run was interrupted" in " ".join(stdout.split())
    assert not any(map(is_running, pids.values()))
    manifest = Manifest.read(tmp_path / "run")
    assert manifest.status == Status.INTERRUPTED

    _resumes_for_a_few_steps(tmp_path, instead_of=ENDLESS)
    assert not analyze_run(load_run(tmp_path / "run")).failed


def _resumes_for_a_few_steps(folder: Path, *, instead_of: int) -> None:
    for name in ("manifest.json", "resume.json"):
        text = (folder / "run" / name).read_text()
        changed = text.replace(f'"num_steps": {instead_of}', '"num_steps": 12')
        (folder / "run" / name).write_text(changed)
    resumed = hvdprof("bench", "--resume", "run", "--yes", "--quiet", cwd=folder)
    assert resumed.returncode == 0, resumed.stderr
    assert Manifest.read(folder / "run").status == Status.DONE


def test_a_folder_with_a_run_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").touch()
    done = hvdprof("bench", *SHORT, "-o", "run", cwd=tmp_path)
    assert done.returncode == 7
    assert "run is not empty" in done.stderr
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


@pytest.fixture(name="small_disk")
def a_small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "60m") as folder:
        yield folder


@pytest.mark.ran(
    "`hvdprof bench` on a disk that fills up",
    "Open MPI 4.1.8, where it is chosen by itself",
    "one host",
)
@pytest.mark.root
def test_a_disk_that_fills_up_ends_in_one_message_and_a_readable_run(small_disk: Path) -> None:
    arguments = ("bench", *SHORT, "--np", "2", "-o", "run", "--num-steps", str(LASTING))
    with started(*arguments, cwd=small_disk) as process:
        wait_for(lambda: pids_in_step(small_disk / "run", step=8))
        filler = fill_disk(small_disk)
        _, stderr = process.communicate(timeout=300)
    assert process.returncode == 7, stderr
    assert "Traceback" not in stderr
    assert "disk" in stderr
    assert load_run(small_disk / "run").steps.shape[0] > 8
    filler.unlink()
    _resumes_for_a_few_steps(small_disk, instead_of=LASTING)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (("--np", "3,0,x"), 2, "'0' and 'x' are not numbers of ranks"),
        (("--models", "resnet19"), 2, "'resnet19' is not known"),
        (("--device", "cuda"), 5, "no GPU"),
        (("--controller", "glo"), 2, "--controller glo: not known"),
        (("--np", ""), 2, "'' is not a number of ranks"),
        (("--resume", "run", "--np", "2"), 2, "--np cannot change them"),
        (("--data-dir", "nowhere"), 3, "holds no train-images-idx3-ubyte"),
        (("--resume", "nowhere"), 3, "not a run directory"),
        (("--format", "pdf"), 2, "pdf"),
        (("--np", "2", "--reduction", "adasum", "--controller", "gloo"), 2, "Nothing of this"),
    ],
)
def test_a_mistake_is_one_message_and_starts_nothing(
    in_folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    exit_code: int,
    message: str,
) -> None:
    if arguments == ("--device", "cuda") and Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU here")
    # Not in processes of their own: ten of them would take longer to start than to say so.
    with (
        unittest.mock.patch("sys.argv", ["hvdprof", "bench", *arguments]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert ended.value.code == exit_code
    assert message in capsys.readouterr().err
    assert list(in_folder.iterdir()) == []


def test_a_dry_run_prints_what_a_run_would_start(tmp_path: Path) -> None:
    done = hvdprof("bench", "--preset", "quick", "--dry-run", "--use-adasum", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Of the first repeat; as many as its precision needs follow.
    assert done.stdout.count("-m hvdprof.bench_models.train --plan") == 4
    assert "\nHOROVOD_TIMELINE=DYNAMIC \\\n" in done.stdout
    assert done.stdout.count("PYTHONFAULTHANDLER") == 1
    assert "# skipped: mnist np=1 Adasum" in done.stdout
    assert list(tmp_path.iterdir()) == []
