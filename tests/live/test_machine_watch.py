"""Samples beside a job that grows: memory as events, and what explains a rank that is named."""

import json
from functools import partial
from types import SimpleNamespace

import pytest

from hvdprof.collect.devices.nvml import NvmlGpu
from hvdprof.collect.devices.rank_samples import GpuSource, MachineSampler
from hvdprof.collect.steps.header import LineWriter
from hvdprof.live.watcher import Watcher
from hvdprof.rundir.recording.stall_format import EventKind, EventState
from tests.builders.live_job import WALL_NS, LiveJob
from tests.builders.nvml_library import UUID, NvmlLibrary

BEGUN, OVER, EXPLAINED = EventState.BEGUN, EventState.OVER, EventState.EXPLAINED
USUAL = {"rss": 1e9, "core_wait": 0.1, "main_thread": 0.9}


class Watch:
    """A job of ranks that sample every five windows, and who watches it."""

    def __init__(self, folder, size=2, extra=lambda *_: 0.0, means=lambda *_: {}):
        self.job, self.means = LiveJob(folder, size, extra), means
        self.folder, self.now_s = folder, 0.0
        self.watcher = self.another()

    def another(self):
        wall = lambda: WALL_NS / 1e9 + self.now_s  # noqa: E731
        return Watcher(self.folder, lambda: self.now_s, wall)

    def see(self, number):
        found = []
        for _ in range(number):
            self.job.record(1)
            self.sample()
            self.now_s += 1
            found += self.watcher.look().events
        return found

    def sample(self):
        if self.job.number % 5 == 0:
            for rank in self.job.ranks:
                self.job.sample(rank, **USUAL | self.means(rank, self.job.number))
            self.job.sample(0, "host", memory_available=20e9)


class GpuWatch(Watch):
    """The same with GPUs as the ranks sample them, by a stand-in for NVIDIA's library."""

    def __init__(self, folder, *arguments):
        super().__init__(folder / "job", *arguments)
        self.libraries, self.samplers = [], []
        for rank in self.job.ranks:
            place = folder / f"nvml-{rank}"
            place.mkdir()
            library = NvmlLibrary(place)
            opened = partial(NvmlGpu, library=library.path)
            gpu = GpuSource(SimpleNamespace(uuid=lambda: UUID), opened)
            library.set(sm=1980, reasons=0)
            file = LineWriter(self.folder / f"samples-{rank}.jsonl")
            clock = lambda: self.job.now_ns  # noqa: E731
            given = (file, [gpu], 1.0, print, clock, lambda: True)
            self.samplers.append(MachineSampler(*given))
            self.libraries.append(library)

    def sample(self):
        for sampler in self.samplers:
            sampler.sample()


@pytest.mark.parametrize(
    ("bit", "said"),
    [
        (0x4, "clock limited by power 97 % of the time (others 0 %)"),
        (0x8, "clock cut by hardware 97 % of the time (others 0 %)"),
        (0x20, "clock limited by heat 97 % of the time (others 0 %)"),
        (0x40, "clock cut by heat 97 % of the time (others 0 %)"),
        (0x1, ""),
    ],
)
def test_a_gpu_whose_clock_is_limited_explains_its_rank(tmp_path, bit, said):
    late = lambda rank, at: 0.5 if rank == 1 and at >= 40 else 0.0  # noqa: E731
    watch = GpuWatch(tmp_path, 2, late)
    assert watch.see(40) == []
    watch.libraries[1].set(sm=1200, reasons=bit)
    named, explained = watch.see(100)
    assert (named.kind, explained.state) == (EventKind.STRAGGLER, EXPLAINED)
    assert "The SM clock of rank 1 is 1220 MHz, 38 % below that of the others" in explained.text
    assert said in explained.text
    assert ("limited" in explained.text or "cut" in explained.text) == bool(said)


def _grows(rank, at):
    return {"rss": 1e9 + 3e8 * min(max(at - 60, 0), 180) / 5 * (rank == 1)}


def test_memory_that_grows_is_named_with_what_it_costs_and_cleared(tmp_path):
    watch = Watch(tmp_path, means=_grows)
    (named, over) = watch.see(400)
    assert (named.kind, named.state, named.ranks, named.host) == (
        *(EventKind.MEMORY_GROWS, BEGUN),
        *((1,), "node0"),
    )
    assert named.text.startswith("The memory (rss) of rank 1 grows by 1.8")
    assert " MB per step, from 1.00 GB to " in named.text
    assert "At this rate node0 has no memory available in about " in named.text
    assert (over.state, over.number) == (OVER, named.number)
    assert over.text.startswith("The memory (rss) of rank 1 no longer grows, after ")
    snapshot = watch.watcher.look().snapshot
    assert snapshot.memory_bytes[1] == {"rss": pytest.approx(1e9 + 3e8 * 36)}
    assert snapshot.available_bytes == 20e9
    # A watcher that reads all from the begin finds the same.
    watch.watcher = watch.another()
    assert watch.see(5) == []
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["begun", "over"]


def test_the_latest_memory_is_that_of_the_process_and_of_its_gpu(tmp_path):
    watch = Watch(tmp_path)
    watch.see(10)
    watch.job.sample(1, torch_allocated=5e9)
    watch.see(6)
    memory = watch.watcher.look().snapshot.memory_bytes
    assert memory == {0: {"rss": 1e9}, 1: {"rss": 1e9, "torch_allocated": 5e9}}


def test_what_comes_minutes_later_explains_nothing(tmp_path):
    late = lambda rank, at: 0.5 if rank == 1 and at >= 60 else 0.0  # noqa: E731
    waits = lambda rank, at: {"core_wait": 0.5} if rank == 1 and at > 320 else {}  # noqa: E731
    watch = Watch(tmp_path, extra=late, means=waits)
    assert [event.state for event in watch.see(420)] == [BEGUN]


def test_a_named_rank_without_a_core_is_explained_once_while_the_event_runs(tmp_path):
    late = lambda rank, at: 0.5 if rank == 1 and at >= 60 else 0.0  # noqa: E731
    waits = lambda rank, at: {"core_wait": 0.5} if rank == 1 and at > 60 else {}  # noqa: E731
    watch = Watch(tmp_path, extra=late, means=waits)
    named, explained = watch.see(160)
    assert (named.kind, named.state) == (EventKind.STRAGGLER, BEGUN)
    assert (explained.number, explained.state) == (named.number, EXPLAINED)
    assert explained.text.startswith("Rank 1 had no core for 50 % of the time")
    watch.watcher = watch.another()
    assert watch.see(20) == []


def test_a_named_rank_whose_machine_is_like_the_others_is_not(tmp_path):
    late = lambda rank, at: 0.5 if rank == 1 and at >= 60 else 0.0  # noqa: E731
    watch = Watch(tmp_path, extra=late)
    assert [event.state for event in watch.see(160)] == [BEGUN]


@pytest.mark.parametrize("is_slower", [True, False])
def test_hot_devices_are_said_only_where_the_throughput_fell(tmp_path, is_slower):
    def hot(_, at):
        return {"sm_clock": 1.2e9 if at > 100 else 1.9e9, "limited_heat": float(at > 100)}

    watch = Watch(tmp_path, means=hot)
    found = watch.see(100)
    watch.job.factor = 1.5 if is_slower else 1.0
    found += watch.see(140)
    assert [(event.kind, event.state) for event in found] == [
        (EventKind.SLOWDOWN, BEGUN),
        (EventKind.SLOWDOWN, EXPLAINED),
    ][: 2 * is_slower]
    if is_slower:
        assert found[1].text.startswith("The SM clock of ranks 0 and 1 is 1200 MHz, 37 % below")
        assert "clock limited by heat 100 % of the time (before 0 %)." in found[1].text


def test_damaged_samples_are_skipped(tmp_path):
    watch = Watch(tmp_path, means=_grows)
    watch.see(10)
    with (tmp_path / "samples-1.jsonl").open("a") as file:
        for change in ('{"torn', '{"kind": "samples", "scope": "rank"}', "[" * 9999, "7"):
            file.write(change + "\n")
        for means in ([["rss", 1, 1e300, 0, 0, 0]], [["rss", 1, "x"]], [["rss"]], 3):
            line = {"scope": "rank", "start_ns": 0, "end_ns": 10**10, "measures": means}
            file.write(json.dumps(line) + "\n")
        file.write(json.dumps(line | {"end_ns": 0, "measures": []}) + "\n")
    assert [event.state for event in watch.see(400)] == [BEGUN, OVER]
