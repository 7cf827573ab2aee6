"""Replays with something made perfect: potential gain of remedies, and POP's efficiencies."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.scaling.efficiency import in_order, samples_per_rank
from hvdprof.analyze.stats.uncertainty import NAN, spread
from hvdprof.analyze.steps.cells import Cell, CellTime, throughput_cells
from hvdprof.analyze.steps.measured_launches import Facts
from hvdprof.analyze.steps.step_time_ratio import baselines, unscaled_baselines
from hvdprof.analyze.steps.step_work import StepWork, Times, medians_of_others
from hvdprof.analyze.steps.sync_points import SyncPoints
from hvdprof.model.causes import EVEN_RANKS, IDEAL_NETWORK, NO_DATA, NO_JITTER, ON_TIME
from hvdprof.model.cell_key import LaunchKey
from hvdprof.model.tables.waterfall_tables import CEILINGS, POP


@dataclass(frozen=True, slots=True)
class WorkShares:
    """Own work in one launch, each as a share of its mean step time.

    ``mean_own`` is the mean own work over ranks and steps; ``slowest_rank`` the largest mean own
    work of a rank; ``ideal`` the replay on an ideal network.
    """

    mean_own: float
    slowest_rank: float
    ideal: float


def work_shares(work: StepWork) -> WorkShares:
    """The shares of one launch."""
    own, step_time = work.own, work.step_times.mean()
    return WorkShares(
        mean_own=float(own.mean() / step_time),
        slowest_rank=float(own.mean(axis=0).max() / step_time),
        ideal=float(on_ideal_network(work).mean() / step_time),
    )


def pop(
    times: Mapping[Cell, CellTime], works: Mapping[LaunchKey, StepWork], facts: Facts
) -> pd.DataFrame:
    """POP of every cell in throughput mode but the baselines.

    ``efficiency = compscal * lb * sere * te / baseline_pe``, exactly (POP's global efficiency
    against a baseline that is itself not perfect). Of ranks that differ by noise alone, one has the
    largest mean too, so ``lb`` is slightly below 1 even there.
    """
    rows: list[dict[str, object]] = []
    for time, baseline, shares, base_shares in _compared(times, works):
        work = samples_per_rank(time, facts) / samples_per_rank(baseline, facts)
        ratio = work * math.exp(baseline.log_step_time.value - time.log_step_time.value)
        own, fullest, ideal = (
            float(np.mean([getattr(share, name) for share in shares]))
            for name in ("mean_own", "slowest_rank", "ideal")
        )
        base_own = float(np.mean([base_share.mean_own for base_share in base_shares]))
        factors = {
            "compscal": ratio * base_own / own,
            "lb": own / fullest,
            "sere": fullest / ideal,
            "te": ideal,
        }
        rows.append(
            {
                **time.cell.key,
                **factors,
                "pe": own,
                "baseline_pe": base_own,
                "efficiency": ratio,
                "identity_error": math.prod(factors.values()) / base_own - ratio,
            }
        )
    return POP.frame(rows)


def _shares_of(time: CellTime, works: Mapping[LaunchKey, StepWork]) -> list[WorkShares]:
    """The shares of each launch of a cell that holds steps which all ranks recorded.

    Launches whose steps have no phases are omitted: their own work is unknown.
    """
    known = [works[key] for key in time.launches if key in works]
    return [work_shares(work) for work in known if work.own.any()]


def _compared(
    times: Mapping[Cell, CellTime], works: Mapping[LaunchKey, StepWork]
) -> list[tuple[CellTime, CellTime, list[WorkShares], list[WorkShares]]]:
    cells = throughput_cells(times)
    baseline_of = baselines(cells)
    compared = []
    for time in in_order(cells):
        baseline = baseline_of.get(time.cell.model)
        if baseline is None or baseline.cell == time.cell or time.cell.is_plain_torch:
            continue
        shares, base_shares = _shares_of(time, works), _shares_of(baseline, works)
        if shares and base_shares:
            compared.append((time, baseline, shares, base_shares))
    return compared


MOST_RANKS = 8
"""Ranks of a cell that are replayed on time: the slowest ones; the others cost less."""

_Times = NDArray[np.float64]
_Replay = Callable[[StepWork], _Times]


def ceilings(
    times: Mapping[Cell, CellTime], works: Mapping[LaunchKey, StepWork], facts: Facts
) -> pd.DataFrame:
    """CEILINGS of every cell of two or more ranks in throughput mode.

    Each is a replay (``analyze.causes.ceilings``) of every launch; the saving is the mean over
    launches of its share in the launch's step, times the step time of the cell. Remedies overlap,
    so savings must not be added up. They are upper bounds: on a busy network, gradients that are
    ready earlier are not reduced earlier by as much.
    """
    cells = throughput_cells(times)
    baseline_of, alone = baselines(cells), unscaled_baselines(cells)
    rows: list[dict[str, object]] = []
    for time in in_order(cells):
        launches = [works[key] for key in time.launches if key in works]
        if time.cell.np > 1 and launches:
            baseline = None if time.cell in alone else baseline_of.get(time.cell.model)
            ratio = _efficiency(time, baseline, facts)
            rows += [
                _row(time, remedy, rank, launches, change, ratio)
                for remedy, rank, change in _remedies(launches)
            ]
    return CEILINGS.frame(rows)


def _remedies(launches: list[StepWork]) -> Iterator[tuple[str, int | None, _Replay]]:
    yield EVEN_RANKS, None, _with_even_ranks
    yield NO_JITTER, None, _without_jitter
    yield IDEAL_NETWORK, None, on_ideal_network
    yield NO_DATA, None, _without_data
    needed = sum(
        (work.own_before_sync + work.own_after_release).mean(axis=0) / len(launches)
        for work in launches
    )
    for place in np.argsort(-np.asarray(needed), kind="stable")[:MOST_RANKS]:
        rank = int(launches[0].ranks[place])
        yield ON_TIME, rank, functools.partial(with_rank_on_time, place=int(place))


def _with_even_ranks(work: StepWork) -> _Times:
    return _with_means(work, axis=1)


def _without_jitter(work: StepWork) -> _Times:
    return _with_means(work, axis=0)


def _with_means(work: StepWork, axis: int) -> _Times:
    points = work.points

    def means(times: _Times) -> _Times:
        # A mean over the steps is one for each of their points.
        of_steps = times.reshape(-1, points.per_step, times.shape[1])
        mean = of_steps.mean(axis=2 * axis, keepdims=True)
        return np.broadcast_to(mean, of_steps.shape).reshape(times.shape)

    before, after = means(points.before), means(points.after)
    return replay(work, Change(before=before, after=after))


def _without_data(work: StepWork) -> _Times:
    before = work.points.before.copy()
    # Data comes before the first synchronization of a step.
    before[:: work.points.per_step] -= work.parts["data"]
    return replay(work, Change(before=before))


def _efficiency(time: CellTime, baseline: CellTime | None, facts: Facts) -> float:
    if baseline is None:
        return NAN
    work = samples_per_rank(time, facts) / samples_per_rank(baseline, facts)
    return work * math.exp(baseline.log_step_time.value - time.log_step_time.value)


def _row(
    time: CellTime,
    remedy: str,
    rank: int | None,
    launches: list[StepWork],
    change: _Replay,
    efficiency: float,
) -> dict[str, object]:
    step_ns = math.exp(time.log_step_time.value)
    shares = [1.0 - float(change(work).mean() / work.step_times.mean()) for work in launches]
    saved = spread(shares).interval()
    better = efficiency / (1.0 - saved.value) if saved.value < 1.0 else NAN
    return {
        **time.cell.key,
        "remedy": remedy,
        "rank": rank,
        "step_time_ns": step_ns * (1.0 - saved.value),
        "saved_ns": step_ns * saved.value,
        "saved_low_ns": step_ns * saved.low,
        "saved_high_ns": step_ns * saved.high,
        "saved_share": saved.value,
        "efficiency": better,
        "efficiency_gain": better - efficiency,
    }


@dataclass(frozen=True, slots=True)
class Change:
    """Replacements of the times of ``StepWork.points`` in a replay, ns; None keeps them."""

    before: Times | None = None
    tail: Times | None = None
    after: Times | None = None


def replay(work: StepWork, change: Change | None = None) -> NDArray[np.float64]:
    """[steps] The step times of the job, ns, with a change or as measured."""
    change = change or Change()
    points = work.points
    before = points.before if change.before is None else change.before
    tail = points.tail if change.tail is None else change.tail
    after = points.after if change.after is None else change.after
    if not len(work.steps):
        return np.empty(0)
    # A_k - A_(k-1) = max over ranks of (rest_(k-1) + before_k): all points can be computed at once.
    rest, begun = _rest_and_begun(points, tail, after)
    times: NDArray[np.float64] = (begun + before).max(axis=1) + rest.max(axis=1) - begun.max(axis=1)
    return points.of_steps(times)


def _rest_and_begun(points: SyncPoints, tail: Times, after: Times) -> tuple[Times, Times]:
    """Time after the last arrival at a point, and start of each rank after the one before."""
    rest = tail + after
    begun = np.concatenate([points.begin[:1], rest[:-1]])
    is_first = ~points.follows
    is_first[0] = True
    begun[is_first] = points.begin[is_first]
    return rest, begun


def on_ideal_network(work: StepWork) -> NDArray[np.float64]:
    """[steps] Step times, ns, with reduced gradients available as soon as the last rank arrives."""
    return replay(work, Change(tail=np.zeros_like(work.points.tail)))


def with_rank_on_time(work: StepWork, place: int) -> NDArray[np.float64]:
    """[steps] Step times, ns, if one rank never takes longer than the median of the others.

    Args:
        work: The measured steps.
        place: The column of the rank in ``work.ranks``; of one rank alone nothing is changed.
    """
    if len(work.ranks) < 2:
        return replay(work)
    points = work.points
    before, after = (_as_others(times, place) for times in (points.before, points.after))
    return replay(work, Change(before=before, after=after))


def _as_others(times: Times, place: int) -> Times:
    changed = times.copy()
    changed[:, place] = np.minimum(times[:, place], medians_of_others(times)[:, place])
    return changed
