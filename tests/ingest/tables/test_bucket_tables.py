"""DDP's buckets in recorder files as the same tables that Horovod's timeline gives."""

import json

import pandas as pd
import pytest

from hvdprof.api import load_run
from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
from hvdprof.model.notes import texts
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

TENSORS = {"fc.weight": 4000, "fc.bias": 40, "conv.weight": 600}
BUCKETS = [(6.0, 2.0, [1, 0]), (8.5, 3.0, [2])]


def run_of(tmp_path, **values):
    segment = SegmentSpec(
        engine="ddp",
        tensors=TENSORS,
        buckets=BUCKETS,
        num_warmup_batches=1,
        num_steps=2,
        parts_ms=typical_parts(12, blocked_ms=2),
        **values,
    )
    spec = PassSpec(size=2, mode="trace", segments=[segment], offset_ms=[0, 100])
    return load_run(write_run(tmp_path, [spec]))


def test_a_bucket_is_an_execution_as_rank_0_saw_it(tmp_path):
    run = run_of(tmp_path)
    executions = run.table(EXECUTIONS.name)
    assert run.notes == ()
    columns = ["step", "fusion_id", "num_tensors", "size_bytes", "dur_ns", "transfer_ns", "warmup"]
    assert executions[columns].to_numpy().tolist() == [
        [0, 0, 2, 4040, 2_000_000, 2_000_000, True],
        [0, 1, 1, 600, 3_000_000, 3_000_000, True],
        [1, 2, 2, 4040, 2_000_000, 2_000_000, False],
        [1, 3, 1, 600, 3_000_000, 3_000_000, False],
        [2, 4, 2, 4040, 2_000_000, 2_000_000, False],
        [2, 5, 1, 600, 3_000_000, 3_000_000, False],
    ]
    start_of = run.steps[run.steps["rank"] == 0].set_index("step")["start_ns"]
    offsets = executions["start_ns"] - executions["step"].map(start_of)
    assert offsets.tolist() == [6_000_000, 8_500_000] * 3


def test_its_gradients_are_uses_of_tensors_without_negotiation(tmp_path):
    uses = run_of(tmp_path).table(TENSOR_USES.name)
    assert uses["tensor"].astype(str).tolist() == ["fc.bias", "fc.weight", "conv.weight"] * 3
    assert uses["occurrence"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert uses["fusion_id"].tolist() == [0, 0, 1, 2, 2, 3, 4, 4, 5]
    assert uses["size_bytes"].tolist() == [40, 4000, 600] * 3
    assert uses[["negotiation_ns", "first_rank", "last_rank"]].isna().all(axis=None)


def test_on_the_time_axis_they_stand_where_a_timeline_would(tmp_path):
    run = run_of(tmp_path)
    events = run.events[run.events["source"] == "timeline"]
    executions = run.table(EXECUTIONS.name).set_index("fusion_id")
    assert events["tensor"].astype(str).tolist()[:3] == ["fc.bias", "fc.weight", "conv.weight"]
    assert events["fusion_id"].tolist() == [0, 0, 1, 2, 2, 3, 4, 4, 5]
    for name in ("start_ns", "dur_ns", "step"):
        assert (events[name] == events["fusion_id"].map(executions[name])).all()
    assert set(events["activity"].astype(str)) == {"ALLREDUCE"}
    assert set(events["rank"]) == {0}


def test_what_was_sent_counts_and_not_what_was_computed(tmp_path):
    executions = run_of(tmp_path, compression="fp16").table(EXECUTIONS.name)
    assert executions["size_bytes"].tolist() == [2020, 300] * 3


def test_without_buckets_there_are_no_executions(tmp_path):
    run = load_run(write_run(tmp_path, [PassSpec(size=2, segments=[SegmentSpec(engine="ddp")])]))
    assert run.table(EXECUTIONS.name).empty


@pytest.mark.parametrize("bucket", [[0, 5, [7]], [0, 5, [-1]], [0, 5], "x", [0, 5, None]])
def test_step_with_a_damaged_bucket_is_left_out(tmp_path, bucket):
    tensors = [{"name": "a", "size_bytes": 4, "sent_bytes": 4}]
    step = {"kind": "step", "segment": "s", "warmup": False, "samples": 1, "dur_ns": 9}
    step |= {"phases": [], "ready": [1], "blocked": []}
    lines = [
        {"kind": "segment", "id": "s", "monotonic_ns": 0, "tensors": tensors},
        step | {"step": 0, "start_ns": 1, "buckets": [[2, 3, [0]]]},
        step | {"step": 1, "start_ns": 11, "buckets": [bucket]},
        step | {"step": 2, "start_ns": 21},
    ]
    path = tmp_path / "rank-0.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file = read_recorder_file(path)
    assert file.segments["s"].step_table()[:, 0].tolist() == [0, 2]
    assert file.segments["s"].bucket_table().tolist() == [[0, 2, 3, 1]]
    assert "1 damaged lines were skipped" in texts(file.problems)


def test_blocked_time_is_no_part_of_backward(tmp_path):
    steps = run_of(tmp_path).steps
    parts = pd.unique(steps["blocked_ns"]), pd.unique(steps["backward_ns"])
    assert [part.tolist() for part in parts] == [[2_000_000], [5_000_000]]
    assert (steps["outside_ns"] == 500_000).all()
