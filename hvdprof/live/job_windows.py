"""The windows of all ranks brought together: each holds the same steps on every rank.

Windows of different ranks nest (``collect.steps.step_sums``). Those between two ends that all
ranks share are added up, and short ones further, to about ``LEAST_NS``: the test counts windows.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from hvdprof.live.rank_feed import RankWindow

LEAST_NS = 900_000_000


@dataclass(frozen=True, slots=True)
class JobWindow:
    """The same steps on every rank that takes part, by rank."""

    ranks: Mapping[int, RankWindow]

    @property
    def any_rank(self) -> RankWindow:
        """The window of the lowest rank: segment, steps and flags are those of all."""
        return self.ranks[min(self.ranks)]

    @property
    def is_counted(self) -> bool:
        """Whether its steps are neither warm-up nor hold an evaluation."""
        return not any(one.warmup or one.evaluates for one in self.ranks.values())

    @property
    def step_ns(self) -> float:
        """Mean length of a step over the ranks, ns."""
        lengths = [one.length_ns / one.num_steps for one in self.ranks.values()]
        return sum(lengths) / len(lengths)


class JobWindows:
    """Takes the windows of single ranks in any order."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[RankWindow]] = {}
        self._open: dict[int, RankWindow] | None = None
        self._segments: dict[str, int] = {}

    def add(self, rank: int, windows: list[RankWindow]) -> None:
        """Take further windows of a rank."""
        self._waiting.setdefault(rank, deque()).extend(windows)
        for window in windows:
            self._segments.setdefault(window.segment, len(self._segments))

    def leave_out(self, rank: int) -> None:
        """Wait no more for a rank, until it records again."""
        self._waiting.pop(rank, None)
        self._open = None

    @property
    def ranks(self) -> set[int]:
        """The ranks that take part."""
        return set(self._waiting)

    def finished(self, num_ranks: int) -> list[JobWindow]:
        """The windows that are complete; none before ``num_ranks`` ranks have recorded."""
        found: list[JobWindow] = []
        if len(self._waiting) < num_ranks or not self._waiting:
            return found
        while (shared := self._next()) is not None:
            self._join(shared, found)
        return found

    def _next(self) -> dict[int, RankWindow] | None:
        """The shortest windows of the same steps; None where a rank has not recorded its own."""
        while all(self._waiting.values()):
            heads = {rank: queue[0] for rank, queue in self._waiting.items()}
            if self._drop_other_begins(heads):
                continue
            end = max(window.last for window in heads.values())
            taken: dict[int, int] = {}
            for rank, queue in self._waiting.items():
                number = _reaching(queue, end)
                if number == 0:
                    return None
                taken[rank] = number
            ends = {self._waiting[rank][number - 1].last for rank, number in taken.items()}
            if ends == {end}:
                return {rank: _summed(self._waiting[rank], taken[rank]) for rank in taken}
            self._merge_heads(taken)
        return None

    def _drop_other_begins(self, heads: Mapping[int, RankWindow]) -> bool:
        """Drop the windows of ranks that are behind the begin that all can share."""
        newest = max((one.segment for one in heads.values()), key=self._segments.__getitem__)
        behind = [rank for rank, window in heads.items() if window.segment != newest]
        if not behind:
            first = max(window.first for window in heads.values())
            behind = [rank for rank, window in heads.items() if window.first < first]
        for rank in behind:
            self._waiting[rank].popleft()
        return bool(behind)

    def _merge_heads(self, taken: Mapping[int, int]) -> None:
        for rank, number in taken.items():
            queue = self._waiting[rank]
            queue.appendleft(_summed(queue, number))

    def _join(self, shared: dict[int, RankWindow], found: list[JobWindow]) -> None:
        is_apart = any(one.warmup or one.evaluates for one in shared.values())
        before, self._open = self._open, None
        if before is not None:
            one, other = next(iter(before.values())), next(iter(shared.values()))
            follows = one.segment == other.segment and one.last + 1 == other.first
            if is_apart or not follows or before.keys() != shared.keys():
                found.append(JobWindow(before))
            else:
                for rank, window in shared.items():
                    before[rank].add(window)
                shared = before
        if is_apart or max(one.length_ns for one in shared.values()) >= LEAST_NS:
            found.append(JobWindow(shared))
        else:
            self._open = shared


def _reaching(queue: "deque[RankWindow]", end: int) -> int:
    """How many windows reach a step; 0 where they do not."""
    for number, window in enumerate(queue, start=1):
        if window.last >= end:
            return number
    return 0


def _summed(queue: "deque[RankWindow]", number: int) -> RankWindow:
    first = queue.popleft()
    for _ in range(number - 1):
        first.add(queue.popleft())
    return first
