"""Where steps begin, as far as can be told while a file is still being read."""

import numpy as np

from hvdprof.ingest.timeline.meaning.reductions import Int64s, Reductions
from hvdprof.ingest.timeline.meaning.rounds import Rounds, SetFilter, first_start
from hvdprof.ingest.timeline.meaning.step_inference import counted, infer_steps, recurring


class PresumedSteps:
    """Presumes that a file goes on as it begins.

    When enough rounds are there, the recurring set and the first round are taken from them. What
    is presumed must be held against ``infer_steps`` of the whole file in the end.
    """

    def __init__(self) -> None:
        self._head: list[Reductions] = []
        self._rounds: Rounds | None = None
        self._of_set = SetFilter(np.empty(0, dtype=bool))
        self._is_given_up = False

    @property
    def is_decided(self) -> bool:
        """Whether it is presumed what the steps are, or that there are none."""
        return self._is_given_up or self._rounds is not None

    @property
    def starts_us(self) -> Int64s:
        """Where the steps so far begin; later ones only come behind these."""
        return np.empty(0, dtype=np.int64) if self._rounds is None else self._rounds.starts_us

    def add(self, part: Reductions) -> None:
        """Take the next part of the file."""
        if self._rounds is not None:
            self._rounds.add(self._of_set.rows(part))
        elif not self._is_given_up:
            self._head.append(part)
            self._try(is_all=False)

    def settle(self) -> None:
        """Decide by what there is, though more would be better: no steps where none show yet."""
        if not self.is_decided:
            self._try(is_all=True)
            self._is_given_up = self._rounds is None
            self._head.clear()

    def _try(self, *, is_all: bool) -> None:
        if infer_steps(lambda: self._head).refusal:
            return
        in_set = recurring(counted(self._head))
        aligned = first_start(
            map(SetFilter(in_set).rows, self._head), int(in_set.sum()), is_all=is_all
        )
        if aligned is None:
            return
        self._of_set, self._rounds = SetFilter(in_set), Rounds(aligned)
        for part in self._head:
            self._rounds.add(self._of_set.rows(part))
        self._head.clear()
