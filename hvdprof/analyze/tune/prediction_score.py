"""How well the gains that a replay predicted agree with those that were measured."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof import units
from hvdprof.model.results.tuning import Check, Estimate, PredictionScore, Trial

WIDEST = 1.0
"""A measured interval that is wider than the whole step time agrees with any prediction."""

LEAST_FOR_ORDER = 3
"""Below this many pairs, the order of gains is by chance."""


def prediction_score(trials: Sequence[Trial], checks: Sequence[Check] = ()) -> PredictionScore:
    """The score over all trials whose gain was predicted.

    A prediction is covered where its interval and that of the measured gain overlap. A measured
    interval that is open, or wider than the whole step time, agrees with anything: it is left out.

    Args:
        trials: What was tried.
        checks: What was measured anew after the race.
    """
    predicted = [trial for trial in trials if trial.candidate.predicted is not None]
    gains = [measured_gain(trial, checks) for trial in predicted]
    scored = [
        (one.candidate.predicted, gain, gain is not one.gain)
        for one, gain in zip(predicted, gains, strict=True)
        if one.candidate.predicted is not None
        and gain is not None
        and agrees(one.candidate.predicted, gain) is not None
    ]
    pairs = [(guess, gain) for guess, gain, _ in scored]
    num_anew = sum(is_anew for *_, is_anew in scored)
    if not pairs:
        return PredictionScore(
            num_predicted=len(predicted),
            num_scored=0,
            num_anew=0,
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
        num_anew=num_anew,
        num_covered=covered,
        median_error=float(np.median(np.abs(errors))),
        bias=float(errors.mean()),
        rank_correlation=order,
        sentence=" ".join(
            [
                _sentence(len(pairs), covered, errors, order),
                *_basis(len(pairs), num_anew, sum(gain is not None for gain in gains)),
            ]
        ),
    )


def measured_gain(trial: Trial, checks: Sequence[Check]) -> Estimate | None:
    """The gain to compare a prediction with: of fresh launches where they say enough.

    Of several settings the race chooses a lucky one, so that its gain there is too large. Fresh
    launches of that setting alone have chosen nothing.

    Args:
        trial: What was tried.
        checks: What was measured anew after the race.
    """
    for check in checks:
        gain = check.gain
        if check.names != (trial.candidate.name,) or gain is None:
            continue
        if agrees(gain, gain) is not None:
            return gain
    return trial.gain


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
        pd.Series([estimate.value for estimate in side]).rank().to_numpy()
        for side in zip(*pairs, strict=True)
    )
    if np.ptp(predicted) == 0 or np.ptp(measured) == 0:
        return None
    return float(np.corrcoef(predicted, measured)[0, 1])


def _unscored(predicted: Sequence[Trial]) -> str:
    if not predicted:
        return "No gain was predicted."
    if any(trial.gain is not None for trial in predicted):
        return "No predicted gain was measured precisely enough to be scored."
    return "No predicted gain was measured."


def _sentence(num: int, covered: int, errors: NDArray[np.float64], order: float | None) -> str:
    median = f"{100 * float(np.median(np.abs(errors))):.1f} points"
    bias = units.points(float(errors.mean()))
    correlation = "" if order is None else f", rank correlation {order:.2f}"
    agree = "agrees" if num == 1 else "agree"
    return (
        f"{covered} of {units.counted(num, 'predicted gain')} {agree} with the measured interval: "
        f"median error {median}, bias {bias}{correlation}."
    )


def _basis(num: int, num_anew: int, num_measured: int) -> Iterator[str]:
    """What the predictions are compared with, and what is left out."""
    if num_anew:
        are = "is" if num_anew == 1 else "are"
        yield (
            f"{units.counted(num_anew, 'measured gain')} of {num} {are} from the fresh launches "
            "after the race."
        )
    left = num_measured - num
    if left:
        lacks = "has a measured interval" if left == 1 else "have measured intervals"
        yield f"{units.counted(left, 'predicted gain')} {lacks} too wide to score."
