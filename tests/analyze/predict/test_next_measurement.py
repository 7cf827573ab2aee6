from dataclasses import replace

import pytest

from hvdprof.analyze.predict.measure_command import MeasureCommand
from hvdprof.analyze.predict.next_measurement import MeasuredSoFar, next_measurements
from hvdprof.analyze.predict.width_sources import WidthSource
from hvdprof.model.forecast import MEASUREMENTS

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
