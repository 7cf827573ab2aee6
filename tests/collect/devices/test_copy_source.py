"""Batches on their way to the GPU, with a stand-in for its events."""

from typing import Any

import pytest

from hvdprof import collect
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto import autorecord
from hvdprof.collect.devices import copy_source
from hvdprof.collect.devices.copy_source import CopyWaits
from hvdprof.rundir.launch_format import AutoSettings
from hvdprof.rundir.recording.sample_format import COPIES, MEASURES
from tests.builders.fake_torch import FakeEvent, FakeGpu, FakeTime
from tests.builders.places import needs_gpu

MS = 1_000_000
SETTINGS = AutoSettings(
    num_warmup_steps=1, num_steps=5, batch_size=None, timeline="", num_timeline_steps=0
)


class Tensor:
    """What a batch or an input holds, on the host or on the GPU."""

    def __init__(self, *shape: int, place: str = "pageable", width: int = 4) -> None:
        self.shape = shape
        self.is_cuda = place == "gpu"
        self.place = place
        self.nbytes = width
        for length in shape:
            self.nbytes *= length

    def is_pinned(self) -> bool:
        return self.place == "pinned"


class Job:
    """Copies of batches, and the GPU that reaches each event ``lag_ns`` after the host."""

    def __init__(self, lag_ns: int = 0) -> None:
        self.time = FakeTime()
        self.gpu = FakeGpu(self.time, lag_ns)
        self.said: list[str] = []
        self.waits = CopyWaits(self.time)
        self.waits.watch(self.gpu.make_event, FakeEvent.record, self.said.append)

    def step(self, batch: Any, inputs: Any, copy_ns: int, rest_ns: int = 40 * MS) -> None:
        self.waits.fetched(batch)
        self.time.advance(copy_ns)
        self.waits.forward_begins(inputs)
        self.time.advance(rest_ns)

    def read(self) -> dict[str, float]:
        """The sums once the GPU has passed all events."""
        self.waits.fetched([])
        return self.waits.read()


def images(place: str = "pageable") -> Tensor:
    return Tensor(32, 3, 8, 8, place=place)


def test_a_batch_from_pageable_memory_is_timed_on_the_gpu_and_counted() -> None:
    job = Job()
    for _ in range(3):
        job.step([images(), Tensor(32, width=8)], (images("gpu"),), 11 * MS)
    num_bytes = 3 * (32 * 3 * 64 * 4 + 32 * 8)
    assert job.read() == {
        "copied": num_bytes,
        "copied_pageable": num_bytes,
        "copy_gpu": pytest.approx(0.033),
        "copy_host": pytest.approx(0.033),
    }
    assert set(COPIES) <= set(MEASURES)


def test_pinned_batches_are_bytes_that_are_not_pageable() -> None:
    job = Job()
    job.step({"x": images("pinned"), "y": [Tensor(32, width=8)]}, [{"x": images("gpu")}], MS)
    found = job.read()
    assert (found["copied"], found["copied_pageable"]) == (32 * 3 * 64 * 4 + 256, 256)


def test_nothing_waits_and_what_the_gpu_has_not_passed_is_read_later() -> None:
    job = Job(lag_ns=60 * MS)
    job.step([images()], [images("gpu")], 2 * MS)
    assert job.read() == {}
    job.time.advance(100 * MS)
    assert job.read()["copy_gpu"] == pytest.approx(0.002)
    assert job.gpu.num_waits == 0


def test_events_are_used_again_and_are_few_where_the_gpu_stands() -> None:
    job = Job()
    for _ in range(50):
        job.step([images()], [images("gpu")], MS)
    assert job.gpu.num_events <= 4
    stands = Job(lag_ns=10**15)
    for _ in range(500):
        stands.step([images()], [images("gpu")], MS)
    assert stands.gpu.num_events <= 2 * copy_source.MOST_UNREAD + 2


@pytest.mark.parametrize(
    ("batch", "inputs"),
    [
        # A model on the host; numbers of samples that the GPU holds; a batch that is there already.
        ([images()], [images()]),
        ([Tensor(32, width=8)], [images("gpu")]),
        ([images("gpu")], [images("gpu")]),
        ("text", [images("gpu")]),
    ],
)
def test_what_was_not_copied_is_not_counted(batch: Any, inputs: Any) -> None:
    job = Job()
    job.step(batch, inputs, 11 * MS)
    assert job.read() == {}


def test_a_prefetched_batch_is_counted_with_the_forward_pass_behind_it() -> None:
    job = Job()
    # The next batch is fetched and queued on another stream, then the one before is computed.
    job.step([images("pinned")], [images("gpu")], 50_000)
    assert job.read()["copy_gpu"] == pytest.approx(50e-6)


def test_a_tensor_without_a_shape_ends_it_with_one_sentence() -> None:
    class Nested(Tensor):
        @property
        def shape(self) -> tuple[int, ...]:
            raise RuntimeError("no sizes")

        @shape.setter
        def shape(self, _: object) -> None:
            pass

    job = Job()
    job.step([Nested(3)], [images("gpu")], MS)
    job.step([images()], [images("gpu")], MS)
    assert job.read() == {}
    assert job.said == ["copies to the GPU are not seen: RuntimeError: no sizes"]


@pytest.mark.torch
def test_tensors_of_torch_say_what_is_asked_of_them() -> None:
    import torch

    job = Job()
    job.step({"x": torch.ones(4, 3), "y": torch.ones(4, dtype=torch.int64)}, [Tensor(4, 3)], MS)
    assert job.said == []
    job.step([torch.ones(4, 3), torch.ones(4, dtype=torch.int64)], [Tensor(4, 3, place="gpu")], MS)
    assert job.read()["copied_pageable"] == 4 * 3 * 4 + 4 * 8


@pytest.mark.gpu
@pytest.mark.torch
@needs_gpu
def test_copies_on_a_gpu_are_seen_from_both_kinds_of_memory() -> None:
    from benchmarks.gpu_check_copies import AHEAD, PAGEABLE, PINNED, measured

    seen = {way: measured(way) for way in (PAGEABLE, PINNED, AHEAD)}
    assert [one.pageable_share for one in seen.values()] == [1.0, 0.0, 0.0]
    assert seen[PAGEABLE].recorder_ms >= seen[PAGEABLE].copy_ms
    assert seen[AHEAD].recorder_ms < seen[PINNED].recorder_ms


def test_on_a_host_no_batch_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    monkeypatch.setattr(copy_source, "_tensors", lambda value: looked.append(value) or iter(()))
    waits = CopyWaits()
    waits.fetched([images()])
    waits.forward_begins([images()])
    assert (looked, waits.read()) == ([], {})


def test_the_recorder_looks_at_batches_where_the_model_is_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched: list[object] = []
    monkeypatch.setattr(autorecord, "gpu_events", lambda device: (device, "record"))
    monkeypatch.setattr(copy_source.COPY_WAITS, "watch", lambda *given: watched.append(given[:2]))
    monkeypatch.setattr(collect, "start", lambda **_: None)
    monkeypatch.setattr(PROCESS, "loop_standing", None)
    for device in ("cpu", "cuda:0"):
        monkeypatch.setattr(autorecord, "device_of", lambda _, at=device: at)
        recorder = autorecord.AutoRecorder(None, SETTINGS)
        monkeypatch.setattr(recorder, "_optimizers", _Optimizers())
        monkeypatch.setattr(recorder._forwards, "start", lambda _: None)
        recorder._begin()
    assert watched == [("cuda:0", "record")]


class _Optimizers(list[object]):
    """One optimizer, not watched."""

    def __init__(self) -> None:
        super().__init__([object()])

    def watched(self) -> list[object]:
        return []
