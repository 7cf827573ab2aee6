"""Which rank is late, how often, in which phase, and whether that is more than chance.

All ranks are released from a step's collectives together. What a rank needs from there to its next
arrival is measured by its own clock alone, so no alignment of clocks is in it, and a slow backward
pass shows although the waiting of the others makes the wall times of all ranks equal.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.special
from numpy.typing import NDArray

from hvdprof.analyze.causes.replay import with_ranks_on_time
from hvdprof.analyze.stats.significance import above_zero
from hvdprof.analyze.stats.uncertainty import CONFIDENCE, NAN, mean_of
from hvdprof.analyze.steps.step_work import StepWork, Times, medians_of_others
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.waiting_tables import LATENESS, STRAGGLERS

SMALLEST_SHARE = 0.05
"""A rank is late in a step, and a rank's cost counts, from this share of the step time on."""

MOST_STEPS_SHARE = 2 / 3
"""Late in as many steps or more is called persistent."""

LEAST_EXPLAINED = 0.8
"""A phase is named where it explains as much of the lateness."""

FALSE_ALARMS = 0.003
"""Accepted probability, for each of three tests, that a launch without a late rank names one."""

PAUSE = "pause"
UNATTRIBUTED = "unattributed"

LEAST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Windows:
    """From release to arrival [steps, ranks], ns, and the phases it consists of."""

    length: Times
    phases: Mapping[str, Times]


def windows(work: StepWork) -> Windows:
    """The steps whose step before is known too; ``phases`` sum to ``length``."""
    rows = np.flatnonzero(work.follows)
    update = work.after[rows - 1]
    length = update + work.before[rows]
    phases = {name: work.parts[name][rows] for name in ("data", "forward", "backward")}
    phases["optimizer"] = update
    phases[PAUSE] = length - sum(phases.values())
    return Windows(length, phases)


def lateness(times: Times) -> Times:
    """Each rank's time less the median of the other ranks' in the same step, [steps, ranks]."""
    return times - medians_of_others(times) if times.shape[1] > 1 else np.zeros_like(times)


def lateness_table(works: Mapping[LaunchKey, StepWork]) -> pd.DataFrame:
    """LATENESS of the launches of two or more recorded ranks.

    Args:
        works: The steady steps of each launch.
    """
    frames = []
    for key, work in works.items():
        if len(work.ranks) < 2 or not work.follows.any():
            continue
        late = lateness(windows(work).length)
        steps = work.steps[work.follows]
        frames.append(
            pd.DataFrame(
                {
                    "pass_id": key[0],
                    "segment": key[1],
                    "step": np.repeat(steps, len(work.ranks)),
                    "rank": np.tile(work.ranks, len(steps)),
                    "lateness_ns": late.ravel(),
                }
            )
        )
    return LATENESS.frame(pd.concat(frames)) if frames else LATENESS.empty()


def stragglers(work: StepWork, costs: Times, key: LaunchKey) -> pd.DataFrame:
    """STRAGGLERS of one launch of two or more ranks.

    A rank is named (persistent or transient) in two cases; both tests share their level among the
    ranks (Bonferroni).

    1.  What it costs is at least 5 % of the step, and it is in front of all others by more than
        chance: in its mean lead ``max(0, own - longest of the others)`` (one-sided tests that
        allow for correlated steps, ``beyond_chance``), or in how often it has a lead of 5 % of the
        step or more (binomial test, steps in a row count once). Rare long stalls pass the second
        alone.
    2.  It is late in most steps, by 5 % of the step in the mean, and late at all beyond chance (the
        same tests). That is also a rank that is late together with others, such as all ranks of a
        slow host: without it alone nothing would be saved.

    Where no rank is named but waiting for whoever is last costs as much, and no rank has 80 % of
    it, ranks are late by turns: rotating.

    Args:
        work: The steps of the launch.
        costs: [ranks] What each rank's lateness costs a step in the replay, ns.
        key: The launch.
    """
    found = windows(work)
    num_steps, num_ranks = found.length.shape
    if num_ranks < 2 or num_steps < LEAST_STEPS:
        return STRAGGLERS.empty()
    step_ns = float(work.step_times.mean())
    late = lateness(found.length)
    smallest_ns = SMALLEST_SHARE * step_ns
    is_late = late >= smallest_ns
    lead = _lead(found.length)
    alone = (_stands_out(lead) | _leads_often(lead >= smallest_ns)) & (costs >= smallest_ns)
    often = is_late.mean(axis=0) >= MOST_STEPS_SHARE
    steadily = often & (late.mean(axis=0) >= smallest_ns) & _above_chance(late)
    named = (alone & is_late.any(axis=0)) | steadily
    rotating = not named.any() and _by_turns(lead, smallest_ns)
    late_in = {name: lateness(times) for name, times in found.phases.items()} if named.any() else {}
    rows: list[dict[str, Any]] = []
    for place in range(num_ranks):
        mean = mean_of(late[:, place])
        interval = mean.interval()
        pattern = "rotating" if rotating else "none"
        phase, phase_share = "", NAN
        if named[place]:
            pattern = "persistent" if often[place] else "transient"
            # Steps chosen for being late are chosen for their noise too; all steps are not.
            every = often[place] or interval.low > 0
            chosen = is_late[:, place] | every
            phase, phase_share = _phase(
                float(late[chosen, place].mean()),
                {name: float(times[chosen, place].mean()) for name, times in late_in.items()},
            )
        last = float((found.length.argmax(axis=1) == place).mean())
        low, high = wilson(last, num_steps)
        when_late = late[is_late[:, place], place]
        rows.append(
            {
                "pass_id": key[0],
                "segment": key[1],
                "rank": int(work.ranks[place]),
                "pattern": pattern,
                "phase": phase,
                "phase_share": phase_share,
                "share_last": last,
                "share_last_low": low,
                "share_last_high": high,
                "share_late": float(is_late[:, place].mean()),
                "longest_run": longest_run(is_late[:, place]),
                "lateness_ns": mean.value,
                "lateness_low_ns": interval.low,
                "lateness_high_ns": interval.high,
                "lateness_when_late_ns": float(when_late.mean()) if len(when_late) else NAN,
                "cost_ns": float(costs[place]),
                "cost_share": float(costs[place]) / step_ns,
                "cost_together_ns": NAN,
                "cost_together_share": NAN,
            }
        )
    _add_costs_together(rows, work, step_ns)
    return STRAGGLERS.frame(rows)


def _add_costs_together(rows: list[dict[str, Any]], work: StepWork, step_ns: float) -> None:
    """What ranks cost that are late alike: without one alone the others would be waited for."""
    alike: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        if row["phase"]:
            alike.setdefault((row["pattern"], row["phase"]), []).append(place)
    for places in alike.values():
        saved = work.step_times.mean() - with_ranks_on_time(work, places).mean()
        cost = max(float(saved), 0.0)
        for place in places:
            rows[place] |= {"cost_together_ns": cost, "cost_together_share": cost / step_ns}


def wilson(share: float, num: int) -> tuple[float, float]:
    """The 95 % interval of a share of ``num`` independent steps (Wilson, JASA 22, 1927)."""
    z = float(scipy.special.ndtri((1 + CONFIDENCE) / 2))
    middle = (share + z**2 / (2 * num)) / (1 + z**2 / num)
    reach = z / (1 + z**2 / num) * math.sqrt(share * (1 - share) / num + z**2 / (4 * num**2))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def longest_run(flags: NDArray[np.bool_]) -> int:
    """The most true values in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _lead(times: Times) -> Times:
    """How much longer than all others the longest rank of each step took, 0 for the others."""
    place = times.argmax(axis=1)
    rows = np.arange(len(times))
    second = np.partition(times, -2, axis=1)[:, -2]
    lead = np.zeros_like(times)
    lead[rows, place] = times[rows, place] - second
    return lead


def _stands_out(lead: Times) -> NDArray[np.bool_]:
    """[ranks] Whose lead is larger than the median rank's by more than chance."""
    num_ranks = lead.shape[1]
    in_order = np.argsort(lead.mean(axis=0), kind="stable")
    excess = np.empty_like(lead)
    for place in range(num_ranks):
        others = in_order[in_order != place]
        excess[:, place] = lead[:, place] - lead[:, others[(num_ranks - 1) // 2]]
    return _above_chance(excess)


def _above_chance(times: Times) -> NDArray[np.bool_]:
    """[ranks] Whose mean is above 0 by more than chance."""
    level = FALSE_ALARMS / times.shape[1]
    return np.array([above_zero(of_rank, level) for of_rank in times.T], dtype=bool)


def _leads_often(leads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[ranks] Who leads more often than one of N equal ranks would (binomial test)."""
    num_ranks = leads.shape[1]
    begins = leads & ~np.concatenate([np.zeros((1, num_ranks), dtype=bool), leads[:-1]])
    counts = begins.sum(axis=0)
    num = int(counts.sum())
    # Chance of as many or more: the binomial distribution's upper tail.
    tail = scipy.special.bdtrc(counts - 1.0, num, 1 / num_ranks) if num else np.ones(num_ranks)
    return np.asarray((counts > 0) & (tail <= FALSE_ALARMS / num_ranks))


def _by_turns(lead: Times, smallest_ns: float) -> bool:
    by_rank = lead.mean(axis=0)
    whole = float(by_rank.sum())
    return whole >= smallest_ns and float(by_rank.max()) < LEAST_EXPLAINED * whole


def _phase(whole: float, in_phases: Mapping[str, float]) -> tuple[str, float]:
    """The phase that explains a lateness, and the share of it that the largest one explains."""
    name = max(in_phases, key=lambda one: in_phases[one])
    share = in_phases[name] / whole
    return (name if share >= LEAST_EXPLAINED else UNATTRIBUTED), share
