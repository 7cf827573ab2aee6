"""Measured allreduces, and draws from the posterior of a few parameters that they bound.

1. The mode is found with BFGS (``scipy.optimize``), its curvature by differences.
2. Proposals are half Student's t with four degrees of freedom around the mode, half the priors.
   They are resampled with weights of posterior over proposal (Rubin, Bayesian Statistics 3, 1988).
3. From there, an ensemble of walkers moves by stretches (Goodman and Weare, CAMCoS 5, 2010). It
   reaches the arms of curved posteriors, as where only a sum of two parameters is measured.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hvdprof.model.cell_key import LAUNCH
from hvdprof.rundir.plan import HOROVOD_ENGINE

_STEP = 1e-3
_DEGREES = 4.0
_PROPOSALS = 3_000
_WALKERS = 300
_SWEEPS = 60
_EVERY = 3
_STRETCH = 2.0
_WIDEN = 1.2
"""Proposals are this much wider than the curvature at the mode says."""

_REACH = 10.0
"""The search stays within so many standard deviations of the priors: exponentials are finite."""

_SETS_AT_ONCE = 500

Densities = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""The logarithm of a density of many parameter sets [sets, parameters] at once."""

_ALLREDUCE = "ALLREDUCE"
_COLUMNS = ["num_ranks", "ranks_per_host", "size_bytes", "time_ns", "is_whole"]


@dataclass(frozen=True, slots=True)
class Prior:
    """A lognormal prior: its median, and the standard deviation of the logarithm."""

    median: float
    log_error: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """A weighted likelihood with Gaussian priors on the parameters.

    Attributes:
        log_likelihood: Of many parameter sets.
        prior_means: Of each parameter.
        prior_errors: Standard deviation of each prior.
        weight: Factor on the log-likelihood, below 1 where observations are not independent.
    """

    log_likelihood: Densities
    prior_means: NDArray[np.float64]
    prior_errors: NDArray[np.float64]
    weight: float = 1.0

    def log_density(self, sets: NDArray[np.float64]) -> NDArray[np.float64]:
        """The logarithm of the posterior up to a constant."""
        prior = -0.5 * (((sets - self.prior_means) / self.prior_errors) ** 2).sum(axis=1)
        return np.asarray(self.weight * self.log_likelihood(sets) + prior)

    def mode(self, starts: Sequence[NDArray[np.float64]] = ()) -> NDArray[np.float64]:
        """The parameters of the largest density, searched from the prior means by default.

        Of several starts, the best end counts.
        """
        ends = [self._climb(start) for start in starts or (self.prior_means,)]
        return ends[int(np.argmax(self.log_density(np.array(ends))))]

    def _climb(self, start: NDArray[np.float64]) -> NDArray[np.float64]:
        # Importing scipy.optimize takes a while: only commands that fit pay for it.
        from scipy.optimize import Bounds, minimize

        steps = _STEP * np.eye(len(start))
        reach = _REACH * self.prior_errors
        bounds = Bounds(self.prior_means - reach, self.prior_means + reach)

        def value_and_slope(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            values = self.log_density(np.vstack([point, point + steps, point - steps]))
            number = len(point)
            slope = (values[1 : number + 1] - values[number + 1 :]) / (2 * _STEP)
            return -float(values[0]), -slope

        found = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds)
        return np.asarray(found.x, dtype=np.float64)

    def draws(
        self, mode: NDArray[np.float64], random: np.random.Generator, num_draws: int
    ) -> NDArray[np.float64]:
        """Draws [draws, parameters] from the posterior around a mode."""
        walkers = self._resampled(mode, random)
        densities = self.log_density(walkers)
        pool = []
        for sweep in range(_SWEEPS):
            for half in (0, 1):
                self._stretch(walkers, densities, half, random)
            if sweep >= _SWEEPS // 2 and sweep % _EVERY == 0:
                pool.append(walkers.copy())
        drawn = np.concatenate(pool)
        chosen = random.choice(len(drawn), size=num_draws, replace=num_draws > len(drawn))
        return np.asarray(drawn[chosen])

    def _resampled(
        self, mode: NDArray[np.float64], random: np.random.Generator
    ) -> NDArray[np.float64]:
        """The first walkers, by importance resampling."""
        number, size = _PROPOSALS // 2, len(mode)
        factor = _WIDEN * np.asarray(np.linalg.cholesky(self._covariance(mode)), dtype=np.float64)
        normal = random.standard_normal((2, number, size))
        spread = np.sqrt(random.chisquare(_DEGREES, (number, 1)) / _DEGREES)
        around = mode + (normal[0] / spread) @ factor.T
        proposals = np.concatenate([around, self.prior_means + self.prior_errors * normal[1]])
        pieces = range(0, len(proposals), _SETS_AT_ONCE)
        # In pieces: a likelihood needs memory for every set and observation.
        densities = [self.log_density(proposals[at : at + _SETS_AT_ONCE]) for at in pieces]
        logs = np.concatenate(densities) - self._log_proposal(proposals, mode, factor)
        weights = np.exp(logs - logs.max())
        return proposals[random.choice(len(weights), size=_WALKERS, p=weights / weights.sum())]

    def _log_proposal(
        self, sets: NDArray[np.float64], mode: NDArray[np.float64], factor: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The density of the mixture of both kinds of proposals, up to a constant of both."""
        size = len(mode)
        scaled = np.asarray(np.linalg.solve(factor, (sets - mode).T), dtype=np.float64)
        squares = np.square(scaled).sum(axis=0)
        constant = math.lgamma((_DEGREES + size) / 2) - math.lgamma(_DEGREES / 2)
        constant += size / 2 * math.log(2 / _DEGREES) - float(np.log(np.diag(factor)).sum())
        around = constant - (_DEGREES + size) / 2 * np.log1p(squares / _DEGREES)
        from_mean = ((sets - self.prior_means) / self.prior_errors) ** 2
        prior = -0.5 * from_mean.sum(axis=1) - float(np.log(self.prior_errors).sum())
        return np.asarray(np.logaddexp(around, prior))

    def _stretch(
        self,
        walkers: NDArray[np.float64],
        densities: NDArray[np.float64],
        half: int,
        random: np.random.Generator,
    ) -> None:
        """Move every second walker along the line to one of the others, in place."""
        moved, others = walkers[half::2], walkers[1 - half :: 2]
        number = len(moved)
        factor = ((_STRETCH - 1) * random.random(number) + 1) ** 2 / _STRETCH
        partners = others[random.integers(0, len(others), number)]
        proposed = partners + factor[:, np.newaxis] * (moved - partners)
        found = self.log_density(proposed)
        gain = (walkers.shape[1] - 1) * np.log(factor) + found - densities[half::2]
        taken = np.log(random.random(number)) < gain
        moved[taken] = proposed[taken]
        densities[half::2][taken] = found[taken]

    def _covariance(self, mode: NDArray[np.float64]) -> NDArray[np.float64]:
        """The inverse of the curvature; never wider than the priors in any direction."""
        number, step = len(mode), 10 * _STEP
        shifts = step * np.eye(number)
        points = [
            mode + first * shifts[row] + second * shifts[column]
            for row in range(number)
            for column in range(number)
            for first in (1, -1)
            for second in (1, -1)
        ]
        values = self.log_density(np.array(points)).reshape(number, number, 4)
        mixed = values[..., 0] - values[..., 1] - values[..., 2] + values[..., 3]
        scaled = -mixed / (4 * step**2) * np.outer(self.prior_errors, self.prior_errors)
        eigenvalues, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
        inverse = (vectors / np.maximum(eigenvalues, 1.0)) @ vectors.T
        return np.asarray(inverse * np.outer(self.prior_errors, self.prior_errors))


@dataclass(frozen=True, slots=True)
class Observations:
    """Measured allreduces, one per place of the arrays, in the order in which they ran.

    Attributes:
        num_ranks: Ranks of each.
        ranks_per_host: Ranks of the fullest host.
        size_bytes: Payloads.
        time_ns: Measured times, above 0.
        is_whole: True where the time includes Horovod's cycle and negotiation.
    """

    num_ranks: NDArray[np.int64]
    ranks_per_host: NDArray[np.int64]
    size_bytes: NDArray[np.float64]
    time_ns: NDArray[np.float64]
    is_whole: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.time_ns)

    def thinned(self, most: int) -> "Observations":
        """At most so many of each number of ranks and half decade of payload, spread evenly.

        Else the many small allreduces of a step, which matter least, decide a fit.
        """
        decades = np.floor(2 * np.log10(np.maximum(self.size_bytes, 1.0)))
        cells = np.stack([self.num_ranks, self.is_whole, decades], axis=1)
        _, cell_of = np.unique(cells, axis=0, return_inverse=True)
        places = []
        for cell in range(int(cell_of.max(initial=-1)) + 1):
            members = np.flatnonzero(cell_of == cell)
            number = min(most, len(members))
            places.append(members[np.linspace(0, len(members) - 1, number).round().astype(int)])
        chosen = np.sort(np.concatenate(places)) if places else np.empty(0, dtype=np.int64)
        return Observations(
            self.num_ranks[chosen],
            self.ranks_per_host[chosen],
            self.size_bytes[chosen],
            self.time_ns[chosen],
            self.is_whole[chosen],
        )


def observed_allreduces(
    collectives: pd.DataFrame,
    segments: pd.DataFrame,
    ranks: pd.DataFrame,
    net_transfers: pd.DataFrame,
    passes: set[str],
) -> Observations:
    """The allreduces of a run that say what communication costs, none where it holds none.

    Transfers of traced launches, without warm-up, and the allreduces of ``hvdprof net`` among all
    hosts, which include Horovod's cycle and negotiation. Oversubscribed launches are left out:
    their ranks wait for cores. So are those of DDP, whose transfers overlap.

    Args:
        collectives: COLLECTIVES.
        segments: SEGMENTS.
        ranks: RANKS, for the hosts of a pass.
        net_transfers: NET_TRANSFERS.
        passes: Passes whose launches count: those of one controller.
    """
    names = dict.fromkeys(LAUNCH, str)
    launches = _launches(segments, ranks, passes)
    executed = collectives[
        (collectives["collective"] == _ALLREDUCE).to_numpy()
        & ~collectives["warmup"].to_numpy(dtype=bool)
        & collectives["size_bytes"].notna().to_numpy()
        & (collectives["transfer_ns"] > 0).to_numpy()
    ].astype(names)
    joined = executed.merge(launches, on=LAUNCH).rename(columns={"transfer_ns": "time_ns"})
    timed = joined.sort_values([*LAUNCH, "start_ns"], kind="stable").assign(is_whole=False)
    between = net_transfers[(net_transfers["method"] == "allreduce").to_numpy()]
    alone = between.rename(columns={"np": "num_ranks"}).assign(ranks_per_host=1, is_whole=True)
    both = [frame[_COLUMNS] for frame in (timed, alone) if len(frame)]
    table = pd.concat(both) if both else pd.DataFrame(columns=_COLUMNS)
    return Observations(
        table["num_ranks"].to_numpy(dtype=np.int64),
        table["ranks_per_host"].to_numpy(dtype=np.int64),
        table["size_bytes"].to_numpy(dtype=np.float64),
        table["time_ns"].to_numpy(dtype=np.float64),
        table["is_whole"].to_numpy(dtype=np.bool_),
    )


def _launches(segments: pd.DataFrame, ranks: pd.DataFrame, passes: set[str]) -> pd.DataFrame:
    """Launch, ``num_ranks`` and ``ranks_per_host`` of what counts."""
    hosts = ranks.astype({"pass_id": str, "hostname": str})
    counts = hosts.groupby(["pass_id", "hostname"]).size().groupby("pass_id").max()
    own = segments[
        segments["pass_id"].astype(str).isin(passes & set(counts.index)).to_numpy()
        & (segments["engine"] == HOROVOD_ENGINE).to_numpy()
        & ~segments["oversubscribed"].to_numpy(dtype=bool)
        & (segments["size"] > 1).to_numpy()
    ]
    names = dict.fromkeys(LAUNCH, str)
    found: pd.DataFrame = own[[*LAUNCH, "size"]].astype(names).drop_duplicates(LAUNCH)
    found["ranks_per_host"] = found["pass_id"].map(counts)
    return found.rename(columns={"size": "num_ranks"})
