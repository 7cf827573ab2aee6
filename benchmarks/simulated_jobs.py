"""Simulated training jobs, rank by rank and bucket by bucket, whose truth is known.

Other in form than the model of the forecast where that matters: speeds of ranks are lognormal, not
normal. Jitter is gamma-distributed with stalls, and autocorrelated where all ranks share it. A
fused bucket costs a copy besides the ring, a lognormal factor, and more with every doubling of the
hosts. Backward slows down in the steps in which collectives execute.
"""

from dataclasses import dataclass

import numpy as np

from hvdprof.model.arrays import Float64s

MS = 1e6
RANKS_PER_HOST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJob:
    """The truth of one job; times in ns. Ratios are those of forward and backward together.

    Attributes:
        forward_ns: Of the mean rank.
        backward_ns: Of the mean rank, without communication.
        update_ns: The optimizer.
        size_bytes: [gradients] In the order in which backward produces them.
        progress: [gradients] The share of backward that is done when each is ready.
        rank_sd: Of the logarithm of a rank's time.
        jitter_sd: Of a rank from step to step.
        stall_share: Share of the steps in which a rank stalls.
        stall: Mean length of a stall.
        common_sd: Of what all ranks share, with autocorrelation 0.6.
        launch_sd: Of a launch.
        slowdown: More backward per share of it that is covered by collectives.
        alpha_ns: Per message, inside hosts and between them.
        beta_ns: Per byte, inside hosts and between them.
        copy_ns: Per byte, into and out of the fusion buffer.
        congestion: More time between hosts per doubling of the hosts.
        cost_sd: Of the logarithm of the time of a collective.
        negotiation_ns: Per doubling of the ranks.
        cycle_ns: Of Horovod's loop.
        fusion_bytes: Fusion threshold.
    """

    forward_ns: float
    backward_ns: float
    update_ns: float
    size_bytes: Float64s
    progress: Float64s
    rank_sd: float
    jitter_sd: float
    stall_share: float
    stall: float
    common_sd: float
    launch_sd: float
    slowdown: float
    alpha_ns: tuple[float, float]
    beta_ns: tuple[float, float]
    copy_ns: float
    congestion: float
    cost_sd: float
    negotiation_ns: float
    cycle_ns: float
    fusion_bytes: float

    @property
    def compute_ns(self) -> float:
        """Forward and backward."""
        return self.forward_ns + self.backward_ns


@dataclass(frozen=True, slots=True)
class SimulatedLaunch:
    """Steps of one launch; times in ns.

    ``window`` and ``backward`` [steps, ranks] are own time and the backward in it, ``ready``
    [steps, gradients] counts from the arrival of the last rank, ``step_ns`` [steps] is the step.
    ``sizes`` and ``costs`` are those of its collectives.
    """

    window: Float64s
    backward: Float64s
    ready: Float64s
    step_ns: Float64s
    sizes: Float64s
    costs: Float64s


def random_job(rng: np.random.Generator) -> SimulatedJob:
    """A job with parameters as clusters have them, from nearly perfect scaling to very bad one."""
    compute = _log_uniform(rng, 40, 400) * MS
    num = int(rng.integers(8, 30))
    shares = rng.gamma(1.0, size=num)
    network = compute * _log_uniform(rng, 0.02, 0.8)
    num_bytes = _log_uniform(rng, 10e6, 400e6)
    beta = network / num_bytes / 2
    return SimulatedJob(
        forward_ns=compute / 3,
        backward_ns=compute * 2 / 3,
        update_ns=compute * rng.uniform(0.01, 0.05),
        size_bytes=num_bytes * shares / shares.sum(),
        progress=np.sort(rng.random(num)) ** rng.uniform(0.5, 1.0),
        rank_sd=_log_uniform(rng, 0.001, 0.02),
        jitter_sd=_log_uniform(rng, 0.002, 0.03),
        stall_share=_log_uniform(rng, 1e-4, 1e-2),
        stall=_log_uniform(rng, 0.01, 0.2),
        common_sd=_log_uniform(rng, 0.001, 0.02),
        launch_sd=_log_uniform(rng, 0.001, 0.01),
        slowdown=rng.uniform(0.0, 0.3),
        alpha_ns=(_log_uniform(rng, 2e3, 10e3), _log_uniform(rng, 8e3, 40e3)),
        beta_ns=(beta * rng.uniform(0.1, 0.8), beta),
        copy_ns=_log_uniform(rng, 0.01, 0.1),
        congestion=rng.uniform(0.0, 0.1),
        cost_sd=_log_uniform(rng, 0.02, 0.2),
        negotiation_ns=_log_uniform(rng, 30e3, 200e3),
        cycle_ns=_log_uniform(rng, 0.5, 5) * MS,
        fusion_bytes=_log_uniform(rng, 16e6, 128e6),
    )


def simulate(
    job: SimulatedJob,
    num_ranks: int,
    num_steps: int,
    rng: np.random.Generator,
    *,
    speeds: Float64s | None = None,
) -> SimulatedLaunch:
    """One launch.

    Args:
        job: The truth.
        num_ranks: Ranks.
        num_steps: Steps.
        rng: Source of randomness.
        speeds: [ranks] Of the ranks (``random_speeds``); new ones where not given.
    """
    shape = (num_steps, num_ranks)
    speed = random_speeds(job, num_ranks, rng) if speeds is None else speeds
    shape_of_jitter = 4.0
    jitter = job.jitter_sd * (rng.gamma(shape_of_jitter, size=shape) / 2.0 - 2.0)
    stalls = (rng.random(shape) < job.stall_share) * rng.exponential(job.stall, shape)
    common = job.common_sd * _autoregressive(rng, num_steps)
    launch = np.exp(job.launch_sd * rng.standard_normal())
    factor = launch * speed * (1 + jitter + stalls + common[:, None])
    forward, backward = job.forward_ns * factor, job.backward_ns * factor
    phase = rng.random(num_steps)
    windows, ready, steps, sizes, costs = [], [], [], [], []
    for step in range(num_steps):
        late = _Loop(job, num_ranks, rng)
        ends = forward[step] + backward[step]
        at = (forward[step] + job.progress[:, None] * backward[step]).max(axis=1)
        late.run(at, phase[step])
        covered = min(late.busy_ns / job.backward_ns, 1.0) if num_ranks > 1 else 0.0
        more = job.slowdown * covered * backward[step]
        backward[step] += more
        ends, at = ends + more, at + job.progress * more.max()
        last = ends.max()
        release = max(late.end_ns + more.max(), last) if num_ranks > 1 else last
        windows.append(ends + job.update_ns * launch)
        ready.append(np.minimum(at - last, 0.0))
        steps.append(release + job.update_ns * launch)
        sizes += late.sizes
        costs += late.costs
    return SimulatedLaunch(
        np.array(windows),
        backward,
        np.array(ready),
        np.array(steps),
        np.array(sizes),
        np.array(costs),
    )


def random_speeds(job: SimulatedJob, num_ranks: int, rng: np.random.Generator) -> Float64s:
    """[ranks] How much longer than the mean rank each takes."""
    return np.asarray(np.exp(job.rank_sd * rng.standard_normal(num_ranks)))


class _Loop:
    """Horovod's loop in one step, bucket after bucket."""

    def __init__(self, job: SimulatedJob, num_ranks: int, rng: np.random.Generator) -> None:
        self._job, self._num_ranks, self._rng = job, num_ranks, rng
        self.sizes: list[float] = []
        self.costs: list[float] = []
        self.end_ns = self.busy_ns = 0.0

    def run(self, ready: Float64s, phase: float) -> None:
        """All gradients of a step; the loop is at ``phase`` of its cycle at the first one."""
        if self._num_ranks == 1:
            return
        job, place = self._job, 0
        now = float(ready[0]) + phase * job.cycle_ns
        negotiation = job.negotiation_ns * np.log2(self._num_ranks)
        while place < len(ready):
            begin = max(now, float(ready[place]))
            cycles = np.ceil((begin - now) / job.cycle_ns)
            tick = now + cycles * job.cycle_ns
            until = int(np.searchsorted(ready, tick, side="right"))
            now = tick + negotiation
            while place < until:
                bucket, place = self._bucket(place, until)
                now += self._execute(bucket)
            self.end_ns = now
            now = max(now, tick + job.cycle_ns)

    def _bucket(self, place: int, until: int) -> tuple[float, int]:
        size = float(self._job.size_bytes[place])
        place += 1
        while place < until and size + self._job.size_bytes[place] <= self._job.fusion_bytes:
            size += float(self._job.size_bytes[place])
            place += 1
        return size, place

    def _execute(self, size: float) -> float:
        """A ring over all ranks, and copies."""
        job, num, hosts = self._job, self._num_ranks, -(-self._num_ranks // RANKS_PER_HOST)
        crossing = 2 * (hosts - 1)
        moved = 2 * (num - 1) / num * size
        inside = job.beta_ns[0] * moved
        between = job.beta_ns[1] * moved * (1 + job.congestion * np.log2(hosts)) * (hosts > 1)
        hops = (2 * (num - 1) - crossing) * job.alpha_ns[0] + crossing * job.alpha_ns[1]
        scatter = np.exp(job.cost_sd * self._rng.standard_normal())
        cost = float((hops + max(inside, between)) * scatter + job.copy_ns * size)
        self.sizes.append(size)
        self.costs.append(cost)
        self.busy_ns += cost
        return cost


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _autoregressive(rng: np.random.Generator, num: int) -> Float64s:
    values = rng.standard_normal(num)
    for step in range(1, num):
        values[step] = 0.6 * values[step - 1] + 0.8 * values[step]
    return values
