"""The module-level calls as a script makes them."""

import os
import subprocess
import sys

import pytest

from hvdprof import collect
from hvdprof.collect import _hooks
from tests.builders.fake_torch import FakeModel, FakeOptimizer, FakeParameter, FakeTime
from tests.builders.places import ROOT
from tests.builders.recorded import of_kind, recorded, steps_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "recorder"
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(path))
    yield path
    collect.stop()


def train(num_steps: int) -> FakeModel:
    model = FakeModel(weight=FakeParameter(3))
    optimizer = FakeOptimizer(model, FakeTime())
    collect.watch(model, optimizer)
    with collect.segment("one"):
        for i in range(num_steps):
            with collect.step(samples=4, warmup=i == 0):
                with collect.phase("backward"):
                    model.parameters["weight"].accumulate()
                optimizer.step()
                collect.loss(1.5)
            collect.mark("between")
    return model


def test_without_the_variable_nothing_happens(tmp_path, monkeypatch):
    monkeypatch.delenv("HVDPROF_RECORDER_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    collect.start()
    model = train(2)
    with collect.timeline("timeline.json"):
        pass
    collect.unwatch()
    collect.stop()
    assert model.parameters["weight"].hooks == []
    assert list(tmp_path.iterdir()) == []


def test_a_script_of_one_process(folder):
    collect.start()
    train(3)
    collect.stop()
    lines = recorded(folder / "rank-0.jsonl")
    assert [step["warmup"] for step in steps_of(lines, "one")] == [True, False, False]
    assert lines[0]["size"] == 1
    assert lines[0]["affinity"]
    assert lines[-1]["kind"] == "end"


def test_given_rank_wins_over_the_environment(folder, monkeypatch, capsys):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    collect.start(rank=3)
    lines = recorded(folder / "rank-3.jsonl")
    assert (lines[0]["rank"], lines[0]["size"]) == (3, 4)
    # Several ranks, but no Horovod to compare their clocks through.
    assert of_kind(lines, "clock") == []
    assert "call start() after hvd.init()" in of_kind(lines, "problem")[0]["message"]
    assert "call start() after hvd.init()" in capsys.readouterr().err


def test_ranks_of_one_host_are_not_asked_for_their_clocks(folder, monkeypatch, capsys):
    def stands_for_ever(_):
        raise AssertionError("a collective that only this rank takes part in")

    monkeypatch.setattr("hvdprof.collect.session_factory.rank_group", stands_for_ever)
    collect.start(rank=1, size=2, local_rank=1, local_size=2)
    train(1)
    collect.stop()
    lines = recorded(folder / "rank-1.jsonl")
    assert [one["method"] for one in of_kind(lines, "clock")] == ["same-clock", "same-clock"]
    assert capsys.readouterr().err == ""


def test_after_stop_calls_do_nothing(folder):
    collect.start()
    collect.stop()
    size = (folder / "rank-0.jsonl").stat().st_size
    train(1)
    collect.stop()
    assert (folder / "rank-0.jsonl").stat().st_size == size


def test_a_script_that_ends_without_stop_has_all_its_steps(tmp_path):
    script = (
        "from hvdprof import collect\ncollect.start()\n"
        "for _ in range(5):\n    with collect.step():\n        pass\n"
    )
    folder = tmp_path / "recorder"
    environment = os.environ | {"HVDPROF_RECORDER_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    lines = recorded(folder / "rank-0.jsonl")
    assert [step["step"] for step in steps_of(lines, "main")] == [0, 1, 2, 3, 4]
    assert of_kind(lines, "end") == []


def test_second_recording_into_the_same_folder_is_refused(folder, capsys):
    collect.start()
    collect.stop()
    before = (folder / "rank-0.jsonl").read_bytes()
    collect.start()
    train(1)
    collect.stop()
    assert (folder / "rank-0.jsonl").read_bytes() == before
    assert "nothing is recorded: FileExistsError" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["tpu", "cuda:0"])
def test_device_without_a_time_source_records_nothing(folder, capsys, monkeypatch, device):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    collect.start(device=device)
    train(1)
    assert "nothing is recorded" in capsys.readouterr().err


def test_folder_that_cannot_be_made_records_nothing(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(tmp_path / "file" / "recorder"))
    collect.start()
    train(1)
    collect.stop()
    assert "nothing is recorded" in capsys.readouterr().err


def test_import_needs_the_standard_library_alone():
    script = (
        "import sys; before = set(sys.modules); import hvdprof.collect; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "['hvdprof']"


def test_exported_names_are_documented_functions():
    page = (ROOT / "docs" / "explain" / "recorder.md").read_text(encoding="utf-8")
    for name in collect.__all__:
        assert getattr(collect, name).__doc__
        assert f"`{name}(" in page or f"collect.{name}(" in page, name


def test_sessions_of_an_elastic_job_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(tmp_path / "01-launch" / "recorder"))
    for number in (1, 2):
        collect.start(session=number)
        collect.mark(f"session {number}")
        with collect.step(samples=1):
            pass
        _hooks.break_off()

    for number in (1, 2):
        lines = recorded(tmp_path / f"01-launch-session{number}" / "recorder" / "rank-0.jsonl")
        kinds = [line["kind"] for line in lines]
        assert kinds == ["header", "clock", "mark", "segment", "step", "segment_end", "end"]
        assert lines[2]["name"] == f"session {number}"
    assert not _hooks.is_active()
