import numpy as np
import pytest

from hvdprof.analyze.predict.draws import (
    LARGEST_PAST_ERROR,
    LOSS_ERROR,
    NOMINAL_ERROR,
    STEP_ERROR,
    draw_model_error,
)


@pytest.mark.parametrize(
    ("extrapolation", "doublings"), [(1.0, 0), (2.0, 1), (8.0, 3), (6.0, 2.585)]
)
def test_errors_grow_with_the_square_root_of_the_doublings(
    extrapolation: float, doublings: float
) -> None:
    found = draw_model_error(np.random.default_rng(0), 50_000, 64.0)

    of_step, of_loss = found.logs(extrapolation)

    # The unknown scale is Student's t with 8 degrees of freedom.
    factor = np.sqrt(doublings * 8 / 6)
    assert of_step.std() == pytest.approx(STEP_ERROR * factor, rel=0.05)
    assert of_loss.std() == pytest.approx(LOSS_ERROR * factor, rel=0.05)


def test_the_path_of_a_draw_continues_from_size_to_size() -> None:
    found = draw_model_error(np.random.default_rng(0), 20_000, 64.0)

    near, far = found.logs(8.0)[0], found.logs(16.0)[0]

    assert np.corrcoef(near, far)[0, 1] == pytest.approx(np.sqrt(3 / 4), abs=0.02)


def test_smaller_sizes_are_as_far_away_as_larger_ones() -> None:
    found = draw_model_error(np.random.default_rng(0), 100, 8.0)

    assert found.logs(0.25)[0] == pytest.approx(found.logs(4.0)[0])


@pytest.mark.parametrize(("times", "expected"), [(0.1, 0.4), (3.0, 2.6)])
def test_past_errors_scale_the_bands(times: float, expected: float) -> None:
    past = [(2.0, times * NOMINAL_ERROR), (4.0, -times * NOMINAL_ERROR * np.sqrt(2))] * 16

    own = draw_model_error(np.random.default_rng(0), 20_000, 8.0, past).logs(8.0)[0]
    prior = draw_model_error(np.random.default_rng(0), 20_000, 8.0).logs(8.0)[0]

    assert own.std() / prior.std() == pytest.approx(expected, rel=0.1)


def test_the_nominal_error_is_that_of_a_job_that_loses_a_fifth() -> None:
    of_step, of_loss = draw_model_error(np.random.default_rng(0), 50_000, 2.0).logs(2.0)

    assert (of_step + 0.2 * of_loss).std() == pytest.approx(
        NOMINAL_ERROR * np.sqrt(8 / 6), rel=0.05
    )


def test_a_past_forecast_of_a_measured_size_says_nothing_on_extrapolation() -> None:
    with_it = draw_model_error(np.random.default_rng(0), 10, 8.0, [(1.0, 0.5)])
    without = draw_model_error(np.random.default_rng(0), 10, 8.0)

    assert with_it.of_step == pytest.approx(without.of_step)


def test_an_error_that_no_model_makes_widens_the_band_by_a_bounded_factor() -> None:
    def spread(error: float) -> float:
        past = [(4.0, error)] * 200
        return float(draw_model_error(np.random.default_rng(0), 20_000, 2.0, past).of_step.std())

    bound = LARGEST_PAST_ERROR * NOMINAL_ERROR * np.sqrt(2)

    assert spread(3.0) == pytest.approx(spread(bound))
    assert spread(3.0) == pytest.approx(LARGEST_PAST_ERROR * STEP_ERROR, rel=0.05)
    assert spread(0.5 * bound) < 0.6 * spread(bound)
