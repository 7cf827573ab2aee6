import json
import os
import pickle
import sys
import zlib
from pathlib import Path

import cloudpickle
import pytest

from hvdprof.collect.auto.recorded_function import RankEnd, RecordedFunction, carried_files
from hvdprof.collect.auto.startup import hvdprof_import_hook
from hvdprof.collect.watchdog import STALL_WARN
from hvdprof.rundir.launch_format import AUTORECORD, AutoSettings
from hvdprof.rundir.layout import PassPaths

FOLDER = "HVDPROF_RECORDER_DIR"


@pytest.fixture(autouse=True)
def own_process(monkeypatch):
    """What the function changes of its process is undone; nothing waits for Horovod."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(hvdprof_import_hook, "install", lambda: None)


def recorded(function, paths: PassPaths, *args, mark="m", **kwargs):
    automatic = AutoSettings(
        num_warmup_steps=1,
        num_steps=None,
        batch_size=None,
        timeline=str(paths.timeline("main")),
        num_timeline_steps=5,
    )
    return RecordedFunction(
        function=cloudpickle.dumps((function, args, kwargs)),
        environment={
            FOLDER: str(paths.recorder_folder),
            AUTORECORD: automatic.to_text(),
            STALL_WARN: "60",
        },
        unset=("HOROVOD_TIMELINE",),
        python_path=("/of/the/notebook",),
        pass_folder=str(paths.folder),
        mark=mark,
    )


def seen(folder: Path, mark="m") -> PassPaths:
    paths = PassPaths(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths.seen_mark.write_text(mark)
    return paths


def write_recording(text="a\n"):
    folder = Path(os.environ[FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rank-0.jsonl").write_text(text)
    timeline = Path(AutoSettings.from_environment(os.environ).timeline)
    timeline.parent.mkdir(parents=True)
    timeline.write_text("[\n")
    return str(folder)


def test_a_rank_that_sees_the_pass_folder_writes_there(tmp_path):
    paths = seen(tmp_path)

    end = recorded(write_recording, paths)()

    assert pickle.loads(end.value) == str(paths.recorder_folder)
    assert (end.error, end.files, end.rank) == ("", {}, 0)
    assert paths.recorder_file(0).read_text() == "a\n"
    assert paths.timeline("main").is_file()


@pytest.mark.parametrize("name", ["run", "Läufe 'x' \"y\""])
def test_a_rank_that_does_not_see_it_carries_its_files_and_leaves_none(tmp_path, name):
    paths = PassPaths(tmp_path / name)

    end = recorded(write_recording, paths)()

    carried = {path: zlib.decompress(data) for path, data in end.files.items()}
    assert carried == {"recorder/rank-0.jsonl": b"a\n", "timeline/main.json": b"[\n"}
    assert not Path(pickle.loads(end.value)).exists()
    assert not paths.folder.exists()


def test_a_folder_of_the_same_name_on_another_host_is_not_taken_for_the_pass_folder(tmp_path):
    paths = seen(tmp_path, mark="of an earlier run")

    end = recorded(write_recording, paths)()

    assert end.files
    assert not paths.recorder_folder.exists()


def test_the_environment_is_that_of_the_pass(tmp_path):
    os.environ["HOROVOD_TIMELINE"] = "inherited.json"

    end = recorded(lambda: (dict(os.environ), list(sys.path)), seen(tmp_path))()

    variables, path = pickle.loads(end.value)
    assert "HOROVOD_TIMELINE" not in variables
    assert variables[FOLDER] == str(tmp_path / "recorder")
    assert path[-1] == "/of/the/notebook"


def test_stalls_are_watched_for_only_where_they_are_shown(tmp_path):
    def watched():
        return STALL_WARN in os.environ

    assert pickle.loads(recorded(watched, seen(tmp_path))().value)
    assert not pickle.loads(recorded(watched, PassPaths(tmp_path / "elsewhere"))().value)


def test_arguments_reach_the_function(tmp_path):
    end = recorded(lambda *args, **kwargs: (args, kwargs), seen(tmp_path), 1, rate=0.5)()

    assert pickle.loads(end.value) == ((1,), {"rate": 0.5})


def test_what_is_raised_comes_back_as_text(tmp_path):
    def failing():
        raise ValueError("on purpose")

    end = recorded(failing, seen(tmp_path))()

    assert end.value is None
    assert end.error.startswith("Traceback")
    assert end.error.rstrip().endswith("ValueError: on purpose")


def test_a_value_that_cannot_be_carried_is_an_error(tmp_path):
    end = recorded(lambda: (i for i in ()), seen(tmp_path))()

    assert "cannot pickle" in end.error


@pytest.mark.parametrize(("code", "error"), [(0, ""), (None, ""), (3, "SystemExit: 3")])
def test_an_exit_is_an_end_and_one_with_a_code_a_failure(tmp_path, code, error):
    end = recorded(lambda: sys.exit(code), seen(tmp_path))()

    assert (end.value, end.error) == (None, error)


def test_an_end_survives_the_way_back(tmp_path):
    end = recorded(write_recording, PassPaths(tmp_path / "elsewhere"))()

    assert pickle.loads(pickle.dumps(end)) == end
    assert isinstance(end, RankEnd)


def test_what_is_too_much_is_cut_behind_a_line_and_says_so(tmp_path):
    (tmp_path / "small.json").write_bytes(b"x" * 100)
    (tmp_path / "rank-1.jsonl").write_bytes(b'{"kind":"step"}\n' * 100)

    carried = carried_files(tmp_path, most_bytes=1000)

    assert zlib.decompress(carried["small.json"]) == b"x" * 100
    lines = zlib.decompress(carried["rank-1.jsonl"]).decode().splitlines()
    assert len(lines) == 900 // 16 + 1
    assert json.loads(lines[-1]) == {
        "kind": "problem",
        "message": f"only {900 // 16 * 16} of 1600 bytes of this recording were carried back",
    }
