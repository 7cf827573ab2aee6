import dis
import threading
from contextlib import contextmanager

import pytest

from hvdprof.collect.auto.loop_input import (
    LEARNING_UPDATES,
    TOOL,
    LoopInput,
    interpreter_monitoring,
)

HAS_MONITORING = interpreter_monitoring() is not None
on_new_python = pytest.mark.skipif(
    not HAS_MONITORING, reason="sys.monitoring came with Python 3.12"
)


class Recording:
    """Notes fetches and what else a script does."""

    def __init__(self):
        self.did, self.errors, self.problems = [], [], []
        self.thread = threading.get_ident()

    def is_here(self):
        return threading.get_ident() == self.thread

    @contextmanager
    def fetching(self):
        self.did.append("fetch")
        yield
        self.did.append("fetched")

    def fails(self, error):
        self.errors.append(error)


class Script:
    """Calls what the recorder sees of a training."""

    def __init__(self, monitoring):
        self.recording, self.monitoring = Recording(), monitoring
        self.zero = 0
        self.input = LoopInput(self.recording, self.recording.problems.append, monitoring)

    def step(self):
        self.input.computes_gradients()
        self.recording.did.append("step")
        self.input.updates()

    def batches(self, number):
        for one in range(number):
            self.recording.did.append("makes")
            yield one

    def over_generator(self, number=4):
        for _ in self.batches(number):
            self.step()

    def by_next(self):
        batches = self.batches(4)
        for _ in range(4):
            next(batches)
            self.step()


@pytest.fixture
def script():
    made = Script(interpreter_monitoring())
    yield made
    made.input.remove()


FETCHED = ["fetch", "makes", "fetched", "step"]


@on_new_python
def test_fetches_of_a_generator_are_timed_from_the_second_batch_on(script):
    script.over_generator()
    assert script.recording.did == ["makes", "step", *3 * FETCHED, "fetch", "fetched"]
    assert script.recording.errors == []


@on_new_python
def test_the_first_batch_of_a_later_loop_is_timed(script):
    script.over_generator()
    script.recording.did.clear()
    script.over_generator()
    assert script.recording.did == [*4 * FETCHED, "fetch", "fetched"]


@on_new_python
def test_micro_batches_are_timed_from_the_first_on(script):
    def train():
        for _ in range(3):
            for _ in script.batches(2):
                script.input.computes_gradients()
                script.recording.did.append("step")
            script.input.updates()

    train()
    assert script.recording.did[4:] == 2 * [*2 * FETCHED, "fetch", "fetched"]


@on_new_python
def test_calls_of_next_are_timed(script):
    script.by_next()
    assert script.recording.did == ["makes", "step", *3 * FETCHED]


@on_new_python
def test_an_iterator_that_fails_leaves_no_fetch_open(script):
    def batches():
        yield 1
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        for _ in batches():
            script.step()
    assert script.recording.did[-1] == "fetch"
    script.step()
    assert script.recording.did[-1] == "fetched"


@on_new_python
def test_other_threads_are_not_recorded(script):
    script.over_generator()
    before = list(script.recording.did)
    other = threading.Thread(target=script.over_generator)
    other.start()
    other.join()
    assert [one for one in script.recording.did[len(before) :] if "fetch" in one] == []


@on_new_python
def test_nothing_is_called_after_the_end(script):
    script.over_generator()
    script.input.remove()
    script.recording.did.clear()
    script.over_generator()
    assert "fetch" not in script.recording.did
    assert TOOL not in [script.monitoring.get_tool(number) for number in range(6)]


@on_new_python
def test_where_other_tools_have_all_numbers_nothing_is_timed(script):
    monitoring = script.monitoring
    taken = [number for number in (2, 3, 4) if monitoring.get_tool(number) is None]
    for number in taken:
        monitoring.use_tool_id(number, "other")
    try:
        script.over_generator()
    finally:
        for number in taken:
            monitoring.free_tool_id(number)
    assert "fetch" not in script.recording.did
    (problem,) = script.recording.problems
    assert "other tools" in problem
    assert script.recording.errors == []


@on_new_python
def test_only_instructions_of_the_loop_call_back(script, monkeypatch):
    calls = []
    for name in ("_begins", "_branched", "_called"):
        own = getattr(LoopInput, name)

        def counted(self, *arguments, own=own):
            calls.append(own.__name__)
            return own(self, *arguments)

        monkeypatch.setattr(LoopInput, name, counted)
    script.over_generator(100)
    # At the 99 fetches that follow and at the end of the iterator, and once at other instructions.
    num_instructions = len(list(dis.get_instructions(Script.over_generator)))
    assert [calls.count(name) for name in ("_branched", "_called")] == [100, 1]
    assert 100 <= calls.count("_begins") < 100 + num_instructions


@on_new_python
def test_a_loop_with_a_long_body_is_timed(script):
    body = "".join(f"        value{number} = {number} + script.zero\n" for number in range(400))
    text = f"def train(script):\n    for _ in script.batches(4):\n{body}        script.step()\n"
    scope = {}
    exec(compile(text, "long.py", "exec"), scope)
    scope["train"](script)
    assert script.recording.did == ["makes", "step", *3 * FETCHED, "fetch", "fetched"]


def test_before_python_3_12_nothing_is_timed():
    script = Script(None)
    script.over_generator()
    assert "fetch" not in script.recording.did
    script.input.remove()


def test_a_script_that_trains_in_no_loop_is_not_watched_for_long():
    class Events:
        INSTRUCTION, BRANCH, CALL, C_RETURN, C_RAISE = 1, 2, 4, 8, 16

    class Nothing:
        events = Events()

    script = Script(Nothing())
    own = script.input
    for _ in range(LEARNING_UPDATES):
        own.updates()
    own.computes_gradients()
    assert own._backward == []
    assert script.recording.errors == []


def test_a_recording_that_fails_does_not_reach_the_script():
    class Failing(Recording):
        def fetching(self):
            raise RuntimeError("no clock")

    recording = Failing()
    LoopInput(recording, recording.problems.append, None)._fetch()
    assert [str(error) for error in recording.errors] == ["no clock"]
