"""Waits of FSDP2 on a GPU: PyTorch's own FSDP2 on simulated streams, and on a real GPU."""

import itertools
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from hvdprof.collect.engines.stream_waits import StreamHooks, StreamWaits
from hvdprof.collect.steps.step_marks import WaitMarks
from tests.builders.places import ROOT, needs_gpu

CASES = ("plain", "explicit", "hybrid", "own gather", "script")
FORWARD, BACKWARD, REDUCE = "unshard_forward", "unshard_backward", "reduce_scatter"
OF_PLAIN = [FORWARD] * 3 + [BACKWARD, BACKWARD, REDUCE, BACKWARD, REDUCE, REDUCE]
GATHER_NS, FORWARD_NS = 700, 300


def steps_of(*arguments):
    module = "tests.builders.fsdp_on_streams"
    command = [sys.executable, "-X", "faulthandler", "-m", module, *arguments]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def lengths(step):
    return [wait["end"] - wait["begin"] for wait in step["waits"]]


@pytest.fixture(scope="module")
def steps():
    return steps_of(*CASES)


@pytest.mark.torch
@pytest.mark.parametrize("case", CASES)
def test_the_waits_are_those_of_the_stream_that_computes(steps, case):
    step = steps[case]

    assert step["failure"] == "None"
    recorded = [[wait["begin"], wait["end"]] for wait in step["waits"]]
    longer_than_nothing = [one for one in step["blocked"] if one[1] > one[0]]
    assert [one for one in recorded if one[1] > one[0]] == longer_than_nothing
    assert all(one in step["blocked"] for one in recorded)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(recorded))


@pytest.mark.torch
def test_each_collective_is_one_wait_of_its_kind(steps):
    for case in ("plain", "explicit"):
        waits = steps[case]["waits"]
        assert [wait["kind"] for wait in waits] == OF_PLAIN
        assert {wait["num_ranks"] for wait in waits} == {4}
    # The next all-gather runs while a layer computes.
    assert lengths(steps["plain"])[:3] == [GATHER_NS] + [GATHER_NS - FORWARD_NS] * 2
    # Also where it is over: then the rank waits for nothing, but has submitted.
    assert lengths(steps["plain"])[3] == 0


@pytest.mark.torch
def test_a_collective_is_submitted_where_its_stream_reaches_it(steps):
    for case in ("plain", "explicit"):
        waits = steps[case]["waits"]
        assert all(wait["submitted"] <= wait["begin"] for wait in waits)
        ends = [wait["end"] for wait in waits]
        # Behind the all-gather before.
        assert [wait["submitted"] for wait in waits[1:3]] == ends[:2]


@pytest.mark.torch
def test_groups_of_ranks_and_collectives_of_the_script(steps):
    hybrid = steps["hybrid"]["waits"]
    assert {wait["num_ranks"] for wait in hybrid} == {2}
    # The all-reduce among replicas, once: FSDP2 waits for the last one alone.
    assert [wait["kind"] for wait in hybrid].count(REDUCE) == 4
    script = steps["script"]["waits"]
    assert [wait["kind"] for wait in script] == [*OF_PLAIN, "user"]
    assert lengths(steps["script"])[-1] == 400


@pytest.mark.torch
def test_a_gather_that_is_not_seen_is_a_wait_without_known_ranks(steps):
    waits = steps["own gather"]["waits"]
    unknown = [wait for wait in waits if wait["kind"] == "user"]
    assert len(unknown) == 6
    assert {(wait["num_ranks"], wait["submitted"]) for wait in unknown} == {(0, None)}
    assert [wait["kind"] for wait in waits].count(REDUCE) == 3


@pytest.mark.gpu
@pytest.mark.torch
@needs_gpu
def test_a_gpu_has_the_waits_of_the_simulated_one():
    from tests.builders.fsdp_on_streams import CudaGpu

    simulated, real = steps_of("plain", "explicit"), steps_of("--cuda", "plain", "explicit")
    for case, step in real.items():
        assert [wait["kind"] for wait in step["waits"]] == OF_PLAIN
        expected = [length * CudaGpu.scale for length in lengths(simulated[case])]
        assert lengths(step) == pytest.approx(expected, rel=0.1, abs=500_000)


class FakeStream:
    """A stream of GPU 0, which cannot be referenced weakly either."""

    __slots__ = ()
    device = 0

    def record_event(self):
        return SimpleEvent()

    def wait_event(self, event):
        event.num_waits += 1


class SimpleEvent:
    """An event that counts who waits for it, and cannot be referenced weakly.

    Weak references to those of PyTorch 2.10 to 2.12 end in a segmentation fault.
    """

    __slots__ = ("__dict__",)
    num_waits = 0


class FakeRecording:
    """A recording that keeps the waits and failures."""

    def __init__(self, current):
        self.streams = StreamWaits(SimpleNamespace(current_stream=current))
        self.is_open = True
        self.waits: list[WaitMarks] = []
        self.failures: list[Exception] = []

    def is_recording(self):
        return self.is_open

    def stream_waits(self, wait, call):
        self.waits.append(wait)
        call()

    def failed(self, error):
        self.failures.append(error)


class Hooked:
    """A class of streams that is hooked, and calls of FSDP2's and of others' code."""

    def __init__(self):
        self.kind = type("Stream", (FakeStream,), {"__slots__": ()})
        self.compute, self.gather = self.kind(), self.kind()
        self.current = self.compute
        self.recording = FakeRecording(lambda device=None: self.current)
        self.is_compiling = False
        StreamHooks(self.kind, lambda: self.recording, lambda: self.is_compiling)

    def call(self, stream, method, *args, of="torch.distributed.fsdp._fully_shard.x"):
        names = {"__name__": of}
        exec(f"def call(stream, *args):\n    return stream.{method}(*args)\n", names)
        return names["call"](stream, *args)


WAIT = WaitMarks("unshard_forward", 5, 2)


@pytest.fixture
def hooked():
    return Hooked()


def unsharded(hooked, **options):
    """The event behind a collective on the stream of all-gathers."""
    hooked.current = hooked.gather
    hooked.recording.streams.queued(WAIT, has_work=False)
    event = hooked.call(hooked.gather, "record_event", **options)
    hooked.current = hooked.compute
    return event


def test_the_first_wait_for_a_collective_counts(hooked):
    event = unsharded(hooked)
    later = hooked.call(hooked.gather, "record_event")
    for one in (event, event, later):
        hooked.call(hooked.compute, "wait_event", one)

    assert hooked.recording.waits == [WAIT]
    assert hooked.recording.failures == []
    assert (event.num_waits, later.num_waits) == (2, 1)


@pytest.mark.parametrize("why", ["another stream", "another caller", "compiling", "closed", "over"])
def test_other_waits_pass_through(hooked, why):
    event = unsharded(hooked)
    stream, of = hooked.compute, "torch.distributed.fsdp._fully_shard.x"
    if why == "another stream":
        stream = hooked.gather
    elif why == "another caller":
        of = "torch.cuda.streams"
    elif why == "compiling":
        hooked.is_compiling = True
    elif why == "closed":
        hooked.recording.is_open = False
    recording = hooked.recording
    if why == "over":
        hooked.recording = None

    hooked.call(stream, "wait_event", event, of=of)

    assert event.num_waits == 1
    assert recording.waits == []


def test_an_event_of_another_caller_is_not_known(hooked):
    event = unsharded(hooked, of="torch.cuda.streams")
    hooked.call(hooked.compute, "wait_event", event)

    assert hooked.recording.waits == [WaitMarks("user")]


def test_an_event_of_an_earlier_recording_is_not_known(hooked):
    event = unsharded(hooked)
    hooked.recording = FakeRecording(lambda device=None: hooked.current)
    hooked.call(hooked.compute, "wait_event", event)

    assert hooked.recording.waits == [WaitMarks("user")]


def test_a_failure_of_the_recorder_reaches_nobody(hooked):
    event = unsharded(hooked)
    hooked.recording.streams.computes = lambda stream: 1 / 0
    hooked.recording.streams.recorded = lambda stream, event: 1 / 0

    hooked.call(hooked.compute, "wait_event", event)
    assert hooked.call(hooked.gather, "record_event") is not None

    assert event.num_waits == 1
    assert [type(one) for one in hooked.recording.failures] == [ZeroDivisionError] * 2
