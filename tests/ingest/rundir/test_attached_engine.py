import json
from pathlib import Path

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.ingest.rundir.attach_sources import Given
from hvdprof.ingest.rundir.attached_run import Stated, attach
from hvdprof.model.run import RunAnalysis
from tests.builders import nccl_log
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.nsys_exports import write_export
from tests.builders.run_spec import SegmentSpec
from tests.builders.timeline_text import timeline_text
from tests.ingest.rundir.test_attached_recordings import INSPECTOR, MEGATRON, written

WATCHDOG = (
    "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=96, NumelOut=96) ran for 600020 milliseconds\n"
)
HOROVOD = "[2026-11-20 21:56:09.  3056: I horovod/common/operations.cc:107] [0]: Started Horovod\n"
FAILURE = "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n"


def attached(tmp_path: Path, given: Given) -> RunAnalysis:
    attach(tmp_path / "run", given, Stated(name="mine", size=4))
    return analyze_run(load_run(tmp_path / "run"))


def of(kind: str, folder: Path) -> Given:
    """Files of one kind that say different things of the engine."""
    kernels = [(0, 100, 0, "gemm"), (100, 140, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")]
    path = folder / "a.log"
    match kind:
        case "timeline":
            text = timeline_text(SegmentSpec(num_steps=12), 4, 1_000_000_000)
            return Given(timelines=[written(folder / "horovod.json", text)])
        case "dumps":
            return Given(recordings=[write_dumps(folder, {0: dump(), 1: dump(late_ns=9)})])
        case "nsys":
            return Given(recordings=[write_export(folder / "report.sqlite", kernels)])
        case "inspector":
            return Given(recordings=[written(path, json.dumps(INSPECTOR) + "\n")])
        case "megatron":
            return Given(recordings=[written(path, MEGATRON)])
        case "nccl":
            return Given(nccl_logs=[written(path, "\n".join(nccl_log.job()))])
    texts = {"watchdog": WATCHDOG, "horovod": HOROVOD, "failure": FAILURE}
    texts["both"] = WATCHDOG + HOROVOD
    return Given(outputs=[written(path, texts[kind])])


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("timeline", "horovod"),
        ("dumps", "collectives"),
        ("nsys", "unknown"),
        ("inspector", "unknown"),
        ("megatron", "collectives"),
        ("nccl", "unknown"),
        ("watchdog", "collectives"),
        ("horovod", "horovod"),
        ("failure", "unknown"),
        ("both", "unknown"),
    ],
)
def test_the_engine_is_what_the_files_say(tmp_path: Path, kind: str, engine: str) -> None:
    analysis = attached(tmp_path, of(kind, tmp_path))
    assert set(analysis.run.segments["engine"]) == {engine}
    assert analysis.verdict.engine == engine


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("timeline", "`hvdprof run --np 1,2,4 -- python train.py` measures"),
        ("nccl", "(without `--launcher torchrun` for Horovod) measures"),
    ],
)
def test_the_next_measurement_is_one_of_that_engine(
    tmp_path: Path, kind: str, command: str
) -> None:
    assert command in attached(tmp_path, of(kind, tmp_path)).verdict.caveat


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["horovod", "watchdog", "failure"])
def test_a_hang_or_a_failure_gets_no_advice_on_baselines(tmp_path: Path, kind: str) -> None:
    given = of(kind, tmp_path)
    failure = written(tmp_path / "b.log", FAILURE)
    found = attached(tmp_path, Given(outputs=[*given.outputs, failure]))
    assert "baseline" not in found.verdict.caveat
    assert "--np 1,2,4" not in found.verdict.sentence
