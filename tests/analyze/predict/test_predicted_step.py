from dataclasses import replace

import numpy as np
import pytest

from hvdprof.analyze.predict.costs.collective_cost import Algorithm, Link, Topology, cost_ns
from hvdprof.analyze.predict.costs.cost_draws import CostDraws, Pricing
from hvdprof.analyze.predict.draws import Draws, draw, under
from hvdprof.analyze.predict.jitter import normal_jitter
from hvdprof.analyze.predict.own_work import JobInputs
from hvdprof.analyze.predict.predicted_step import PredictedStep, StepModel, Target
from hvdprof.model.arrays import Float64s
from hvdprof.model.causes import (
    BANDWIDTH,
    COMPUTE_INFLATION,
    EXPOSED_TRANSFER,
    JITTER,
    LATENCY,
    MODEL_ERROR,
    NEGOTIATION,
    NOT_IN_MODEL,
    STRAGGLER,
    TRANSFER_PARTS,
)
from tests.builders.predicted_jobs import MS, stated_costs, stated_job

NUM_DRAWS = 200


def _draws(job: JobInputs, num_ranks: int) -> Draws:
    """Draws without errors of the model and without differences of the ranks."""
    drawn = draw(job, np.random.default_rng(0), NUM_DRAWS, Topology(num_ranks, 4))
    none = np.zeros_like(drawn.model.of_step)
    differences = replace(
        drawn.differences, rank_sd=np.zeros(NUM_DRAWS), offset=np.zeros(NUM_DRAWS)
    )
    return replace(
        drawn, differences=differences, model=replace(drawn.model, of_step=none, of_loss=none)
    )


def _step(job: JobInputs, target: Target, draws: Draws | None = None) -> PredictedStep:
    return StepModel(job, [target]).steps(draws or _draws(job, target.num_ranks))[0]


def _mean(values: Float64s) -> float:
    return float(np.mean(values))


def _plain(job: JobInputs, num_ranks: int, ranks_per_host: int = 4) -> Target:
    return Target(num_ranks, ranks_per_host, job.reduction)


def test_without_communication_and_spread_the_efficiency_stays() -> None:
    job = stated_job(gradient_bytes=0, costs=stated_costs(intra=(0, 0), inter=(0, 0)))

    found = _step(job, _plain(job, 64))

    assert found.efficiency == pytest.approx(1.0, abs=1e-3)
    assert found.samples_per_s == pytest.approx(64 * 32 / 0.104, rel=1e-3)


def test_the_last_bucket_is_exposed() -> None:
    # The gradients before the last one are long reduced when it is ready.
    job = stated_job(costs=stated_costs(intra=(5e3, 0.2), inter=(20e3, 0.4)))

    found = _step(job, _plain(job, 16))

    link, network = Link(5e3, 0.2), Link(20e3, 0.4)
    expected = float(cost_ns(Algorithm.RING, Topology(16, 4), link, network, 4e6))
    cycle = 1e3
    assert _mean(found.step_ns) == pytest.approx(104 * MS + expected, abs=cycle)
    latency = _mean(found.causes[EXPOSED_TRANSFER, LATENCY])
    assert latency == pytest.approx(24 * 5e3 + 6 * 20e3, rel=0.01)
    bandwidth = _mean(found.causes[EXPOSED_TRANSFER, BANDWIDTH])
    assert bandwidth == pytest.approx(expected - latency, rel=0.01)


@pytest.mark.parametrize("num_ranks", [1, 4, 16, 64])
def test_causes_sum_to_the_lost_time_in_every_draw(num_ranks: int) -> None:
    job = stated_job(exposed_ms=7, slowdown=0.1, error=0.02, jitter=normal_jitter([0.01, 0.02]))
    drawn = draw(job, np.random.default_rng(0), NUM_DRAWS, Topology(64, 4))

    found = _step(job, _plain(job, num_ranks), drawn)

    lost = sum(found.causes.values())
    assert lost == pytest.approx(found.step_ns - found.reference_ns, abs=1e-3)
    assert found.efficiency == pytest.approx(1 - lost / found.step_ns)


def test_the_measured_size_is_predicted_as_measured() -> None:
    job = stated_job(exposed_ms=9.0, slowdown=0.05)

    found = _step(job, _plain(job, 4))

    assert found.step_ns == pytest.approx(job.own.reference.step_ns)
    # The loop simulates less: the rest is none of its parts.
    assert _mean(found.causes[EXPOSED_TRANSFER, NOT_IN_MODEL]) > 5 * MS
    assert found.causes[EXPOSED_TRANSFER, NEGOTIATION].max() < 1 * MS


def test_a_wait_is_never_shorter_than_none() -> None:
    # Measured: nothing exposed, but the loop says otherwise.
    job = replace(stated_job(costs=stated_costs(intra=(1e6, 1.0))), is_anchored=True)

    found = _step(job, _plain(job, 4))

    assert found.step_ns == pytest.approx(104 * MS)


def test_no_error_of_the_model_makes_a_step_shorter_than_its_own_work() -> None:
    job = stated_job(exposed_ms=50.0)
    drawn = _draws(job, 64)
    errors = replace(
        drawn.model,
        of_step=np.full_like(drawn.model.of_step, -0.9),
        of_loss=np.full_like(drawn.model.of_loss, -9.0),
    )

    found = _step(job, _plain(job, 64), replace(drawn, model=errors))

    assert found.step_ns == pytest.approx(np.exp(-0.9 * 4) * 104 * MS)


def test_what_the_loop_simulates_beyond_the_measured_shrinks_all_parts_alike() -> None:
    # Simulated: two thirds bandwidth, one third latency. Measured: less of both.
    costs = stated_costs(intra=(1e6, 3.0), inter=(1e6, 3.0))
    job = stated_job(exposed_ms=9.0, costs=costs)

    near, far = (_step(job, _plain(job, size)).causes for size in (4, 16))
    free = _step(replace(job, is_anchored=False), _plain(job, 16)).causes

    for causes in (near, far):
        parts = [causes[EXPOSED_TRANSFER, part] for part in TRANSFER_PARTS]
        assert np.min(parts) >= 0
    total = sum(near[EXPOSED_TRANSFER, part] for part in TRANSFER_PARTS)
    assert total == pytest.approx(np.full(NUM_DRAWS, 9.0 * MS))
    share = far[EXPOSED_TRANSFER, LATENCY] / free[EXPOSED_TRANSFER, LATENCY]
    assert share.max() < 0.9
    for part in (BANDWIDTH, NEGOTIATION):
        assert far[EXPOSED_TRANSFER, part] == pytest.approx(share * free[EXPOSED_TRANSFER, part])


def test_jitter_and_lasting_differences_wait_for_the_slowest() -> None:
    costs = stated_costs(intra=(0, 0), inter=(0, 0))
    job = stated_job(jitter=normal_jitter([0.02]), costs=costs)

    found = _step(job, _plain(job, 64))

    assert _mean(found.causes[JITTER, ""]) == pytest.approx(0.0468 * 104 * MS, rel=0.02)
    assert _mean(found.causes[STRAGGLER, ""]) == pytest.approx(0.0, abs=1.0)


def test_only_the_share_of_the_slowdown_that_communication_causes_grows() -> None:
    costs = stated_costs(intra=(0, 0.5), inter=(0, 5.0))
    job = stated_job(slowdown=0.1, costs=costs, exposed_ms=1)
    drawn = _draws(job, 16)
    none, whole = (
        replace(drawn, contention=replace(drawn.contention, share=np.full(NUM_DRAWS, share)))
        for share in (0.0, 1.0)
    )

    without, with_all = (_step(job, _plain(job, 16), one) for one in (none, whole))

    measured = 0.1 * 100 * MS
    assert _mean(without.causes[COMPUTE_INFLATION, ""]) == pytest.approx(measured)
    assert _mean(with_all.causes[COMPUTE_INFLATION, ""]) > 1.5 * measured


def test_a_smaller_batch_computes_less_and_sends_as_much() -> None:
    job = stated_job()
    drawn = _draws(job, 16)

    whole = _step(job, _plain(job, 16), drawn)
    half = _step(job, replace(_plain(job, 16), batch=0.5), drawn)

    assert half.samples == 16
    assert (half.step_ns < whole.step_ns).all()
    assert (half.step_ns > 0.5 * whole.step_ns).all()
    assert (half.efficiency < whole.efficiency).all()


def test_micro_batches_communicate_once() -> None:
    job = stated_job(costs=stated_costs(inter=(20e3, 5.0)))
    drawn = _draws(job, 16)

    one = _step(job, _plain(job, 16), drawn)
    two = _step(job, replace(_plain(job, 16), passes=2), drawn)

    # 100 ms of compute and 1 ms of input more, the same update and communication.
    assert two.step_ns - one.step_ns == pytest.approx(101 * MS)
    assert two.samples == 2 * one.samples
    assert (two.efficiency > one.efficiency).all()
    # The baseline has two micro-batches and one update per step, too.
    assert two.reference_ns == pytest.approx(np.full(NUM_DRAWS, 205 * MS))


@pytest.mark.parametrize(("batch", "passes"), [(4.0, 1), (0.25, 1), (1.0, 4), (4.0, 4)])
def test_without_communication_other_batches_are_as_efficient(batch: float, passes: int) -> None:
    job = stated_job(gradient_bytes=0, costs=stated_costs(intra=(0, 0), inter=(0, 0)))

    found = _step(job, replace(_plain(job, 16), batch=batch, passes=passes))

    assert found.efficiency == pytest.approx(np.ones(NUM_DRAWS), abs=1e-3)


def test_strong_scaling_pays_the_update_once_per_smaller_batch() -> None:
    job = stated_job(gradient_bytes=0, costs=stated_costs(intra=(0, 0), inter=(0, 0)))

    found = _step(job, replace(_plain(job, 16), batch=0.25, shared=0.25))

    assert found.reference_ns == pytest.approx(np.full(NUM_DRAWS, 104 * MS / 4))
    assert (found.efficiency < 0.95).all()


def test_fp16_halves_the_time_of_a_network_without_latency() -> None:
    costs = stated_costs(intra=(0, 0), inter=(0, 1.0))
    job = stated_job(costs=costs, offsets_ns=np.zeros((1, 10)))
    half = replace(job.reduction, gradients=job.reduction.gradients.as_fp16())

    whole, compressed = (
        _mean(_step(job, Target(16, 4, reduction)).causes[EXPOSED_TRANSFER, BANDWIDTH])
        for reduction in (job.reduction, half)
    )

    assert compressed == pytest.approx(whole / 2, rel=0.01)


def test_one_rank_neither_waits_nor_communicates() -> None:
    job = stated_job(exposed_ms=9.0, jitter=normal_jitter([0.02]))

    assert _step(job, _plain(job, 1)).step_ns == pytest.approx(104 * MS)


def test_errors_of_the_model_are_zero_at_the_measured_size() -> None:
    job = stated_job(exposed_ms=9.0)
    drawn = draw(job, np.random.default_rng(0), NUM_DRAWS, Topology(64, 4))

    near, far = (_step(job, _plain(job, size), drawn) for size in (4, 64))

    assert near.causes[MODEL_ERROR, ""] == pytest.approx(0.0)
    assert far.causes[MODEL_ERROR, ""].std() > 0.5 * MS


def test_shared_groups_are_computed_once_and_give_the_same() -> None:
    job = stated_job(exposed_ms=9.0, error=0.02)
    target = _plain(job, 16)
    first = draw(job, np.random.default_rng(0), NUM_DRAWS, target.topology)
    second = draw(job, np.random.default_rng(1), NUM_DRAWS, target.topology)
    mixed = replace(second, model=first.model)
    model = StepModel(job, [target])

    model.steps(second)

    assert model.steps(mixed)[0].step_ns == pytest.approx(_step(job, target, mixed).step_ns)
    assert model.steps(first)[0].step_ns == pytest.approx(_step(job, target, first).step_ns)


def test_other_links_change_nothing_else() -> None:
    job = stated_job(exposed_ms=9.0)
    drawn = draw(job, np.random.default_rng(0), NUM_DRAWS, Topology(64, 4))

    def faster(costs: CostDraws, rng: np.random.Generator) -> CostDraws:
        return replace(costs, inter=replace(costs.inter, beta_ns_per_byte=1e-6))

    other = under(drawn, faster)

    assert other.links.measured is drawn.links.measured
    assert other.differences is drawn.differences
    slow, fast = (_step(job, _plain(job, 64), one) for one in (drawn, other))
    assert (fast.step_ns < slow.step_ns).all()


def test_prices_are_those_of_each_draw() -> None:
    costs = stated_costs(log_error=0.5)
    topology = Topology(16, 4)
    sizes = np.linspace(1e3, 1e7, 2 * costs.num_draws)

    found = Pricing(costs, topology, 2).cost_ns(sizes)

    expected = [
        cost_ns(
            Algorithm.RING,
            topology,
            Link(
                np.asarray(costs.intra.alpha_ns)[row // 2],
                np.asarray(costs.intra.beta_ns_per_byte)[row // 2],
            ),
            Link(
                np.asarray(costs.inter.alpha_ns)[row // 2],
                np.asarray(costs.inter.beta_ns_per_byte)[row // 2],
            ),
            size,
        )
        for row, size in enumerate(sizes)
    ]
    assert found == pytest.approx(np.array(expected, dtype=float))


def test_prices_are_means_where_measured_times_scatter() -> None:
    residuals = np.log(np.tile([0.5, 1.5], 50))
    fitted = np.linspace(0.5e6, 1.5e6, 100)
    costs = replace(stated_costs(), log_residuals=residuals, residual_costs_ns=fitted)
    skewed = replace(costs, log_residuals=np.log(np.tile([1.0, 1.0, 1.0, 2.0], 25)))
    sizes = np.full(costs.num_draws, 1e6)

    plain, balanced, stalled = (
        _mean(Pricing(one, Topology(16, 4), 1).cost_ns(sizes))
        for one in (stated_costs(), costs, skewed)
    )

    assert balanced == pytest.approx(plain)
    # 40 neighbours with a mean of 1.25, and 5 at the typical time.
    assert stalled == pytest.approx(55 / 45 * plain)


@pytest.mark.parametrize("num_large", [4, 40])
def test_scatter_of_small_payloads_does_not_slow_the_largest(num_large: int) -> None:
    topology, costs = Topology(16, 4), stated_costs()
    sizes = np.concatenate([np.full(200, 1e4), np.full(num_large, 1e8)])
    fitted = costs.cost_ns(topology, sizes)[0]
    factors = np.where(sizes > 1e7, 1.0, np.resize([1.0, 1.0, 1.0, 6.0], len(sizes)))
    costs = replace(costs, log_residuals=np.log(factors), residual_costs_ns=fitted)
    pricing = Pricing(costs, topology, 1)

    small, largest, beyond = (
        pricing.cost_ns(np.full(costs.num_draws, size)) for size in (1e4, 1e8, 1e9)
    )

    assert _mean(small) > 1.8 * fitted[0]
    assert _mean(largest) == pytest.approx(fitted[-1], rel=0.02)
    assert beyond == pytest.approx(costs.cost_ns(topology, 1e9)[:, 0])


def test_buckets_of_ddp_are_reduced_in_order_without_negotiation() -> None:
    costs = stated_costs(intra=(0, 0), inter=(0, 1.0))
    job = stated_job(costs=costs, offsets_ns=np.zeros((1, 10)))
    buckets = (np.arange(5), np.arange(5, 10))

    found = _step(job, Target(16, 4, replace(job.reduction, buckets=buckets)))

    # All gradients are ready at once: both buckets are exposed, 40 MB over the ring of 16 ranks.
    expected = 2 * 15 / 16 * 40e6
    assert found.causes[EXPOSED_TRANSFER, BANDWIDTH] == pytest.approx(np.full(NUM_DRAWS, expected))
    assert found.causes[EXPOSED_TRANSFER, NEGOTIATION] == pytest.approx(np.zeros(NUM_DRAWS))
