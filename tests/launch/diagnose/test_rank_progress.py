import json
from pathlib import Path
from typing import Any

from hvdprof.launch.diagnose.rank_progress import PassProgress
from hvdprof.rundir.layout import PassPaths


def _append(paths: PassPaths, rank: int, *lines: Any, end: str = "\n") -> None:
    paths.recorder_folder.mkdir(parents=True, exist_ok=True)
    with paths.recorder_file(rank).open("a") as file:
        file.write("\n".join(json.dumps(line) for line in lines) + end)


def test_files_are_read_as_they_grow(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    progress = PassProgress(paths)
    assert progress.update() == 0
    _append(paths, 0, {"kind": "header", "rank": 0}, {"kind": "segment", "id": "a"})
    first = progress.update()
    assert progress.ranks[0].segment == "a"
    _append(paths, 0, {"kind": "step", "step": 0}, {"kind": "step", "step": 1})
    assert progress.update() > first
    assert progress.ranks[0].num_steps == 2
    _append(paths, 0, {"kind": "segment_end", "id": "a"}, {"kind": "end"})
    progress.update()
    state = progress.ranks[0]
    assert (state.segment, state.ended, state.finished) == (None, {"a"}, True)


def test_a_line_that_is_half_written_waits_for_its_rest(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    progress = PassProgress(paths)
    line = json.dumps({"kind": "segment", "id": "a"})
    paths.recorder_folder.mkdir()
    file = paths.recorder_file(0)
    file.write_text(line[:12])
    progress.update()
    assert progress.ranks[0].segment is None
    file.write_text(line + "\n")
    progress.update()
    assert progress.ranks[0].segment == "a"


def test_compact_step_lines_count_too(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    paths.recorder_folder.mkdir()
    paths.recorder_file(0).write_text('{"kind":"step","segment":"a","step":0}\n')
    progress = PassProgress(paths)
    progress.update()
    assert progress.ranks[0].num_steps == 1


def test_a_segment_has_ended_when_every_rank_says_so(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    progress = PassProgress(paths)
    for rank in (0, 1):
        _append(paths, rank, {"kind": "segment", "id": "a"}, {"kind": "segment_end", "id": "a"})
    _append(paths, 0, {"kind": "segment", "id": "b"}, {"kind": "segment_end", "id": "b"})
    _append(paths, 1, {"kind": "segment", "id": "b"})
    progress.update()
    assert progress.ended_segments(2) == {"a"}
    assert progress.ended_segments(3) == set()


def test_damage_is_remembered_and_skipped(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    paths.recorder_folder.mkdir()
    paths.recorder_file(0).write_bytes(b'\x00\x00\n[1]\n{"kind": "segment", "id": "a"}\n')
    progress = PassProgress(paths)
    progress.update()
    assert progress.ranks[0].segment == "a"
    assert len(progress.ranks[0].problems) == 2


def test_a_file_that_cannot_be_read_just_now_is_read_at_the_next_look(tmp_path: Path) -> None:
    paths = PassPaths(tmp_path)
    progress = PassProgress(paths)
    in_the_way = paths.recorder_file(0)
    in_the_way.mkdir(parents=True)
    assert progress.update() == 0
    in_the_way.rmdir()
    _append(paths, 0, {"kind": "segment", "id": "a"})
    assert progress.update() > 0
    assert progress.ranks[0].segment == "a"
