"""The time of evaluations of all ranks, which is in no step time, and who waits there for whom."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.analyze.steps.step_work import Times
from hvdprof.model.cell_key import LAUNCH, LaunchKey, rows_by_launch


@dataclass(frozen=True, slots=True)
class EvaluationTime:
    """The evaluations of all ranks of one launch; times in ns.

    Attributes:
        recorded_ns: From the begin of the first step to the end of the last, and of an evaluation
            of all ranks after it, median of the ranks; of a launch that ran in turns the sum of
            its turns: between them it was stopped.
        ranks: The recorded ranks.
        taken: [evaluations, ranks] From the end of the step before to the end of the step with the
            evaluation, without the median time of a training step.
        inside: [evaluations, ranks] The rank's own part of it until the end of the last evaluation
            pass, without blocked time as far as that was measured.
        blocked: [evaluations, ranks] Blocked time in it, and behind it in the same step without the
            median of that of training steps of the rank; NaN where it was not measured.
        is_followed: [evaluations] Whether all ranks wait for each other in it or after it: after
            the last step they may not.
    """

    recorded_ns: float
    ranks: NDArray[np.int64]
    taken: Times
    inside: Times
    blocked: Times
    is_followed: NDArray[np.bool_]

    @property
    def each_ns(self) -> Times:
        """[evaluations] The time of each, median of the ranks."""
        return np.asarray(np.maximum(np.median(self.taken, axis=1), 0.0))


def evaluation_times(
    steps: pd.DataFrame,
    job_steps: pd.DataFrame,
    evaluations: pd.DataFrame,
    turns: pd.DataFrame,
) -> Mapping[LaunchKey, EvaluationTime]:
    """The launches in which all recorded ranks evaluate, with those evaluations.

    An evaluation whose previous step was not recorded is omitted: its begin is unknown. So are
    those before the first step that is no warm-up: a model that computes without training in each
    step is known as a part of the training only after some of them. Of launches in turns those
    outside of them are omitted: the launch may have been stopped meanwhile.

    Args:
        steps: STEPS.
        job_steps: JOB_STEPS with ``steady`` set.
        evaluations: EVALUATIONS.
        turns: TURNS.
    """
    if not _is_evaluation(steps).any() and not evaluations["after_last"].any():
        return {}
    steady = job_steps.loc[job_steps["steady"], [*LAUNCH, "step", "dur_ns"]]
    training = {key: steady.iloc[rows] for key, rows in rows_by_launch(steady)}
    recorded = {key: evaluations.iloc[rows] for key, rows in rows_by_launch(evaluations)}
    bounds = {
        key: turns[["first_step", "num_steps"]].iloc[rows].to_numpy(dtype=np.int64)
        for key, rows in rows_by_launch(turns)
    }
    found = {}
    for key, rows in rows_by_launch(steps):
        own = steps.iloc[rows]
        of_launch = recorded.get(key, evaluations.iloc[:0])
        if key in training and (_is_evaluation(own).any() or of_launch["after_last"].any()):
            times = _of_launch(own, training[key], of_launch, bounds.get(key))
            if len(times.taken):
                found[key] = times
    return found


def _is_evaluation(steps: pd.DataFrame) -> NDArray[np.bool_]:
    # The step of one rank alone counts, and is no warm-up.
    single = (steps["num_steps"] == 1).to_numpy()
    return np.asarray(single & steps["evaluation"].to_numpy() & steps["warmup"].to_numpy())


def _of_launch(
    rows: pd.DataFrame,
    training: pd.DataFrame,
    evaluations: pd.DataFrame,
    turns: NDArray[np.int64] | None,
) -> EvaluationTime:
    ordered = rows.sort_values(["rank", "step"])
    rank, step, number, start, length = (
        ordered[name].to_numpy(dtype=np.int64)
        for name in ("rank", "step", "num_steps", "start_ns", "dur_ns")
    )
    blocked = ordered["blocked_ns"].to_numpy(dtype=np.float64, na_value=np.nan)
    end = start + length * number
    follows = np.append(False, (rank[1:] == rank[:-1]) & (step[1:] == (step + number)[:-1]))
    since = np.where(follows, np.roll(end, 1), start)
    ranks, begins, column = np.unique(rank, return_index=True, return_inverse=True)
    first = step[~ordered["warmup"].to_numpy(dtype=bool)].min()
    is_steady = np.isin(step, training["step"].to_numpy())
    # Not by a mask per rank: hundreds of ranks have millions of steps.
    own = [slice(*ends) for ends in pairwise([*begins, len(rank)])]
    usual = np.array([np.median(blocked[of_rank][is_steady[of_rank]]) for of_rank in own])
    if turns is None:
        turns = np.array([[step.min(), step.max() - step.min() + 1]])
    turn = _turn_of(step, turns)
    chosen = _is_evaluation(ordered) & follows & (step > first) & (turn >= 0)
    within = _blocked_within(evaluations, rank[chosen], step[chosen])
    table = pd.DataFrame(
        {
            "step": step[chosen],
            "rank": rank[chosen],
            "taken": (end - since)[chosen] - float(training["dur_ns"].median()),
            "inside": (start - since)[chosen] - within,
            "blocked": (blocked - usual[column])[chosen] + within,
            "after_last": False,
        }
    )
    last = _after_last(evaluations)
    if len(last) == len(ranks):
        table = pd.concat([table, last], ignore_index=True)
    counts = table["step"].value_counts()
    table = table[table["step"].isin(counts.index[counts == len(ranks)])]
    table = table.sort_values(["step", "rank"])

    def grid(name: str) -> Times:
        return np.asarray(table[name].to_numpy(dtype=np.float64).reshape(-1, len(ranks)))

    spans = [_span(turn[of_rank], since[of_rank], end[of_rank]) for of_rank in own]
    is_last = grid("after_last")[:, 0] > 0
    longer_ns = np.median(grid("taken")[is_last], axis=1).sum()
    return EvaluationTime(
        recorded_ns=float(np.median(spans) + longer_ns),
        ranks=ranks,
        taken=grid("taken"),
        inside=grid("inside"),
        blocked=grid("blocked"),
        is_followed=~is_last | (grid("blocked") > 0).any(axis=1),
    )


def _turn_of(step: NDArray[np.int64], turns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the turn, of first steps and lengths, in which each step lies; -1 for none."""
    first, length = turns[np.argsort(turns[:, 0])].T
    turn = np.searchsorted(first, step, side="right") - 1
    is_inside = (turn >= 0) & (step < (first + length)[turn])
    return np.where(is_inside, turn, -1)


def _span(turn: NDArray[np.int64], since: NDArray[np.int64], end: NDArray[np.int64]) -> float:
    """From the begin of the first to the end of the last step of each turn, of one rank, ns."""
    first = np.flatnonzero(np.diff(turn, prepend=-2))
    last = np.append(first[1:], len(turn)) - 1
    return float((end[last] - since[first])[turn[first] >= 0].sum())


def _after_last(evaluations: pd.DataFrame) -> pd.DataFrame:
    """The evaluation of each rank after the last step."""
    own = evaluations[evaluations["after_last"].to_numpy(dtype=bool)]
    blocked, rest = (
        own[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("blocked_ns", "rest_blocked_ns")
    )
    return pd.DataFrame(
        {
            "step": own["step"].to_numpy(),
            "rank": own["rank"].to_numpy(),
            "taken": (own["dur_ns"] + own["rest_ns"]).to_numpy(),
            "inside": own["dur_ns"].to_numpy() - np.nan_to_num(blocked),
            "blocked": blocked + rest,
            "after_last": True,
        }
    )


def _blocked_within(
    evaluations: pd.DataFrame, rank: NDArray[np.int64], step: NDArray[np.int64]
) -> Times:
    """Blocked time in the evaluation of each of these steps; 0 without one and where unknown."""
    of_step = evaluations.set_index(["rank", "step"])["blocked_ns"]
    wanted = pd.MultiIndex.from_arrays([rank, step])
    found = of_step.reindex(wanted).to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(np.nan_to_num(found))
