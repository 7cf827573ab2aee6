"""What collectives and negotiations of the present setting took, as draws for a replay.

The time of a collective is ``alpha + beta * bytes``, plus what single executions deviate by: they
wait for a rank whose thread finds no core, however much they send. Both numbers are fitted anew
for every draw to a resample of the executions, so that what few payloads say about others is as
uncertain as it is. Where all payloads are about the same, they say nothing of how the time divides:
then every order of magnitude of ``alpha`` is as likely, from 10 µs to all of the time.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hvdprof.analyze.predict.horovod_loop import LoopSettings
from hvdprof.model.arrays import Float64s

LEAST_EXECUTIONS = 10
LEAST_SPAN = 8.0
"""Payloads that differ by less than this factor do not separate alpha from beta."""

SMALLEST_SHARE = 0.1
"""Of its fitted time an execution takes at least this share."""

SHORTEST_NS = 1e4
"""No collective takes less."""

NEGOTIATION_PER_ALPHA = (0.3, 1.5)
"""A negotiation exchanges some bytes once or twice."""

WAKEUP_NS = 5e5
"""Up to this much later than planned does a sleeping loop wake up, where that is not measured."""

LOCKED_CYCLE_NS = 5e6
"""With longer cycles the loop and the steps move in step: waits are no uniform share of it."""

_LOW = 0.1


@dataclass(frozen=True, slots=True)
class CollectiveDraws:
    """Costs on this job, one value per draw.

    Attributes:
        alpha_ns: [draws] Time of an empty collective.
        beta_ns_per_byte: [draws] Additional time per byte.
        residuals_ns: Deviations of single executions from the fit.
        negotiation_ns: [draws] Time of a negotiation.
        wakeups_ns: How much later than planned sleeps of the loop end, any number of samples.
        scale: All of these times are multiplied by this, a number or [draws].
    """

    alpha_ns: Float64s
    beta_ns_per_byte: Float64s
    residuals_ns: Float64s
    negotiation_ns: Float64s
    wakeups_ns: Float64s
    scale: float | Float64s = 1.0

    def cost_ns(self, size_bytes: Float64s, rng: np.random.Generator) -> Float64s:
        """[draws] The time of one collective in each draw.

        Args:
            size_bytes: [draws] Its payload.
            rng: Source of what it deviates by.
        """
        fitted = self.alpha_ns + self.beta_ns_per_byte * size_bytes
        times = fitted + rng.choice(self.residuals_ns, len(fitted))
        return np.asarray(self.scale * np.maximum(times, SMALLEST_SHARE * fitted))

    def in_a_step(self, settings: LoopSettings, rng: np.random.Generator) -> LoopSettings:
        """The loop with the negotiation and the wake-ups of one step.

        Args:
            settings: Cycle and fusion.
            rng: Source of the wake-ups.
        """
        return replace(
            settings,
            negotiation_ns=self.scale * self.negotiation_ns,
            wakeup_ns=self.scale * rng.choice(self.wakeups_ns, len(self.alpha_ns)),
        )


def collective_draws(
    collectives: pd.DataFrame, cycle_ns: float, num_draws: int, rng: np.random.Generator
) -> CollectiveDraws | str:
    """The costs of a job, or why they are unknown.

    Args:
        collectives: Its COLLECTIVES in steady steps, with a known length.
        cycle_ns: The present cycle time.
        num_draws: The number of draws.
        rng: Source of randomness.
    """
    known = collectives[collectives["size_bytes"].notna() & (collectives["dur_ns"] > 0)]
    if len(known) < LEAST_EXECUTIONS:
        return f"a timeline holds {len(known)} of its collectives; {LEAST_EXECUTIONS} are needed"
    found = draws_of_times(
        known["size_bytes"].to_numpy(dtype=np.float64),
        known["dur_ns"].to_numpy(dtype=np.float64),
        num_draws,
        rng,
    )
    negotiation, wakeups = _cycle_draws(known, cycle_ns, found.alpha_ns, rng)
    return replace(found, negotiation_ns=negotiation, wakeups_ns=wakeups)


def draws_of_times(
    sizes: Float64s, times: Float64s, num_draws: int, rng: np.random.Generator
) -> CollectiveDraws:
    """The costs that measured collectives show, of a job that negotiates nothing.

    Args:
        sizes: [collectives] Payload, bytes.
        times: [collectives] Their times, ns.
        num_draws: The number of draws.
        rng: Source of randomness.
    """
    if sizes.max() >= LEAST_SPAN * sizes.min():
        alpha, beta = _fits(sizes, times, num_draws, rng)
    else:
        middle = float(np.median(times))
        # Log-uniform.
        least = min(SHORTEST_NS, middle)
        alpha = least * (middle / least) ** rng.random(num_draws)
        beta = (middle - alpha) / max(float(np.median(sizes)), 1.0)
    fitted = float(np.median(alpha)) + float(np.median(beta)) * sizes
    return CollectiveDraws(alpha, beta, times - fitted, np.zeros(num_draws), np.zeros(1))


def _fits(
    sizes: Float64s, times: Float64s, num_draws: int, rng: np.random.Generator
) -> tuple[Float64s, Float64s]:
    """Least squares of relative errors, of logarithms of time in effect; neither is negative.

    The weight of an execution is one over the square of the median time of its payload class, so
    that stalled transfers of a large payload do not decide over small ones.
    """
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, 9)))
    group = np.clip(np.searchsorted(edges, sizes, side="right") - 1, 0, len(edges) - 1)
    typical = pd.Series(times).groupby(group).transform("median").to_numpy()
    # A stalled execution counts as no more than three typical ones: the residuals hold the rest.
    bounded = np.minimum(times, 3 * typical)
    weights = rng.multinomial(len(times), np.full(len(times), 1 / len(times)), num_draws) / (
        typical**2
    )
    total = weights.sum(axis=1)
    mean_size, mean_time = (weights @ values / total for values in (sizes, bounded))
    spread = weights @ sizes**2 / total - mean_size**2
    joint = weights @ (sizes * bounded) / total - mean_size * mean_time
    beta = np.maximum(joint / np.maximum(spread, 1e-9), 0.0)
    alpha = mean_time - beta * mean_size
    # Without any latency the payload explains all of it.
    beta = np.where(alpha < 0, mean_time / mean_size, beta)
    return np.maximum(alpha, 0.0), np.asarray(beta)


def _cycle_draws(
    collectives: pd.DataFrame, cycle_ns: float, alpha_ns: Float64s, rng: np.random.Generator
) -> tuple[Float64s, Float64s]:
    """[draws] negotiation, and samples of late wake-ups, from waits for the first collectives.

    A gradient that comes at any time waits for half of a cycle on average, its late end included,
    and for the negotiation. Longer cycles than ``LOCKED_CYCLE_NS`` say nothing of either: the
    negotiation is then about as long as an empty collective.
    """
    num_draws = len(alpha_ns)
    # ``lag_ns`` of the first collective of every step; not negative.
    known = collectives[collectives["lag_ns"].notna()]
    first = known.sort_values("start_ns").groupby(["pass_id", "segment", "step"], observed=True)
    lags = np.asarray(np.maximum(first["lag_ns"].first().to_numpy(dtype=np.float64), 0.0))
    if cycle_ns > LOCKED_CYCLE_NS or len(lags) < LEAST_EXECUTIONS:
        negotiation = alpha_ns * rng.uniform(*NEGOTIATION_PER_ALPHA, num_draws)
        return negotiation, WAKEUP_NS * rng.random(num_draws)
    drawn = lags[rng.integers(len(lags), size=(num_draws, len(lags)))]
    negotiation = np.maximum(np.quantile(drawn, _LOW, axis=1) - _LOW * cycle_ns, 0.0)
    waits = np.maximum(lags - float(np.median(negotiation)), 0.0)
    return negotiation, np.maximum(2 * waits - cycle_ns, 0.0)
