import numpy as np
import pytest

from hvdprof.analyze.predict.empirical import (
    MEASUREMENT_ERROR,
    EmpiricalFit,
    MeasuredRates,
    fit_empirical,
    with_measurement_error,
)
from hvdprof.ingest.load import read_scaling_text
from hvdprof.model.arrays import Bools, Float64s
from tests.builders.places import CORPUS, needs_corpus

NUM_DRAWS = 4_000


def measured(rates: dict[int, float | list[float]]) -> MeasuredRates:
    each = [tuple(one) if isinstance(one, list) else (one,) for one in rates.values()]
    return MeasuredRates(tuple(rates), tuple(each))


def bands(fit: EmpiricalFit, sizes: list[int]) -> Float64s:
    """The quantiles 5, 25, 50, 75 and 95 % [quantiles, sizes] of a measured rank time."""
    rng = np.random.default_rng(7)
    draws = with_measurement_error(fit.draws(sizes, NUM_DRAWS, rng), fit.error, rng)
    quantiles: Float64s = np.quantile(draws, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    return quantiles


def half_width(fit: EmpiricalFit, size: int) -> float:
    low, *_, high = bands(fit, [size])[:, 0]
    return float(np.log(high / low)) / 2


def test_a_loss_that_grows_with_each_doubling_is_continued():
    rates = {size: size / (0.01 * (1 + 0.05 * np.log2(size))) for size in (1, 2, 4, 8, 16)}

    low, *_, high = found = bands(fit_empirical(measured(rates)), [32, 128])

    truth = np.array([0.01 * 1.25, 0.01 * 1.35])
    assert found[2] == pytest.approx(truth, rel=0.04)
    assert ((low < truth) & (truth < high)).all()


def test_the_band_of_a_job_without_loss_contains_full_efficiency():
    low, *_, high = bands(fit_empirical(measured({1: 100.0, 2: 200.0, 4: 400.0})), [8, 64]).tolist()

    assert all(below < 0.01 < above for below, above in zip(low, high, strict=True))


@pytest.mark.heavy
def test_bands_cover_tables_of_the_prior_as_often_as_they_say():
    rng = np.random.default_rng(3)
    sizes, ahead = np.array([1, 2, 4, 8]), np.array([16, 32, 128])
    covered: list[list[float]] = []
    for _ in range(300):
        power, loss = rng.normal(0.0, 0.3), np.exp(rng.uniform(np.log(0.002), np.log(2.0)))
        step = rng.choice(
            [0.005, 0.01, 0.02, 0.04, 0.08, 0.16], p=[0.05, 0.05, 0.2, 0.3, 0.25, 0.15]
        )
        of_all = np.concatenate([sizes, ahead])
        curve = np.log1p(loss * np.expm1(power * np.log(of_all)) / np.expm1(power * np.log(2)))
        doublings = np.diff(np.log2(of_all), prepend=0)
        walk = 0.012 * np.maximum(np.log2(of_all / 8), 0)
        walk += np.cumsum(step * np.sqrt(doublings) * rng.standard_normal(len(of_all)))
        times = np.exp(curve + walk + MEASUREMENT_ERROR * rng.standard_normal(len(of_all)))
        table = {int(size): float(size / time) for size, time in zip(sizes, times[:4], strict=True)}
        found = bands(fit_empirical(measured(table)), ahead.tolist())
        truth = times[4:]
        covered.append(
            [
                float(np.mean((found[0] <= truth) & (truth <= found[4]))),
                float(np.mean((found[1] <= truth) & (truth <= found[3]))),
            ]
        )

    of_ninety, of_fifty = np.mean(covered, axis=0)

    assert of_ninety == pytest.approx(0.9, abs=0.04)
    assert of_fifty == pytest.approx(0.5, abs=0.06)


def test_bands_widen_with_each_doubling():
    fit = fit_empirical(measured({1: 100.0, 2: 196.0, 4: 380.0}))

    widths = [half_width(fit, size) for size in (8, 16, 64, 512)]

    assert widths == sorted(widths)
    assert widths[0] > 0.03


def test_repeats_give_the_measurement_error():
    close = measured({1: [100.0, 100.1] * 8, 2: [195.0, 195.2] * 8, 4: [380.0, 380.3] * 8})
    apart = measured({1: [96.0, 104.0] * 8, 2: [187.0, 203.0] * 8, 4: [365.0, 395.0] * 8})

    assert close.error() < MEASUREMENT_ERROR / 2
    assert apart.error() == pytest.approx(0.04, rel=0.1)
    assert half_width(fit_empirical(close), 8) < half_width(fit_empirical(apart), 8)


def test_a_serial_part_is_known_as_such_under_strong_scaling():
    """Amdahl with 2 % serial: the rank time grows with N."""
    rates = {size: size / (0.01 * (1 + 0.02 * (size - 1))) for size in (1, 2, 4, 8)}
    truth = 0.01 * (1 + 0.02 * 63)

    weak = bands(fit_empirical(measured(rates)), [64])[2, 0]
    strong = bands(fit_empirical(measured(rates), strong=True), [64])[:, 0]

    assert strong[0] < truth < strong[4]
    assert abs(strong[2] - truth) < abs(weak - truth)


def test_one_size_is_no_curve():
    with pytest.raises(ValueError, match="two sizes"):
        fit_empirical(measured({4: 400.0}))


def _held_out(rates: dict[int, float]) -> list[tuple[float, float, float, bool]]:
    """Each later size by each prefix: growth, errors of both models in logs, covered at 90 %."""
    sizes = sorted(rates)
    found = []
    for known in range(2, len(sizes)):
        of, ahead = sizes[:known], sizes[known:]
        quantiles = bands(fit_empirical(measured({size: rates[size] for size in of})), ahead)
        first = of[0] / rates[of[0]]
        doublings = np.log2(np.array(of) / of[0])
        losses = np.array([size / rates[size] for size in of]) / first - 1
        slope = (doublings @ losses) / (doublings @ doublings)
        for size, (low, _, median, _, high) in zip(ahead, quantiles.T, strict=True):
            truth = size / rates[size]
            simple = first * (1 + slope * np.log2(size / of[0]))
            errors = abs(np.log(truth / median)), abs(np.log(truth / simple))
            found.append((size / of[-1], *errors, low <= truth <= high))
    return found


@pytest.mark.heavy
@needs_corpus
def test_public_tables_are_predicted_better_than_by_a_logarithm():
    """Baseline: T = T1 (1 + b log2 N). Eleven tables of DLPerf, fitted on their first sizes."""
    found: list[tuple[float, float, float, bool]] = []
    for file in sorted((CORPUS / "benchmarks").glob("dlperf_*.md")):
        text = read_scaling_text(file.read_text(encoding="utf-8").splitlines(), name=file.name)
        for _, rows in text.throughput.groupby("series", observed=True):
            found += _held_out(dict(zip(rows["np"], rows["samples_per_s"], strict=True)))
    growth, ours, simple, covered = (np.array(column) for column in zip(*found, strict=True))

    assert len(found) >= 40
    for low, high in ((1, 2), (2, 16)):
        ratio: Bools = (growth > low) & (growth <= high)
        assert np.median(ours[ratio]) <= np.median(simple[ratio])
    assert covered.mean() > 0.85
