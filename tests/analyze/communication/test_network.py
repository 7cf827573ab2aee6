import numpy as np
import pytest

from hvdprof.analyze.communication.network import link_fit
from hvdprof.model.tables.collective_tables import COLLECTIVES

LAUNCH = ("p", "s")
SIZES = 1000 * 2 ** np.arange(12)
ALPHA_NS, BETA = 40_000, 0.8


def transfers(sizes, noise=0.0, stalled=0.0, seed=0):
    rng = np.random.default_rng(seed)
    times = (ALPHA_NS + BETA * sizes) * (1 + noise * rng.normal(size=len(sizes)))
    times[rng.random(len(sizes)) < stalled] *= 30
    blank = {"category": "", "str": "", "bool": False, "float64": np.nan}
    fixed = {"pass_id": "p", "segment": "s", "collective": "ALLREDUCE", "step": 1}
    columns = {column.name: blank.get(column.dtype, 0) for column in COLLECTIVES.columns}
    known = {"size_bytes": sizes, "transfer_ns": times.astype(np.int64)}
    return COLLECTIVES.frame(columns | fixed | known)


def test_exact_times_give_latency_and_bandwidth():
    row = link_fit(transfers(SIZES), {LAUNCH: 4}).iloc[0]

    assert row["alpha_ns"] == pytest.approx(ALPHA_NS, rel=0.01)
    assert row["bandwidth_gb_per_s"] == pytest.approx(1 / BETA, rel=0.01)
    assert row["bandwidth_low_gb_per_s"] == pytest.approx(1e6 / row["beta_high_ns_per_mb"])
    assert row["bandwidth_low_gb_per_s"] <= row["bandwidth_gb_per_s"]
    assert row["bandwidth_gb_per_s"] <= row["bandwidth_high_gb_per_s"]
    assert (row["np"], row["num_sizes"], row["reason"]) == (4, 12, "")


def test_stalled_transfers_do_not_move_it():
    row = link_fit(transfers(np.repeat(SIZES, 20), 0.05, 0.2), {LAUNCH: 4}).iloc[0]

    assert row["bandwidth_gb_per_s"] == pytest.approx(1 / BETA, rel=0.15)
    assert row["beta_low_ns_per_mb"] <= BETA * 1e6 * 1.05
    assert row["beta_high_ns_per_mb"] >= BETA * 1e6 * 0.95
    assert row["alpha_low_ns"] <= row["alpha_ns"] <= row["alpha_high_ns"]


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        (np.repeat([1000, 9000], 50), "2 different payloads"),
        (np.arange(1000, 3000, 100), "factor of eight"),
    ],
)
def test_too_few_sizes_give_no_line_but_the_reason(sizes, reason):
    row = link_fit(transfers(sizes), {LAUNCH: 4}).iloc[0]

    assert np.isnan(row["alpha_ns"])
    assert reason in row["reason"]


@pytest.mark.parametrize("ranks", [{}, {LAUNCH: 1}])
def test_nothing_is_said_of_one_rank_or_an_unknown_number(ranks):
    assert link_fit(transfers(SIZES), ranks).empty


def test_warmup_and_unknown_payloads_are_left_out():
    table = transfers(SIZES)
    table.loc[:3, "warmup"] = True
    table.loc[4:8, "size_bytes"] = None

    row = link_fit(table, {LAUNCH: 2}).iloc[0]

    assert row["num_executions"] == 3
