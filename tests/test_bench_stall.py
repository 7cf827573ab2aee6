"""A stalled rank, reported while the job runs: real ranks under Gloo and MPI."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.warm, pytest.mark.waits, pytest.mark.timeout(900)]

SMALL = ("--models", "mnist", "--np", "2", "--repeats", "1")


def bench(folder: Path, fault: str, *options: str) -> "subprocess.CompletedProcess[str]":
    into = ("--output", str(folder), "--format", "json")
    return hvdprof("bench", *SMALL, *options, *into, HVDPROF_FAULTS=fault)


def test_a_stalled_rank_is_named_with_its_stack_while_gloo_reports_nothing(tmp_path: Path) -> None:
    fault = "sleep:phase=backward,rank=1,amount=9s,every=7"
    options = ("--num-steps", "8", "--num-warmup-batches", "3", "--controller", "gloo")
    done = bench(tmp_path / "run", fault, *options, "--stall-warn", "4")
    assert done.returncode == 0, done.stderr
    first = next(line for line in done.stderr.splitlines() if "stall at step" in line)
    assert "rank 0 has been waiting" in first
    assert "for rank 1 on " in first
    assert "(in backward of step" in first
    assert "has not submitted allreduce." in first
    assert "to do: rank 1 on " in done.stderr
    assert "injection.py" in done.stderr
    (stall, *_) = (tmp_path / "run").glob("passes/01-*/stalls.jsonl")
    kinds = [json.loads(line)["kind"] for line in stall.read_text().splitlines()]
    assert kinds[:2] == ["stall", "over"]


def test_a_stall_that_lasts_ends_the_launch(tmp_path: Path) -> None:
    fault = "sleep:phase=forward,rank=0,amount=60s,every=6"
    options = ("--num-steps", "12", "--num-warmup-batches", "2", "--controller", "mpi")
    done = bench(tmp_path / "run", fault, *options, "--stall-warn", "4", "--stall-kill", "5")
    assert done.returncode == 6, done.stderr
    result = json.loads(done.stdout)
    assert result["failed"][0]["reason"].startswith("ended by --stall-kill: stall at step")
    assert result["failed"][0]["rank"] == 0


def test_a_pause_of_all_ranks_is_no_stall(tmp_path: Path) -> None:
    fault = "sleep:phase=data,amount=6s,every=7"
    options = ("--num-steps", "8", "--num-warmup-batches", "3", "--controller", "gloo")
    done = bench(tmp_path / "run", fault, *options, "--stall-warn", "4")
    assert done.returncode == 0, done.stderr
    assert "stall at" not in done.stderr
    assert not list((tmp_path / "run").glob("passes/*/stalls.jsonl"))
