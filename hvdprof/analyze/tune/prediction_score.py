"""How well the gains that a replay predicted agree with those that were measured."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.model.tuning import Estimate, PredictionScore, Trial

WIDEST = 1.0
"""A measured interval that is wider than the whole step time agrees with any prediction."""

LEAST_FOR_ORDER = 3
"""Below this many pairs, the order of gains is by chance."""


def prediction_score(trials: Sequence[Trial]) -> PredictionScore:
    """The score over all trials whose gain was predicted.

    A prediction is covered where its interval and that of the measured gain overlap. A measured
    interval that is open, or wider than the whole step time, agrees with anything: it is left out.

    Args:
        trials: What was tried.
    """
    predicted = [one for one in trials if one.candidate.predicted is not None]
    pairs = [
        (one.candidate.predicted, one.gain)
        for one in predicted
        if one.candidate.predicted is not None
        and one.gain is not None
        and agrees(one.candidate.predicted, one.gain) is not None
    ]
    if not pairs:
        return PredictionScore(
            num_predicted=len(predicted),
            num_scored=0,
            num_covered=0,
            median_error=None,
            bias=None,
            rank_correlation=None,
            sentence=_unscored(predicted),
        )
    errors = np.array([one.value - gain.value for one, gain in pairs])
    covered = sum(agrees(one, gain) is True for one, gain in pairs)
    order = _rank_correlation(pairs)
    return PredictionScore(
        num_predicted=len(predicted),
        num_scored=len(pairs),
        num_covered=covered,
        median_error=float(np.median(np.abs(errors))),
        bias=float(errors.mean()),
        rank_correlation=order,
        sentence=_sentence(len(pairs), covered, errors, order),
    )


def agrees(predicted: Estimate, measured: Estimate) -> bool | None:
    """Whether two intervals of a gain overlap; None where the measured one is too wide.

    Args:
        predicted: The predicted gain.
        measured: The measured gain; NaN or infinite ends are open.
    """
    width = measured.high - measured.low
    if not math.isfinite(width) or width > WIDEST:
        return None
    return predicted.low <= measured.high and measured.low <= predicted.high


def _rank_correlation(pairs: Sequence[tuple[Estimate, Estimate]]) -> float | None:
    """Spearman's, with mean ranks for ties; None where it is not defined."""
    if len(pairs) < LEAST_FOR_ORDER:
        return None
    predicted, measured = (
        pd.Series([one.value for one in side]).rank().to_numpy()
        for side in zip(*pairs, strict=True)
    )
    if np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        return None
    return float(np.corrcoef(predicted, measured)[0, 1])


def _unscored(predicted: Sequence[Trial]) -> str:
    if not predicted:
        return "No gain was predicted."
    if any(one.gain is not None for one in predicted):
        return "No predicted gain was measured precisely enough to be scored."
    return "No predicted gain was measured."


def _sentence(num: int, covered: int, errors: NDArray[np.float64], order: float | None) -> str:
    median = f"{100 * float(np.median(np.abs(errors))):.1f} points"
    bias = units.points(float(errors.mean()))
    correlation = "" if order is None else f", rank correlation {order:.2f}"
    return (
        f"{covered} of {units.counted(num, 'predicted gain')} agree with the measured interval: "
        f"median error {median}, bias {bias}{correlation}."
    )
