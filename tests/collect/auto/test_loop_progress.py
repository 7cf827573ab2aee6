import sys
import threading
from typing import Any

import pytest

from hvdprof.collect.auto.loop_progress import LoopProgress, loop_place
from hvdprof.collect.auto.training_loop import Fetches, fetches_of, places_of
from hvdprof.collect.standing import IN_LOOP, LEFT_LOOP


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
