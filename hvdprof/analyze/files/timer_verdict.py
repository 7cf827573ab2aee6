"""Which ranks take longer in Megatron's timers, if the log shows it; DeepSpeed's of a rank."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hvdprof import units
from hvdprof.analyze.findings.finding import SMALLEST_COST
from hvdprof.analyze.ranks.last_ranks import LEAST_EXPLAINED, LEAST_ROUNDS, is_beyond_chance
from hvdprof.model.file_page import FileVerdict, Gravity
from hvdprof.model.tables.printed_tables import DEEPSPEED_TIMERS

_ONCE = re.compile(r"checkpoint|setup|iterators|eval|model and optimizer|interval-time")
"""Timers of what is done once or rarely, which is no part of an iteration."""
_COLLECTIVE = re.compile(r"all-?reduce|all-gather|reduce-scatter|grads-sync|reduce-model-grads|"
                         r"gather-model-params")  # fmt: skip
_POINT_TO_POINT = re.compile(r"(?:^|-)(?:send|recv)(?:-|$)")
"""Pipeline stages wait there for each other by design."""
_WITHIN = {
    "batch-generator": "forward-compute",
    "batch generator": "forward",
    "forward-compute": "forward-backward",
    "backward-compute": "forward-backward",
    "backward-backward": "backward",
}
"""The timer during which another one runs; ``optimizer-*`` run within ``optimizer``."""
_MOST_PARTS = 2
_FEW = 3
_OF_STEP = ("fwd", "bwd", "step")
_ALL_RANKS = "--timing-log-level 2 --timing-log-option all"


@dataclass(frozen=True, slots=True)
class _Timer:
    """Medians of one timer over its reports, and the median iteration."""

    name: str
    rows: pd.DataFrame
    low_ns: float
    high_ns: float
    step_ns: float

    @property
    def share(self) -> float:
        """The difference between ranks as a share of the iteration."""
        return (self.high_ns - self.low_ns) / self.step_ns

    @property
    def num_reports(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The rank that is extreme most often, medians of its reports, and whether that is no chance.

    ``next_ns`` is the time of the next rank, ``apart_ns`` the difference to it.
    """

    rank: int
    number: int
    next_ns: float
    apart_ns: float
    is_often: bool

    def stands_out(self, timer: _Timer) -> bool:
        """Whether the rank alone is to be named."""
        return self.is_often and self.apart_ns >= SMALLEST_COST * timer.step_ns


def timer_verdict(timers: pd.DataFrame, iterations: pd.DataFrame) -> FileVerdict:
    """The timer in which ranks differ most, with the rank where the log shows one.

    A rank is named that is the slowest of all ranks more often than by chance (at a level of 2 %),
    in at least 4 reports, by 5 % of the iteration or more before the next rank. In collectives it
    is the fastest one: the others wait there for it. Reports of the first line on iterations are
    warm-up. Empty without timers of later iterations.

    Args:
        timers: Rows of RANK_TIMERS of one file.
        iterations: Rows of TRAINING_ITERATIONS of the same file.
    """
    if (own := deepspeed_step(timers)) is not None:
        return _of_deepspeed(own, timers[timers["timer"].isin(DEEPSPEED_TIMERS).to_numpy()])
    if len(iterations) < 2:
        return FileVerdict("")
    step_ns = float(iterations["step_ns"].iloc[1:].median())
    steady = timers[(timers["iteration"] > int(iterations["iteration"].iloc[0])).fillna(False)]
    steady = steady.dropna(subset=["min_ns"])
    steady = steady[[not _ONCE.search(str(name)) for name in steady["timer"]]]
    if steady.empty:
        return FileVerdict("")
    if (steady["num_ranks"] == 1).fillna(False).all():
        return _of_one_rank(_timers(steady, step_ns))
    known = [timer for timer in _timers(steady, step_ns) if not _POINT_TO_POINT.search(timer.name)]
    work = [timer for timer in known if not _COLLECTIVE.search(timer.name)]
    waits = [timer for timer in known if _COLLECTIVE.search(timer.name)]
    if not work and not waits:
        return FileVerdict("")
    widest = _narrowed(work) if work else None
    longest_wait = max(waits, key=lambda timer: timer.share, default=None)
    if longest_wait and (widest is None or widest.share < SMALLEST_COST <= longest_wait.share):
        return _of_waits(longest_wait)
    return FileVerdict("") if widest is None else _of_work(widest)


def deepspeed_step(timers: pd.DataFrame) -> dict[str, float] | None:
    """Medians of DeepSpeed's timers over steps without the first, ns; None where it printed none.

    ``total`` is forward, backward and optimizer; what is between them is not timed.

    Args:
        timers: Rows of RANK_TIMERS of one file.
    """
    own = timers[timers["timer"].isin(DEEPSPEED_TIMERS).to_numpy()]
    medians = steady_timers(own).groupby("timer", observed=True)["max_ns"].median()
    found = {str(name): float(length) for name, length in medians.items()}
    total = sum(found.get(name, 0.0) for name in _OF_STEP)
    return found | {"total": total} if total else None


def steady_timers(timers: pd.DataFrame) -> pd.DataFrame:
    """Rows of RANK_TIMERS without the first step of DeepSpeed's, which holds start-up."""
    own = timers["timer"].isin(DEEPSPEED_TIMERS)
    lines = timers.loc[own.to_numpy(), "line"]
    if lines.nunique() < 2:
        return timers
    return timers[~(own & timers["line"].eq(lines.min())).to_numpy()]


def _of_deepspeed(step: Mapping[str, float], timers: pd.DataFrame) -> FileVerdict:
    ranks, number = timers["slowest_rank"].dropna().unique(), timers["line"].nunique()
    who = f"rank {ranks[0]}" if len(ranks) == 1 else "the rank that prints"
    parts = ", ".join(f"{name} {units.milliseconds(step[name])}" for name in _OF_STEP)
    basis = f"median of {units.counted(number - 1, 'step')} after the first"
    if number < _FEW:
        basis = "the one step after the first" if number > 1 else "one step"
    return FileVerdict(
        f"On {who}, bwd_allreduce takes {units.percent(step['bwd_allreduce'] / step['total'])} of "
        f"a step of {units.milliseconds(step['total'])} (DeepSpeed: {parts}; {basis}).",
        "bwd_allreduce is what reducing gradients adds behind the backward pass, waits for slower "
        "ranks included. Reductions within bwd_inner are not in it, and the timers synchronise.",
    )


def _timers(rows: pd.DataFrame, step_ns: float) -> list[_Timer]:
    found = []
    for name, members in rows.groupby("timer", observed=True):
        low, high = (float(members[key].astype("int64").median()) for key in ("min_ns", "max_ns"))
        found.append(_Timer(str(name), members, low, high, step_ns))
    return found


def _narrowed(timers: list[_Timer]) -> _Timer:
    """The timer with the largest difference, or the one within it that explains most of that."""
    chosen = max(timers, key=lambda timer: timer.share)
    while True:
        inner = [timer for timer in timers if _outer(timer.name) == chosen.name]
        best = max(inner, key=lambda timer: timer.share, default=None)
        if best is None or best.share < LEAST_EXPLAINED * chosen.share:
            return chosen
        chosen = best


def _outer(name: str) -> str:
    return "optimizer" if name.startswith("optimizer-") else _WITHIN.get(name, "")


def _of_work(timer: _Timer) -> FileVerdict:
    share = units.percent(timer.share)
    if timer.share < SMALLEST_COST:
        return FileVerdict(
            f"No slow rank: ranks differ most in {timer.name}, by {share} of the iteration."
        )
    found = _candidate(timer, "slowest_rank", "max_ns", "second_max_ns")
    if found is not None and found.stands_out(timer):
        own, other = (
            units.milliseconds(value) for value in (found.next_ns + found.apart_ns, found.next_ns)
        )
        lost = units.percent(found.apart_ns / timer.step_ns)
        return FileVerdict(
            f"Rank {found.rank} is slow in {timer.name}: {own}, the next rank {other} (difference "
            f"{lost} of the iteration; slowest in {found.number} of "
            f"{units.counted(timer.num_reports, 'report')}).",
            _by_design(timer),
            Gravity.WARNING,
        )
    return FileVerdict(
        f"Ranks differ in {timer.name}: {_from_to(timer)} ({share} of the iteration, median of "
        f"{units.counted(timer.num_reports, 'report')}).",
        " ".join(filter(None, (_why_unnamed(timer, found, "slowest"), _by_design(timer)))),
        Gravity.WARNING,
    )


def _of_waits(timer: _Timer) -> FileVerdict:
    share = units.percent(timer.share)
    found = _candidate(timer, "fastest_rank", "min_ns", "second_min_ns")
    where = f"in {timer.name}: {_from_to(timer)}"
    if found is not None and found.stands_out(timer):
        return FileVerdict(
            f"Ranks wait for rank {found.rank} {where} ({share} of the iteration); its time there "
            f"is the shortest in {found.number} of {units.counted(timer.num_reports, 'report')}.",
            gravity=Gravity.WARNING,
        )
    return FileVerdict(
        f"Ranks wait for a late one {where} ({share} of the iteration, median of "
        f"{units.counted(timer.num_reports, 'report')}).",
        _why_unnamed(timer, found, "fastest"),
        Gravity.WARNING,
    )


def _from_to(timer: _Timer) -> str:
    low, high = (units.milliseconds(time) for time in (timer.low_ns, timer.high_ns))
    return f"{low} on the fastest rank, {high} on the slowest"


def _candidate(timer: _Timer, key: str, own: str, others: str) -> _Candidate | None:
    """The rank that is extreme most often; None where the log does not print ranks.

    Args:
        timer: The timer.
        key: Column with the extreme rank.
        own: Column with its time.
        others: Column with the time of the next rank.
    """
    named = timer.rows.dropna(subset=[key])
    if named.empty:
        return None
    rank = int(named[key].mode().iloc[0])
    mine = named[(named[key] == rank).to_numpy()]
    size = int(named["num_ranks"].max())
    return _Candidate(
        rank,
        len(mine),
        next_ns=float(mine[others].astype("int64").median()),
        apart_ns=float((mine[own].astype("int64") - mine[others].astype("int64")).abs().median()),
        is_often=is_beyond_chance(len(mine), timer.num_reports, size),
    )


def _why_unnamed(timer: _Timer, found: _Candidate | None, what: str) -> str:
    if found is None:
        return (
            "The log does not say which rank, nor whether it is always the same one: log all with "
            f"`{_ALL_RANKS}`."
        )
    often = f"{found.number} of {units.counted(timer.num_reports, 'report')}"
    if found.is_often:
        near = units.milliseconds(found.apart_ns)
        return f"Rank {found.rank} is the {what} in {often}, but the next rank is only {near} away."
    few = "too few to judge" if timer.num_reports < LEAST_ROUNDS else "not beyond chance"
    return f"No rank stands out: rank {found.rank} is the {what} in {often}, {few}."


def _by_design(timer: _Timer) -> str:
    stages = timer.rows["pipeline_stages"].dropna()
    if stages.empty or int(stages.iloc[-1]) < 2:
        return ""
    return (
        f"The {int(stages.iloc[-1])} pipeline stages hold different layers, so that their ranks "
        "may differ by design."
    )


def _of_one_rank(timers: list[_Timer]) -> FileVerdict:
    """Where the one rank that prints spends the iteration, and what its collectives take."""
    whole = [
        timer for timer in timers if not _outer(timer.name) and not _COLLECTIVE.search(timer.name)
    ]
    whole.sort(key=lambda timer: -timer.high_ns)
    waits = sorted(
        (timer for timer in timers if _COLLECTIVE.search(timer.name)),
        key=lambda timer: -timer.high_ns,
    )
    shown = [timer for timer in (*whole[:_MOST_PARTS], *waits[:1]) if timer.high_ns]
    if not shown:
        return FileVerdict("")
    parts = ", ".join(f"{timer.name} {units.milliseconds(timer.high_ns)}" for timer in shown)
    return FileVerdict(
        f"On the rank that prints: {parts}.",
        f"The timers are of one rank. Those of all ranks: `{_ALL_RANKS}`.",
    )
