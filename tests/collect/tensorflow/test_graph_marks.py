import pytest

from hvdprof.collect.tensorflow.graph_marks import (
    DATA,
    LOSS,
    READY,
    REDUCED,
    GraphMarks,
    Moment,
    pieces,
)
from tests.builders.fake_tensorflow import FakeTensor, FakeTensorFlow, Timestamp
from tests.builders.fake_torch import FakeTime


def moments(*seen):
    return [Moment(kind, at_ns) for kind, at_ns in seen]


def test_a_call_is_taken_apart_by_its_moments():
    seen = moments((DATA, 12), (LOSS, 30), (READY, 50), (REDUCED, 80))

    assert pieces(seen, 10, 100) == [
        ("data", 10, 12),
        ("forward", 12, 30),
        ("backward", 30, 50),
        ("collective", 50, 80),
        ("optimizer", 80, 100),
    ]


def test_two_models_of_one_call_reduce_one_after_the_other():
    seen = moments((LOSS, 10), (LOSS, 20), (READY, 30), (READY, 35), (REDUCED, 50), (REDUCED, 70))

    found = pieces(seen, 0, 90)

    assert sum(stop - start for name, start, stop in found if name == "collective") == 70 - 35
    assert sum(stop - start for _, start, stop in found) == 90


def test_a_pass_whose_gradients_stay_local_ends_in_backward():
    assert pieces(moments((DATA, 1), (LOSS, 4)), 0, 9)[-1] == ("backward", 4, 9)


def test_a_moment_that_was_reported_late_came_before_what_it_must_precede():
    seen = moments((DATA, 10), (READY, 50), (LOSS, 55), (REDUCED, 80))

    assert pieces(seen, 0, 90) == [
        ("data", 0, 10),
        ("forward", 10, 50),
        ("collective", 50, 80),
        ("optimizer", 80, 90),
    ]


@pytest.mark.parametrize("seen", [[], moments((DATA, 0))])
def test_without_moments_nothing_is_made_up(seen):
    assert pieces(seen, 0, 9) == []


def test_moments_of_a_graph_come_with_every_call():
    tf, clock, passed = FakeTensorFlow(), FakeTime(100), []
    # The wall clock of a time that is taken just now.
    marks = GraphMarks(tf, passed.append, clock, lambda: 0)

    def train():
        marks.insert(READY, [None, FakeTensor(2)])
        marks.insert(DATA, [FakeTensor(2)], 7)

    function = tf.function(train)
    function()
    assert marks.take() == [Moment(READY, 100), Moment(DATA, 100, 7)]
    clock.advance(5)
    function()

    assert [moment.at_ns for moment in marks.take()] == [105, 105]
    assert marks.take() == []
    assert passed == [READY, DATA] * 2


def test_a_moment_counts_when_tensorflow_took_it_and_not_when_it_was_reported():
    tf, clock, calls = FakeTensorFlow(), FakeTime(1000), []
    tf.numpy_function = lambda call, inputs, _: calls.append(lambda: call(inputs[0], 5e-7))
    marks = GraphMarks(tf, lambda _: None, clock, lambda: 800)
    marks.insert(DATA, [FakeTensor(2)], 7)
    calls[0]()

    # 300 ns ago by the wall clock.
    assert marks.take() == [Moment(DATA, 700, 7)]


@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize("kind", ["StatefulPartitionedCall", "StatelessIf"])
def test_of_results_of_calls_an_element_is_awaited_since_calls_are_inlined(kind, length):
    tf = FakeTensorFlow()
    tensors = [FakeTensor(2), FakeTensor(length, kind)]
    taken = GraphMarks(tf, lambda _: None).insert(REDUCED, tensors)

    assert isinstance(taken, Timestamp)
    direct, element = taken.after
    assert direct is tensors[0]
    assert element.shape.num_elements() == min(length, 1)


def test_updates_between_the_batches_of_a_call_are_in_no_phase():
    seen = moments((DATA, 1), (REDUCED, 5), (DATA, 9), (REDUCED, 12))

    assert pieces(seen, 0, 20) == [
        ("data", 0, 1),
        ("collective", 1, 5),
        ("collective", 9, 12),
        ("optimizer", 12, 20),
    ]


def test_of_nothing_no_arrival_is_reported():
    tf = FakeTensorFlow()
    marks = GraphMarks(tf, lambda _: None)
    marks.insert(READY, [None, None])

    assert not marks.reports
    assert marks.take() == []
