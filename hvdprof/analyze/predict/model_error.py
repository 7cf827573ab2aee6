"""What a forecast adds for effects that its model does not hold.

Beyond the measured sizes a forecast is wrong by a factor whose logarithm walks at random with every
doubling, the simplest form of the model discrepancy of Kennedy and O'Hagan (JRSS B 63, 2001). It
has two parts: one of the whole step, and a larger one of what the ranks lose to each other, because
a job that loses little has little to be wrong about. A draw has one path over all sizes.

Errors of earlier forecasts, where there are any, scale both: they join the prior as so many further
degrees of freedom. None counts as more than ``LARGEST_PAST_ERROR`` times the nominal error: beyond
that, the forecast was of another job than the measured one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.model.arrays import Float64s

STEP_ERROR = 0.005
"""Standard deviation per doubling of the logarithm of the whole step.

With 1 %, bands were a fifth wider, and 95 to 96 % of the 90 % bands held the truth of simulated
jobs (``benchmarks.forecast_simulated``, docs/explain/accuracy.md).
"""

LOSS_ERROR = 0.15
"""The same of the time lost to other ranks and to communication."""

NOMINAL_ERROR = math.hypot(STEP_ERROR, LOSS_ERROR * 0.2)
"""Error of a forecast per doubling that the two make for a job that loses a fifth of its steps."""

LARGEST_PAST_ERROR = 5.0
"""Bound of a past error per doubling, in nominal errors: 15 %.

A forecast that knows nothing but the efficiency of the largest measured size misses by up to 16 %
at twice the ranks, in nine of ten public tables (docs/howto/predict.md). A larger error is no
evidence on the model: the network, the placement or the settings were others.
"""

_PRIOR_DEGREES = 8.0


@dataclass(frozen=True, slots=True)
class ModelErrorDraws:
    """Paths of the error, [draws, doublings]: the step of each doubling, of both parts."""

    of_step: Float64s
    of_loss: Float64s

    def logs(self, extrapolation: float) -> tuple[Float64s, Float64s]:
        """[draws] Logarithms of the factors of the step and of its losses.

        Sizes below the measured ones are as far away as larger ones.

        Args:
            extrapolation: Number of ranks divided by the largest measured one.
        """
        doublings = abs(np.log2(extrapolation))
        whole = min(int(doublings), self.of_step.shape[1] - 1)
        rest = np.sqrt(min(doublings - whole, 1.0))

        def walked(steps: Float64s) -> Float64s:
            return np.asarray(steps[:, :whole].sum(axis=1) + rest * steps[:, whole])

        return walked(self.of_step), walked(self.of_loss)


def draw_model_error(
    rng: np.random.Generator,
    num_draws: int,
    extrapolation: float,
    past_errors: Sequence[tuple[float, float]] = (),
) -> ModelErrorDraws:
    """Paths of the error up to an extrapolation ratio.

    Args:
        rng: Source of randomness.
        num_draws: Draws.
        extrapolation: The largest one that is asked for.
        past_errors: Extrapolation ratio, and logarithm of the measured over the predicted step.
    """
    scale = _scale_draws(rng, num_draws, past_errors)
    shape = (num_draws, int(abs(np.log2(extrapolation))) + 1)
    return ModelErrorDraws(
        STEP_ERROR * scale * rng.standard_normal(shape),
        LOSS_ERROR * scale * rng.standard_normal(shape),
    )


def _scale_draws(
    rng: np.random.Generator, num_draws: int, past_errors: Sequence[tuple[float, float]]
) -> Float64s:
    """[draws, 1] The unknown size of the errors, relative to the nominal one."""
    known = [(abs(np.log2(ratio)), error) for ratio, error in past_errors if ratio != 1]
    relative = [abs(error) / NOMINAL_ERROR / np.sqrt(doublings) for doublings, error in known]
    squares = sum(min(error, LARGEST_PAST_ERROR) ** 2 for error in relative)
    degrees = _PRIOR_DEGREES + len(known)
    drawn = (_PRIOR_DEGREES + squares) / rng.chisquare(degrees, num_draws)
    return np.asarray(np.sqrt(drawn))[:, None]
