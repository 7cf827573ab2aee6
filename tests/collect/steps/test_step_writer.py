import pytest

from hvdprof.collect.steps.step_marks import WaitMarks
from hvdprof.collect.steps.step_writer import (
    LONGEST_DELAY_NS,
    MAX_UNREAD_STEPS,
    STEPS_AT_ONCE,
    FinishedStep,
    StepWriter,
)
from hvdprof.collect.steps.time_source import HostClock
from tests.builders.fake_torch import FakeTime


class LateSource(HostClock):
    """Marks that can be read once ``passed`` has come to them, or after a wait."""

    def __init__(self):
        super().__init__()
        self.passed = -1
        self.num_waits = 0

    def is_passed(self, mark):
        return mark <= self.passed

    def wait_for(self, mark):
        self.num_waits += 1
        self.passed = max(self.passed, mark)


def finished(number, evaluation=None, **changes):
    """A step of no length and without content, but for an evaluation of that wait, and changes."""
    fields = {
        "segment": "main",
        "number": number,
        "samples": 1,
        "warmup": False,
        "begin": number,
        "end": number,
        "phases": [],
        "ready": [],
        "blocked": [],
        "waits": [],
        "buckets": [],
        "loss": None,
        "has_evaluation": evaluation is not None,
        "evaluation_blocked_ns": 0 if evaluation is None else evaluation,
        "evaluation_waits": [] if evaluation is None else [(number, number + 30)],
    }
    return FinishedStep(**{**fields, **changes})


class Writing:
    """A writer on a clock that moves by hand, and the numbers of the steps that it passed on."""

    def __init__(self, source=None):
        self.written, self.lines = [], []
        self.time = FakeTime()
        self.writer = StepWriter(self.take, source or HostClock(), self.time)

    def take(self, *lines):
        self.lines += lines
        self.written += [line["step"] for line in lines]

    def add(self, number, length_ns=1000, loss=None, evaluation=None):
        self.time.advance(length_ns)
        self.writer.add(finished(number, evaluation, loss=loss))


@pytest.fixture
def writing():
    return Writing()


def test_the_first_step_is_written_at_once(writing):
    writing.add(0)
    assert writing.written == [0]


def test_short_steps_are_written_together_and_in_order(writing):
    for number in range(2 * STEPS_AT_ONCE):
        writing.add(number)
        whole = (number + 1) // STEPS_AT_ONCE * STEPS_AT_ONCE
        assert writing.written == list(range(max(whole, 1)))


def test_ranks_write_after_the_same_steps(writing):
    # One that began to record late numbers its steps like the others.
    other = Writing()
    for number in range(5 * STEPS_AT_ONCE):
        writing.add(number)
        if number >= 3:
            other.add(number)
    assert writing.written == list(range(5 * STEPS_AT_ONCE))
    assert other.written == writing.written[3:]


def test_a_long_step_is_written_at_once(writing):
    for number in range(4):
        writing.add(number, LONGEST_DELAY_NS)
        assert writing.written[-1] == number


def test_steps_of_middle_length_wait_no_longer_than_the_delay(writing):
    length_ns = LONGEST_DELAY_NS // 3 + 1
    for number in range(4):
        writing.add(number, length_ns)
    assert writing.written == [0, 1, 2, 3]


def test_waits_in_an_evaluation_are_summed(writing):
    writing.add(0)
    writing.add(1, evaluation=70)
    writing.writer.write_rest()
    plain, evaluated = writing.lines
    assert evaluated["evaluation_blocked_ns"] == 100
    assert "evaluation_blocked_ns" not in plain


def test_an_evaluation_after_the_last_step_ends_with_its_last_wait(writing):
    step = FinishedStep(
        segment="main",
        number=7,
        samples=1,
        warmup=False,
        begin=1000,
        end=1900,
        phases=[("data", 1000, 1010), ("evaluation", 1010, 1600), ("collective", 1650, 1700)],
        ready=[],
        blocked=[(1650, 1700)],
        waits=[],
        buckets=[],
        loss=None,
        has_evaluation=True,
        evaluation_blocked_ns=40,
        evaluation_waits=[(1100, 1110)],
    )

    line = writing.writer.evaluation_line(step)

    assert line == {
        "kind": "evaluation",
        "segment": "main",
        "step": 7,
        "start_ns": 1000,
        "dur_ns": 600,
        "rest_ns": 100,
        "blocked_ns": 50,
        "rest_blocked_ns": 50,
    }
    step.blocked = None
    unknown = writing.writer.evaluation_line(step)
    assert (unknown["blocked_ns"], unknown["rest_blocked_ns"], unknown["rest_ns"]) == (
        None,
        None,
        0,
    )


def test_the_rest_is_written_at_the_end(writing):
    for number in range(4):
        writing.add(number)
    writing.writer.write_rest()
    assert writing.written == [0, 1, 2, 3]


def test_steps_before_one_that_cannot_be_written_are_written(writing):
    writing.add(0)
    writing.add(1)
    writing.add(2, loss="no number")
    writing.add(3)
    with pytest.raises(ValueError, match="no number"):
        writing.writer.write_rest()
    assert writing.written == [0, 1]
    writing.writer.write_passed()
    assert writing.written == [0, 1, 3]


def test_steps_that_a_gpu_has_not_passed_stay():
    source = LateSource()
    writing = Writing(source)
    source.passed = STEPS_AT_ONCE - 3
    for number in range(STEPS_AT_ONCE):
        writing.add(number)
    assert writing.written == list(range(STEPS_AT_ONCE - 2))
    assert not source.num_waits


def test_few_steps_stay_where_a_gpu_is_far_behind():
    source = LateSource()
    writing = Writing(source)
    for number in range(2 * STEPS_AT_ONCE):
        writing.add(number, LONGEST_DELAY_NS)
    assert len(writing.written) == 2 * STEPS_AT_ONCE - MAX_UNREAD_STEPS
    assert source.num_waits


def test_a_collective_is_submitted_at_its_wait_at_the_latest():
    # A stream of a GPU may reach it after the stream that computes began to wait.
    lines = []
    writer = StepWriter(lambda *taken: lines.extend(taken), HostClock(), FakeTime())
    writer.add(
        finished(
            0,
            begin=100,
            end=200,
            blocked=[(120, 130), (150, 170)],
            waits=[WaitMarks("unshard_forward", 125, 2), WaitMarks("reduce_scatter", 110, 2)],
        )
    )
    assert lines[0]["waits"] == [("unshard_forward", 20, 2), ("reduce_scatter", 10, 2)]
