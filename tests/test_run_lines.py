"""`hvdprof run` names the lines that ranks and workers of real jobs run."""

from pathlib import Path

import pytest

from hvdprof.api import load_run
from tests.builders import slow_line_script
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.timeout(600)]

SCRIPT = slow_line_script.__file__


@pytest.mark.parametrize(
    ("launcher", "engine", "start", "options"),
    [
        ("mpirun", "horovod", "fork", ()),
        ("torchrun", "ddp", "fork", ("--light",)),
        ("torchrun", "ddp", "spawn", ("--lines", "50")),
        # Started by `python -m`.
        ("torchrun", "fsdp", "forkserver", ()),
    ],
)
def test_the_slow_line_of_a_rank_and_of_its_workers_is_sampled(
    tmp_path: Path, launcher: str, engine: str, start: str, options: tuple[str, ...]
) -> None:
    folder = tmp_path / "run"
    own = ("--np", "2", "--launcher", launcher, "--no-trace", "--no-net", *options)
    script = ("-m", slow_line_script.__name__) if engine == "fsdp" else (SCRIPT,)
    command = ("--", "python", *script, engine, start, "120")
    ended = hvdprof("run", "-q", "-o", str(folder), *own, *command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    run = load_run(folder)
    samples = run.line_samples
    forward = samples[(samples["process"] == "main") & (samples["phase"] == "forward")]
    by_rank = {
        rank: lines.groupby("function", observed=True)["samples"].sum()
        for rank, lines in forward.groupby("rank", observed=True)
    }

    assert by_rank[1]["checked_loss"] > 15
    assert by_rank[1]["checked_loss"] > 5 * by_rank[0].get("checked_loss", 0)
    in_workers = samples[(samples["process"] == "worker") & (samples["function"] == "load")]
    assert set(in_workers["rank"]) == {0, 1}
    assert set(in_workers["file"]) == {SCRIPT}
    assert (in_workers.query("samples > 1")["steps"] > 0).all()
    sampling = run.line_sampling
    main = sampling[sampling["process"] == "main"]
    rate = main["samples"].sum() / (main.query("step >= 0")["time_ns"].sum() / 1e9)
    assert rate > (10 if "--lines" in options else 5)
    assert main.query("phase == 'forward'")["time_ns"].sum() >= 115 * 30_000_000
    assert not any("sampled" in note.text for note in run.notes)


def test_without_lines_nothing_is_sampled(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    own = ("--np", "2", "--launcher", "torchrun", "--no-trace", "--no-lines")
    ended = hvdprof(
        "run", "-q", "-o", str(folder), *own, "--", "python", SCRIPT, "ddp", "fork", "30"
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not list(folder.glob("passes/*/recorder/lines-*"))
    assert len(load_run(folder).line_samples) == 0
