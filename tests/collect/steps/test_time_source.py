import sys
from types import SimpleNamespace

import pytest

from hvdprof.collect.steps import time_source
from hvdprof.collect.steps.time_source import (
    CudaClock,
    HostClock,
    current_stream_of,
    time_source_of,
)
from tests.builders.fake_torch import FakeGpu, FakeTime


def test_host_marks_are_nanoseconds():
    time = FakeTime(100)
    clock = HostClock(time)
    begin = clock.begin_step()
    time.advance(50)
    mark = clock.now()
    assert clock.is_passed(mark)
    assert clock.begin_ns(begin) == 100
    assert clock.offset_ns(mark) == 50


def test_cuda_marks_are_when_the_gpu_passes_not_when_the_host_records():
    time = FakeTime(0)
    gpu = FakeGpu(time)
    clock = CudaClock(gpu.make_event, time)
    gpu.lag_ns = 3_000_000
    begin = clock.begin_step()
    time.advance(1_000_000)
    mark = clock.now()
    assert not clock.is_passed(mark)
    assert gpu.num_waits == 0
    clock.wait_for(mark)
    assert clock.begin_ns(begin) == 3_000_000
    assert clock.offset_ns(mark) == 1_000_000


def test_cuda_begins_are_chained_so_that_floats_stay_small():
    time = FakeTime(0)
    clock = CudaClock(FakeGpu(time).make_event, time)
    for step in range(1, 4):
        time.advance(7_000_000)
        assert clock.begin_ns(clock.begin_step()) == step * 7_000_000


def test_cuda_events_are_used_again():
    time = FakeTime(0)
    gpu = FakeGpu(time)
    clock = CudaClock(gpu.make_event, time)
    for _ in range(20):
        begin, mark = clock.begin_step(), clock.now()
        time.advance(1_000)
        clock.begin_ns(begin)
        # A mark that stands twice in a step is still one event.
        clock.recycle([begin, mark, mark])
    assert gpu.num_events <= 4


def test_event_given_twice_is_not_handed_out_twice():
    time = FakeTime(0)
    clock = CudaClock(FakeGpu(time).make_event, time)
    mark = clock.now()
    clock.recycle([mark, mark])
    assert clock.now() is not clock.now()


def test_cuda_clock_is_tied_to_the_host_again_once_a_minute():
    time = FakeTime(0)
    gpu = FakeGpu(time, drift=1e-5)
    clock = CudaClock(gpu.make_event, time)
    step_ns = 100_000_000
    num_steps = 3 * time_source.ANCHOR_INTERVAL_NS // step_ns
    errors = []
    for _ in range(num_steps):
        time.advance(step_ns)
        errors.append(abs(clock.begin_ns(clock.begin_step()) - time()))
    # Ten millionths of a minute are 0.6 ms; without new anchors it would be 1.8 ms.
    assert 0.5e6 < max(errors) < 0.65e6


def test_anchor_of_a_step_that_was_dropped_does_no_harm():
    time = FakeTime(0)
    clock = CudaClock(FakeGpu(time).make_event, time)
    time.advance(time_source.ANCHOR_INTERVAL_NS)
    clock.begin_step()
    time.advance(5_000)
    assert clock.begin_ns(clock.begin_step()) == time()


def test_device_names():
    assert isinstance(time_source_of("cpu"), HostClock)
    with pytest.raises(ValueError, match="'tpu'"):
        time_source_of("tpu")


def test_cuda_without_torch_is_reported(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(LookupError, match="torch is not imported"):
        time_source_of("cuda:1")


@pytest.mark.parametrize(("device", "stream"), [("cuda:1", "stream of 1"), ("cuda", "stream of 0")])
def test_events_are_recorded_where_the_model_computes(monkeypatch, device, stream):
    # A script may leave the current GPU at 0, and name another one itself.
    recorded_on = []

    class Event(SimpleNamespace):
        def record(self, on):
            recorded_on.append(on)

        def synchronize(self):
            pass

    cuda = SimpleNamespace(
        Event=Event,
        current_stream=lambda index: f"stream of {0 if index is None else index}",
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, _C=None))
    clock = time_source_of(device)
    clock.now()
    assert recorded_on == [stream] * 2


@pytest.mark.parametrize("index", [None, 1])
def test_the_current_stream_is_made_once_and_followed(index):
    current, made = {0: 7, 1: 8}, []

    def stream_of(device):
        made.append(device)
        return f"GPU {device}, stream {current[device or 0]}"

    known = SimpleNamespace(_cuda_getCurrentRawStream=current.get, _cuda_getDevice=lambda: 0)
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=stream_of), _C=known)
    device = index or 0
    first, others = current[device], []
    stream = current_stream_of(torch, index)
    for number in (first, first, 9, 9, first):
        current[device] = number
        others.append(stream())
    assert others == [f"GPU {device}, stream {number}" for number in (first, first, 9, 9, first)]
    # Once before, then one for each stream.
    assert made == [index, device, device]


def test_a_gpu_without_a_number_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    with pytest.raises(ValueError, match="'cuda:first' is no GPU"):
        time_source_of("cuda:first")
