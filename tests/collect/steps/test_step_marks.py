import pytest

from hvdprof.collect.steps.step_marks import MAX_PIECES, StepMarks
from hvdprof.collect.steps.time_source import HostClock
from tests.builders.fake_torch import FakeTime


def marks_at(time: FakeTime) -> StepMarks:
    marks = StepMarks(HostClock(time))
    marks.open(time())
    return marks


def test_inner_phase_interrupts_the_outer_one():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("data")
    time.advance(10)
    marks.enter("augment")
    time.advance(5)
    marks.leave("augment")
    time.advance(3)
    marks.leave("data")
    marks.close(time())
    assert marks.phases == [("data", 0, 10), ("augment", 10, 15), ("data", 15, 18)]


def test_a_phase_within_its_own_name_stays_one_piece():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("optimizer")
    time.advance(1)
    assert marks.enter("optimizer") == 1
    time.advance(2)
    assert marks.leave("optimizer") == 3
    time.advance(4)
    marks.leave("optimizer")
    assert marks.phases == [("optimizer", 0, 7)]


def test_leaving_an_outer_phase_leaves_what_an_exception_left_open_inside():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("train")
    marks.enter("optimizer")
    time.advance(4)
    marks.leave("train")
    marks.close(time())
    assert sum(end - begin for _, begin, end in marks.phases) == 4
    assert [name for name, *_ in marks.phases].count("optimizer") == 1


def test_phase_that_is_never_left_ends_with_the_step():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("forward")
    time.advance(6)
    marks.close(time())
    assert marks.phases == [("forward", 0, 6)]


def test_nothing_is_recorded_outside_a_step():
    marks = StepMarks(HostClock(FakeTime()))
    assert marks.enter("forward") is None
    assert marks.leave("forward") is None
    marks.add_blocked(None, None)
    assert marks.phases == []
    assert marks.blocked == []


def test_next_step_begins_empty():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("forward")
    marks.loss = 3.0
    marks.open(time())
    marks.close(time())
    assert marks.phases == []
    assert marks.loss is None


def test_a_phase_that_is_over_is_added_as_far_as_it_lies_in_the_step():
    time = FakeTime(100)
    marks = marks_at(time)
    marks.add_passed("forward", 90, 120)
    marks.add_passed("collective", 120, 150)
    marks.add_passed("early", 50, 100)
    marks.close(150)
    marks.add_passed("late", 150, 160)

    assert marks.phases == [("forward", 100, 120), ("collective", 120, 150)]
    assert marks.blocked == [(120, 150)]


def test_within_a_phase_of_the_script_only_blocked_time_is_added():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("train")
    time.advance(50)
    marks.add_passed("forward", 0, 20)
    marks.add_passed("collective", 20, 40)
    marks.leave("train")

    assert marks.phases == [("train", 0, 50)]
    assert marks.blocked == [(20, 40)]


def test_the_forward_pass_reaches_to_backward():
    time = FakeTime(0)
    marks = marks_at(time)
    for _ in range(2):
        marks.enter("forward")
        time.advance(10)
        marks.leave("forward")
        time.advance(3)
    marks.extend_forward()
    marks.enter("backward")
    time.advance(5)
    marks.leave("backward")
    time.advance(2)
    marks.extend_forward()  # Nothing but a backward pass before: not a forward pass.
    marks.close(time())
    assert marks.phases == [("forward", 0, 10), ("forward", 13, 26), ("backward", 26, 31)]


def test_without_a_module_the_forward_pass_begins_after_the_data():
    time = FakeTime(0)
    marks = marks_at(time)
    for name in ("data", "backward", "data", "forward", "data", "backward"):
        marks.extend_forward() if name == "backward" else None
        marks.enter(name)
        time.advance(4)
        marks.leave(name)
        time.advance(1)
    assert [piece for piece in marks.phases if piece[0] == "forward"] == [
        ("forward", 4, 5),
        ("forward", 15, 19),  # The batch after it was fetched ahead.
    ]


@pytest.mark.heavy
def test_within_an_optimizer_the_forward_pass_of_its_closure_reaches_to_backward():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("optimizer")
    time.advance(1)
    marks.enter("forward")
    time.advance(10)
    marks.leave("forward")
    time.advance(3)
    marks.extend_forward()
    marks.enter("backward")
    time.advance(5)
    marks.leave("backward")
    time.advance(2)
    marks.leave("optimizer")
    lengths = [(name, end - begin) for name, begin, end in marks.phases if end > begin]
    assert lengths == [("optimizer", 1), ("forward", 13), ("backward", 5), ("optimizer", 2)]


def test_a_phase_that_the_script_marks_ends_the_forward_pass():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("forward")
    time.advance(10)
    marks.leave("forward")
    time.advance(3)
    marks.enter("backward")
    time.advance(1)
    marks.extend_forward()
    marks.close(time())
    assert marks.phases == [("forward", 0, 10), ("backward", 13, 14)]


def test_the_batches_and_metrics_of_an_evaluation_are_one_piece_with_its_passes():
    time = FakeTime(0)
    marks = marks_at(time)
    for _ in range(3):
        marks.enter("data")
        time.advance(2)
        marks.leave("data")
        marks.enter_evaluation(after_training=False)
        time.advance(5)
        marks.leave_evaluation()
        marks.enter("collective")
        time.advance(1)
        marks.add_blocked(time() - 1, marks.leave("collective"))
    marks.close(time())

    assert marks.phases == [("evaluation", 0, 23), ("collective", 23, 24)]
    assert len(marks.blocked) == 1
    assert marks.has_evaluation
    # The last one lies behind the last pass.
    assert (marks.evaluation_blocked_ns, marks.evaluation_waits) == (2, [])


def test_an_evaluation_keeps_the_passes_for_training_before_it():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("forward")
    time.advance(3)
    marks.leave("forward")
    marks.add_blocked(1, 2)
    marks.enter_evaluation(after_training=True)
    time.advance(5)
    marks.leave_evaluation()

    assert marks.phases == [("forward", 0, 3), ("evaluation", 3, 8)]
    assert marks.blocked == [(1, 2)]
    assert marks.evaluation_blocked_ns == 0


def test_an_evaluation_within_a_phase_of_the_script_of_that_name_or_another():
    for name in ("evaluation", "validate"):
        time = FakeTime(0)
        marks = marks_at(time)
        marks.enter(name)
        time.advance(2)
        marks.enter_evaluation(after_training=False)
        time.advance(5)
        marks.leave_evaluation()
        time.advance(1)
        marks.leave(name)

        assert sum(end - begin for _, begin, end in marks.phases) == 8
        assert marks.phases[0][0] == "evaluation"
        assert marks.has_evaluation


def test_an_evaluation_outside_a_step_or_in_an_overfull_one_marks_nothing():
    marks = StepMarks(HostClock(FakeTime()))
    marks.enter_evaluation(after_training=False)
    marks.leave_evaluation()
    marks.open(0)
    marks.phases = [("data", 0, 0)] * MAX_PIECES
    marks.enter_evaluation(after_training=False)
    marks.leave_evaluation()

    assert marks.is_overfull
    assert not marks.has_evaluation


def test_the_next_step_has_no_evaluation():
    marks = marks_at(FakeTime(0))
    marks.enter_evaluation(after_training=False)
    marks.leave_evaluation()
    marks.add_blocked(0, 1)
    marks.open(0)

    assert not marks.has_evaluation
    assert marks.evaluation_blocked_ns == 0


def test_marks_of_a_gpu_in_an_evaluation_are_read_later():
    marks = marks_at(FakeTime(0))
    marks.add_blocked("event 1", "event 2")
    marks.enter_evaluation(after_training=False)
    marks.leave_evaluation()

    assert marks.evaluation_waits == [("event 1", "event 2")]
    assert marks.evaluation_blocked_ns == 0


MS = 1_000_000


def passed(time: FakeTime, marks: StepMarks, *names: str) -> None:
    """Each phase takes 10 ms, and 3 ms follow it."""
    for name in names:
        marks.enter(name)
        time.advance(10 * MS)
        marks.leave(name)
        time.advance(3 * MS)


def before_update_ms(marks: StepMarks) -> list[tuple[float, float]]:
    return [(b / MS, e / MS) for name, b, e in marks.phases if name == "before_update"]


def test_time_between_backward_and_the_update_is_a_phase_of_its_own():
    time = FakeTime(0)
    marks = marks_at(time)
    passed(time, marks, "data", "forward", "backward", "optimizer")
    assert before_update_ms(marks) == [(36, 39)]
    assert [name for name, _, _ in marks.phases][-2:] == ["before_update", "optimizer"]


def test_each_part_between_backward_and_the_update_counts_once():
    time = FakeTime(0)
    marks = marks_at(time)
    # Two micro-batches, a collective of the script, and synchronize() apart from step().
    passed(time, marks, "backward", "forward", "backward", "collective", "optimizer", "optimizer")
    assert before_update_ms(marks) == [(36, 39), (49, 52), (62, 65)]
    # A further optimizer without a backward of its own.
    passed(time, marks, "optimizer")
    assert before_update_ms(marks)[3:] == [(75, 78)]


def test_without_backward_or_update_no_time_lies_before_an_update():
    time = FakeTime(0)
    marks = marks_at(time)
    passed(time, marks, "data", "forward", "optimizer", "backward", "data")
    assert before_update_ms(marks) == []
    marks.open(time())
    passed(time, marks, "forward", "optimizer")
    assert before_update_ms(marks) == []


def test_a_closure_within_the_update_has_no_time_before_it():
    time = FakeTime(0)
    marks = marks_at(time)
    marks.enter("optimizer")
    passed(time, marks, "forward", "backward", "optimizer")
    marks.leave("optimizer")
    assert before_update_ms(marks) == []
