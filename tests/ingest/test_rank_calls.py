"""Calls of NCCL's Inspector and of Nsight Systems, matched over the files of a job."""

from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import load_run
from hvdprof.model.run import Run
from tests.builders.nsys_exports import MADE, REDUCED, Range, add_schemas, payload, write_export
from tests.builders.profiler_traces import TracedJob
from tests.builders.written_calls import KERNEL, as_inspector, as_nsys, calls_of

JOB = calls_of(TracedJob(size=2, num_steps=5, late={(1, "data"): 500.0}))


def of(run: Run, *names: str) -> list[list[object]]:
    calls = run.table("rank_collectives")
    return (
        calls[list(names)]
        .astype(object)
        .where(calls[list(names)].notna(), None)
        .to_numpy()
        .tolist()
    )


@pytest.mark.parametrize(("write", "source"), [(as_inspector, "nccl-inspector"), (as_nsys, "nsys")])
def test_the_calls_of_all_files_are_matched(tmp_path: Path, write, source: str) -> None:
    run = load_run(write(tmp_path / "a", JOB))
    names = ("source", "rank", "match_id", "collective", "size_bytes", "group_size")
    assert of(run, *names) == [
        [source, rank, number, "ALLREDUCE", 4096, 2] for rank in (0, 1) for number in range(5)
    ]
    calls = run.table("rank_collectives")
    lengths = (calls["end_ns"] - calls["arrival_ns"]).tolist()
    assert lengths == [1_500_000] * 5 + [1_000_000] * 5


def test_logs_of_one_host_share_a_clock_and_others_do_not(tmp_path: Path) -> None:
    folder = as_inspector(tmp_path / "a", JOB)
    assert {error for _, error in map(tuple, of(load_run(folder), "rank", "clock_error_ns"))} == {
        0,
        2**61,
    }
    for path in folder.iterdir():
        path.write_text(path.read_text().replace('"n1"', '"n0"'))
    assert of(load_run(folder), "clock_error_ns") == [[0]] * 10


def test_processes_without_a_common_communicator_are_jobs_of_their_own(tmp_path: Path) -> None:
    folder = as_inspector(tmp_path / "a", JOB)
    (folder / "pid0.log").write_text((folder / "pid0.log").read_text().replace("0xab", "0xcd"))
    run = load_run(folder)
    assert set(run.table("rank_collectives")["pass_id"]) == {
        f"{folder}, communicator 0xab",
        f"{folder}, communicator 0xcd",
    }
    assert (run.table("rank_collectives")["match_id"] == -1).all()


def test_exports_of_one_rank_are_no_job(tmp_path: Path) -> None:
    first = as_nsys(tmp_path / "a", JOB) / "rank0.sqlite"
    second = as_nsys(tmp_path / "b", JOB) / "rank0.sqlite"
    run = load_run([first, second])
    assert len(set(run.table("rank_collectives")["pass_id"])) == 2
    assert (run.table("rank_collectives")["match_id"] == -1).all()


def grouped(path: Path, num_kernels: int) -> pd.DataFrame:
    """Two calls in a group, whose kernels start behind both ranges, and one by itself."""
    ranges = [Range(1, 2, "ncclCommInitRankConfig", domain=1, data=payload(MADE, 7, 2, 1, 0))]
    ranges += [
        Range(at, at + 10, "ncclAllReduce", domain=1, data=payload(REDUCED, 7, 100 + at, 0))
        for at in (1000, 1020, 5000)
    ]
    starts = (2000, 2100, 5005)[3 - num_kernels :]
    kernels = [(start, start + 50, 0, KERNEL) for start in starts]
    return load_run(add_schemas(write_export(path, kernels, ranges))).table("rank_collectives")


def test_kernels_of_a_group_belong_to_its_calls_in_order(tmp_path: Path) -> None:
    assert grouped(tmp_path / "a.sqlite", 3)["size_bytes"].tolist() == [1100, 1120, 5100]


def test_a_kernel_of_no_call_is_left_out(tmp_path: Path) -> None:
    """A group may be one kernel: only the call that launched its own is known."""
    calls = grouped(tmp_path / "a.sqlite", 2)
    assert calls["size_bytes"].tolist() == [5100]
    assert calls["rank"].tolist() == [1]
