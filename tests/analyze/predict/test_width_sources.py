import itertools
from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.predict.collective_cost import Topology
from hvdprof.analyze.predict.draws import GROUPS, Draws, draw
from hvdprof.analyze.predict.width_sources import width_sources
from hvdprof.model.arrays import Float64s
from hvdprof.model.forecast import INPUTS
from tests.builders.predicted_jobs import stated_job


def _draws(seed: int) -> Draws:
    job = stated_job(error=0.01)
    return draw(job, np.random.default_rng(seed), 4000, Topology(16, 4))


def test_every_input_of_a_forecast_is_a_group_of_draws() -> None:
    assert list(GROUPS) == list(INPUTS)


def test_a_sum_of_two_inputs_has_their_shares_of_the_variance() -> None:
    def efficiency(draws: Draws) -> Float64s:
        own = np.log(draws.own.baseline_ns)
        model = draws.model.of_step[:, 0]
        return np.asarray((own - own.mean()) / own.std() + 2 * model / model.std())

    found = width_sources(efficiency, _draws(1), _draws(2))

    assert found["own-work"].first_order == pytest.approx(0.2, abs=0.06)
    assert found["model"].first_order == pytest.approx(0.8, abs=0.12)
    for name in set(INPUTS) - {"own-work", "model"}:
        assert found[name].first_order == 0
    assert 0 < found["own-work"].error < 0.05


def test_estimated_shares_never_exceed_the_whole() -> None:
    def efficiency(draws: Draws) -> Float64s:
        own = np.log(draws.own.baseline_ns)
        return np.asarray((own - own.mean()) / own.std() + 9 * draws.model.of_step[:, 0])

    job, rng = stated_job(error=0.01), np.random.default_rng(3)
    few = [draw(job, rng, 20, Topology(16, 4)) for _ in range(20)]
    found = [width_sources(efficiency, a, b) for a, b in itertools.pairwise(few)]

    assert max(sum(one.first_order for one in shares.values()) for shares in found) <= 1 + 1e-9


def test_an_interaction_alone_is_no_first_order() -> None:
    def efficiency(draws: Draws) -> Float64s:
        own = np.log(draws.own.baseline_ns)
        share = draws.contention.share - 0.5
        return np.asarray((own - own.mean()) / own.std() * share)

    found = width_sources(efficiency, _draws(1), _draws(2))

    assert max(one.first_order for one in found.values()) < 0.08


def test_nothing_varies() -> None:
    first = _draws(1)

    found = width_sources(lambda draws: np.ones(4000), first, replace(first))

    assert {one.first_order for one in found.values()} == {0.0}
