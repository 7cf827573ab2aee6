import math
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hvdprof.collect.clock.clock_exchange import ClockTurns, RankGroup
from hvdprof.collect.recorder import Recorder
from hvdprof.collect.session import Session, SilentSession
from hvdprof.collect.steps import step_writer
from hvdprof.collect.steps.header import LineWriter
from hvdprof.collect.steps.step_marks import MAX_PIECES
from hvdprof.collect.steps.step_writer import MAX_UNREAD_STEPS
from hvdprof.collect.steps.time_source import CudaClock, HostClock
from hvdprof.ingest.recorder.recorder_lines import read_recorder_file
from tests.builders.fake_torch import (
    FakeGpu,
    FakeHorovodOptimizer,
    FakeModel,
    FakeOptimizer,
    FakeParameter,
    FakeTime,
)
from tests.builders.recorded import KEYS, blocked_ns, of_kind, phase_ns, recorded, steps_of

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("steps_written_singly")]

SINGLE = RankGroup(0, 1, lambda value: [value])


class Recording:
    """A recorder with a header, on a clock that moves by hand."""

    def __init__(self, tmp_path, source=None, time=None) -> None:
        self.time = time or FakeTime()
        self.file = LineWriter(tmp_path / "recorder" / "rank-0.jsonl")
        self.file.write({"kind": "header", **dict.fromkeys(KEYS["header"])})
        self.successors: list[Session] = []
        self.clocks = ClockTurns(lambda: SINGLE, force_tcp=False)
        self.recorder = Recorder(
            self.file, source or HostClock(self.time), self.clocks, self.successors.append
        )

    @property
    def lines(self):
        return recorded(self.file.path)

    def train_step(self, length_ns: int = 50, **values) -> None:
        with self.recorder.steps.step(8, False):
            self.time.advance(length_ns)
            if "loss" in values:
                self.recorder.steps.loss(values["loss"])


@pytest.fixture
def recording(tmp_path):
    return Recording(tmp_path)


def test_a_step_with_everything_in_it(recording):
    time, recorder = recording.time, recording.recorder
    model = FakeModel(weight=FakeParameter(10), unused=FakeParameter(3))
    optimizer = FakeHorovodOptimizer(model, time, wait_ns=100)
    recorder.exchange_clocks("start")
    with recorder.segment("one"):
        recorder.gradients.watch(model, optimizer)
        start_ns = time()
        with recorder.steps.step(16, True):
            with recorder.steps.phase("forward"):
                time.advance(30)
            with recorder.steps.phase("backward"):
                time.advance(20)
                model.parameters["weight"].accumulate()
            optimizer.step()
            recorder.steps.loss(0.25)
    recorder.stop()
    assert [line["kind"] for line in recording.lines] == [
        *("header", "clock", "segment", "step", "segment_end", "clock", "end")
    ]
    (step,) = steps_of(recording.lines, "one")
    assert step == {
        "kind": "step",
        "segment": "one",
        "step": 0,
        "warmup": True,
        "start_ns": start_ns,
        "dur_ns": 155,
        "samples": 16,
        "phases": [["forward", 0, 30], ["backward", 30, 20], ["optimizer", 50, 105]],
        "ready": [50, -1],
        "blocked": [[50, 100]],
        "loss": 0.25,
    }


def test_end_of_a_segment_takes_its_hooks_off(recording):
    model = FakeModel(weight=FakeParameter(10))
    optimizer = FakeOptimizer(model, recording.time)
    with recording.recorder.segment("one"):
        recording.recorder.gradients.watch(model, optimizer)
        assert model.parameters["weight"].hooks
    assert model.parameters["weight"].hooks == []
    assert optimizer.pre_hooks == []
    assert len(of_kind(recording.lines, "segment")[0]["tensors"]) == 1


def test_what_is_watched_outside_a_segment_lasts(recording):
    model = FakeModel(weight=FakeParameter(10))
    recording.recorder.gradients.watch(model, FakeOptimizer(model, recording.time))
    for name in ("one", "two"):
        with recording.recorder.segment(name):
            recording.train_step()
    assert [len(one["tensors"]) for one in of_kind(recording.lines, "segment")] == [1, 1]
    recording.recorder.gradients.unwatch()
    assert model.parameters["weight"].hooks == []


def test_two_models_with_optimizers_of_their_own(recording):
    models = [FakeModel(a=FakeParameter(1)), FakeModel(b=FakeParameter(1))]
    optimizers = [FakeHorovodOptimizer(one, recording.time, wait_ns=10) for one in models]
    for model, optimizer in zip(models, optimizers, strict=True):
        recording.recorder.gradients.watch(model, optimizer)
    with recording.recorder.steps.step(1, False):
        models[1].parameters["b"].accumulate()
        for optimizer in optimizers:
            optimizer.step()
    (step,) = steps_of(recording.lines, "main")
    assert step["ready"] == [-1, 0]
    assert blocked_ns(step) == 20


@pytest.mark.parametrize("lasts", [True, False])
def test_bytes_that_were_seen_in_a_step_stand_at_the_end_of_the_segment(
    recording, monkeypatch, lasts
):
    given = FakeParameter(10, 1)
    module = SimpleNamespace(_handle_map={7: (given, given)})
    monkeypatch.setitem(sys.modules, "horovod.torch.mpi_ops", module)
    model = FakeModel(weight=FakeParameter(10))
    optimizer = FakeHorovodOptimizer(model, recording.time, compression=object())
    optimizer._handles = {model.parameters["weight"]: (7, None)}  # type: ignore[attr-defined]
    if lasts:
        recording.recorder.gradients.watch(model, optimizer)
    with recording.recorder.segment("one"):
        if not lasts:
            recording.recorder.gradients.watch(model, optimizer)
        with recording.recorder.steps.step(1, False):
            optimizer.step()
    with recording.recorder.segment("two"):
        recording.train_step()
    declared = [line["tensors"] for line in of_kind(recording.lines, "segment")]
    assert [tensor["sent_bytes"] for tensor in declared[0]] == [40]
    # What is known by then is declared at once.
    assert [tensor["sent_bytes"] for tensor in declared[1]] == ([10] if lasts else [])
    ends = of_kind(recording.lines, "segment_end")
    assert [end.get("sent_bytes") for end in ends] == [[10], None]
    read = read_recorder_file(recording.file.path).segments
    assert [segment.sent_of for segment in read.values()] == [[10], [10] if lasts else []]


def test_steps_outside_segments_belong_to_main(recording):
    recording.train_step()
    recording.train_step()
    recording.recorder.stop()
    assert [step["step"] for step in steps_of(recording.lines, "main")] == [0, 1]
    assert of_kind(recording.lines, "segment_end")[0]["id"] == "main"


def test_processor_time_is_recorded_at_the_ends_of_a_segment(recording):
    recording.train_step()
    begin_ns = time.process_time_ns()
    while time.process_time_ns() < begin_ns + 20_000_000:
        pass
    time.sleep(0.05)
    # As a worker that loads data.
    works = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", works], check=True)
    recording.recorder.stop()
    (begin,), (end,) = (of_kind(recording.lines, kind) for kind in ("segment", "segment_end"))
    busy_ns = end["process_time_ns"] - begin["process_time_ns"]
    assert busy_ns >= 220_000_000
    assert read_recorder_file(recording.file.path).segments["main"].busy_ns == busy_ns


def test_step_that_an_exception_leaves_is_not_recorded(recording):
    with pytest.raises(ZeroDivisionError), recording.recorder.steps.step(8, False):
        raise ZeroDivisionError
    recording.train_step()
    assert [step["step"] for step in steps_of(recording.lines, "main")] == [0]


def test_segment_that_an_exception_leaves_has_no_end(recording):
    with pytest.raises(ZeroDivisionError), recording.recorder.segment("one"):
        recording.train_step()
        raise ZeroDivisionError
    assert of_kind(recording.lines, "segment_end") == []
    with recording.recorder.segment("two"):
        recording.train_step()
    assert [line["id"] for line in of_kind(recording.lines, "segment_end")] == ["two"]


def test_phases_and_loss_outside_steps_are_left_out(recording):
    with recording.recorder.steps.phase("forward"):
        recording.recorder.steps.loss(1.0)
    recording.train_step()
    (step,) = steps_of(recording.lines, "main")
    assert step["phases"] == []
    assert "loss" not in step


def test_a_collective_of_the_scripts_own_is_blocked_time_and_a_phase(recording):
    time, recorder = recording.time, recording.recorder
    with recorder.steps.step(8, False), recorder.steps.phase("forward"):
        time.advance(10)
        with recorder.waits.blocked():
            time.advance(5)
            with recorder.waits.blocked():
                time.advance(20)
        time.advance(10)
    (step,) = steps_of(recording.lines, "main")
    assert step["phases"] == [["forward", 0, 10], ["collective", 10, 25], ["forward", 35, 10]]
    assert step["blocked"] == [[10, 25]]


def test_phases_that_are_over_by_the_systems_clock_are_added(tmp_path):
    recording = Recording(tmp_path, HostClock(time.monotonic_ns))
    with recording.recorder.steps.step(1, False):
        time.sleep(0.001)
        now_ns = time.monotonic_ns()
        pieces = [("forward", now_ns - 60, now_ns - 40), ("collective", now_ns - 40, now_ns - 10)]
        recording.recorder.steps.passed(pieces)
    recording.recorder.stop()
    (step,) = steps_of(recording.lines, "main")
    assert [(name, length) for name, _, length in step["phases"]] == [
        ("forward", 20),
        ("collective", 30),
    ]
    assert [length for _, length in step["blocked"]] == [30]


def test_unobservable_blocked_time_is_missing_in_that_step_alone(recording):
    recording.train_step()
    with recording.recorder.steps.step(1, False):
        recording.recorder.waits.unseen()
    recording.train_step()
    assert [step["blocked"] is None for step in steps_of(recording.lines, "main")] == [
        False,
        True,
        False,
    ]


def test_a_wait_without_a_mark_is_reported_while_it_lasts(recording):
    with recording.recorder.steps.step(1, False):
        recording.recorder.waits.count(1)
        assert recording.recorder.standing().waits
        recording.recorder.waits.count(-1)
        assert not recording.recorder.standing().waits


def test_a_collective_between_steps_is_left_out(recording):
    with recording.recorder.waits.blocked():
        recording.train_step()
    recording.train_step()
    assert [step["blocked"] for step in steps_of(recording.lines, "main")] == [[], []]


def test_a_failure_of_what_calls_it_ends_the_recording(recording, capsys):
    recording.train_step()
    recording.recorder.give_up(ValueError("odd batch"))
    recording.train_step()
    assert "ValueError: odd batch" in of_kind(recording.lines, "problem")[0]["message"]
    assert len(steps_of(recording.lines, "main")) == 1
    assert "the training continues" in capsys.readouterr().err
    assert [type(one) for one in recording.successors] == [SilentSession]


def test_short_steps_before_a_failure_are_written(recording, monkeypatch):
    monkeypatch.setattr(step_writer, "STEPS_AT_ONCE", 32)
    for _ in range(3):
        recording.train_step()
    assert len(steps_of(recording.lines, "main")) == 1
    recording.recorder.give_up(ValueError("odd batch"))
    assert [line["kind"] for line in recording.lines[-4:]] == ["step", "step", "step", "problem"]


def test_short_steps_of_a_rank_at_rest_are_written_by_another_thread(recording, monkeypatch):
    monkeypatch.setattr(step_writer, "STEPS_AT_ONCE", 32)
    for _ in range(3):
        recording.train_step()
    thread = threading.Thread(target=recording.recorder.write_at_rest)
    thread.start()
    thread.join()
    assert len(steps_of(recording.lines, "main")) == 3
    recording.train_step()
    recording.recorder.stop()
    assert [step["step"] for step in steps_of(recording.lines, "main")] == [0, 1, 2, 3]


def test_a_failure_at_rest_ends_the_recording_in_the_thread_that_trains(
    recording, monkeypatch, capsys
):
    monkeypatch.setattr(step_writer, "STEPS_AT_ONCE", 32)
    recording.train_step()
    recording.train_step(loss="no number")
    recording.recorder.write_at_rest()
    assert recording.successors == []
    recording.train_step()
    assert "could not convert" in of_kind(recording.lines, "problem")[0]["message"]
    assert [type(one) for one in recording.successors] == [SilentSession]
    assert "the training continues" in capsys.readouterr().err


def test_at_rest_a_gpu_is_not_asked_for_its_events(tmp_path, monkeypatch):
    monkeypatch.setattr(step_writer, "STEPS_AT_ONCE", 32)
    recording, _ = on_gpu(tmp_path, lag_ns=0)
    for _ in range(2):
        recording.train_step(10)
    num_written = len(steps_of(recording.lines, "main"))
    assert num_written < 2
    recording.recorder.write_at_rest()
    assert len(steps_of(recording.lines, "main")) == num_written
    recording.recorder.stop()
    assert len(steps_of(recording.lines, "main")) == 2


def test_a_step_that_cannot_be_written_does_not_reach_the_training(recording, monkeypatch, capsys):
    monkeypatch.setattr(step_writer, "STEPS_AT_ONCE", 32)
    recording.train_step()
    recording.train_step(loss="no number")
    recording.train_step()
    recording.recorder.give_up(ValueError("odd batch"))
    assert of_kind(recording.lines, "problem")[0]["message"].endswith("odd batch")
    assert capsys.readouterr().err.count("\n") == 1


def test_loss_that_is_not_a_number_is_recorded(recording):
    recording.train_step(loss=float("nan"))
    assert math.isnan(steps_of(recording.lines, "main")[0]["loss"])


def test_mark(recording):
    recording.recorder.lines.mark("epoch 2")
    assert of_kind(recording.lines, "mark")[0]["name"] == "epoch 2"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda one: one.recorder.steps.step(1, False).__enter__(), "a step begins within a step"),
        (lambda one: one.recorder.segment("x").__enter__(), "begins within segment"),
        (lambda one: one.recorder.gradients.watch(None, None), "after the first step"),
    ],
)
def test_wrong_order_of_calls_ends_the_recording_and_not_the_training(
    recording, capsys, wrong, message
):
    with recording.recorder.segment("one"):
        recording.train_step()
        with recording.recorder.steps.step(1, False):
            wrong(recording)
        recording.train_step()
    assert message in of_kind(recording.lines, "problem")[0]["message"]
    assert len(steps_of(recording.lines, "one")) == 1
    assert capsys.readouterr().err.count("the training continues") == 1
    assert [type(one) for one in recording.successors] == [SilentSession]


def test_full_disk_ends_the_recording_and_takes_the_hooks_off(recording, monkeypatch, capsys):
    model = FakeModel(weight=FakeParameter(10))
    recording.recorder.gradients.watch(model, FakeOptimizer(model, recording.time))
    recording.train_step()

    def no_space(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", no_space)
        recording.train_step()
    recording.train_step()
    recording.recorder.stop()
    assert model.parameters["weight"].hooks == []
    assert len(steps_of(recording.lines, "main")) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "No space left on device" in error


def test_closed_file_and_closed_stderr_do_not_reach_the_script(recording, monkeypatch):
    recording.file.close()
    monkeypatch.setattr("sys.stderr", None)
    recording.train_step()
    assert len(recording.successors) == 1


def test_timeline_without_horovod_is_a_problem_and_recording_continues(recording, capsys):
    with recording.recorder.lines.timeline(
        recording.file.path.parent.parent / "timeline" / "one.json"
    ):
        recording.train_step()
    (problem,) = of_kind(recording.lines, "problem")
    assert "Horovod is not initialised" in problem["message"]
    assert problem["about"] == "timeline"
    assert of_kind(recording.lines, "timeline") == []
    assert len(steps_of(recording.lines, "main")) == 1
    assert "no timeline" in capsys.readouterr().err


def test_timeline_is_started_and_stopped_around_the_block(recording, monkeypatch):
    calls = []

    class Horovod:
        is_initialized = staticmethod(lambda: True)
        start_timeline = staticmethod(
            lambda path, mark_cycles: calls.append(f"start {path}, marks: {mark_cycles}")
        )
        stop_timeline = staticmethod(lambda: calls.append("stop"))

    monkeypatch.setitem(__import__("sys").modules, "horovod.torch", Horovod)
    path = recording.file.path.parent.parent / "timeline" / "one.json"
    with recording.recorder.lines.timeline(path):
        calls.append("steps")
        # The timeline must be stopped also where the recording has ended within.
        recording.recorder.stop()
    assert calls == [f"start {path}, marks: True", "steps", "stop"]
    (line,) = of_kind(recording.lines, "timeline")
    assert (line["action"], line["file"]) == ("start", "timeline/one.json")
    assert path.parent.is_dir()


def on_gpu(tmp_path, lag_ns: int):
    time = FakeTime(0)
    gpu = FakeGpu(time)
    recording = Recording(tmp_path, CudaClock(gpu.make_event, time), time)
    gpu.lag_ns = lag_ns
    return recording, gpu


def test_on_a_gpu_steps_are_written_later_and_nothing_waits(tmp_path):
    recording, gpu = on_gpu(tmp_path, lag_ns=60)
    recording.recorder._begin_segment("one")
    num_waits = gpu.num_waits
    recording.train_step(100)
    assert steps_of(recording.lines, "one") == []
    recording.train_step(100)
    assert len(steps_of(recording.lines, "one")) == 1
    assert gpu.num_waits == num_waits
    recording.recorder._end_segment(True)
    steps = steps_of(recording.lines, "one")
    assert [step["dur_ns"] for step in steps] == [100, 100]
    assert steps[1]["start_ns"] - steps[0]["start_ns"] == 100


def test_on_a_gpu_phases_are_when_the_gpu_did_the_work(tmp_path):
    recording, _ = on_gpu(tmp_path, lag_ns=60)
    recorder = recording.recorder
    with recorder.segment("one"), recorder.steps.step(1, False):
        with recorder.steps.phase("forward"):
            recording.time.advance(40)
        with recorder.steps.phase("forward"):
            recording.time.advance(5)
    (step,) = steps_of(recording.lines, "one")
    assert phase_ns(step, "forward") == 45


def test_gpu_far_behind_is_waited_for_so_that_unread_steps_stay_few(tmp_path):
    recording, _ = on_gpu(tmp_path, lag_ns=10**9)
    for _ in range(MAX_UNREAD_STEPS + 3):
        recording.train_step(10)
    assert len(steps_of(recording.lines, "main")) >= 3


def test_a_hook_that_failed_ends_the_recording_at_the_end_of_its_step(recording, capsys):
    model = FakeModel(weight=FakeParameter(10))
    optimizer = FakeOptimizer(model, recording.time)
    recording.recorder.gradients.watch(model, optimizer)
    recording.train_step()
    with recording.recorder.steps.step(8, False):
        recording.recorder._recording.marks.failure = RuntimeError("no event on this device")
        optimizer.step()
    recording.train_step()
    assert "no event on this device" in of_kind(recording.lines, "problem")[0]["message"]
    assert len(steps_of(recording.lines, "main")) == 1
    assert model.parameters["weight"].hooks == []
    assert capsys.readouterr().err.count("the training continues") == 1


def test_a_step_without_an_end_fills_no_memory_and_is_reported(recording, capsys):
    recorder = recording.recorder
    recording.train_step()
    with recorder.steps.step(8, False):
        for _ in range(MAX_PIECES):
            for name in ("forward", "backward"):
                with recorder.steps.phase(name), recorder.waits.blocked():
                    recording.time.advance(1)
        assert recorder._recording.marks.phases == []
        assert recorder._recording.marks.blocked == []
    recording.train_step()
    # Other ranks may have recorded that step, and number theirs alike.
    assert [step["step"] for step in steps_of(recording.lines, "main")] == [0, 2]
    (problem,) = of_kind(recording.lines, "problem")
    assert f"more than {MAX_PIECES} pieces" in problem["message"]
    assert "a step was skipped" in capsys.readouterr().err


def test_a_file_that_has_grown_large_takes_no_more_steps_but_ends_well(
    recording, monkeypatch, capsys
):
    monkeypatch.setattr("hvdprof.collect.steps.header.MAX_BYTES", 1000)
    for _ in range(50):
        recording.train_step()
    recording.recorder.stop()
    steps = steps_of(recording.lines, "main")
    assert 1 < len(steps) < 20
    (problem,) = of_kind(recording.lines, "problem")
    assert f"steps from {len(steps)} on are not recorded" in problem["message"]
    assert [line["kind"] for line in recording.lines[-3:]] == ["segment_end", "clock", "end"]
    assert capsys.readouterr().err.count("\n") == 1


def test_a_forked_process_writes_nothing_into_the_file_of_the_rank(recording):
    recording.train_step()
    child = os.fork()
    if child == 0:
        recording.train_step()
        recording.recorder.lines.mark("child")
        recording.recorder.stop()
        os._exit(0)
    os.waitpid(child, 0)
    recording.train_step()
    assert [step["step"] for step in steps_of(recording.lines, "main")] == [0, 1]
    assert of_kind(recording.lines, "mark") == []


@pytest.mark.parametrize("samples", [np.int64(8), torch.tensor(8), True, 8.0])
def test_samples_of_any_kind_of_number(recording, samples):
    with recording.recorder.steps.step(samples, False):
        recording.time.advance(5)
    recording.recorder.stop()
    (step,) = steps_of(recording.lines, "main")
    assert step["samples"] == int(samples)
    assert type(step["samples"]) is int


def test_a_step_without_samples_counts_as_one(recording):
    with recording.recorder.steps.step(0, False):
        recording.time.advance(5)
    recording.recorder.stop()
    read = read_recorder_file(recording.file.path)
    assert read.segments["main"].step_table()[:, 4].tolist() == [1]


def test_names_that_are_no_text_are_recorded_as_well_as_can_be(recording):
    recording.recorder.lines.mark("data-\udcff")
    recording.recorder.lines.mark(7)
    recording.train_step()
    names = [line["name"] for line in of_kind(recording.lines, "mark")]
    assert names == ["data-?", "7"]
    assert len(steps_of(recording.lines, "main")) == 1


def test_a_peer_that_is_lost_in_the_exchange_of_clocks_is_not_raised():
    def lost():
        raise RuntimeError("Horovod has been shut down")

    silent = SilentSession(ClockTurns(lost, force_tcp=False))
    silent.take_turn()
    silent.stop()


def test_collectives_that_the_optimizer_calls_while_it_waits_count_once(recording):
    # As those of Horovod do for sparse gradients.
    class Sparse(FakeHorovodOptimizer):
        def synchronize(self):
            super().synchronize()
            with recording.recorder.waits.blocked():
                super().synchronize()

    model = FakeModel(weight=FakeParameter(10))
    optimizer = Sparse(model, recording.time, wait_ns=100)
    recording.recorder.gradients.watch(model, optimizer)
    with recording.recorder.steps.step(1, False):
        optimizer.step()
        with recording.recorder.waits.blocked():
            recording.time.advance(30)
    (step,) = steps_of(recording.lines, "main")
    assert step["blocked"] == [[0, 200], [205, 30]]
    assert step["phases"] == [["optimizer", 0, 205], ["collective", 205, 30]]


def test_on_a_gpu_a_loss_goes_to_pinned_memory_so_that_nothing_waits_for_it(tmp_path):
    class Loss:
        """As a tensor on a GPU, which is nowhere read but through a copy."""

        is_cuda, shape = True, ()

        def detach(self):
            return self

        def new_empty(self, shape, *, device, pin_memory):
            assert (shape, device, pin_memory) == ((), "cpu", True)
            return self.Host()

        class Host:
            def copy_(self, source, *, non_blocking):
                assert source.is_cuda
                assert non_blocking
                return torch.tensor(0.5)

    recording, _ = on_gpu(tmp_path, lag_ns=60)
    with recording.recorder.segment("one"):
        recording.train_step(100, loss=Loss())
    (step,) = steps_of(recording.lines, "one")
    assert step["loss"] == 0.5


def test_an_evaluation_after_the_last_step_has_a_line_of_its_own(recording):
    time, recorder = recording.time, recording.recorder
    recording.train_step(50)
    last_ns = time()
    with pytest.raises(RuntimeError, match="over"), recorder.steps.step(1, False):
        for _ in range(2):
            time.advance(5)
            with recorder.steps.evaluation(after_training=False):
                time.advance(20)
            with recorder.waits.blocked():
                time.advance(3)
        time.advance(100)
        recorder.steps.end_evaluation()
        raise RuntimeError("over")
    recorder.stop()

    (line,) = of_kind(recording.lines, "evaluation")
    assert (line["segment"], line["step"], line["start_ns"]) == ("main", 1, last_ns)
    # Two batches, and one metric between their passes; the other one follows the last pass.
    assert (line["dur_ns"], line["blocked_ns"]) == (53, 3)
    assert (line["rest_ns"], line["rest_blocked_ns"]) == (3, 3)
    assert [step["step"] for step in of_kind(recording.lines, "step")] == [0]
    file = read_recorder_file(recording.file.path)
    assert file.segments["main"].evaluation_table().tolist() == [[1, last_ns, 53, 3, 3, 3]]


def test_a_step_without_an_evaluation_at_the_end_leaves_no_line(recording):
    recording.train_step(50)
    with recording.recorder.steps.step(1, False):
        recording.time.advance(5)
        recording.recorder.steps.end_evaluation()
    recording.recorder.stop()

    assert of_kind(recording.lines, "evaluation") == []
    assert len(of_kind(recording.lines, "step")) == 1
