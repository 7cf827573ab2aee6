import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.timeline.horovod_timeline import parse_timeline
from tests.builders.timeline_rows import rows_of
from tests.builders.timeline_writer import TimelineWriter

TENSORS = tuple(f"allreduce.layer{number}" for number in range(6))

PARTITIONS = st.permutations(TENSORS).flatmap(
    lambda order: st.lists(st.integers(1, 4), min_size=6, max_size=6).map(
        lambda sizes: [
            tuple(order[start : start + size])
            for start, size in zip(itertools.accumulate([0, *sizes[:-1]]), sizes, strict=True)
            if start < len(order)
        ]
    )
)


def batches_found(writer: TimelineWriter) -> list[tuple[str, ...]]:
    rows = [row for row in rows_of(parse_timeline(writer.text())) if row.phase == "operation"]
    groups = itertools.groupby(rows, key=lambda row: row.fusion_id)
    return [tuple(row.tensor for row in group) for _, group in groups]


@pytest.mark.slow
@given(st.lists(PARTITIONS, min_size=1, max_size=4))
def test_batches_of_a_cpu_are_found_for_every_fusion(steps: list[list[tuple[str, ...]]]) -> None:
    writer = TimelineWriter()
    for batches in steps:
        writer.negotiate([tensor for batch in batches for tensor in batch])
        for batch in batches:
            copies = ("MEMCPY_IN_FUSION_BUFFER",) if len(batch) > 1 else ()
            writer.execute(batch, activities=(*copies, "MPI_ALLREDUCE"))
    assert batches_found(writer) == [batch for batches in steps for batch in batches]


class NcclWriter:
    """Two threads: one begins operations, one finishes older ones, in any interleaving."""

    def __init__(self, seed: int) -> None:
        self.writer = TimelineWriter()
        self.choice = random.Random(seed)
        self.pending: list[tuple[str, str, str]] = []

    def by_first_thread(self, kind: str, tensor: str, name: str = "") -> None:
        while self.pending and self.choice.random() < 0.5:
            self.finish_one()
        self.put(kind, tensor, name)

    def finish_one(self) -> None:
        self.put(*self.pending.pop(0))

    def put(self, kind: str, tensor: str, name: str) -> None:
        if kind == "B":
            self.writer.begin(tensor, name)
        elif kind == "end":
            self.writer.end(tensor, dtype="float32", shape="[8]")
        else:
            self.writer.end(tensor)

    def execute(self, batch: tuple[str, ...]) -> None:
        for tensor in batch:
            self.by_first_thread("B", tensor, "ALLREDUCE")
        for name in ("WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA"):
            for tensor in batch:
                self.by_first_thread("B", tensor, name)
                self.by_first_thread("E", tensor)
        for name in ("QUEUE", "NCCL_ALLREDUCE"):
            self.pending += [("B", tensor, name) for tensor in batch]
            self.pending += [("E", tensor, "") for tensor in batch]
        self.pending += [("end", tensor, "") for tensor in batch]


@pytest.mark.slow
@given(PARTITIONS, st.integers(0, 2**32))
def test_batches_of_nccl_are_found_though_older_ones_finish_in_between(
    batches: list[tuple[str, ...]], seed: int
) -> None:
    nccl = NcclWriter(seed)
    nccl.writer.negotiate(TENSORS)
    for batch in batches:
        nccl.execute(batch)
    while nccl.pending:
        nccl.finish_one()
    assert batches_found(nccl.writer) == batches


def test_neighbours_whose_last_activities_lie_apart_were_not_executed_together() -> None:
    writer = TimelineWriter()
    writer.execute(["allreduce.a"], activities=("QUEUE",))
    writer.begin("allreduce.x", "ALLREDUCE")
    writer.begin("allreduce.b", "ALLREDUCE")
    writer.begin("allreduce.x", "QUEUE")
    writer.begin("allreduce.c", "ALLREDUCE")
    for tensor in ("allreduce.b", "allreduce.c"):
        writer.begin(tensor, "QUEUE")
        writer.now_us += 5000
        writer.end(tensor)
        writer.end(tensor, dtype="float32", shape="[8]")
    assert ("allreduce.b", "allreduce.c") not in batches_found(writer)


def test_tensors_of_different_types_are_never_fused() -> None:
    writer = TimelineWriter()
    writer.begin("allreduce.a", "ALLREDUCE")
    writer.begin("allreduce.b", "ALLREDUCE")
    writer.end("allreduce.a", dtype="float32", shape="[8]")
    writer.end("allreduce.b", dtype="float16", shape="[8]")
    assert batches_found(writer) == [("allreduce.a",), ("allreduce.b",)]


def test_a_run_goes_through_names_of_new_tensors_but_ends_at_a_mark() -> None:
    writer = TimelineWriter()
    writer.begin("allreduce.a", "ALLREDUCE")
    writer.begin("allreduce.b", "ALLREDUCE")
    writer.cycle()
    writer.begin("allreduce.c", "ALLREDUCE")
    assert batches_found(writer) == [("allreduce.a", "allreduce.b"), ("allreduce.c",)]


def test_bytes_and_lengths_count_once_for_an_execution() -> None:
    writer = TimelineWriter()
    shapes = {"allreduce.a": "[10]", "allreduce.b": "[3, 5]"}
    writer.execute(["allreduce.a", "allreduce.b"], activities=("MPI_ALLREDUCE",), shapes=shapes)
    executions = parse_timeline(writer.text()).executions
    assert executions.num_tensors.tolist() == [2]
    assert executions.size_bytes.tolist() == [4 * 25]
    assert executions.dur_us.tolist() == [7]
    assert executions.part_us.tolist() == [[0, 0, 0, 0, 2]]


def test_an_execution_with_a_tensor_of_unknown_size_has_none() -> None:
    writer = TimelineWriter()
    writer.begin("allreduce.a", "ALLREDUCE")
    writer.begin("allreduce.b", "ALLREDUCE")
    writer.end("allreduce.a", dtype="float32", shape="[8]")
    writer.end("allreduce.b")
    executions = parse_timeline(writer.text()).executions
    assert executions.num_tensors.tolist() == [2]
    assert executions.size_bytes.isna().tolist() == [True]
