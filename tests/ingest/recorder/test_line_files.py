"""Files of sampled lines to tables, from damaged files too."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import load_run
from hvdprof.ingest.recorder.line_files import RankLines, lines_of_rank
from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
from hvdprof.ingest.recorder.session_rows import alignment_of
from hvdprof.model.run import Run
from hvdprof.rundir.layout import PassPaths
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

MS = 1_000_000
BEGIN = {
    "kind": "sampling",
    "rank": 1,
    "process": "main",
    "pid": 7,
    "hz": 20.0,
    "monotonic_ns": 0,
}
WINDOW = {
    "kind": "lines",
    "segment": "s",
    "step": 3,
    "steps": 2,
    "start_ns": 0,
    "end_ns": 100 * MS,
    "phases": [["forward", 4, 80 * MS, 200 * MS, 6 * MS], ["data", 0, 20 * MS, 0, 0]],
    "places": [[1, "/home/me/train.py", 41, "Net.forward", "torch/nn/functional.py linear"]],
    "counts": [[0, 1, 3], [0, 0, 1]],
}
CALL = {
    "kind": "call",
    "name": "torch.save",
    "segment": "s",
    "step": 4,
    "start_ns": 5 * MS,
    "dur_ns": 2 * MS,
    "file": "/home/me/train.py",
    "line": 57,
    "detail": "model.pt",
}


def written(folder: Path) -> tuple[PassPaths, str]:
    """A run of two ranks, the second with a clock of its own; its pass."""
    write_run(
        folder,
        [
            PassSpec(
                size=2,
                segments=[SegmentSpec(parts_ms=typical_parts(10), num_steps=20)],
                offset_ms=[0, 5],
            )
        ],
    )
    (path,) = (folder / "passes").iterdir()
    paths = PassPaths(path)
    segment = read_recorder_file(paths.recorder_file(1)).segments
    return paths, next(iter(segment))


def loaded(folder: Path, texts: dict[str, list[Any]]) -> Run:
    """The run with files of sampled lines, whose segment is that of the run."""
    paths, segment = written(folder)
    for name, content in texts.items():
        whole = [
            line
            if isinstance(line, str)
            else json.dumps(line | ({"segment": segment} if line.get("segment") else {}))
            for line in content
        ]
        (paths.recorder_folder / name).write_text(
            "".join(text + "\n" for text in whole), encoding="utf-8"
        )
    return load_run(folder)


def test_lines_and_calls_of_a_rank(tmp_path: Path) -> None:
    run = loaded(tmp_path / "run", {"lines-1.jsonl": [BEGIN, WINDOW, CALL]})
    known, other = run.line_samples.to_dict("records")

    assert (known["rank"], known["process"], known["step"], known["steps"]) == (1, "main", 3, 2)
    assert (known["phase"], known["file"], known["line"]) == ("forward", "/home/me/train.py", 41)
    assert (known["function"], known["leaf"]) == ("Net.forward", "torch/nn/functional.py linear")
    assert (known["samples"], other["samples"]) == (3, 1)
    assert (other["file"], other["line"], other["leaf"]) == ("", 0, "other")
    forward, data = run.line_sampling.to_dict("records")
    assert (forward["samples"], forward["time_ns"]) == (4, 80 * MS)
    assert (forward["mean_gap_ns"], forward["late_ns"]) == (50 * MS, 6 * MS)
    assert (data["samples"], data["time_ns"], data["mean_gap_ns"]) == (0, 20 * MS, 0)
    (call,) = run.named_calls.to_dict("records")
    assert (call["name"], call["step"], call["line"]) == ("torch.save", 4, 57)
    offset = alignment_of(read_recorder_file(next(tmp_path.rglob("recorder/rank-1.jsonl"))), None)
    assert call["start_ns"] == 5 * MS + offset.offset_ns
    assert call["duration_ns"] == 2 * MS
    assert [str(note) for note in run.notes if "sampled" in note.text] == []


def test_a_worker_gets_the_steps_of_its_rank(tmp_path: Path) -> None:
    paths, segment = written(tmp_path / "first")
    table = read_recorder_file(paths.recorder_file(1)).segments[segment].step_table()
    begin_ns, end_ns = int(table[4, 2]) + 1, int(table[8, 2])
    worker = BEGIN | {"process": "worker"}
    inside = WINDOW | {"segment": "", "step": -1, "start_ns": begin_ns, "end_ns": end_ns}
    before = inside | {"start_ns": 0, "end_ns": 1}
    run = loaded(
        tmp_path / "run",
        {
            "lines-1-worker-0.jsonl": [worker, inside],
            "lines-1-worker-1.jsonl": [worker, before, worker, inside | {"places": []}],
        },
    )
    rows = run.line_samples[["process", "segment", "step", "steps", "file", "samples"]]

    own = ("worker", segment)
    assert list(rows.itertuples(index=False, name=None)) == [
        (*own, int(table[4, 0]), 4, "/home/me/train.py", 3),
        (*own, int(table[4, 0]), 4, "", 1),
        (*own, -1, 0, "/home/me/train.py", 3),
        (*own, -1, 0, "", 1),
        # Places of the worker before are not its own.
        (*own, int(table[4, 0]), 4, "", 3),
        (*own, int(table[4, 0]), 4, "", 1),
    ]


def test_a_worker_that_was_stopped_beside_the_steps_took_no_time_there(tmp_path: Path) -> None:
    paths, segment = written(tmp_path / "first")
    table = read_recorder_file(paths.recorder_file(1)).segments[segment].step_table()
    begin_ns, end_ns = int(table[-4, 2]), int(table[-1, 2] + table[-1, 3])
    worker = BEGIN | {"process": "worker"}
    in_steps_ns, turn_ns = end_ns - begin_ns, 5_000 * MS
    # A turn of another launch follows: the last sample comes as late as that takes.
    whole_ns, late_ns = in_steps_ns + turn_ns, turn_ns + 6 * MS
    stopped = WINDOW | {"segment": "", "step": -1, "start_ns": begin_ns, "end_ns": end_ns + turn_ns}
    stopped |= {"phases": [["outside", 4, whole_ns, whole_ns, late_ns]]}
    busy = stopped | {"phases": [["outside", 4, whole_ns, whole_ns, 6 * MS]]}
    run = loaded(tmp_path / "run", {"lines-1-worker-0.jsonl": [worker, stopped, busy]})
    first, second = run.line_sampling.to_dict("records")

    assert (first["time_ns"], first["late_ns"]) == (in_steps_ns, 6 * MS)
    assert first["mean_gap_ns"] == in_steps_ns // 4
    # It was sampled beside the steps, and ran there.
    assert (second["time_ns"], second["late_ns"]) == (whole_ns - 6 * MS, 0)


@pytest.mark.parametrize(
    "damaged",
    [
        "{",
        "[]",
        '{"kind":"lines"}',
        '{"kind":"step"}',
        WINDOW | {"steps": "2"},
        WINDOW | {"counts": [[2, 1, 3]]},
        WINDOW | {"counts": [[-1, 1, 3]]},
        WINDOW | {"counts": [[0, 1]]},
        WINDOW | {"places": [[1, "a.py", 4]]},
        WINDOW | {"places": [[1, "a.py", None, "f", ""]]},
        WINDOW | {"phases": [["forward", 1, 1e9, 0, 0]]},
        CALL | {"dur_ns": None},
        CALL | {"line": 10**400},
    ],
)
def test_damaged_lines_are_skipped_and_counted(tmp_path: Path, damaged: Any) -> None:
    run = loaded(tmp_path / "run", {"lines-1.jsonl": [BEGIN, damaged, WINDOW, damaged]})

    assert run.line_samples["samples"].sum() == 4
    (note,) = [note for note in run.notes if "damaged lines of its samples skipped" in note.text]
    assert (note.number, note.text.count("rank 1")) == (2, 1)


def test_a_file_that_is_cut_off_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    run = loaded(tmp_path / "run", {"lines-1.jsonl": [BEGIN, WINDOW, json.dumps(WINDOW)[:90]]})

    assert run.line_samples["samples"].sum() == 4
    assert any("1 damaged line of its samples skipped" in note.text for note in run.notes)


def test_samples_of_no_process_are_damage(tmp_path: Path) -> None:
    run = loaded(tmp_path / "run", {"lines-1.jsonl": [WINDOW]})

    assert len(run.line_samples) == 0
    assert any("1 damaged line of its samples skipped" in note.text for note in run.notes)


def test_a_file_that_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    paths, _ = written(tmp_path / "run")
    recording = read_recorder_file(paths.recorder_file(0))
    lines, notes = lines_of_rank(
        [tmp_path / "gone.jsonl"], recording, lambda _: contextlib.nullcontext()
    )

    assert lines.samples == []
    assert [note.text for note in notes] == [
        "its sampled lines could not be read: No such file or directory"
    ]


def test_evaluations_are_named_calls(tmp_path: Path) -> None:
    paths, segment = written(tmp_path / "run")
    recording = read_recorder_file(paths.recorder_file(0))
    rows = recording.segments[segment]
    rows.evaluation_ns[7] = 3 * MS
    lines = RankLines(recording)
    ((table, block),) = lines.blocks("p", 0, alignment_of(recording, recording))

    assert table.name == "named_calls"
    assert list(block["name"]) == ["evaluation"]
    assert (block["step"].tolist(), block["duration_ns"].tolist()) == (
        [int(rows.step_table()[7, 0])],
        [3 * MS],
    )
