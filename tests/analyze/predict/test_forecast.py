import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hvdprof.analyze.predict.costs.stated_links import KnownLinks
from hvdprof.analyze.predict.forecast import forecast
from hvdprof.analyze.predict.forecast_basis import missing_inside_hosts
from hvdprof.analyze.predict.jitter import jitter_of, normal_jitter
from hvdprof.analyze.predict.job_forecast import JobFacts, job_forecast
from hvdprof.analyze.predict.measure_command import MeasureCommand
from hvdprof.analyze.predict.next_measurement import MeasuredSoFar
from hvdprof.analyze.predict.own_work import JobInputs
from hvdprof.errors import UsageError
from hvdprof.model.causes import EXPOSED_TRANSFER, FORECAST_TERMS, JITTER
from hvdprof.model.notes import NoteCode
from hvdprof.model.results.forecast import INPUTS, MEASURED, Forecast, Question
from hvdprof.model.run import RunAnalysis
from tests.builders.analysis import analysis_of, sweep
from tests.builders.predicted_jobs import stated_costs, stated_job
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts

SIZES = (8, 16, 64)
DEFAULTS: dict[str, Any] = {
    "sizes": SIZES,
    "model": "m",
    "engine": "horovod",
    "num_draws": 400,
}
SO_FAR = MeasuredSoFar(
    command=MeasureCommand("hvdprof bench --models m", (), 4),
    sizes=(1, 4),
    ranks_per_host=4,
    num_launches=3,
    num_steps=50,
    launch_s=40.0,
    rank_degrees=3,
    has_network=False,
)


def _facts(*, inter: bool = True) -> JobFacts:
    return JobFacts(
        baseline="torch np=1",
        measured={4: 0.93},
        known_links=KnownLinks(True, inter),
        so_far=SO_FAR,
    )


def _forecast(job: JobInputs | None = None, *, inter: bool = True, **asked: Any) -> Forecast:
    question = Question(**(DEFAULTS | asked))
    own = stated_job(exposed_ms=6.0, error=0.01, slowdown=0.02, jitter=normal_jitter([0.01]))
    return job_forecast(job or own, question, _facts(inter=inter))


@pytest.mark.heavy
def test_a_row_per_size_and_scenario_with_ordered_bands() -> None:
    found = _forecast(inter=False)

    assert found.scenarios == ("1Gbit", "10Gbit", "25Gbit", "100Gbit", "400Gbit")
    assert list(found.rows["np"]) == list(SIZES) * 5
    for stem in ("efficiency_{}", "samples_per_s_{}", "step_time_{}_ns"):
        columns = [found.rows[stem.format(short)] for short in ("p5", "p25", "p50", "p75", "p95")]
        assert (np.diff(np.stack(columns), axis=0) > 0).all()
    assert list(found.rows["extrapolation"].unique()) == [2.0, 4.0, 16.0]
    assert [one.scenario for one in found.limits] == list(found.scenarios)


@pytest.mark.heavy
def test_causes_sum_exactly_to_the_lost_efficiency_of_each_size() -> None:
    found = _forecast()

    shares = found.causes.groupby("np")["share"].sum()
    lost = 1 - found.rows.set_index("np")["efficiency_mean"]
    assert shares.to_numpy() == pytest.approx(lost.to_numpy(), abs=1e-12)
    assert set(found.causes["term"]) == set(FORECAST_TERMS)


@pytest.mark.heavy
def test_the_same_seed_gives_the_same_forecast() -> None:
    first, second, other = (_forecast(seed=seed).rows for seed in (1, 1, 2))

    assert first.equals(second)
    assert not first.equals(other)


@pytest.mark.heavy
def test_a_slow_network_dominates_by_bandwidth_and_much_jitter_by_jitter() -> None:
    slow = stated_job(costs=stated_costs(inter=(20e3, 20.0)))
    shaky = stated_job(jitter=normal_jitter([0.1]), costs=stated_costs(intra=(0, 0), inter=(0, 0)))

    rows = [_forecast(job).rows.iloc[-1] for job in (slow, shaky)]

    assert [row["dominating"] for row in rows] == [EXPOSED_TRANSFER, JITTER]
    assert [row["dominating_part"] for row in rows] == ["bandwidth", ""]
    assert min(row["dominating_probability"] for row in rows) > 0.9


@pytest.mark.heavy
def test_faster_networks_are_never_worse() -> None:
    found = _forecast(links=("1Gbit,10us", "10Gbit,10us", "100Gbit,10us")).rows

    medians = found.pivot(index="np", columns="scenario", values="efficiency_p50")
    assert (medians["1Gbit,10us"] < medians["10Gbit,10us"]).all()
    assert (medians["10Gbit,10us"] <= medians["100Gbit,10us"]).all()


@pytest.mark.heavy
def test_an_unknown_tail_opens_the_band() -> None:
    shares = np.random.default_rng(0).random((800, 4))
    heavy = jitter_of([1 + 0.02 * (shares**-0.6 - 1)], np.random.default_rng(1))

    found = _forecast(stated_job(jitter=heavy))

    last = found.rows.iloc[-1]
    assert last["is_open"]
    assert found.tail_index > 0.3
    assert math.isnan(last["efficiency_p5"])
    assert math.isnan(last["samples_per_s_p5"])
    assert math.isnan(last["step_time_p95_ns"])
    assert last["efficiency_p50"] > 0
    assert found.limits[0].is_low_open


@pytest.mark.heavy
def test_bands_widen_with_the_extrapolation() -> None:
    rows = _forecast().rows

    widths = rows["efficiency_p95"] - rows["efficiency_p5"]
    assert widths.is_monotonic_increasing


@pytest.mark.heavy
def test_past_errors_widen_the_band() -> None:
    wrong = tuple((2.0, error) for error in (0.3, -0.3) * 8)

    narrow, wide = (_forecast(past_errors=past).rows.iloc[-1] for past in ((), wrong))

    assert wide["efficiency_p5"] < narrow["efficiency_p5"]


@pytest.mark.heavy
def test_the_influence_of_past_errors_is_an_assumption() -> None:
    wrong = ((2.0, 0.3), (2.0, -0.3), (4.0, 0.5))

    *_, said = _forecast(past_errors=wrong).assumptions

    assert said.startswith("3 earlier forecasts of this folder were off by 35.0 % in the median: ")
    assert re.search(r"the 90 % band on 64 ranks is \d+ points wider\.$", said)
    assert not any("earlier" in one for one in _forecast().assumptions)


@pytest.mark.heavy
def test_widths_name_every_input_and_measurements_are_ranked() -> None:
    found = _forecast(inter=False)

    for _, rows in found.widths.groupby("scenario"):
        assert set(rows["input"]) == set(INPUTS)
        assert set(rows["np"]) == {SIZES[-1]}
        assert rows["first_order"].is_monotonic_decreasing
    for _, rows in found.measurements.groupby("scenario"):
        assert list(rows["rank"]) == list(range(1, len(rows) + 1))
        assert rows["reduction_per_rank_hour"].is_monotonic_decreasing
        assert (rows["band_after"] < rows["band_before"]).all()
    assert "ranks" in set(found.measurements["measurement"])


def test_measured_sizes_are_shown_beside_their_prediction() -> None:
    rows = _forecast(sizes=(4, 8)).rows

    assert rows["measured_efficiency"].iloc[0] == 0.93
    assert math.isnan(rows["measured_efficiency"].iloc[1])


@pytest.mark.parametrize(
    ("ranks_per_host", "intra", "known", "expected"),
    [
        (4, "", KnownLinks(False, True), ["hvdprof run --np 1,4 --hosts HOST1:4"]),
        (1, "", KnownLinks(False, True), []),
        (4, "10GB/s", KnownLinks(False, True), []),
        (4, "", KnownLinks(True, True), []),
    ],
)
def test_unmeasured_links_inside_hosts_are_missing(
    ranks_per_host: int, intra: str, known: KnownLinks, expected: list[str]
) -> None:
    question = Question(sizes=(8,), ranks_per_host=ranks_per_host, intra=intra)
    command = MeasureCommand("hvdprof run", (), 2)

    found = missing_inside_hosts(question, stated_job(ranks_per_host=1), command, known)

    assert [one.command for one in found] == expected
    # With as many ranks per host, traced launches held none of these allreduces.
    for each, number in ((4, 0), (2, len(expected))):
        traced, job = replace(command, is_traced=True), stated_job(ranks_per_host=each)
        assert len(list(missing_inside_hosts(question, job, traced, known))) == number


def test_the_first_doubling_beyond_the_reference_may_be_the_knee() -> None:
    """Of sizes far away, the loss between the measured size and the first one counts, too."""
    slow = stated_job(costs=stated_costs(inter=(2e7, 0.01)))

    (limits,) = _forecast(slow, sizes=(8,)).limits

    assert limits.knee == 4


@pytest.mark.heavy
def test_the_knee_and_the_largest_size_at_the_target() -> None:
    slow = stated_job(costs=stated_costs(inter=(2e6, 0.01)))

    (limits,) = _forecast(slow, sizes=(4, 8, 16, 32, 64, 128)).limits

    # Latency grows with the number of hosts: 16 ranks already cross the network 6 times.
    assert limits.knee is not None
    assert limits.knee <= 8
    assert 4 < limits.largest_np_low <= limits.largest_np <= limits.largest_np_high < 32
    assert not limits.is_beyond


@pytest.mark.heavy
def test_six_sizes_take_seconds() -> None:
    offsets = -np.sort(np.random.default_rng(0).random((40, 10)), axis=1)[:, ::-1] * 5e7
    job = stated_job(exposed_ms=6.0, jitter=normal_jitter([0.01]), offsets_ns=offsets)
    sizes = (16, 32, 64, 128, 256, 512)
    begin = time.process_time()

    job_forecast(job, Question(sizes=sizes, model="m", engine="horovod"), _facts())

    assert time.process_time() - begin < 20


def _analysis(folder: Path) -> RunAnalysis:
    return analysis_of(
        folder, sweep({0: 40.0, 1: 41.0, 2: 50.0}, blocked_ms={2: 8.0}, num_steps=40)
    )


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> RunAnalysis:
    return _analysis(tmp_path_factory.mktemp("forecast"))


@pytest.mark.heavy
def test_a_run_is_predicted_from_its_largest_cell(analysis: RunAnalysis) -> None:
    found = forecast(analysis, Question(sizes=(2, 4, 8), num_draws=300))

    assert found.baseline == "torch np=1"
    assert found.measured_np == (1, 2)
    assert (found.model, found.engine) == ("mnist", "horovod")
    first = found.rows.iloc[0]
    assert first["efficiency_p50"] == pytest.approx(0.8, abs=0.02)
    assert first["measured_efficiency"] == pytest.approx(0.8, abs=0.01)
    assert found.question.sizes == (2, 4, 8)
    assert any("network" in one.what for one in found.missing)
    assert found.assumptions


@pytest.mark.heavy
def test_caveats_of_the_run_are_carried_but_for_sizes_that_are_excluded(tmp_path: Path) -> None:
    passes = sweep({0: 40.0, 1: 41.0, 2: 50.0}, blocked_ms={2: 8.0}, num_steps=40)
    busy = [replace(one, other_cpu_cores=0.5) for one in passes]

    found = forecast(analysis_of(tmp_path, busy), Question(sizes=(4,), num_draws=100))

    codes = [note.code for note in found.caveats]
    assert NoteCode.OTHER_LOAD in codes
    assert NoteCode.OVERSUBSCRIBED not in codes


@pytest.mark.heavy
def test_the_network_of_the_user_is_the_scenario(analysis: RunAnalysis) -> None:
    found = forecast(analysis, Question(sizes=(8,), links=("25Gbit,15us",), num_draws=300))

    assert found.scenarios == ("25Gbit,15us",)
    one_host = forecast(analysis, Question(sizes=(4,), ranks_per_host=4, num_draws=300))
    assert one_host.scenarios == (MEASURED,)


@pytest.mark.heavy
def test_an_algorithm_can_be_asked_for(analysis: RunAnalysis) -> None:
    asked = Question(sizes=(8,), algorithm="parameter-server", links=("1Gbit",), num_draws=300)

    assert forecast(analysis, asked).algorithm == "parameter-server"
    with pytest.raises(UsageError, match="No algorithm is named"):
        forecast(analysis, Question(sizes=(8,), algorithm="star"))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question(sizes=(8,), model="other"), "holds no model 'other'"),
        (Question(sizes=(8,), engine="ddp"), "no launch of mnist under DDP"),
    ],
)
def test_what_the_run_does_not_hold(analysis: RunAnalysis, question: Question, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        forecast(analysis, question)


@pytest.mark.heavy
def test_one_rank_alone_is_not_enough(tmp_path: Path) -> None:
    alone = analysis_of(tmp_path, sweep({0: 40.0, 1: 41.0}))

    with pytest.raises(UsageError, match="1 rank alone") as raised:
        forecast(alone, Question(sizes=(8,)))
    assert "--np 1,2" in str(raised.value.hint)


@pytest.mark.slow
def test_oversubscribed_cells_are_not_extrapolated(tmp_path: Path) -> None:
    passes = sweep({0: 40.0, 1: 41.0, 2: 50.0}, blocked_ms={2: 8.0}, num_steps=40)
    crowded = [
        PassSpec(
            size=4,
            repeat=repeat,
            oversubscribed=True,
            segments=[SegmentSpec(parts_ms=typical_parts(300.0, 8.0))],
        )
        for repeat in (1, 2, 3)
    ]

    found = forecast(
        analysis_of(tmp_path / "a", [*passes, *crowded]), Question(sizes=(8,), num_draws=300)
    )

    assert found.measured_np == (1, 2)
    assert found.excluded_np == (4,)
    only = sweep({0: 40.0, 1: 41.0})
    with pytest.raises(UsageError, match="oversubscribed on 4 ranks"):
        forecast(analysis_of(tmp_path / "b", [*only, *crowded]), Question(sizes=(8,)))
