import itertools
from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.predict.costs.collective_cost import Topology
from hvdprof.analyze.predict.draws import GROUPS, Draws, draw
from hvdprof.analyze.predict.measure_command import MeasureCommand
from hvdprof.analyze.predict.next_measurement import (
    MeasuredSoFar,
    WidthSource,
    next_measurements,
    width_sources,
)
from hvdprof.model.arrays import Float64s
from hvdprof.model.results.forecast import INPUTS, MEASUREMENTS
from tests.builders.predicted_jobs import stated_job

RUN = MeasuredSoFar(
    command=MeasureCommand("hvdprof bench --models resnet50", (), 4),
    sizes=(1, 2, 4),
    ranks_per_host=4,
    num_launches=3,
    num_steps=50,
    launch_s=40.0,
    rank_degrees=3,
    has_network=False,
)


def _kinds(run: MeasuredSoFar = RUN, num_ranks: int = 64, **shares: float) -> list[str]:
    sources = {name.replace("_", "-"): WidthSource(share, 0.0) for name, share in shares.items()}
    return [one.kind for one in next_measurements(run, sources, 0.2, num_ranks)]


def test_an_unknown_network_is_measured_first() -> None:
    assert _kinds(links=0.9)[0] == "network"
    assert "network" not in _kinds(replace(RUN, has_network=True), links=0.9)
    assert "network" not in _kinds(num_ranks=4, links=0.9)


def test_the_error_of_the_model_requires_more_ranks() -> None:
    found = next_measurements(RUN, {"model": WidthSource(0.9, 0.0)}, 0.2, 64)

    assert {one.kind for one in found} == {"ranks"}
    assert sorted(one.num_ranks for one in found) == [8, 16, 32]
    by_size = {one.num_ranks: one for one in found}
    assert by_size[32].band_after < by_size[8].band_after < 0.2
    # 32 ranks leave one of four doublings.
    assert by_size[32].band_after == pytest.approx(0.2 * (1 - 0.9 * 3 / 4) ** 0.5)
    assert by_size[32].num_hosts == 8


def test_the_order_is_that_of_the_reduction_per_rank_hour() -> None:
    sources = {"model": WidthSource(0.4, 0.0), "own-work": WidthSource(0.5, 0.0)}

    found = next_measurements(RUN, sources, 0.2, 64)

    gains = [one.reduction_per_rank_hour(0.2) for one in found]
    assert gains == sorted(gains, reverse=True)
    assert {one.kind for one in found} == {"repeats", "ranks"}
    assert {one.kind for one in found} <= set(MEASUREMENTS)


def test_what_narrows_nothing_is_not_listed() -> None:
    assert _kinds(own_work=0.01) == []


def test_commands_name_model_and_sizes() -> None:
    found = next_measurements(RUN, {"model": WidthSource(0.9, 0.0)}, 0.2, 16)

    assert found[0].command == (
        "hvdprof bench --models resnet50 --np 1,2,4,8 --repeats 3 --hosts HOST1:4,HOST2:4"
    )
    # Three launches of 60 s at each of 1, 2, 4 and 8 ranks.
    assert found[0].rank_hours == pytest.approx(3 * 15 * 60 / 3600)
    assert found[0].duration_s == pytest.approx(3 * 4 * 60)


def test_repeats_and_steps_are_priced_as_their_commands_run() -> None:
    sources = {"own-work": WidthSource(0.5, 0.0), "jitter": WidthSource(0.4, 0.0)}

    found = {one.kind: one for one in next_measurements(RUN, sources, 0.2, 16)}

    start = "hvdprof bench --models resnet50 --np 1,2,4 --repeats"
    assert found["repeats"].command == f"{start} 6"
    assert found["repeats"].rank_hours == pytest.approx(6 * 7 * 60 / 3600)
    assert found["steps"].command == f"{start} 3 --num-steps 200"
    assert found["steps"].rank_hours == pytest.approx(3 * 7 * 180 / 3600)


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
