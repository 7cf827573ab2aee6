"""Which algorithm, and which alpha and beta, explain the measured times of allreduces.

The time of an allreduce is modelled as ``overhead + cost``, with the cost of each rule of
``algorithm_rules``. The logarithm of the measured time scatters around it with Student's t of four
degrees of freedom, because single transfers stall. Its width is ``relative + log(1 + delay/time)``:
delays of the processor do not grow with the payload, so that small messages scatter more.

All parameters are fitted as logarithms, with weak priors (``PRIORS``) that keep what the data do
not show within the physically possible. Rules are compared by AICc (Hurvich and Tsai, Biometrika
76, 1989). Executions of one step resemble each other; the likelihood counts the effective number of
them. Draws come from the posterior (``posterior_draws``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hvdprof.analyze.predict.costs.collective_cost import Link, Topology
from hvdprof.analyze.predict.costs.cost_draws import RULES, CostDraws, Rule
from hvdprof.analyze.predict.costs.posterior_draws import Observations, Posterior, Prior
from hvdprof.analyze.stats.uncertainty import autocorrelation_time

DOCUMENTED_ODDS = 100.0
"""Prior odds of the rule that the library in use documents, against every other rule.

At two ranks a ring and Rabenseifner's algorithm take equally long; such ties follow the
documentation. Measurements whose AICc differ by more than 9 overrule it.
"""

LEAST_SHARE = 1e-3
"""Rules that are less probable get no draws."""

MOST_PER_CELL = 20
_DEGREES = 4.0
PARAMETERS = (
    "intra_alpha",
    "intra_beta",
    "inter_alpha",
    "inter_beta",
    "inter_burst",
    "overhead",
    "whole_overhead",
    "relative",
    "delay",
)


PRIORS: Mapping[str, Prior] = MappingProxyType(
    {
        "intra_alpha": Prior(5_000.0, 1.2),
        "intra_beta": Prior(1 / 3, 1.2),
        "inter_alpha": Prior(30_000.0, 1.2),
        "inter_beta": Prior(1.0, 2.0),
        "inter_burst": Prior(4_000.0, 2.0),
        "overhead": Prior(20_000.0, 1.5),
        "whole_overhead": Prior(1e6, 1.5),
        "relative": Prior(0.15, 1.0),
        "delay": Prior(50_000.0, 2.0),
    }
)
"""Medians in ns, ns per byte, bytes and 1; one standard deviation is a factor of 3 to 7.

``overhead`` is the library's own time per allreduce, the same at every number of ranks;
``whole_overhead`` adds Horovod's cycle and negotiation where the time was taken outside of Horovod.
"""


_SLOW_START = np.log([30.0 if name.endswith("alpha") else 1.0 for name in PARAMETERS])
"""A second start of the search: latencies 30 times the prior, as on hosts short of cores."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """How well one rule explains the observations.

    ``weight`` is the posterior probability among all rules. ``parameters`` are the best
    ones by name.
    """

    rule: Rule
    log_likelihood: float
    aicc: float
    weight: float
    parameters: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AlgorithmChoice:
    """All rules with their evidence, best first, and draws over rules and parameters.

    ``informed`` names the parameters on which the observations say more than the priors.
    """

    candidates: tuple[Candidate, ...]
    draws: CostDraws
    num_effective: float
    informed: tuple[str, ...]


def choose_algorithm(
    observations: Observations,
    random: np.random.Generator,
    *,
    num_draws: int = 2_000,
    documented: Rule | None = None,
    rules: Sequence[Rule] = RULES,
    priors: Mapping[str, Prior] = PRIORS,
) -> AlgorithmChoice:
    """The rules by how well they explain the measured times, and posterior draws.

    Args:
        observations: At least one allreduce of two or more ranks.
        random: Source of the draws.
        num_draws: Draws over all rules together.
        documented: The rule that the library in use documents, favoured by ``DOCUMENTED_ODDS``.
        rules: The rules to compare.
        priors: A prior per name of ``PARAMETERS``; narrower ones state other measurements.
    """
    used = observations.thinned(MOST_PER_CELL)
    means = np.log([priors[name].median for name in PARAMETERS])
    errors = np.array([priors[name].log_error for name in PARAMETERS])
    models = [_Model(rule, used) for rule in rules]
    modes, weight = _fitted(models, means, errors)
    posteriors = [Posterior(model, means, errors, weight) for model in models]
    likelihoods = [
        weight * float(model(mode[np.newaxis])[0])
        for model, mode in zip(models, modes, strict=True)
    ]
    num_effective = weight * len(used)
    aiccs = [
        _aicc(likelihood, model.num_parameters, num_effective)
        for likelihood, model in zip(likelihoods, models, strict=True)
    ]
    shares = _shares(aiccs, rules, documented)
    order = np.argsort(-shares, kind="stable")
    candidates = tuple(
        Candidate(
            rules[place],
            likelihoods[place],
            aiccs[place],
            float(shares[place]),
            dict(zip(PARAMETERS, map(float, np.exp(modes[place])), strict=True)),
        )
        for place in order
    )
    of_draw = random.choice(len(rules), size=num_draws, p=shares)
    drawn = np.empty((num_draws, len(PARAMETERS)))
    for place in np.unique(of_draw):
        chosen = np.flatnonzero(of_draw == place)
        drawn[chosen] = posteriors[place].draws(modes[place], random, len(chosen))
    best = int(order[0])
    spread = drawn[of_draw == best].std(axis=0)
    informed = zip(PARAMETERS, spread <= errors / 2, strict=True)
    return AlgorithmChoice(
        candidates,
        _cost_draws(tuple(rules), of_draw, drawn, *_residuals(models[best], modes[best])),
        num_effective,
        tuple(name for name, is_informed in informed if is_informed),
    )


def _fitted(
    models: "Sequence[_Model]", means: NDArray[np.float64], errors: NDArray[np.float64]
) -> tuple[list[NDArray[np.float64]], float]:
    """The best parameters of every rule, and the share of observations that is independent."""
    searched: dict[bytes, NDArray[np.float64]] = {}
    for model in models:
        if model.key not in searched:
            starts = (means, means + _SLOW_START)
            searched[model.key] = Posterior(model, means, errors).mode(starts)
    modes = [searched[model.key] for model in models]
    fits = [float(model(mode[np.newaxis])[0]) for model, mode in zip(models, modes, strict=True)]
    # Residuals of a wrong rule follow the numbers of ranks: those of the best one count.
    best = int(np.argmax(fits))
    weight = _independent_share(models[best], modes[best])
    return [
        Posterior(model, means, errors, weight).mode((mode,))
        for model, mode in zip(models, modes, strict=True)
    ], weight


class _Model:
    """Log-likelihood of a rule at many parameter sets at once."""

    def __init__(self, rule: Rule, observed: Observations) -> None:
        pairs = zip(observed.num_ranks, observed.ranks_per_host, observed.size_bytes, strict=True)
        terms = [rule.terms(Topology(int(n), int(local)), size) for n, local, size in pairs]
        self.observed = observed
        self.log_times = np.log(observed.time_ns)
        # [alternatives, coefficients, observations]
        self.coefficients = np.array(
            [
                [
                    (t.intra_messages, t.inter_messages, t.intra_sizes, t.inter_sizes)
                    for t in alternative
                ]
                for alternative in zip(*terms, strict=True)
            ]
        ).transpose(0, 2, 1)
        self.pipelined = np.array(
            [[t.is_pipelined for t in alternative] for alternative in zip(*terms, strict=True)]
        )

    @property
    def key(self) -> bytes:
        """Equal for rules that are the same at the observed ranks and payloads."""
        return self.coefficients.tobytes() + self.pipelined.tobytes()

    @property
    def num_parameters(self) -> int:
        """Parameters on which the modelled times depend, the two of the scatter included."""
        is_used = np.any(self.coefficients, axis=(0, 2))
        # The burst belongs to the network, which is the last of the four coefficients.
        return int(is_used.sum()) + int(is_used[3]) + 3 + int(self.observed.is_whole.any())

    def times(self, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        """Modelled times, [sets, observations], from logarithms of the parameters."""
        values = np.exp(parameters)[:, :, np.newaxis]
        sizes = self.observed.size_bytes
        best = np.full((len(parameters), len(sizes)), np.inf)
        for (messages, crossing, inner, outer), pipelined in zip(
            self.coefficients, self.pipelined, strict=True
        ):
            within = values[:, 1] * inner * sizes
            between = values[:, 3] * np.maximum(outer * sizes - values[:, 4], 0.0)
            moved = np.where(pipelined, np.maximum(within, between), within + between)
            cost = values[:, 0] * messages + values[:, 2] * crossing + moved
            best = np.minimum(best, cost)
        return best + values[:, 5] + np.where(self.observed.is_whole, values[:, 6], 0.0)

    def __call__(self, parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-likelihood of every parameter set."""
        times = self.times(parameters)
        values = np.exp(parameters)
        widths = values[:, 7, np.newaxis] + np.log1p(values[:, 8, np.newaxis] / times)
        z = (self.log_times - np.log(times)) / widths
        tails = -(_DEGREES + 1) / 2 * np.log1p(z**2 / _DEGREES)
        # The constant of Student's t for four degrees of freedom is 3 / 8.
        return np.asarray((tails - np.log(widths) + np.log(0.375)).sum(axis=1))


def _independent_share(model: _Model, mode: NDArray[np.float64]) -> float:
    """Independent observations per observation, from neighbouring residuals."""
    residuals = model.log_times - np.log(model.times(mode[np.newaxis])[0])
    if len(residuals) < 8:
        return 1.0
    # Ranks of the residuals: one long stall says nothing on how its neighbours correlate.
    ranks = residuals.argsort().argsort().astype(np.float64)
    return 1 / autocorrelation_time(ranks)


def _aicc(log_likelihood: float, num_parameters: int, num_effective: float) -> float:
    """AICc; with no more observations than parameters the correction is that of one to spare."""
    spare = max(num_effective - num_parameters - 1, 1.0)
    correction = 2 * num_parameters * (num_parameters + 1) / spare
    return 2 * num_parameters - 2 * log_likelihood + correction


def _shares(
    aiccs: Sequence[float], rules: Sequence[Rule], documented: Rule | None
) -> NDArray[np.float64]:
    """Akaike weights times prior odds."""
    odds = [DOCUMENTED_ODDS if rule == documented else 1.0 for rule in rules]
    logs = np.log(odds) - np.array(aiccs) / 2
    weights = np.exp(logs - logs.max())
    weights[weights < LEAST_SHARE * weights.sum()] = 0
    return np.asarray(weights / weights.sum())


def _residuals(
    model: _Model, mode: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of measured over fitted times, and the fitted times, by rising fitted time."""
    fitted = model.times(mode[np.newaxis])[0]
    order = np.argsort(fitted, kind="stable")
    return (model.log_times - np.log(fitted))[order], fitted[order]


def _cost_draws(
    rules: tuple[Rule, ...],
    of_draw: NDArray[np.int64],
    drawn: NDArray[np.float64],
    log_residuals: NDArray[np.float64],
    fitted: NDArray[np.float64],
) -> CostDraws:
    values = np.exp(drawn)
    intra = Link(values[:, 0], values[:, 1])
    inter = Link(values[:, 2], values[:, 3], values[:, 4])
    return CostDraws(rules, of_draw, intra, inter, values[:, 5], log_residuals, fitted)
