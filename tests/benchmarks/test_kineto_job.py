"""The synthetic job has the layout of public traces, and reading it holds little of its text."""

import json
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.kineto_job import (
    COLLECTIVES_PER_STEP,
    KERNELS_PER_STEP,
    LATE_RANK,
    LATE_US,
    write_job,
)
from hvdprof.api import load_run
from hvdprof.ingest.kineto.trace_file import read_trace_file


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_job(tmp_path_factory.mktemp("kineto"), 2, 1000)


@pytest.mark.heavy
def test_events_are_as_frequent_as_in_public_traces(job: list[Path]) -> None:
    trace = json.loads(job[0].read_text())
    kinds = Counter(event.get("cat") for event in trace["traceEvents"])
    kernels = kinds["kernel"]
    assert kernels == 3 * (KERNELS_PER_STEP + COLLECTIVES_PER_STEP)
    # Of the public trace of ResNet on two ranks: 5.3, 3.2, 4.6 events per kernel, 241 bytes each.
    assert kinds["cpu_op"] / kernels == pytest.approx(5.3, rel=0.1)
    assert kinds["cuda_runtime"] / kernels == pytest.approx(3.2, rel=0.1)
    assert kinds["ac2g"] / kernels == pytest.approx(4.6, rel=0.1)
    assert job[0].stat().st_size / sum(kinds.values()) == pytest.approx(241, rel=0.1)
    times = [event["ts"] for event in trace["traceEvents"]]
    assert times != sorted(times)


@pytest.mark.heavy
def test_every_collective_is_matched_and_waits_for_the_late_rank(job: list[Path]) -> None:
    calls = load_run(job).table("rank_collectives")
    assert len(calls) == 2 * 3 * COLLECTIVES_PER_STEP
    assert (calls["match_id"] >= 0).all()
    arrivals = calls.pivot_table("arrival_ns", "match_id", "rank", observed=True)
    late = arrivals[LATE_RANK] - arrivals[0]
    assert late.to_numpy() == pytest.approx(LATE_US * 1000, abs=2)


@pytest.mark.heavy
def test_a_read_trace_holds_a_small_part_of_its_text(job: list[Path]) -> None:
    read_trace_file(job[0])
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    file = read_trace_file(job[0])
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(file.calls) == 3 * COLLECTIVES_PER_STEP
    assert held < 0.03 * job[0].stat().st_size
