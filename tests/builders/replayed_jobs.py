"""Launches whose gradients, own work and costs of collectives are known, ready to be replayed."""

import numpy as np

from hvdprof.analyze.predict.costs.gradient_trace import Gradients, GradientTrace
from hvdprof.analyze.tune.collective_draws import CollectiveDraws
from hvdprof.analyze.tune.launch_replay import LaunchReplay

MS = 1e6


def known_trace(
    *,
    num_steps: int = 20,
    num_ranks: int = 2,
    sizes=(1_000_000,) * 4,
    forward_ms: float = 4.0,
    backward_ms: float = 8.0,
    after_ms: float = 1.0,
    step_ms: float = 20.0,
) -> GradientTrace:
    """Equal steps; gradients become ready evenly over backward."""
    shape = (num_steps, num_ranks)
    gradients = Gradients.of_sizes(list(sizes))
    ready = np.linspace(0, backward_ms, len(sizes) + 1)[1:] * MS
    return GradientTrace(
        gradients=gradients,
        ranks=np.arange(num_ranks),
        steps=np.arange(num_steps),
        ready=np.broadcast_to(ready[:, None], (num_steps, len(sizes), num_ranks)),
        backward_begin=np.full(shape, forward_ms * MS),
        arrived=np.full(shape, (forward_ms + backward_ms) * MS),
        after=np.full(shape, after_ms * MS),
        forward=np.full(shape, forward_ms * MS),
        backward=np.full(shape, backward_ms * MS),
        data=np.zeros(shape),
        optimizer=np.full(shape, after_ms * MS),
        outside=np.zeros(shape),
        step_times=np.full(num_steps, step_ms * MS),
    )


def known_draws(
    *,
    alpha_ms: float = 1.0,
    ms_per_mb: float = 2.0,
    negotiation_ms: float = 0.0,
    wakeup_ms: float = 0.0,
    residuals_ms=(0.0,),
    num_draws: int = 20,
) -> CollectiveDraws:
    """The same costs in every draw."""
    return CollectiveDraws(
        alpha_ns=np.full(num_draws, alpha_ms * MS),
        beta_ns_per_byte=np.full(num_draws, ms_per_mb),
        residuals_ns=np.asarray(residuals_ms, dtype=np.float64) * MS,
        negotiation_ns=np.full(num_draws, negotiation_ms * MS),
        wakeups_ns=np.array([wakeup_ms * MS]),
    )


def known_launch(trace: GradientTrace | None = None, **costs) -> LaunchReplay:
    """A launch of ``known_trace`` with ``known_draws``."""
    return LaunchReplay(known_trace() if trace is None else trace, known_draws(**costs), seed=1)
