from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from hvdprof.collect import _hooks
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.auto import step_tracker
from hvdprof.collect.auto.step_counts import LEARNING_STEPS
from hvdprof.collect.session import Session
from hvdprof.rundir.launch_format import AutoSettings


class Calls:
    """Stands in for `hvdprof.collect` and keeps what was asked of it, in order."""

    def __init__(self):
        self.log = []

    @contextmanager
    def recorded_step(self, samples, warmup):
        self.log.append("begin warmup" if warmup else "begin")
        try:
            yield
        except step_tracker.StepAbandonedError:
            self.log.append("dropped")
            raise
        self.log.append("end")

    @contextmanager
    def phase(self, name):
        self.log.append(name)
        yield

    @contextmanager
    def timeline(self, path):
        self.log.append(f"timeline {path}")
        yield
        self.log.append("timeline ends")

    @contextmanager
    def evaluation(self, *, after_training):
        self.log.append("evaluation after training" if after_training else "evaluation")
        yield

    def end_evaluation(self):
        self.log.append("evaluation ends")

    def note(self, line):
        self.log.append(f"{line['kind']} {line['message']}")

    def extend_forward(self):
        """Where backward begins; the marks of a step are not built here."""

    def samples(self, number):
        self.log.append(f"samples {number}")


@pytest.fixture
def calls(monkeypatch):
    calls = Calls()
    monkeypatch.setattr(step_tracker, "collect", calls)
    monkeypatch.setattr(step_tracker, "_hooks", calls)
    return calls


def tracker(**changes):
    settings = {
        "num_warmup_steps": 0,
        "num_steps": None,
        "batch_size": None,
        "timeline": "",
        "num_timeline_steps": 2,
    }
    return step_tracker.StepTracker(AutoSettings(**settings | changes))


def train(tracked, num_samples=8):
    with tracked.fetching():
        pass
    tracked.fetched(num_samples)
    with tracked.forward_begins(3), tracked.backward():
        pass
    tracked.step_ended()


def test_a_step_reaches_from_one_update_to_the_next(calls):
    tracked = tracker()
    train(tracked)

    assert calls.log == ["begin", "data", "forward", "backward", "samples 8", "end", "begin"]


def test_warmup_is_counted_in_updates(calls):
    tracked = tracker(num_warmup_steps=2)
    for _ in range(3):
        train(tracked)

    begins = [call for call in calls.log if call.startswith("begin")]
    assert begins == ["begin warmup", "begin warmup", "begin", "begin"]


def evaluate(tracked, num_samples=100):
    with tracked.fetching():
        pass
    tracked.fetched(num_samples)
    with tracked.evaluates():
        pass


def test_an_evaluation_is_marked_in_its_step_without_the_samples_of_its_batches(calls):
    tracked = tracker()
    train(tracked)
    del calls.log[:]
    evaluate(tracked)
    evaluate(tracked)
    train(tracked)

    assert calls.log[:4] == ["data", "evaluation", "data", "evaluation"]
    assert calls.log[-3:] == ["samples 8", "end", "begin"]


def test_an_evaluation_between_two_passes_for_training_keeps_the_samples(calls):
    tracked = tracker()
    train(tracked)
    tracked.fetched(8)
    with tracked.forward_begins(8):
        pass
    with tracked.evaluates():
        pass
    train(tracked)

    assert "evaluation after training" in calls.log
    assert "samples 16" in calls.log


def test_an_evaluation_before_the_first_update_drops_the_open_step_and_marks_the_next(calls):
    tracked = tracker()
    with tracked.fetching():
        pass
    assert tracked.evaluates() is None
    assert tracked.evaluates() is None
    del calls.log[:]
    train(tracked)

    assert calls.log[0] == "begin warmup"
    assert calls.log[-1] == "begin"


def test_a_pass_that_is_over_has_no_phase_of_its_own(calls):
    tracked = tracker()
    for _ in range(LEARNING_STEPS):
        tracked.evaluates(is_over=True)
        train(tracked)

    assert tracked.evaluates(is_over=True) is None
    assert tracked.evaluates(is_over=True) is not None


def test_a_teacher_between_backward_and_update_is_part_of_the_step(calls):
    tracked = tracker()
    with tracked.fetching(), tracked.backward():
        pass
    tracked.evaluates()
    tracked.step_ended()

    assert "dropped" not in calls.log


@pytest.mark.parametrize(
    ("known", "fetched", "logged"),
    [(None, 0, "samples 3"), (None, 8, "samples 8"), (5, 8, "samples 5")],
)
def test_samples_are_those_given_else_of_the_batch_else_of_the_input(calls, known, fetched, logged):
    train(tracker(batch_size=known), fetched)

    assert logged in calls.log


def test_batches_add_up_until_the_update(calls):
    tracked = tracker()
    tracked.fetched(8)
    train(tracked, 8)

    assert "samples 16" not in calls.log  # The first was fetched before the step began.
    tracked.fetched(8)
    train(tracked, 8)
    assert "samples 16" in calls.log


def test_without_a_loader_each_accumulated_batch_counts(calls):
    tracked = tracker()
    for _ in range(3):
        # Two models see one batch.
        with tracked.forward_begins(16), tracked.forward_begins(16):
            pass
        with tracked.backward():
            pass
    tracked.step_ended()
    with tracked.forward_begins(16), tracked.backward():
        pass
    tracked.step_ended()

    assert [call for call in calls.log if "samples" in call] == ["samples 48", "samples 16"]


def test_a_batch_that_is_fetched_ahead_counts_once(calls):
    tracked = tracker()
    for _ in range(2):
        with tracked.forward_begins(16), tracked.backward():
            pass
        tracked.fetched(16)
        tracked.step_ended()

    assert [call for call in calls.log if "samples" in call] == ["samples 16", "samples 16"]


def test_the_timeline_holds_the_steps_asked_for(calls):
    tracked = tracker(num_warmup_steps=1, timeline="/t.json")
    for _ in range(4):
        train(tracked)

    steps = "".join(
        {"timeline /t.json": "(", "timeline ends": ")", "end": "."}.get(call, "")
        for call in calls.log
    )
    assert steps == ".(..)."


def test_the_script_is_ended_after_enough_steps(calls):
    tracked = tracker(num_warmup_steps=1, num_steps=2)
    train(tracked)
    train(tracked)

    with pytest.raises(SystemExit) as ended:
        train(tracked)
    assert ended.value.code == 0


def test_at_the_end_nothing_stays_open(calls):
    tracked = tracker(timeline="/t.json")
    train(tracked)
    tracked.end()

    assert calls.log[-2:] == ["dropped", "timeline ends"]


def test_an_evaluation_after_the_last_step_is_recorded(calls):
    tracked = tracker()
    train(tracked)
    evaluate(tracked)
    tracked.end()

    assert calls.log[-3:] == ["evaluation", "evaluation ends", "dropped"]


@pytest.mark.parametrize("why", ["failed", "no update", "trained again", "no evaluation"])
def test_what_is_no_evaluation_after_the_last_step_is_dropped(calls, why):
    tracked = tracker()
    if why != "no update":
        train(tracked)
    if why != "no evaluation":
        tracked.fetching()
        tracked.evaluates()
    if why == "trained again":
        tracked.forward_begins(8)
    tracked.end(has_failed=why == "failed")

    assert "evaluation ends" not in calls.log


def test_the_step_of_an_optimizer_stays_a_method_that_schedulers_can_take_apart(calls):
    class Optimizer:
        def step(self, closure=None):
            return closure

    optimizer = Optimizer()
    tracker().follow(optimizer, lambda act: act())

    function = getattr(optimizer.step, "__func__")  # noqa: B009
    assert function.__get__(optimizer, Optimizer)(5) == 5
    assert optimizer.step.__name__ == "step"


def test_a_step_that_is_no_method_is_followed_too(calls):
    optimizer = SimpleNamespace(step=lambda: 7)
    tracked = tracker()
    tracked.follow(optimizer, lambda act: act())

    assert optimizer.step() == 7


def test_outside_a_recording_all_of_it_does_nothing(monkeypatch):
    monkeypatch.setattr(PROCESS, "session", Session())
    assert not _hooks.is_active()
    tracked = tracker()
    train(tracked)
    tracked.evaluates()
    tracked.end()


def test_in_a_new_session_steps_warmup_and_timeline_count_anew(calls):
    tracked = tracker(num_warmup_steps=1, timeline="first", num_timeline_steps=1)
    for _ in range(3):
        train(tracked)
    tracked.end()
    del calls.log[:]
    tracked.begin_session(40, "second")
    for _ in range(2):
        train(tracked)

    begins = [call for call in calls.log if call.startswith(("begin", "timeline"))]
    assert begins == ["begin warmup", "timeline second", "begin", "timeline ends", "begin"]
    assert (tracked.num_ended, tracked.num_total) == (2, 42)


def test_steps_of_earlier_sessions_count_for_the_end_of_the_script(calls):
    tracked = tracker(num_steps=5, num_warmup_steps=2)
    tracked.begin_session(5, "")
    train(tracked)

    with pytest.raises(SystemExit):
        train(tracked)


def test_where_the_peers_are_gone_the_timeline_is_not_asked_to_end(calls):
    tracked = tracker(timeline="t")
    train(tracked)
    tracked.break_off()
    tracked.end()

    assert "timeline ends" not in calls.log
    assert calls.log[-1] == "dropped"


def test_a_call_that_trains_begins_a_step_and_counts_its_samples(calls):
    tracked = tracker()
    tracked.computes(8)
    tracked.computes(8)
    tracked.step_ended()

    assert calls.log == ["begin", "samples 16", "end", "begin"]


def test_passes_that_come_in_each_step_are_a_part_of_it(calls, capsys):
    # A teacher, or a generator that only makes the input: twice per step.
    tracked = tracker()
    for _ in range(LEARNING_STEPS):
        tracked.evaluates()
        tracked.evaluates()
        train(tracked)
    del calls.log[:]
    for _ in range(8):
        for _ in range(2):
            with tracked.evaluates():
                pass
        train(tracked)

    assert calls.log.count("forward") == 8 * 3
    assert "dropped" not in calls.log
    assert "begin warmup" not in calls.log
    # More passes than in each step are an evaluation.
    assert calls.log.count("evaluation") == 0
    for _ in range(3):
        with tracked.evaluates():
            pass
    train(tracked)
    assert calls.log.count("evaluation") == 1
    tracked.end()
    assert capsys.readouterr().err == ""


def test_a_script_that_evaluates_in_each_of_its_few_steps_is_warned(calls, capsys):
    tracked = tracker()
    for _ in range(LEARNING_STEPS):
        tracked.evaluates()
        train(tracked)
    tracked.end()

    assert calls.log[-1].startswith("problem a forward pass that is not for training")
    assert "mark the steps in the script" in capsys.readouterr().err


@pytest.mark.parametrize("every", [2, 3])
def test_a_script_that_evaluates_now_and_then_is_not(calls, capsys, every):
    tracked = tracker()
    for i in range(6):
        train(tracked)
        if i % every == 0:
            tracked.evaluates()
    tracked.end()

    assert not any(one.startswith("problem") for one in calls.log)
    assert capsys.readouterr().err == ""
