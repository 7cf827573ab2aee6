"""Stragglers: how late, how often, in which phase, and whether that is significant.

All ranks are released from a step's collectives together. The time of a rank from there to its next
arrival is measured on its own clock alone, without clock error, and a slow backward pass is visible
although waiting makes the wall times of all ranks equal.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.stats.distributions import binomial_tail, normal_quantile
from hvdprof.analyze.stats.significance import above_zero
from hvdprof.analyze.stats.uncertainty import CONFIDENCE, NAN, mean_of
from hvdprof.analyze.steps.replay import with_ranks_on_time
from hvdprof.analyze.steps.step_work import StepWork, Times, medians_of_others
from hvdprof.model.launch_key import LaunchKey
from hvdprof.model.tables.waiting_tables import LATENESS, STRAGGLERS

SMALLEST_SHARE = 0.05
"""Smallest share of the step time for a late step, and for the cost of a straggler."""

MOST_STEPS_SHARE = 2 / 3
"""Share of late steps from which a straggler is persistent."""

LEAST_EXPLAINED = 0.8
"""Share of the lateness from which a phase is named."""

FALSE_ALARMS = 0.003
"""Accepted probability, for each of three tests, of a false alarm in a clean launch."""

PAUSE = "pause"
UNATTRIBUTED = "unattributed"

LEAST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Windows:
    """From release to arrival [steps, ranks], ns, and its phases."""

    length: Times
    phases: Mapping[str, Times]


def windows(work: StepWork) -> Windows:
    """The steps with a known previous step; ``phases`` sum to ``length``."""
    rows = np.flatnonzero(work.follows)
    update = work.after[rows - 1]
    length = update + work.before[rows]
    phases = {name: work.parts[name][rows] for name in ("data", "forward", "backward")}
    phases["optimizer"] = update
    phases[PAUSE] = length - sum(phases.values())
    return Windows(length, phases)


def lateness(times: Times) -> Times:
    """Each rank's time minus the median of the other ranks in the same step, [steps, ranks]."""
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

    A rank is a straggler (persistent or transient) in two cases; both tests share their level among
    the ranks (Bonferroni).

    1.  Its step-time cost is at least 5 % of the step, and its lead over all others is significant:
        the mean lead ``max(0, own - longest of the others)`` (one-sided tests for correlated steps,
        ``analyze.stats.significance``), or the frequency of leads of 5 % of the step or more
        (binomial test, consecutive steps count once). Rare long stalls pass only the second.
    2.  It is late in most steps, by 5 % of the step in the mean, and its lateness is significant
        (the same tests). This includes ranks that are late together, such as all ranks of a slow
        host: fixing one of them alone saves nothing.

    If no rank is a straggler, but waiting for the last rank costs as much and no rank causes 80 %
    of it, the pattern is rotating stragglers (jitter).

    Args:
        work: The steps of the launch.
        costs: [ranks] Step-time cost of each rank's lateness by replay, ns.
        key: The launch.
    """
    spans = windows(work)
    num_steps, num_ranks = spans.length.shape
    if num_ranks < 2 or num_steps < LEAST_STEPS:
        return STRAGGLERS.empty()
    step_ns = float(work.step_times.mean())
    late = lateness(spans.length)
    smallest_ns = SMALLEST_SHARE * step_ns
    is_late = late >= smallest_ns
    lead = _lead(spans.length)
    alone = (_stands_out(lead) | _leads_often(lead >= smallest_ns)) & (costs >= smallest_ns)
    often = is_late.mean(axis=0) >= MOST_STEPS_SHARE
    steadily = often & (late.mean(axis=0) >= smallest_ns) & _above_chance(late)
    named = (alone & is_late.any(axis=0)) | steadily
    rotating = not named.any() and _is_rotating(lead, smallest_ns)
    late_in = {name: lateness(times) for name, times in spans.phases.items()} if named.any() else {}
    rows: list[dict[str, object]] = []
    for place in range(num_ranks):
        mean = mean_of(late[:, place])
        interval = mean.interval()
        pattern = "rotating" if rotating else "none"
        phase, phase_share = "", NAN
        if named[place]:
            pattern = "persistent" if often[place] else "transient"
            # Selecting late steps also selects their noise; all steps are unbiased.
            every = often[place] or interval.low > 0
            chosen = is_late[:, place] | every
            phase, phase_share = _phase(
                float(late[chosen, place].mean()),
                {name: float(times[chosen, place].mean()) for name, times in late_in.items()},
            )
        last = float((spans.length.argmax(axis=1) == place).mean())
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


def _add_costs_together(rows: list[dict[str, object]], work: StepWork, step_ns: float) -> None:
    """Common cost of stragglers of one pattern and phase: fixing one alone leaves the others."""
    alike: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        if row["phase"]:
            alike.setdefault((str(row["pattern"]), str(row["phase"])), []).append(place)
    for places in alike.values():
        saved = work.step_times.mean() - with_ranks_on_time(work, places).mean()
        cost = max(float(saved), 0.0)
        for place in places:
            rows[place] |= {"cost_together_ns": cost, "cost_together_share": cost / step_ns}


def wilson(share: float, num: int) -> tuple[float, float]:
    """The 95 % interval of a share of ``num`` independent steps (Wilson, JASA 22, 1927)."""
    z = normal_quantile((1 + CONFIDENCE) / 2)
    middle = (share + z**2 / (2 * num)) / (1 + z**2 / num)
    reach = z / (1 + z**2 / num) * math.sqrt(share * (1 - share) / num + z**2 / (4 * num**2))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def longest_run(flags: NDArray[np.bool_]) -> int:
    """Length of the longest run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _lead(times: Times) -> Times:
    """Lead of the longest rank of each step over the second longest, 0 for the others."""
    place = times.argmax(axis=1)
    rows = np.arange(len(times))
    second = np.partition(times, -2, axis=1)[:, -2]
    lead = np.zeros_like(times)
    lead[rows, place] = times[rows, place] - second
    return lead


def _stands_out(lead: Times) -> NDArray[np.bool_]:
    """[ranks] Whether the lead is significantly larger than that of the median rank."""
    num_ranks = lead.shape[1]
    in_order = np.argsort(lead.mean(axis=0), kind="stable")
    excess = np.empty_like(lead)
    for place in range(num_ranks):
        others = in_order[in_order != place]
        excess[:, place] = lead[:, place] - lead[:, others[(num_ranks - 1) // 2]]
    return _above_chance(excess)


def _above_chance(times: Times) -> NDArray[np.bool_]:
    """[ranks] Whether the mean is significantly above 0."""
    level = FALSE_ALARMS / times.shape[1]
    return np.array([above_zero(of_rank, level) for of_rank in times.T], dtype=bool)


def _leads_often(leads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[ranks] Whether the rank leads more often than one of N equal ranks (binomial test)."""
    num_ranks = leads.shape[1]
    begins = leads & ~np.concatenate([np.zeros((1, num_ranks), dtype=bool), leads[:-1]])
    counts = begins.sum(axis=0)
    num = int(counts.sum())
    # Probability of as many or more: the upper tail of the binomial distribution.
    tail = binomial_tail(counts, num, 1 / num_ranks) if num else np.ones(num_ranks)
    return np.asarray((counts > 0) & (tail <= FALSE_ALARMS / num_ranks))


def _is_rotating(lead: Times, smallest_ns: float) -> bool:
    by_rank = lead.mean(axis=0)
    whole = float(by_rank.sum())
    return whole >= smallest_ns and float(by_rank.max()) < LEAST_EXPLAINED * whole


def _phase(whole: float, in_phases: Mapping[str, float]) -> tuple[str, float]:
    """The phase of a lateness, and the share of the largest phase."""
    name = max(in_phases, key=lambda phase: in_phases[phase])
    share = in_phases[name] / whole
    return (name if share >= LEAST_EXPLAINED else UNATTRIBUTED), share
