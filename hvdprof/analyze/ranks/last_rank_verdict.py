"""The verdict on the last rank, in the same words for all recordings of calls.

A rank is named if the others wait for it ``SMALLEST_SHARE`` of the recorded time or more, it is
last in ``LEAST_ROUNDS`` rounds, and equal ranks give any of them as much with a chance of at most
``LARGEST_CHANCE``; of ``FALSE_ALARMS``, where others cause a fifth of the waits or more.
"""

from dataclasses import dataclass
from functools import cached_property

from hvdprof import units
from hvdprof.analyze.ranks.last_ranks import (
    LARGEST_CHANCE,
    LEAST_EXPLAINED,
    LEAST_ROUNDS,
    LastRank,
    LastRanks,
)
from hvdprof.analyze.ranks.named_cause import FALSE_ALARMS, SMALLEST_SHARE
from hvdprof.model.arrays import Int64s
from hvdprof.model.file_page import FileVerdict, Gravity

_MOST_NAMED = 3
_FAR_MORE = 1.2


@dataclass(frozen=True, slots=True)
class Words:
    """What a recording calls its rounds.

    ``does`` is what the last rank does: "submits" or "arrives". ``rounds`` are they with their
    number, ``per`` is one of them, and ``where`` stands behind them.
    """

    does: str
    rounds: str
    per: str
    where: str = ""


@dataclass(frozen=True)
class Judged:
    """The rounds of a recording, and what is judged of them.

    Attributes:
        waits: The waits for the last rank.
        rounds: The rounds that count, ascending; None where those with a wait alone are known.
        num_rounds: Their number.
        num_ranks: Ranks among which one is last.
        span_ns: The recorded time.
        num_tests: Process groups of which this one is chosen.
    """

    waits: LastRanks
    rounds: Int64s | None
    num_rounds: int
    num_ranks: int
    span_ns: int
    num_tests: int = 1

    @cached_property
    def found(self) -> tuple[LastRank, ...]:
        """The ranks that rounds wait for, the longest wait first."""
        return self.waits.of_rounds(self.rounds)

    @cached_property
    def named(self) -> tuple[LastRank, ...]:
        """Those that the rule names."""
        return tuple(
            one
            for one in self.found
            if self.is_long(one.total_ns)
            and one.num_rounds >= LEAST_ROUNDS
            and self.chances.get(one.rank, 1.0) <= _largest_chance(one)
        )

    @cached_property
    def chances(self) -> dict[int, float]:
        """By rank the chance that equal ranks give any of them as much, in any of the groups."""
        least_ns = SMALLEST_SHARE * self.span_ns
        found = self.waits.chances(self.num_ranks, self.rounds, least_ns)
        return {rank: min(1.0, chance * self.num_tests) for rank, chance in found.items()}

    def is_long(self, wait_ns: float) -> bool:
        """Whether a wait is a share of the recorded time that counts."""
        return wait_ns >= SMALLEST_SHARE * self.span_ns


def _largest_chance(one: LastRank) -> float:
    return LARGEST_CHANCE if one.share >= LEAST_EXPLAINED else FALSE_ALARMS


def last_rank_verdict(judged: Judged, words: Words) -> FileVerdict:
    """The ranks that the others wait for, or why none is named; empty without any wait.

    Args:
        judged: The rounds.
        words: What they are called.
    """
    found, named = judged.found, judged.named
    if not found:
        return FileVerdict("")
    total_ns = sum(one.total_ns for one in found)
    clause = _clause(found[0], total_ns, judged, words)
    if judged.num_rounds < LEAST_ROUNDS:
        return FileVerdict(f"Too few {words.per}s to name a straggler: {clause}.")
    if named:
        first, *others = (_clause(one, 0, judged, words) for one in named[:_MOST_NAMED])
        text = f"{first[0].upper()}{first[1:]}{_stretch(named[0], judged.num_rounds, words)}."
        chance = units.percent(max(judged.chances[one.rank] for one in named), 2)
        return FileVerdict(
            " ".join([text, *(f"Also {other}." for other in others)]),
            f"By chance, equal ranks cause as much in at most {chance} of jobs.",
            Gravity.WARNING,
        )
    if not judged.is_long(total_ns):
        return FileVerdict(f"No straggler: {clause}.")
    change = None
    if judged.rounds is not None:
        change = judged.waits.change(judged.num_ranks, judged.rounds)
    if change is not None:
        return FileVerdict(
            f"The straggler changes: rank {change.rank_before} {words.does} last before "
            f"{words.per} {units.count(change.first_round_after)}, rank {change.rank_after} from "
            f"there on; the others wait {_wait(total_ns, judged, words)}.",
            gravity=Gravity.WARNING,
        )
    return FileVerdict(f"No persistent straggler: {clause}.{_why(found[0], judged)}")


def last_rank_clause(rank: int, number: int, words: Words, wait: str) -> str:
    """How often a rank is last, and ``wait``: ``rank 3 submits last in 41 of 50 calls; ...``."""
    where = f"{number} of {words.rounds}{words.where}"
    return f"rank {rank} {words.does} last in {where}; the others wait {wait}"


def wait_text(per_round_ns: float, share: float, words: Words, more: str = "") -> str:
    """``12.0 ms per call (9.0 % of the recorded time)``."""
    part = f"{units.percent(share)} of the recorded time{more}"
    return f"{units.milliseconds(per_round_ns)} per {words.per} ({part})"


def _clause(one: LastRank, all_ns: int, judged: Judged, words: Words) -> str:
    """``all_ns`` are the waits for any rank, which are stated where they are far more."""
    more = ""
    if judged.is_long(all_ns) and all_ns > _FAR_MORE * one.total_ns:
        more = f"; for all ranks {units.percent(all_ns / judged.span_ns)}"
    wait = _wait(one.total_ns, judged, words, more)
    return last_rank_clause(one.rank, one.num_rounds, words, wait)


def _wait(wait_ns: float, judged: Judged, words: Words, more: str = "") -> str:
    return wait_text(wait_ns / judged.num_rounds, wait_ns / judged.span_ns, words, more)


def _why(top: LastRank, judged: Judged) -> str:
    chance = judged.chances.get(top.rank, 1.0)
    if not judged.is_long(top.total_ns) or chance <= _largest_chance(top):
        return ""
    often = "most" if chance > 0.5 else f"{units.percent(chance, 0)} of"
    return f" By chance, equal ranks cause as much in {often} jobs."


def _stretch(last: LastRank, num_rounds: int, words: Words) -> str:
    """The part of the rounds in which a rank is last, where that is half of them or less."""
    if words.per != "step" or last.last_round - last.first_round >= num_rounds / 2:
        return ""
    first, end = units.count(last.first_round), units.count(last.last_round)
    return f", all between {words.per}s {first} and {end}"
