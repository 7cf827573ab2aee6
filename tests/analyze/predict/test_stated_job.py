"""Forecasts of jobs that were never run: what they are made of, checked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.predict.costs.collective_cost import Algorithm, Topology
from hvdprof.analyze.predict.costs.gradient_trace import Gradients
from hvdprof.analyze.predict.costs.negotiation_draws import Negotiates
from hvdprof.analyze.predict.draws import draw
from hvdprof.analyze.predict.job_forecast import job_forecast
from hvdprof.analyze.predict.stated_job import Priors, StatedJob, stated_facts, stated_inputs
from hvdprof.model.results.forecast import Question

CERTAIN = Priors(
    jitter=(0.0, 0.0),
    intra_latency_ns=(0.0, 0.0),
    intra_bytes_per_ns=(1e9, 1e9),
)
JOB = StatedJob(
    gradients=Gradients.of_sizes([40_000_000, 60_000_000]),
    costs=(3.0, 1.0),
    samples_per_s=(320.0, 320.0),
    batch_size=64,
    fusion_bytes=0,
    priors=CERTAIN,
)


def _median(job, size=64, link="10Gbit,1ns", **question):
    asked = Question(sizes=(size,), model="m", links=(link,), num_draws=400, **question)
    return job_forecast(stated_inputs(job, 1), asked, stated_facts(job, "m")).rows.iloc[0]


@pytest.mark.heavy
def test_without_a_network_to_speak_of_every_rank_keeps_its_throughput():
    row = _median(JOB, link="400000Gbit,1ns")
    # One cycle of 1 ms of Horovod's loop, and differences of ranks of about 0.5 %.
    assert 0.95 < row["efficiency_p50"] < 1.0
    assert row["samples_per_s_p50"] == pytest.approx(64 * 320 * row["efficiency_p50"], rel=1e-6)


@pytest.mark.heavy
def test_what_backward_does_not_cover_is_the_ring_s_transfer():
    row = _median(JOB, link="8Gbit,1ns")
    # Of 200 ms backward takes the last 133.3; the gradients are ready after 100 and 133.3 ms of it.
    # Rings send 2 * 63/64 of 40 and 60 MB over a link of which collectives reach 75 % +- 20 %.
    ring_ms = 2 * 63 / 64 * 100 / (1.0 * np.array([0.55, 0.75, 0.95]))
    exposed_ms = ring_ms - 33.3
    expected = 200 / (200 + exposed_ms)
    assert expected[0] < row["efficiency_p50"] < expected[2]
    assert row["efficiency_p50"] == pytest.approx(expected[1], abs=0.04)
    assert (row["dominating"], row["dominating_part"]) == ("exposed-transfer", "bandwidth")


@pytest.mark.heavy
def test_fewer_hosts_with_more_ranks_cross_the_network_less_often():
    apart = replace(JOB, gradients=Gradients.of_sizes([10_000] * 20), costs=(1.0,) * 20)
    together = replace(apart, ranks_per_host=8)
    link = "100Gbit,500us"
    alone = _median(apart, link=link)["efficiency_p50"]
    assert _median(together, link=link)["efficiency_p50"] > alone + 0.05


@pytest.mark.heavy
def test_a_tree_has_fewer_messages_than_a_ring():
    small = replace(JOB, gradients=Gradients.of_sizes([10_000] * 20), costs=(1.0,) * 20)
    tree = replace(small, algorithm=Algorithm.TREE)
    link = "100Gbit,500us"
    assert _median(tree, link=link)["efficiency_p50"] > _median(small, link=link)["efficiency_p50"]


@pytest.mark.heavy
def test_without_the_cache_rank_0_gathers_from_every_rank():
    small = replace(JOB, gradients=Gradients.of_sizes([1000] * 20), costs=(1.0,) * 20)
    assert stated_inputs(small, 1).negotiates is Negotiates.BY_MPI_CACHE
    old = replace(small, is_cached=False)
    with_cache = _median(small, size=512, link="100Gbit,1ns")["efficiency_p50"]
    assert _median(old, size=512, link="100Gbit,1ns")["efficiency_p50"] < with_cache - 0.005


def test_one_machine_is_behind_several_models_of_one_seed():
    first = stated_inputs(replace(JOB, priors=Priors()), 7)
    other = replace(JOB, gradients=Gradients.of_sizes([8, 8, 8]), costs=(1.0, 1.0, 1.0))
    second = stated_inputs(replace(other, priors=Priors()), 7)
    assert np.array_equal(first.costs.intra.alpha_ns, second.costs.intra.alpha_ns)
    assert np.array_equal(first.spread.jitter.quantiles, second.spread.jitter.quantiles)


@pytest.mark.heavy
def test_a_range_of_throughputs_widens_the_band():
    narrow = _median(JOB, link="8Gbit,1ns")
    wide = _median(replace(JOB, samples_per_s=(200.0, 512.0)), link="8Gbit,1ns")

    def width(row):
        return row["efficiency_p95"] - row["efficiency_p5"]

    assert width(wide) > 1.1 * width(narrow)


@pytest.mark.heavy
def test_stated_throughputs_are_the_ends_of_the_draws():
    job = stated_inputs(replace(JOB, samples_per_s=(200.0, 512.0)), 1)
    drawn = draw(job, np.random.default_rng(0), 4000, Topology(64, 1)).own
    rates = 64 / drawn.baseline_ns * 1e9

    assert (rates.min(), rates.max()) == pytest.approx((200, 512), rel=0.01)
    # Uniform in the logarithm: a quarter of the draws in each quarter of the range.
    quarters = np.histogram(np.log(rates), bins=4)[0] / len(rates)
    assert quarters == pytest.approx(0.25, abs=0.03)
    assert drawn.reference_ns == pytest.approx(drawn.baseline_ns)


def test_what_is_stated_is_listed():
    facts = stated_facts(replace(JOB, samples_per_s=(115.0, 162.0), is_cached=False), "vgg16")
    assert facts.assumptions[0] == (
        "One rank reaches 115 to 162 samples/s at batch 64, as stated, not measured."
    )
    assert "Horovod negotiates over MPI without its response cache." in facts.assumptions
    assert facts.algorithm == "ring"
    assert facts.missing[0].what == "A run of vgg16"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("vgg16", "hvdprof bench --models vgg16 --np 1,2,4"),
        ("emulate:vgg16", "hvdprof bench --models emulate:vgg16 --np 1,2,4"),
        ("train:make_model", "hvdprof run --np 1,2,4 -- python train.py"),
    ],
)
def test_what_to_measure_is_the_model_itself(name, command):
    (missing,) = stated_facts(JOB, name).missing

    assert missing.command == command
