"""The same training under Horovod and DDP, from the command line to the result: real ranks."""

import json
import subprocess
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.run import RunAnalysis
from tests.builders.running_command import hvdprof

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(900)]

BENCH = ("bench", "--models", "mnist", "--np", "2")


def bench(folder: Path, fault: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return hvdprof(*BENCH, *options, "--output", str(folder), HVDPROF_FAULTS=fault)


@pytest.fixture(scope="module")
def report_and_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, RunAnalysis]:
    """Both engines, one launch each and one with a trace."""
    folder = tmp_path_factory.mktemp("engines") / "run"
    done = bench(
        folder,
        "sleep:phase=forward,rank=1,amount=40ms",
        *("--engine", "horovod,ddp", "--num-steps", "20", "--repeats", "1", "--quiet"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, analyze_run(load_run(folder))


def of_engine(analysis: RunAnalysis, engine: str) -> dict[Hashable, Any]:
    scaling = analysis.scaling
    return scaling[scaling["engine"] == engine].iloc[0].to_dict()


@pytest.mark.ran(
    "`hvdprof bench --engine horovod,ddp` by `torchrun` ([engines](engines.md))",
    "torch 2.13 with Gloo",
    "one host, 2 ranks",
)
def test_both_are_measured_alike_and_learn_alike(report_and_run) -> None:
    _, analysis = report_and_run
    horovod, ddp = (of_engine(analysis, engine) for engine in ("horovod", "ddp"))
    assert ddp["num_launches"] == horovod["num_launches"] == 1
    assert ddp["baseline"] == horovod["baseline"] == "horovod np=2"
    assert ddp["sent_bytes"] == horovod["sent_bytes"] == 4 * 21_840
    assert ddp["final_loss"] == pytest.approx(horovod["final_loss"], rel=1e-3)
    assert ddp["blocked_ns"] > 0
    (toggle,) = analysis.table("toggles").to_dict("records")
    assert (toggle["engine"], toggle["toggle"], toggle["num_pairs"]) == ("ddp", "ddp", 1)


def test_buckets_of_ddp_are_collectives_with_their_overlap(report_and_run) -> None:
    _, analysis = report_and_run
    collectives = analysis.table("collectives")
    of_ddp = collectives[collectives["segment"] == "mnist-ddp-none-average"]
    steady = of_ddp[~of_ddp["warmup"]]
    assert steady.groupby("step")["size_bytes"].sum().eq(4 * 21_840).all()
    assert steady["negotiation_ns"].isna().all()
    assert (steady["transfer_ns"] > 0).all()
    overlap = analysis.table("overlap")
    own = overlap[overlap["segment"] == "mnist-ddp-none-average"]
    assert (own["communication_ns"] == own["overlapped_ns"] + own["exposed_ns"]).all()
    assert own["blocking_exposed_ns"].sum() > 0


def test_the_report_says_which_is_faster(report_and_run) -> None:
    report, _ = report_and_run
    compared = " ".join(report.partition("DDP against Horovod")[2].split())
    assert compared.startswith("mnist on 2 ranks ")
    assert "the throughput of DDP is " in compared


@pytest.mark.waits
def test_a_rank_that_others_wait_for_in_ddp_is_named_while_the_job_runs(tmp_path: Path) -> None:
    done = bench(
        tmp_path / "run",
        "sleep:phase=backward,rank=1,amount=9s,every=7",
        *("--engine", "ddp", "--num-steps", "8", "--num-warmup-batches", "3"),
        *("--repeats", "1", "--stall-warn", "4", "--format", "json"),
    )
    assert done.returncode == 0, done.stderr
    first = next(line for line in done.stderr.splitlines() if "stall at step" in line)
    assert "for rank 1 on " in first
    assert "(in backward of step" in first
    result = json.loads(done.stdout)
    assert {row["engine"] for row in result["scaling"]} == {"ddp"}
    assert result["verdict"]["engine"] == "ddp"
