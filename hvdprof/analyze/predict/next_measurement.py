"""Which measurement narrows the band most per rank-hour, by what widens the band.

A measurement leaves a part of the variance that an input causes. What the band will be follows from
the first-order indices of the inputs:

band after = band before * sqrt(1 - sum over inputs of S_i * (1 - remaining_i))

The remaining shares are those of independent samples: half for twice as many launches. They say
what is worth measuring, not what the next band will be.

With f the efficiency, A and B two independent sets of draws, and B_i the set B with the group i of
A (Saltelli et al., Computer Physics Communications 181, 2010):

S_i = mean(f(A) * (f(B_i) - f(B))) / Var(f)

is the share of the variance that disappears, on average, once the input i is known. The shares of
independent inputs sum to 1 at most; estimates that exceed it are scaled down together.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hvdprof.analyze.predict.draws import GROUPS, Draws
from hvdprof.analyze.predict.measure_command import MeasureCommand
from hvdprof.analyze.predict.rank_spread import PRIOR_DEGREES
from hvdprof.model.arrays import Float64s

_STEP_FACTOR = 4
"""A longer run has so many times the steps."""

_STARTUP_S = 20.0
_NETWORK_S = 60.0
_LEAST_GAIN = 0.01
"""A measurement that narrows the band by less than this share of it is not worth listing."""


@dataclass(frozen=True, slots=True)
class WidthSource:
    """First-order index of an input, with its standard error."""

    first_order: float
    error: float


def width_sources(
    efficiency: Callable[[Draws], Float64s], first: Draws, second: Draws
) -> Mapping[str, WidthSource]:
    """The index of every input, by the names of ``model.forecast.INPUTS``.

    All are 0 where the efficiency does not vary.

    Args:
        efficiency: [draws] of a set of draws.
        first: A set of draws.
        second: As many others.
    """
    of_first, of_second = efficiency(first), efficiency(second)
    found = {}
    for name, group in GROUPS.items():
        mixed = efficiency(replace(second, **{group: getattr(first, group)}))
        found[name] = _index(of_first, of_second, mixed)
    whole = max(1.0, sum(source.first_order for source in found.values()))
    return {
        name: WidthSource(one.first_order / whole, one.error / whole) for name, one in found.items()
    }


def _index(first: Float64s, second: Float64s, mixed: Float64s) -> WidthSource:
    both = np.concatenate([first, second])
    variance = float(both.var())
    if not variance > 0:
        return WidthSource(0.0, 0.0)
    products = (first - both.mean()) * (mixed - second) / variance
    share = float(products.mean())
    error = float(products.std() / np.sqrt(len(products)))
    return WidthSource(min(max(share, 0.0), 1.0), error)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSoFar:
    """What the run consists of.

    Attributes:
        command: What starts another measurement of the job.
        sizes: Measured numbers of ranks that the fit uses.
        ranks_per_host: On a full host.
        num_launches: Launches per size.
        num_steps: Measured steps of one launch.
        launch_s: Their length.
        rank_degrees: Degrees of freedom of the differences between ranks.
        has_network: Whether the links between hosts were measured.
    """

    command: MeasureCommand
    sizes: tuple[int, ...]
    ranks_per_host: int
    num_launches: int
    num_steps: int
    launch_s: float
    rank_degrees: float
    has_network: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A possible measurement, with the width of the band that it is expected to leave.

    ``kind`` is one of ``model.forecast.MEASUREMENTS``, ``num_ranks`` the largest number of ranks.
    Launches of fewer ranks hold fewer of them: ``rank_hours`` is the sum over all launches.
    """

    kind: str
    num_ranks: int
    num_hosts: int
    duration_s: float
    rank_hours: float
    band_after: float
    command: str

    def reduction_per_rank_hour(self, band_before: float) -> float:
        """How much narrower the band becomes, per rank-hour."""
        return (band_before - self.band_after) / self.rank_hours


def next_measurements(
    known: MeasuredSoFar, sources: Mapping[str, WidthSource], band: float, num_ranks: int
) -> list[Measurement]:
    """Measurements that narrow the band, most per rank-hour first.

    Args:
        known: What was measured.
        sources: Where the width comes from.
        band: Width of the band of the efficiency at the largest predicted size.
        num_ranks: That size.
    """
    found = [
        _with_band(one, remaining, sources, band)
        for one, remaining in _candidates(known, num_ranks)
    ]
    worth = [candidate for candidate in found if candidate.band_after < band * (1 - _LEAST_GAIN)]
    return sorted(worth, key=lambda candidate: -candidate.reduction_per_rank_hour(band))


def _with_band(
    one: Measurement,
    remaining: Mapping[str, float],
    sources: Mapping[str, WidthSource],
    band: float,
) -> Measurement:
    gone = sum(
        source.first_order * (1 - remaining.get(name, 1.0)) for name, source in sources.items()
    )
    after = band * math.sqrt(max(1 - gone, 0.0))
    return replace(one, band_after=after)


def _candidates(
    known: MeasuredSoFar, num_ranks: int
) -> Sequence[tuple[Measurement, Mapping[str, float]]]:
    """Each with the share of the variance that it leaves of each input."""
    largest = known.sizes[-1]
    found: list[tuple[Measurement, Mapping[str, float]]] = [
        (
            _measurement(
                "repeats",
                known,
                known.sizes,
                launches=2 * known.num_launches,
            ),
            {"own-work": 0.5, "jitter": 0.5, "contention": 0.75},
        ),
        (
            _measurement(
                "steps",
                known,
                known.sizes,
                launches=known.num_launches,
                step_factor=_STEP_FACTOR,
            ),
            {"jitter": 1 / _STEP_FACTOR, "ready-times": 1 / _STEP_FACTOR, "negotiation": 0.5},
        ),
    ]
    if not known.has_network and num_ranks > known.ranks_per_host:
        network = Measurement(
            kind="network",
            num_ranks=2,
            num_hosts=2,
            duration_s=_NETWORK_S,
            rank_hours=2 * _NETWORK_S / 3600,
            band_after=math.nan,
            command=known.command.net(),
        )
        found.append((network, {"links": 0.05}))
    size = 2 * largest
    while size < num_ranks:
        sizes = (*known.sizes, size)
        more = _measurement("ranks", known, sizes, launches=known.num_launches)
        found.append((more, _left_by(known, size, num_ranks)))
        size *= 2
    return found


def _left_by(known: MeasuredSoFar, size: int, num_ranks: int) -> Mapping[str, float]:
    """A larger size leaves fewer doublings to extrapolate, and shows more ranks and the network."""
    before = math.log2(num_ranks / known.sizes[-1])
    degrees = PRIOR_DEGREES + known.rank_degrees
    has_hosts = size > known.ranks_per_host
    return {
        "model": math.log2(num_ranks / size) / before,
        "rank-differences": degrees / (degrees + size - known.sizes[-1]),
        "jitter": known.sizes[-1] / size,
        "negotiation": 0.5,
        "contention": 0.25,
        "links": 0.1 if has_hosts else 0.5,
    }


def _measurement(
    kind: str,
    known: MeasuredSoFar,
    sizes: Sequence[int],
    *,
    launches: int,
    step_factor: int = 1,
) -> Measurement:
    """Launches of all sizes: a run without the smallest one has another baseline."""
    launch_s = _STARTUP_S + step_factor * known.launch_s
    options = [f"--repeats {launches}"]
    if step_factor > 1:
        options.append(f"--num-steps {step_factor * known.num_steps}")
    return Measurement(
        kind=kind,
        num_ranks=sizes[-1],
        num_hosts=-(-sizes[-1] // known.ranks_per_host),
        duration_s=launches * len(sizes) * launch_s,
        rank_hours=launches * sum(sizes) * launch_s / 3600,
        band_after=math.nan,
        command=known.command.at(sizes, " ".join(options)),
    )
