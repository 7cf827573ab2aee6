"""Files of samples of the machine to tables, from damaged files too."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import load_run
from hvdprof.ingest.recorder.line_files import samples_of_rank
from hvdprof.model.notes import NoteCode
from hvdprof.model.run import Run
from hvdprof.rundir.layout import PassPaths
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

MS = 1_000_000
WINDOW = {
    "kind": "samples",
    "scope": "rank",
    "device": "",
    "start_ns": 0,
    "end_ns": 1000 * MS,
    "measures": [["rss", 2, 1.5e9, 1e9, 1.5e9, 2e9], ["core_wait", 2, 0.25, 0.0, 0.25, 0.5]],
}
GPU = WINDOW | {
    "scope": "device",
    "device": "NVIDIA H200",
    "measures": [["sm_clock", 1, 1.98e9, 1.98e9, 1.98e9, 1.98e9]],
}
HOST = WINDOW | {"scope": "host", "measures": [["busy", 1, 1.5, 1.5, 1.5, 1.5]]}


def loaded(folder: Path, *lines: Any) -> Run:
    """The run of two ranks, whose second has samples and a clock of its own."""
    parts = SegmentSpec(parts_ms=typical_parts(10), num_steps=20)
    write_run(folder, [PassSpec(size=2, segments=[parts], offset_ms=[0, 5])])
    (path,) = (folder / "passes").iterdir()
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    file = PassPaths(path).samples_file(1)
    file.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return load_run(folder)


def test_each_scope_has_its_table(tmp_path: Path) -> None:
    run = loaded(tmp_path, WINDOW, GPU, HOST)
    columns = ["rank", "duration_ns", "measure", "samples", "mean", "low", "median", "high"]
    rss, waits = run.rank_samples[columns].to_dict("records")

    assert list(rss.values()) == [1, 1000 * MS, "rss", 2, 1.5e9, 1e9, 1.5e9, 2e9]
    assert (waits["measure"], waits["high"]) == ("core_wait", 0.5)
    assert run.device_samples["device"].tolist() == ["NVIDIA H200"]
    assert run.host_samples["measure"].tolist() == ["busy"]
    assert run.notes == loaded_notes_of_no_samples(tmp_path / "other")


def loaded_notes_of_no_samples(folder: Path) -> tuple[object, ...]:
    return loaded(folder).notes


def test_times_are_on_the_clock_of_rank_0(tmp_path: Path) -> None:
    run = loaded(tmp_path, WINDOW | {"start_ns": 1000 * MS, "end_ns": 1500 * MS})

    # Its clock is 5 ms behind.
    assert run.rank_samples["start_ns"].tolist() == [1005 * MS] * 2


def test_what_a_newer_version_samples_is_left_out(tmp_path: Path) -> None:
    newer = WINDOW | {"measures": [["moon_phase", 1, 1, 1, 1, 1], *WINDOW["measures"]]}  # type: ignore[misc]

    assert loaded(tmp_path, newer).rank_samples["measure"].tolist() == ["rss", "core_wait"]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        WINDOW | {"kind": "step"},
        WINDOW | {"scope": "galaxy"},
        WINDOW | {"end_ns": -1},
        WINDOW | {"start_ns": 2**70},
        WINDOW | {"start_ns": "soon"},
        WINDOW | {"measures": [["rss", 1, 2]]},
        WINDOW | {"measures": [["rss", 1, 1, 1, 1, float("nan")]]},
        WINDOW | {"measures": [["rss", 2**70, 1, 1, 1, 1]]},
        WINDOW | {"measures": [["rss", 1, "much", 1, 1, 1]]},
        WINDOW | {"measures": 3},
        {"kind": "samples"},
    ],
)
def test_damaged_lines_are_counted_and_the_others_read(tmp_path: Path, line: Any) -> None:
    run = loaded(tmp_path, line, WINDOW)
    (note,) = [note for note in run.notes if note.code == NoteCode.DAMAGED]

    assert "1 damaged line of its samples of the machine skipped" in note.text
    assert len(run.rank_samples) == 2


def test_recordings_without_samples_are_whole(tmp_path: Path) -> None:
    samples, notes = samples_of_rank(tmp_path / "none", lambda _: contextlib.nullcontext())

    assert (samples.rows, notes) == ({}, [])


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    _, (note,) = samples_of_rank(tmp_path, lambda _: contextlib.nullcontext())

    assert note.code == NoteCode.UNREADABLE
