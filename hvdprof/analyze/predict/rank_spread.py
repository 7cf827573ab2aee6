"""How much later the slowest of N ranks arrives than their mean: lasting differences and jitter.

With x the window of rank r in step k, the time of its own from release to arrival:

    x[k, r] = mean + difference of the host + difference of the rank + jitter[k, r]

The differences of new ranks are drawn from a normal distribution whose variance is not known: few
ranks were measured, so it is a draw too, and the differences are Student's t over draws. Two ranks
alone say next to nothing, and a weak prior keeps their variance finite.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hvdprof.analyze.predict.costs.collective_cost import Topology
from hvdprof.analyze.predict.jitter import Jitter, jitter_of
from hvdprof.analyze.ranks.rank_times import rank_times
from hvdprof.analyze.stats.uncertainty import autocorrelation_time
from hvdprof.analyze.steps.step_work import StepWork, Times
from hvdprof.model.arrays import Bools, Float32s, Float64s, Int64s

PRIOR_SD, PRIOR_DEGREES = 0.005, 2.0
"""Differences of ranks before any is measured: 0.5 % of a step, worth two further ranks."""

_LEAST_STEPS = 4
_MOST_STEPS, _MOST_VALUES = 8, 1536
"""Simulated steps per draw, fewer for many ranks: a control variate takes out most of their noise.
"""


@dataclass(frozen=True, slots=True)
class Variance:
    """An estimated variance in units of the squared mean window, with its degrees of freedom."""

    value: float
    degrees: float

    def draws(self, rng: np.random.Generator, num: int) -> Float64s:
        """[draws] Standard deviations, with the prior."""
        degrees = PRIOR_DEGREES + self.degrees
        squares = PRIOR_DEGREES * PRIOR_SD**2 + self.degrees * self.value
        return np.asarray(np.sqrt(squares / rng.chisquare(degrees, num)))


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Named stragglers among the measured ranks: how much later each is, of the mean window."""

    delays: tuple[float, ...]
    num_ranks: int


@dataclass(frozen=True, slots=True)
class RankSpread:
    """The spread of the ranks of a job.

    Attributes:
        jitter: From step to step.
        of_ranks: Variance between the ranks of a host; without degrees of freedom where each host
            has one rank.
        of_hosts: Variance between hosts; None where one host was measured.
        num_ranks: Measured ranks without named stragglers: their mean is that of the own work.
        stragglers: Named stragglers that are expected again; None without any.
    """

    jitter: Jitter
    of_ranks: Variance
    of_hosts: Variance | None = None
    num_ranks: int = 2
    stragglers: Stragglers | None = None


@dataclass(frozen=True, slots=True)
class DifferenceDraws:
    """Differences of the ranks of a job, [draws] or [draws, ranks], in units of the mean window.

    ``normals`` and ``host_normals`` have a column per rank and host of the largest size; smaller
    sizes use the first ones. ``offset`` is the error of the measured mean.
    """

    rank_sd: Float64s
    host_sd: Float64s
    normals: Float32s
    host_normals: Float64s
    late: Float64s
    offset: Float64s

    def of_ranks(self, ranks_per_host: int) -> Float64s:
        """[draws, ranks] The differences of all ranks."""
        host = np.arange(self.normals.shape[1]) // ranks_per_host
        between = self.host_sd[:, None] * self.host_normals[:, host]
        return self.rank_sd[:, None] * self.normals + between + self.late


@dataclass(frozen=True, slots=True)
class JitterDraws:
    """Jitter of all ranks: [draws] the bootstrap sample, [steps, draws, ranks] depths."""

    sample: Int64s
    depths: Float32s


@dataclass(frozen=True, slots=True)
class Slowest:
    """How much later than the mean rank the last one arrives, [draws], in units of the mean window.

    ``lasting`` is the difference of the slowest rank, ``total`` with the jitter of all of them.
    """

    lasting: Float64s
    total: Float64s


def own_times_of(work: StepWork) -> Times:
    """[steps, ranks] Own time of each rank from its release to its next arrival, ns.

    Steps in which a rank evaluates are omitted.
    """
    return np.asarray(rank_times(work).length[~work.evaluates.any(axis=1)])


def ranks_on_time(work: StepWork, late: Collection[int]) -> Bools:
    """[ranks] Whether each is none of the named stragglers; all where every rank is one."""
    on_time = np.asarray(~np.isin(work.ranks, list(late)))
    return on_time if on_time.any() else ~on_time


def rank_spread(
    works: Sequence[StepWork],
    hosts: Mapping[int, str],
    late: Mapping[int, float],
    rng: np.random.Generator,
    *,
    keeps_stragglers: bool = True,
) -> RankSpread | None:
    """The spread of the ranks of one cell; None without enough steps.

    Args:
        works: Its launches, with the same ranks.
        hosts: The host of each rank.
        late: Mean lateness of each named straggler, ns.
        rng: Source of randomness.
        keeps_stragglers: Whether they are expected among new ranks.
    """
    windows, means = [], []
    for work in works:
        window = own_times_of(work)
        if len(window) < _LEAST_STEPS:
            continue
        on_time = ranks_on_time(work, late)
        own = window[:, on_time]
        windows.append(own / own.mean())
        means.append((work.ranks[on_time], own.mean()))
    if not windows:
        return None
    ranks = means[0][0]
    same = [one for one, (own, _) in zip(windows, means, strict=True) if np.array_equal(own, ranks)]
    named = [hosts.get(int(rank), "") for rank in ranks]
    of_ranks, of_hosts = rank_variances(same, named)
    mean_ns = float(np.mean([mean for _, mean in means]))
    num_all = works[0].own_before_sync.shape[1]
    expected_late = late if keeps_stragglers else {}
    return RankSpread(
        jitter=jitter_of(windows, rng),
        of_ranks=of_ranks,
        of_hosts=of_hosts,
        num_ranks=len(ranks),
        stragglers=(
            Stragglers(tuple(delay / mean_ns for delay in expected_late.values()), num_all)
            if expected_late
            else None
        ),
    )


def rank_variances(
    windows: Sequence[Times], hosts: Sequence[str]
) -> tuple[Variance, Variance | None]:
    """Between the ranks of a host, and between hosts; None for the latter with one host.

    Args:
        windows: Per launch of the same ranks [steps, ranks] their times, in units of the mean.
        hosts: The host of each rank.
    """
    of_rank = np.mean([window.mean(axis=0) for window in windows], axis=0)
    noise = _noise(windows)
    groups = [np.flatnonzero(np.asarray(hosts) == name) for name in dict.fromkeys(hosts)]
    degrees = len(of_rank) - len(groups)
    squares = sum(float(np.square(of_rank[own] - of_rank[own].mean()).sum()) for own in groups)
    inner = max(0.0, squares / degrees - noise) if degrees else 0.0
    of_ranks = Variance(inner, degrees)
    if len(groups) < 2:
        return of_ranks, None
    of_host = np.array([of_rank[own].mean() for own in groups])
    explained = float(np.mean([(inner + noise) / len(own) for own in groups]))
    return of_ranks, Variance(max(0.0, float(of_host.var(ddof=1)) - explained), len(groups) - 1.0)


def _noise(windows: Sequence[Times]) -> float:
    """Variance of the mean of a rank over all steps, from its jitter."""
    of_launch = []
    for window in windows:
        own = window - window.mean(axis=1, keepdims=True) if window.shape[1] > 1 else window
        factor = window.shape[1] / max(window.shape[1] - 1, 1)
        correlated = float(np.mean([autocorrelation_time(column) for column in own.T]))
        of_launch.append(float(own.var(axis=0).mean()) * factor * correlated / len(window))
    return float(np.mean(of_launch)) / len(windows)


def draw_differences(
    spread: RankSpread, rng: np.random.Generator, num_draws: int, largest: Topology
) -> DifferenceDraws:
    """Differences of the ranks of new jobs.

    A named straggler was k of R ranks: the share of such ranks is a draw from
    Beta(k + 1/2, R - k + 1/2), and each new rank is one of them with that probability.
    """
    rank_sd = spread.of_ranks.draws(rng, num_draws)
    host_sd = np.zeros(num_draws)
    if spread.of_hosts is not None:
        host_sd = spread.of_hosts.draws(rng, num_draws)
        if not spread.of_ranks.degrees:
            # With one rank per host the differences of hosts are those of the ranks.
            rank_sd = np.zeros(num_draws)
    normals = rng.standard_normal((num_draws, largest.num_ranks), dtype=np.float32)
    host_normals = rng.standard_normal((num_draws, largest.num_hosts))
    offset = rank_sd * rng.standard_normal(num_draws) / np.sqrt(spread.num_ranks)
    if spread.of_hosts is not None:
        num_hosts = spread.of_hosts.degrees + 1
        offset += host_sd * rng.standard_normal(num_draws) / np.sqrt(num_hosts)
    late = np.zeros((num_draws, 1))
    if spread.stragglers is not None:
        num, of = len(spread.stragglers.delays), spread.stragglers.num_ranks
        share = rng.beta(num + 0.5, max(of - num, 0) + 0.5, num_draws)
        is_late = rng.random((num_draws, largest.num_ranks)) < share[:, None]
        late = is_late * rng.choice(spread.stragglers.delays, num_draws)[:, None]
    return DifferenceDraws(rank_sd, host_sd, normals, host_normals, late, offset)


def draw_jitter(
    jitter: Jitter, rng: np.random.Generator, num_draws: int, most_ranks: int
) -> JitterDraws:
    """Jitter of the ranks of new jobs."""
    num_steps = max(1, min(_MOST_STEPS, _MOST_VALUES // most_ranks))
    return JitterDraws(
        rng.integers(0, jitter.num_samples, num_draws),
        rng.standard_exponential((num_steps, num_draws, most_ranks), dtype=np.float32),
    )


def slowest_of(
    jitter: Jitter,
    differences: DifferenceDraws,
    draws: JitterDraws,
    sizes: Sequence[int],
    ranks_per_host: int,
) -> dict[int, Slowest]:
    """The slowest rank of each size; a larger size has the ranks of the smaller ones, and more.

    Args:
        jitter: Its distribution.
        differences: Of the ranks.
        draws: Of the jitter.
        sizes: Numbers of ranks, at most as many as were drawn.
        ranks_per_host: Ranks per host.
    """
    of_ranks = differences.of_ranks(ranks_per_host)
    shape = draws.depths.shape[:2]
    lasting = np.full(shape[1], -np.inf)
    alone, total = np.full(shape, -np.inf), np.full(shape, -np.inf)
    found, done = {}, 0
    for size in sorted(set(sizes)):
        new = of_ranks[:, done:size]
        if new.shape[1]:
            depths = draws.depths[:, :, done:size]
            values = jitter.values(draws.sample[:, None], depths)
            lasting = np.maximum(lasting, new.max(axis=1))
            alone = np.maximum(alone, values.max(axis=2))
            total = np.maximum(total, (values + new).max(axis=2))
        done = size
        expected = jitter.expected_maximum(size)[draws.sample]
        found[size] = Slowest(
            lasting + differences.offset,
            (total - alone).mean(axis=0) + expected + differences.offset,
        )
    return found
