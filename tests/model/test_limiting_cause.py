"""What decides a forecast is what its rows say, over random tables and simulated jobs."""

import dataclasses

import numpy as np
import pytest

from hvdprof.analyze.predict.costs.stated_links import KnownLinks
from hvdprof.analyze.predict.jitter import normal_jitter
from hvdprof.analyze.predict.job_forecast import JobFacts, job_forecast
from hvdprof.model.causes import (
    BASELINE_CREDIT,
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    FORECAST_TERMS,
    JITTER,
    MODEL_ERROR,
    STRAGGLER,
    TRANSFER_PART_NAMES,
)
from hvdprof.model.results.forecast import Forecast, Question
from hvdprof.report.sections.forecast_texts import (
    LEAST_POINTS,
    limited_by,
    limiting_causes,
    network_matters,
    verdict_of,
)
from tests.builders.finished_forecast import finished_forecast
from tests.builders.predicted_jobs import stated_costs, stated_job

NETWORKS = ("1Gbit", "10Gbit", "25Gbit", "100Gbit", "400Gbit")
CAUSES = (
    *((EXPOSED_TRANSFER, part) for part in TRANSFER_PART_NAMES),
    *((term, "") for term in (STRAGGLER, JITTER, COMPUTE_INFLATION, "")),
)


def random_forecast(seed: int) -> Forecast:
    """Up to five networks of which some change nothing, each size with a random cause."""
    random = np.random.default_rng(seed)
    number = int(random.integers(1, 6))
    losses = np.repeat(random.uniform(0.01, 0.15), number)
    if random.random() < 0.5:
        losses = np.sort(random.uniform(0.01, 0.15, number))[::-1]
    made = finished_forecast(NETWORKS[:number], losses=[float(loss) for loss in losses])
    few = random.integers(0, len(CAUSES), int(random.integers(1, 3)))
    chosen = [CAUSES[place] for place in random.choice(few, len(made.rows))]
    rows = made.rows.assign(
        dominating=[term for term, _ in chosen],
        dominating_part=[part for _, part in chosen],
        dominating_probability=random.uniform(0.3, 1.0, len(chosen)),
    )
    return dataclasses.replace(made, rows=rows.sample(frac=1, random_state=seed))


def check_sentence(forecast: Forecast) -> None:
    """The sentence names the causes of its last rows, and no network that changes nothing."""
    last = forecast.rows[forecast.rows["np"] == forecast.rows["np"].max()]
    rows = last.to_dict("records")
    sentence = verdict_of(forecast).lower()
    named = {limited_by(row) for row in rows} - {""}
    every = {limited_by({"dominating": term, "dominating_part": part}) for term, part in CAUSES}
    assert {name for name in every - {""} if name in sentence} == named
    spread = max(row["efficiency_p50"] for row in rows) - min(row["efficiency_p50"] for row in rows)
    assert network_matters(forecast) == (spread >= LEAST_POINTS)
    if spread < LEAST_POINTS and len({limited_by(row) for row in rows}) == 1:
        assert not any(name.lower() in sentence for name in forecast.scenarios)


@pytest.mark.parametrize("seed", range(40))
def test_the_cause_of_the_sentence_is_that_of_the_rows(seed: int) -> None:
    forecast = random_forecast(seed)

    check_sentence(forecast)

    found = limiting_causes(forecast)
    assert sorted(name for one in found for name in one.networks) == sorted(forecast.scenarios)
    last = forecast.rows[forecast.rows["np"] == forecast.rows["np"].max()]
    by_network = last.set_index("scenario")
    for one in found:
        for network in one.networks:
            row = by_network.loc[network]
            assert (one.term, one.part) == (row["dominating"], row["dominating_part"])
    worst = last["efficiency_p50"].min()
    assert by_network.loc[found[0].networks[0], "efficiency_p50"] == worst


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(6))
def test_of_simulated_jobs_it_is_the_largest_of_the_lost_points(seed: int) -> None:
    random = np.random.default_rng(seed)
    sends = seed % 2
    job = stated_job(
        exposed_ms=float(random.uniform(0, 20)) * sends,
        slowdown=float(random.uniform(0, 0.1)),
        jitter=normal_jitter([float(random.uniform(0.005, 0.1))]),
        gradient_bytes=float(10 ** random.uniform(5, 9)) if sends else 80.0,
        costs=stated_costs(intra=(5e3, 0.2) if sends else (0.0, 0.0)),
    )
    facts = JobFacts(baseline="torch np=1", measured={4: 0.9}, known_links=KnownLinks(True, False))

    found = job_forecast(job, Question(sizes=(8, 64), model="m", num_draws=150), facts)

    check_sentence(found)
    real = found.causes[~found.causes["term"].isin([MODEL_ERROR, BASELINE_CREDIT])]
    last = real[real["np"] == 64].groupby(["scenario", "term"])["share"].sum()
    assert set(last.index.get_level_values("term")) <= set(FORECAST_TERMS)
    for one in limiting_causes(found):
        for network in one.networks:
            assert one.term == last[network].idxmax()
    if not sends:
        # Ten gradients of 8 bytes: no bandwidth can matter.
        assert "bandwidth" not in verdict_of(found).lower()
