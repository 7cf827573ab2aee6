import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.ingest.nsys.export_events import nsys_events
from hvdprof.ingest.rundir.attached_size import attached_size
from hvdprof.model.run import Run
from hvdprof.report.chrome.collective_trace import nsys_content
from tests.builders.nsys_exports import (
    COLLECTED,
    DOMAIN,
    MADE,
    REDUCED,
    Range,
    add_schemas,
    payload,
    write_export,
)
from tests.builders.places import CORPUS, needs_corpus

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
KERNELS = [(0, 100, 0, "gemm"), (100, 140, 0, ALLREDUCE)]
WORLD, PART = 0xFEDCBA9876543210, 0xABC
MB = 1_000_000


def call(name: str, data: object, *, thread: int = 7) -> Range:
    return Range(1, 2, name, domain=1, thread=thread, data=data)


def made(communicator: int, rank: int, num_ranks: int, *, thread: int = 7) -> Range:
    name = "ncclCommInitRankConfig"
    return call(name, payload(MADE, communicator, num_ranks, rank, 0), thread=thread)


def reduced(size: int, communicator: int = WORLD, *, thread: int = 7) -> Range:
    return call("ncclAllReduce", payload(REDUCED, communicator, size, 0), thread=thread)


RANGES = [
    Range(0, 0, "NCCL", DOMAIN, domain=1),
    made(WORLD, 5, 8),
    made(PART, 1, 2),
    *[reduced(25 * MB)] * 3,
    reduced(4 * MB),
    call("ncclAllGather", payload(COLLECTED, PART, 6 * MB)),
    call("ncclGroupStart", None),
]


def loaded(path: Path, ranges: list[Range], schemas: list[int] | None = None) -> Run:
    write_export(path, KERNELS, ranges)
    return load_run(add_schemas(path) if schemas is None else add_schemas(path, schemas=schemas))


def rows(calls: pd.DataFrame, *names: str) -> list[tuple[object, ...]]:
    shown = calls[list(names)].astype(object).where(calls[list(names)].notna(), None)
    return list(shown.itertuples(index=False, name=None))


def test_calls_have_bytes_communicator_rank_and_number_of_ranks(tmp_path: Path) -> None:
    run = loaded(tmp_path / "a.sqlite", RANGES)
    names = ("function", "communicator", "rank", "num_ranks", "message_bytes", "number")
    world, part = "0xfedcba9876543210", "0xabc"
    assert rows(run.nsys_nccl_calls, *names) == [
        ("ncclAllReduce", world, 5, 8, 25 * MB, 3),
        ("ncclAllGather", part, 1, 2, 6 * MB, 1),
        ("ncclAllReduce", world, 5, 8, 4 * MB, 1),
    ]
    # NCCL states the part of one rank.
    assert list(run.nsys_nccl_calls["size_bytes"]) == [25 * MB, 12 * MB, 4 * MB]


@pytest.mark.heavy
def test_the_gpu_and_its_kernels_have_the_rank_in_the_largest_communicator(tmp_path: Path) -> None:
    run = loaded(tmp_path / "a.sqlite", RANGES)
    assert list(run.nsys_gpus["rank"]) == list(run.nsys_nccl_kernels["rank"]) == [5]
    (page,) = analyze_files(run).files
    facts = {fact.name: str(fact.value) for fact in page.facts}
    assert facts["each_gpu"].startswith("GPU 0 (rank 5, pid 4242): span")
    assert facts["each_nccl_call"].splitlines()[0] == "ncclAllReduce of 25.0 MB on 8 ranks: 3 calls"
    assert attached_size(timelines=(), nccl_logs=(), outputs={}, recordings=run).size == 8


def test_threads_of_a_process_have_ranks_of_their_own(tmp_path: Path) -> None:
    ranges = [made(WORLD, rank, 2, thread=rank) for rank in (0, 1)]
    ranges += [reduced(MB, thread=1), reduced(MB, thread=2)]
    run = loaded(tmp_path / "a.sqlite", ranges)
    assert rows(run.nsys_nccl_calls, "rank", "number") == [(1, 1), (None, 1)]
    assert run.nsys_gpus["rank"].isna().all()


@pytest.mark.parametrize(
    ("ranges", "label"),
    [
        (RANGES, "rank 5, pid 4242"),
        ([made(WORLD, rank, 2, thread=rank) for rank in (0, 1)], "ranks 0 and 1, pid 4242"),
        (RANGES[3:], "pid 4242"),
    ],
    ids=["of one rank", "of two ranks", "not stated"],
)
def test_the_process_of_the_lanes_has_its_ranks(
    tmp_path: Path, ranges: list[Range], label: str
) -> None:
    write_export(tmp_path / "a.sqlite", KERNELS, ranges)
    with nsys_events(add_schemas(tmp_path / "a.sqlite")) as events:
        assert list(events.processes.values()) == [label]
        content = nsys_content(events, "a.sqlite")
    assert list(content.processes.values()) == [f"GPU 0, {label}"]


def test_without_payloads_the_page_names_the_option_of_the_export(tmp_path: Path) -> None:
    ranges = [call("ncclAllReduce", None)] * 2
    run = load_run(write_export(tmp_path / "a.sqlite", KERNELS, ranges))
    assert rows(run.nsys_nccl_calls, "communicator", "message_bytes", "number") == [("", None, 2)]
    (page,) = analyze_files(run).files
    assert any("--include-blobs true" in one.command for one in page.unanswered)
    assert "each_nccl_call" not in {fact.name for fact in page.facts}


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: data[:20],
        lambda _: b"",
        lambda _: "text",
        lambda _: 3,
        lambda data: b"\x02" + data[1:],
        lambda data: data[:16] + b"\xff" * 8 + data[24:],
        lambda data: data[:8] + b"\x09" + data[9:],
        lambda data: data[:40] + b"\xff" * 8 + data[48:],
    ],
)
def test_a_damaged_payload_costs_its_size_alone(
    tmp_path: Path, damage: Callable[[bytes], object]
) -> None:
    broken = call("ncclAllReduce", damage(payload(REDUCED, WORLD, MB, 0)))
    run = loaded(tmp_path / "a.sqlite", [made(WORLD, 5, 8), reduced(MB), broken])
    sizes = rows(run.nsys_nccl_calls, "message_bytes", "number")
    assert sorted(sizes, key=str) == [(MB, 1), (None, 1)]


def test_a_missing_schema_costs_its_values_alone(tmp_path: Path) -> None:
    run = loaded(tmp_path / "a.sqlite", RANGES, [REDUCED])
    found = rows(run.nsys_nccl_calls, "function", "rank", "message_bytes")
    assert ("ncclAllReduce", None, 25 * MB) in found
    assert ("ncclAllGather", None, None) in found


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("UPDATE {} SET offset = 2000000000 WHERE name LIKE 'Message%'", None),
        ("UPDATE {} SET offset = -8 WHERE name LIKE 'Message%'", None),
        ("UPDATE {} SET offset = 'x', type = 'y', domainId = 'z'", None),
        ("UPDATE {} SET offset = 16 WHERE name LIKE 'Message%' AND rowid < 8", None),
        ("ALTER TABLE {} DROP COLUMN offset", None),
        ("DROP TABLE {}", None),
        ("UPDATE {} SET flags = 7", MB),
    ],
)
def test_damaged_schemas_give_no_wrong_size(tmp_path: Path, change: str, left: object) -> None:
    path = add_schemas(write_export(tmp_path / "a.sqlite", KERNELS, [reduced(MB)]))
    with closing(sqlite3.connect(path)) as database:
        database.execute(change.format("NVTX_PAYLOAD_SCHEMA_ENTRIES"))
        database.commit()
    assert rows(load_run(path).nsys_nccl_calls, "message_bytes", "number") == [(left, 1)]


def test_impossible_ranks_are_no_ranks(tmp_path: Path) -> None:
    run = loaded(tmp_path / "a.sqlite", [made(WORLD, 9, 8), reduced(MB)])
    assert rows(run.nsys_nccl_calls, "rank", "message_bytes") == [(None, MB)]


@needs_corpus
def test_an_export_without_blobs_counts_calls_by_function() -> None:
    run = load_run(CORPUS / "imports" / "nsys" / "mfu_2gpu_before.sqlite")
    found = run.nsys_nccl_calls
    assert sorted(zip(found["function"], found["number"], strict=True)) == [
        ("ncclRecv", 64),
        ("ncclRecv", 68),
        ("ncclSend", 64),
        ("ncclSend", 68),
    ]
    assert found["message_bytes"].isna().all()
