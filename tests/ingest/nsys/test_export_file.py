import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.ingest.nsys.export_file import step_ranges
from hvdprof.ingest.nsys.nccl_payloads import opened_export
from tests.builders.nsys_exports import PID, Kernel, Range, write_export
from tests.builders.places import CORPUS, needs_corpus

MS = 1_000_000
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def step(number: int, start: int, end: int, name: str = "step {}", **others: int) -> Range:
    return Range(start * MS, end * MS, name.format(number), **others)


def kernels(*, late_ms: int = 0) -> list[Kernel]:
    """In each step of 100 ms: computation of 40 ms, and NCCL of 40 ms that half of it hides."""
    found = []
    for number in range(3):
        begin = 100 * number + late_ms
        found += [
            (begin * MS, (begin + 40) * MS, 0, "gemm"),
            ((begin + 20) * MS, (begin + 60) * MS, 0, ALLREDUCE),
        ]
    return found


STEPS = [step(number, 100 * number, 100 * number + 90) for number in range(3)]


def found_steps(path: Path) -> dict[int, tuple[str, list[int]]]:
    with opened_export(path) as database:
        return {pid: (one.name, one.numbers.tolist()) for pid, one in step_ranges(database).items()}


def steps_of(path: Path) -> pd.DataFrame:
    return load_run(path).table("nsys_steps")


def test_each_step_has_exposed_and_overlapped_communication(tmp_path: Path) -> None:
    run = load_run(write_export(tmp_path / "a.sqlite", kernels(), STEPS))
    rows = run.table("nsys_steps")
    assert list(rows["step"]) == [0, 1, 2]
    assert set(rows["range_name"]) == {"step "}
    for name, expected in {
        "host_ns": 90, "span_ns": 60, "computing_ns": 40, "communicating_ns": 40,
        "exposed_ns": 20, "overlapped_ns": 20,
    }.items():  # fmt: skip
        assert set(rows[name] // MS) == {expected}, name
    assert set(rows["num_kernels"]) == {2}
    assert list(run.table("nsys_gpus")["num_steps"]) == [3]


def test_a_kernel_belongs_to_the_step_that_launched_it(tmp_path: Path) -> None:
    late = kernels(late_ms=95)
    without = steps_of(write_export(tmp_path / "a.sqlite", late, STEPS))
    assert list(without["num_kernels"]) == [1, 1]
    launched = [(100 * number + 5) * MS for number in range(3) for _ in range(2)]
    rows = steps_of(write_export(tmp_path / "b.sqlite", late, STEPS, launches=launched))
    assert list(rows["num_kernels"]) == [2, 2, 2]
    assert set(rows["exposed_ns"]) == {20 * MS}


def test_computation_of_the_next_step_hides_communication(tmp_path: Path) -> None:
    pair = [(0, 70 * MS, 0, ALLREDUCE), (60 * MS, 90 * MS, 0, "gemm")]
    launches = [0, 55 * MS]
    ranges = [step(0, 0, 50), step(1, 50, 90)]
    rows = steps_of(write_export(tmp_path / "a.sqlite", pair, ranges, launches=launches))
    assert list(rows["exposed_ns"] // MS) == [60, 0]
    assert list(rows["overlapped_ns"] // MS) == [10, 0]


def test_kernels_of_a_launched_graph_share_its_launch(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite", kernels(late_ms=95), STEPS, launches=[5 * MS])
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET correlationId = 1")
        database.commit()
    assert list(steps_of(path)["num_kernels"]) == [6]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("ProfilerStep#{}", "ProfilerStep#"),
        ("iteration {}", "iteration "),
        ("iteration {}/100", "iteration "),
        ("train_step_{}", "train_step_"),
        ("epoch 3, step {}", None),
        ("epoch 3 step {}", "epoch # step "),
        ("aten::batch_norm, seq = {}", None),
        ("layer {}", None),
    ],
)
def test_names_of_steps(tmp_path: Path, name: str, stem: str | None) -> None:
    ranges = [step(number, 100 * number, 100 * number + 90, name) for number in (7, 8, 9)]
    expected = {} if stem is None else {PID: (stem, [7, 8, 9])}
    assert found_steps(write_export(tmp_path / "a.sqlite", kernels(), ranges)) == expected


@pytest.mark.parametrize(
    "ranges",
    [
        [step(0, 0, 90)],
        [step(1, 0, 90), step(1, 100, 190)],
        [step(2, 0, 90), step(1, 100, 190)],
        [step(1, 0, 150), step(2, 100, 190)],
        [step(1, 0, 90), step(2, 100, 190, thread=8)],
        [step(1, 0, 90, kind=34), step(2, 100, 190, kind=34)],
        [Range(0, None, "step 1"), Range(100 * MS, None, "step 2")],
    ],
)
def test_what_is_no_series_of_steps(tmp_path: Path, ranges: list[Range]) -> None:
    assert found_steps(write_export(tmp_path / "a.sqlite", kernels(), ranges)) == {}


def test_of_several_series_the_longest_counts(tmp_path: Path) -> None:
    inner = [step(number, 100 * number + 5, 100 * number + 30, "batch {}") for number in range(3)]
    path = write_export(tmp_path / "a.sqlite", kernels(), inner + STEPS)
    assert found_steps(path) == {PID: ("step ", [0, 1, 2])}


@pytest.mark.heavy
def test_the_page_has_steps_or_says_how_to_mark_them(tmp_path: Path) -> None:
    marked = load_run(write_export(tmp_path / "a.sqlite", kernels(), STEPS))
    (page,) = analyze_files(marked).files
    facts = {fact.name: fact.value for fact in page.facts}
    assert facts["exposed_step_ns"] == 20 * MS
    assert facts["each_gpu_step"] == (
        "GPU 0 (pid 4242): 2 steps, median 90.0 ms, NCCL 40.0 ms, exposed 20.0 ms, 50.0 % of NCCL "
        "overlapped"
    )
    assert not any("NVTX" in one.question for one in page.unanswered)
    bare = load_run(write_export(tmp_path / "b.sqlite", kernels()))
    (page,) = analyze_files(bare).files
    assert any("torch.cuda.nvtx.range" in one.command for one in page.unanswered)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE NVTX_EVENTS SET start = 'a'",
        "UPDATE NVTX_EVENTS SET globalTid = 'a', domainId = 'b'",
        "UPDATE NVTX_EVENTS SET end = 9e30",
        "UPDATE StringIds SET value = x'ff00' WHERE value LIKE 'step%'",
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 'a'",
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = 'a'",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_RUNTIME DROP COLUMN correlationId",
        "ALTER TABLE NVTX_EVENTS DROP COLUMN textId",
        "DROP TABLE StringIds",
    ],
)
def test_damage_costs_steps_alone(tmp_path: Path, damage: str) -> None:
    path = write_export(tmp_path / "a.sqlite", kernels(), STEPS, launches=[5 * MS] * 6)
    with closing(sqlite3.connect(path)) as database:
        database.execute(damage)
        database.commit()
    assert int(load_run(path).table("nsys_gpus")["num_kernels"].sum()) == 6


def test_moments_between_steps_are_in_none(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite", kernels(), STEPS)
    with opened_export(path) as database:
        (steps,) = step_ranges(database).values()
    moments = np.array([-1, 0, 89, 90, 95, 100, 290, 400]) * MS
    assert steps.step_of(moments).tolist() == [-1, 0, 0, -1, -1, 1, -1, -1]


@needs_corpus
def test_operations_with_rising_numbers_are_no_steps() -> None:
    run = load_run(CORPUS / "imports" / "nsys" / "mfu_2gpu_before.sqlite")
    assert run.table("nsys_steps").empty
    assert list(run.table("nsys_gpus")["num_steps"]) == [0, 0]
