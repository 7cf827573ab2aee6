import sys
import threading
from typing import Any

import pytest

from hvdprof.collect.auto.training_loop import (
    Fetches,
    LoopProgress,
    fetches_of,
    loop_place,
    places_of,
)
from hvdprof.collect.standing import IN_LOOP, LEFT_LOOP


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


class Iterator:
    """Stands for the iterator of a data loader."""


def test_an_epoch_is_an_iterator_of_the_training_that_is_exhausted() -> None:
    progress = LoopProgress()
    for _ in range(2):
        training, validation = Iterator(), Iterator()
        for _ in range(3):
            progress.fetched(training)
            progress.updates()
        progress.exhausted(training)
        progress.fetched(validation)
        progress.exhausted(validation)
    assert progress.num_epochs == 2


def test_a_loop_that_is_left_early_is_no_epoch() -> None:
    progress = LoopProgress()
    training, validation = Iterator(), Iterator()
    progress.fetched(training)
    progress.updates()
    progress.fetched(validation)
    progress.exhausted(validation)
    assert progress.num_epochs == 0


class Script:
    """A script whose loop is learned in its first step, as ``LoopInput`` does."""

    def __init__(self, *, raises: bool = False) -> None:
        self.raises = raises
        self.loop: Fetches | None = None
        self.inside: list[str] = []
        self.behind = ""

    def place(self, error: BaseException | None = None) -> str:
        return loop_place(self.loop, threading.get_ident(), error)

    def train(self) -> None:
        for number in range(3):
            backward = places_of(sys._getframe())
            update = places_of(sys._getframe())
            self.loop = self.loop or fetches_of(backward, update)
            self.inside.append(self.place())
            if self.raises and number == 2:
                raise ValueError("peer lost")
        self.behind = self.place()


def test_a_rank_is_inside_its_loop_and_then_behind_it() -> None:
    script = Script()
    assert script.place() == ""
    script.train()
    assert script.inside == [IN_LOOP] * 3
    assert script.behind == LEFT_LOOP
    # Also where the function has returned.
    assert script.place() == LEFT_LOOP


@pytest.mark.parametrize("raises", [True, False])
def test_an_exception_was_raised_inside_the_loop_or_behind_it(raises: bool) -> None:
    script = Script(raises=raises)

    def run() -> Any:
        script.train()
        raise ValueError("behind")

    with pytest.raises(ValueError, match=r"peer lost|behind") as error:
        run()
    assert script.place(error.value) == (IN_LOOP if raises else LEFT_LOOP)
