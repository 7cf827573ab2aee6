"""Time of tensors and steps, against a parse of the timeline that knows nothing of hvdprof's."""

import json
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.analyze.communication.tensor_sums import TensorSums
from hvdprof.analyze.stats.intervals import merged_by_key
from hvdprof.api import analyze_files, load_run
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from tests.builders.declared_rows import declared_rows
from tests.builders.places import RECORDINGS

MICROSECOND = 1000


@pytest.mark.heavy
def test_a_fused_execution_is_divided_by_bytes() -> None:
    sums = TensorSums()
    sums.add(
        declared_rows(
            EXECUTIONS,
            {"fusion_id": 0, "start_ns": 0, "dur_ns": 400, "size_bytes": 400},
            {"fusion_id": 1, "start_ns": 500, "dur_ns": 90, "warmup": True, "size_bytes": None},
        ),
        declared_rows(
            TENSOR_USES,
            {"tensor": "a", "fusion_id": 0, "dur_ns": 400, "size_bytes": 300},
            {"tensor": "b", "fusion_id": 0, "dur_ns": 400, "size_bytes": 100},
            {"tensor": "b", "fusion_id": 1, "dur_ns": 90, "size_bytes": None},
            {"tensor": "c", "fusion_id": 1, "dur_ns": 90, "size_bytes": 7},
            {"tensor": "pending", "fusion_id": -1, "dur_ns": None, "size_bytes": None},
        ),
    )
    table = sums.tensors().set_index("tensor")
    assert table["time_ns"].to_dict() == {"a": 300, "b": 100, "c": 0}
    assert table["warmup_ns"].to_dict() == {"a": 0, "b": 45, "c": 45}
    assert table["num_uses"].to_dict() == {"a": 1, "b": 2, "c": 1}
    assert table["size_bytes"].isna().to_dict() == {"a": False, "b": True, "c": False}


@pytest.mark.heavy
def test_steps_are_unions_and_pieces_change_nothing() -> None:
    executions = declared_rows(
        EXECUTIONS,
        {"step": 0, "fusion_id": 0, "start_ns": 100, "dur_ns": 50, "size_bytes": 1},
        {"step": 0, "fusion_id": 1, "start_ns": 120, "dur_ns": 50, "size_bytes": 2},
        {"step": 1, "fusion_id": 2, "start_ns": 150, "dur_ns": 10, "size_bytes": 4},
        {"step": -1, "fusion_id": 3, "start_ns": 0, "dur_ns": 999, "size_bytes": 8},
    )
    negotiated = {"negotiation_start_ns": 80, "negotiation_ns": 30}
    uses = declared_rows(
        TENSOR_USES,
        {"step": 0, "tensor": "a", "fusion_id": 0, "size_bytes": 1} | negotiated,
        {"step": 0, "tensor": "b", "fusion_id": 1, "size_bytes": 2} | negotiated,
        {"step": 1, "tensor": "a", "fusion_id": 2, "size_bytes": 4, "negotiation_ns": None},
        {"step": -1, "tensor": "c", "fusion_id": 3, "size_bytes": 8} | negotiated,
    )
    whole, pieces = TensorSums(), TensorSums()
    whole.add(executions, uses)
    for number in range(4):
        pieces.add(executions[executions["fusion_id"] == number], uses[uses["fusion_id"] == number])
    steps = whole.steps()
    assert steps["negotiation_ns"].tolist() == [30, 0]
    assert steps["execution_ns"].tolist() == [70, 10]
    assert steps["communication_ns"].tolist() == [90, 10]
    assert steps["num_executions"].tolist() == [2, 1]
    assert steps["size_bytes"].tolist() == [3, 4]
    pd.testing.assert_frame_equal(pieces.steps(), steps)
    pd.testing.assert_frame_equal(
        pieces.tensors().sort_values("tensor", ignore_index=True),
        whole.tensors().sort_values("tensor", ignore_index=True),
    )


def test_intervals_of_different_keys_stay_apart() -> None:
    keys, starts, ends = (
        pd.Series(values, dtype="int64").to_numpy()
        for values in ([1, 0, 1, 0, 1], [5, 0, 0, 9, 7], [8, 10, 5, 12, 7])
    )
    merged = [values.tolist() for values in merged_by_key(keys, starts, ends)]
    assert merged == [[0, 1], [0, 0], [12, 8]]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["04_gloo_straggler_rank1_cache_off.json", "07_mpi_fp16.json"])
def test_the_times_of_a_recording_agree_with_a_parse_of_its_own(name: str) -> None:
    found = analyze_files(load_run(RECORDINGS / name))
    times = found.tensors[["time_ns", "warmup_ns"]].to_numpy().sum()
    assert times == pytest.approx(executed_once(RECORDINGS / name))


def executed_once(path: Path) -> int:
    """Nanoseconds in operations; fused tensors begin within 100 us of each other and end so."""
    text = path.read_text().rstrip().rstrip(",").removesuffix("]").rstrip().rstrip(",")
    records = [record for record in json.loads(f"{text}]") if record]
    depth: dict[object, list[tuple[str, int]]] = {}
    spans = []
    for record in records:
        stack = depth.setdefault(record.get("pid"), [])
        if record["ph"] == "B":
            stack.append((record["name"], record["ts"]))
        elif record["ph"] == "E" and stack:
            operation, start = stack.pop()
            if not stack and not operation.startswith("NEGOTIATE_"):
                spans.append((start, record["ts"], operation))
    total, group = 0, spans[:0]
    for span in sorted(spans):
        if group and (span[0] >= group[0][1] or span[2] != group[0][2]):
            total += max(end for _, end, _ in group) - group[0][0]
            group = []
        group.append(span)
    total += max(end for _, end, _ in group) - group[0][0]
    return total * MICROSECOND
