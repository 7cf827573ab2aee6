import sys

import pytest

from hvdprof.collect.auto.training_loop import fetches_of, places_of


class Trained:
    """Takes the places of the backward passes and the update of a loop."""

    def __init__(self):
        self.backward = self.update = None
        self.zero = 0

    def computes(self):
        self.backward = places_of(sys._getframe(1))

    def updates(self):
        self.update = places_of(sys._getframe(1))

    def found(self, train, *arguments):
        train(self, *arguments)
        return fetches_of(self.backward, self.update)


def over_generator(trained, batches):
    for _epoch in range(2):
        for _ in batches:
            trained.computes()
            trained.updates()


def in_a_function(trained, batches):
    for batch in enumerate(batches):
        one_step(trained, batch)


def one_step(trained, _batch):
    trained.computes()
    trained.updates()


def by_next(trained, batches):
    iterator = iter(batches)
    for _ in range(3):
        next(iterator)
        trained.computes()
        trained.updates()


def by_condition(trained, batches):
    iterator, left = iter(batches), 3
    while left:
        left -= 1
        if next(iterator) is None:
            continue
        trained.computes()
        trained.updates()


def with_micro_batches(trained, batches):
    for batch in batches:
        for _ in (batch, batch):
            trained.computes()
        for _ in (batch, batch):
            pass
        trained.updates()


def without_a_loop(trained, _batches):
    trained.computes()
    trained.updates()


def in_two_loops(trained, batches):
    for _ in batches:
        trained.computes()
    for _ in batches:
        trained.updates()


BATCHES = [1, 2, 3]


def line_of(code, offset):
    """The line of an instruction, counted from that of the function."""
    found = [line for begin, end, line in code.co_lines() if begin <= offset < end]
    return found[0] - code.co_firstlineno


@pytest.mark.parametrize(
    ("train", "lines"),
    [
        (over_generator, {2}),
        (in_a_function, {1}),
        (by_next, set()),
        (by_condition, set()),
        (with_micro_batches, {1, 2}),
    ],
)
def test_the_innermost_loop_around_backward_and_update_fetches(train, lines):
    found = Trained().found(train, BATCHES)
    assert found.code is train.__code__
    assert {line_of(found.code, offset) for offset in found.iterations} == lines


@pytest.mark.parametrize(("train", "first", "last"), [(by_next, 2, 5), (by_condition, 3, 7)])
def test_calls_of_next_count_within_the_loop_alone(train, first, last):
    found = Trained().found(train, BATCHES)
    assert line_of(found.code, found.first) == first
    # A loop by a condition ends with its test or with its last line.
    assert line_of(found.code, found.last) in (2, first, last)


@pytest.mark.parametrize("train", [without_a_loop, in_two_loops])
def test_without_a_common_loop_nothing_fetches(train):
    # Not even where the test itself is called from a loop.
    trained = Trained()
    train(trained, BATCHES)
    own = [place for place in trained.update if place[1] is train.__code__]
    assert fetches_of(trained.backward, own) is None


def test_a_long_loop_is_found_by_its_extended_jumps():
    body = "".join(f"        value{number} = {number} + trained.zero\n" for number in range(400))
    text = (
        "def train(trained, batches):\n    for _ in batches:\n"
        f"        trained.computes()\n{body}        trained.updates()\n"
    )
    scope = {}
    exec(compile(text, "long.py", "exec"), scope)
    trained = Trained()
    found = trained.found(scope["train"], BATCHES)
    assert {line_of(found.code, offset) for offset in found.iterations} == {1}
    assert len(found.iterations) == 1
