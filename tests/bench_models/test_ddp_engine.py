"""What of DataParallel can be tried without GPUs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hvdprof.bench_models.ddp_engine import DataParallelEngine
from hvdprof.bench_models.registry import model_named
from hvdprof.bench_models.training import Job, make_batches, make_model, run_segment
from hvdprof.collect.host_facts import Identity
from hvdprof.errors import UsageError
from tests.builders.recorded import recorded, steps_of
from tests.builders.training_job import plan, segment

pytestmark = pytest.mark.torch


def job(monkeypatch: pytest.MonkeyPatch, num_gpus: int) -> Job:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_gpus)
    the_plan = plan(2, segment("one", engine="data-parallel", batch_size=3))
    return Job(the_plan, "cpu", DataParallelEngine(the_plan))


def test_one_process_trains_the_batches_of_all_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    made = job(monkeypatch, 2)
    (one,) = made.plan.segments

    assert made.engine.identity == Identity(0, 2, 0, 2)
    images, labels = make_batches(made, one, model_named(one.model)).next_batch()
    assert len(images) == len(labels) == 2 * 3


def test_the_model_is_wrapped_and_its_learning_rate_is_that_of_all_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = job(monkeypatch, 2)
    (one,) = made.plan.segments
    entry = model_named(one.model)

    model, optimizer = make_model(made, one, entry)
    assert isinstance(model, torch.nn.DataParallel)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(2 * entry.learning_rate)


def test_a_segment_is_trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = job(monkeypatch, 2)
    (one,) = made.plan.segments

    # Without GPUs torch leaves the batch of all replicas to the one module.
    outcome = run_segment(made, one, tmp_path / "none.json")
    assert outcome.num_steps == one.num_steps
    assert not (tmp_path / "none.json").exists()


def test_the_one_process_records_for_all_replicas(tmp_path: Path) -> None:
    plan(2, segment("one", engine="data-parallel", batch_size=3)).write(tmp_path / "plan.json")
    program = (
        "import sys, torch; torch.cuda.device_count = lambda: 2\n"
        "from hvdprof.bench_models.train import leave, main\n"
        "leave(main(['--plan', sys.argv[1]]))"
    )
    started = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "plan.json")],
        env={**os.environ, **started, "HVDPROF_RECORDER_DIR": str(tmp_path)},
        check=True,
        timeout=240,
    )

    lines = recorded(tmp_path / "rank-0.jsonl")
    assert (lines[0]["rank"], lines[0]["size"]) == (0, 2)
    steps = steps_of(lines, "one")
    # As each rank of DDP records them.
    assert {step["samples"] for step in steps} == {3}
    assert all(step["blocked"] is None for step in steps)


def test_fewer_gpus_than_replicas_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="needs 2 GPUs; torch finds 1"):
        job(monkeypatch, 1)
