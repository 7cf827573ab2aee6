"""Published straggler rules of other tools, re-implemented on the steps that hvdprof records.

Each rule takes the same ``StepWork`` and gives the ranks that it names, with the phase and the cost
per step where it states them. Where tools see other quantities, the rule says what it is given.
Costs that a rule does not state, but that its own numbers imply, are taken as implied.

Two quantities stand for many: ``wait`` is the time from a rank's arrival at its last collective of
the step to its release, which other tools see as the duration of the collective. ``own`` is the
rest of the step.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.causes.launch_causes import launch_causes
from hvdprof.analyze.ranks.names import named_causes
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.analyze.steps.step_work import StepWork, Times

NO_PHASE = ""
SECTIONS = ("data", "forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rank that a rule names; the phase is empty and the cost NaN where it states none."""

    rank: int
    phase: str = NO_PHASE
    cost_ns: float = NAN


Rule = Callable[[StepWork], tuple[Suspect, ...]]


def waits(work: StepWork) -> Times:
    """[steps, ranks] From the arrival of a rank to its release, ns."""
    return np.asarray(work.arrived.max(axis=1, keepdims=True) - work.arrived + work.transfer)


def hvdprof(work: StepWork) -> tuple[Suspect, ...]:
    """The stragglers that hvdprof names; the cost of ranks alike is the waterfall's, in parts."""
    found = []
    times = rank_times(work)
    causes = named_causes(times)
    credits = launch_causes(times, [[cause] for cause in causes]).named
    for cause, credit in zip(causes, credits, strict=True):
        if len(cause.ranks) == len(work.ranks):
            continue
        cost = credit.share * float(work.step_times.mean()) / len(cause.ranks)
        found += [Suspect(rank, cause.phase, cost) for rank in cause.ranks]
    return tuple(found)


def traceml(work: StepWork) -> tuple[Suspect, ...]:
    """TraceML 0.3: the rank of the shortest backward pass, where another waits there by 10 %.

    Source: github.com/traceopt-ai/traceml, ``diagnostics/step_time/context.py`` and ``policy.py``
    (2026). On means per step: the culprit has the smallest backward time, the victim the upper
    median one. Their difference divided by the victim's step, data included, is the score; from
    0.10 on a straggler is named. Its component is input or forward if the culprit's excess over the
    victim there covers 80 % of the difference. Read as: the collective is waited for within
    backward, as under DDP, so the wait counts as backward. The difference is its cost.
    """
    backward = (work.parts["backward"] + waits(work)).mean(axis=0)
    order = np.argsort(backward, kind="stable")
    culprit, victim = order[0], order[len(order) // 2]
    cost_ns = float(backward[victim] - backward[culprit])
    step_ns = (work.own_before_sync + waits(work) + work.own_after_release).mean(axis=0)[victim]
    if cost_ns < 0.10 * step_ns:
        return ()
    excess = {
        phase: work.parts[phase].mean(axis=0)[culprit] - work.parts[phase].mean(axis=0)[victim]
        for phase in ("data", "forward")
    }
    phase = max(excess, key=lambda name: excess[name])
    named = phase if excess[phase] >= 0.80 * cost_ns else NO_PHASE
    return (Suspect(int(work.ranks[culprit]), named, cost_ns),)


def nvrx_phases(work: StepWork) -> tuple[Suspect, ...]:
    """NVRx, relative score of sections below 0.75, with a section around each phase.

    Source: github.com/NVIDIA/nvidia-resiliency-ext, ``straggler/reporting.py``. Score of a rank in
    a section: smallest median of all ranks divided by its own median; a straggler below 0.75.
    Users choose the sections. Read as: one around each phase, without the wait, which is the
    reading that shows it most. Individual scores, against a rank's own past, and those of GPU
    kernels are left out. The excess of the median is the implied cost.
    """
    found: dict[int, Suspect] = {}
    for phase in SECTIONS:
        for suspect in _relative_scores(work, work.parts[phase], phase):
            known = found.get(suspect.rank)
            if known is None or suspect.cost_ns > known.cost_ns:
                found[suspect.rank] = suspect
    return tuple(found.values())


def nvrx_step(work: StepWork) -> tuple[Suspect, ...]:
    """NVRx, as ``nvrx_phases``, with one section around all work of a step, without the wait.

    A section with the wait in it is equally long on all ranks, and names none.
    """
    return tuple(_relative_scores(work, work.own_before_sync + work.own_after_release, NO_PHASE))


def _relative_scores(work: StepWork, times: Times, phase: str) -> list[Suspect]:
    medians = np.median(times, axis=0)
    best = float(medians.min())
    return [
        Suspect(int(rank), phase, float(own - best))
        for rank, own in zip(work.ranks, medians, strict=True)
        if best < 0.75 * own
    ]


def flight_recorder(work: StepWork) -> tuple[Suspect, ...]:
    """NVRx's proposal on PyTorch's Flight Recorder: a duration below 0.10 of the median.

    Source: "FR-Based Straggler Detection for NVRx" (design text, 2026): of each collective the
    straggler has the shortest duration, for the others wait for it. A straggler if its duration
    divided by the median of all ranks is below 0.10, or if it is more than k = 2 standard
    deviations below their mean. Read as: means over the analysed steps, one collective per step;
    the standard deviation is of the population. Median minus own duration is the implied cost.
    """
    durations = waits(work).mean(axis=0)
    median, mean, deviation = np.median(durations), durations.mean(), durations.std()
    is_named = (durations < 0.10 * median) | (mean - durations > 2.0 * deviation)
    return tuple(
        Suspect(int(rank), NO_PHASE, float(median - own))
        for rank, own in zip(work.ranks[is_named], durations[is_named], strict=True)
    )


def tracelens(work: StepWork) -> tuple[Suspect, ...]:
    """TraceLens 1.0: the rank of the least waiting, last to arrive at most collectives.

    Source: github.com/AMD-AGI/TraceLens, ``nccl_analyser.py`` (``build_df_straggler_summary``) and
    its guide to multi-rank reports: the straggler is the first row by total wait, "the rank that
    consistently arrives last". The report has no threshold. Read as: the first row, where its
    ``pct_arrived_last`` is above 50 %. The mean wait of the other ranks is the implied cost.
    """
    own = work.arrived.max(axis=1, keepdims=True) - work.arrived
    place = int(own.sum(axis=0).argmin())
    if (own.argmin(axis=1) == place).mean() <= 0.5:
        return ()
    others = np.delete(own, place, axis=1)
    return (Suspect(int(work.ranks[place]), NO_PHASE, float(others.mean())),)


def hta(work: StepWork) -> tuple[Suspect, ...]:
    """HTA 0.6: the two ranks that most often start their communication kernel last.

    Source: github.com/facebookresearch/HolisticTraceAnalysis, ``hta/analyzers/straggler.py``. Of
    the kernels of 1 % of an iteration or more, the ``num_candidates`` = 2 that start last are
    counted in each iteration; the two ranks counted most are the potential stragglers. There is no
    threshold: with two ranks both are named, always. Read as: a kernel starts where a rank arrives
    and ends at its release; an iteration with fewer than two such kernels counts for no rank.
    """
    return _latest_starts(work, 2)


def hta_first(work: StepWork) -> tuple[Suspect, ...]:
    """HTA 0.6 with ``num_candidates`` = 1: the rank that most often starts its kernel last."""
    return _latest_starts(work, 1)


def _latest_starts(work: StepWork, num: int) -> tuple[Suspect, ...]:
    is_long = waits(work) >= 0.01 * work.step_times.mean()
    starts = np.where(is_long, work.arrived, -np.inf)
    # The n-th latest start is the threshold, as in the original, so that ties count together.
    threshold = np.sort(starts, axis=1)[:, -num][:, None]
    is_counted = is_long & (starts >= threshold) & np.isfinite(threshold)
    counts = is_counted.sum(axis=0)
    order = np.argsort(-counts, kind="stable")[:num]
    return tuple(Suspect(int(work.ranks[place])) for place in order if counts[place])


def megatron(work: StepWork) -> tuple[Suspect, ...]:
    """Megatron-LM's StragglerDetector: the rank of the largest time in traced operations.

    Source: github.com/NVIDIA/Megatron-LM, ``megatron/core/README_STRAGGLER.md``. Its log prints the
    smallest and largest mean with their ranks, of the forward pass (``Rtt``; backward is not timed)
    and of fetching the batch (``DRtt``), and leaves the judgement to the reader. Read as: the rank
    of the largest is named if it exceeds the smallest by 5 % of the step, hvdprof's own threshold.
    The difference is the implied cost.
    """
    smallest_ns = 0.05 * float(work.step_times.mean())
    found: dict[int, Suspect] = {}
    for phase in ("forward", "data"):
        means = work.parts[phase].mean(axis=0)
        excess, rank = float(means.max() - means.min()), int(work.ranks[means.argmax()])
        if excess >= smallest_ns and (rank not in found or found[rank].cost_ns < excess):
            found[rank] = Suspect(rank, phase, excess)
    return tuple(found.values())


RULES: dict[str, Rule] = {
    "hvdprof": hvdprof,
    "TraceML": traceml,
    "NVRx, section per phase": nvrx_phases,
    "NVRx, section per step": nvrx_step,
    "NVRx, Flight Recorder": flight_recorder,
    "TraceLens": tracelens,
    "HTA, two candidates": hta,
    "HTA, one candidate": hta_first,
    "Megatron-LM": megatron,
}
