import pandas as pd
import pytest

from hvdprof import api
from hvdprof.analyze.communication.matched_collectives import (
    bus_factor,
    collectives,
    fusion_threshold,
)
from hvdprof.model.tables.timeline_tables import EXECUTIONS, TENSOR_USES
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS
from tests.builders.places import RECORDINGS

NAMES = {"pass_id": "p", "segment": "s"}
LAUNCH = ("p", "s")


def filled(declared, *rows):
    blank = {"category": "", "str": "", "bool": False, "float64": float("nan"), "Int64": None}
    return declared.frame(
        [
            {column.name: blank.get(column.dtype, 0) for column in declared.columns} | row
            for row in rows
        ]
    )


def execution(**values):
    row = {**NAMES, "step": 3, "fusion_id": 7, "collective": "ALLREDUCE", "start_ns": 5000}
    return filled(EXECUTIONS, row | {"dur_ns": 900, "num_tensors": 2} | values)


def use(tensor, begin, length, **values):
    row = {**NAMES, "step": 3, "fusion_id": 7, "tensor": tensor}
    return row | {"negotiation_start_ns": begin, "negotiation_ns": length} | values


def of(executions, *uses, arrivals=None, ranks=None, thresholds=None):
    ready = COLLECTIVE_ARRIVALS.empty() if arrivals is None else arrivals
    return collectives(
        executions, filled(TENSOR_USES, *uses), ready, ranks or {}, thresholds or {}
    ).iloc[0]


def test_bandwidths_are_those_of_nccl_tests():
    given = execution(size_bytes=17179869184, transfer_ns=61974_000)

    row = of(given, ranks={LAUNCH: 8})

    assert row["algbw_gb_per_s"] == pytest.approx(277.210914, abs=1e-6)
    assert row["busbw_gb_per_s"] == pytest.approx(485.119099, abs=1e-6)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("ALLREDUCE", 1.5), ("ALLGATHER", 0.75), ("ALLTOALL", 0.75), ("BROADCAST", 1.0)],
)
def test_the_bus_factor_follows_the_collective(collective, factor):
    assert bus_factor(collective, 4) == factor


def test_waiting_and_transfer_are_separated():
    row = of(
        execution(wait_ns=30, queue_ns=20, copy_ns=100, transfer_ns=700),
        use("a", 1000, 500),
        use("b", 3000, 1800),
    )

    assert row["queue_ns"] == 50
    assert row["negotiation_ns"] == 1800
    # Tensor a was negotiated at 1500 and waited for its batch-mate.
    assert row["hold_ns"] == 3500
    assert pd.isna(row["lag_ns"])


def test_the_lag_counts_from_the_last_rank_of_the_last_tensor():
    arrivals = filled(
        COLLECTIVE_ARRIVALS,
        {**NAMES, "step": 3, "tensor": "a", "last_ns": 4100},
        {**NAMES, "step": 3, "tensor": "b", "last_ns": 4700},
        {**NAMES, "step": 4, "tensor": "b", "last_ns": 9000},
    )

    row = of(execution(), use("a", 1000, 500), use("b", 3000, 1800), arrivals=arrivals)

    assert row["lag_ns"] == 300


def test_what_is_unknown_stays_missing():
    row = of(execution(size_bytes=None, transfer_ns=0))

    for name in ("algbw_gb_per_s", "busbw_gb_per_s", "fill", "negotiation_ns", "hold_ns"):
        assert pd.isna(row[name]), name


def test_the_fill_is_a_share_of_the_threshold():
    given = execution(size_bytes=32 * 2**20, transfer_ns=100)

    assert of(given, thresholds={LAUNCH: 64 * 2**20})["fill"] == 0.5


@pytest.mark.parametrize(
    ("environment", "threshold"),
    [
        ({}, 128 * 2**20),
        ({"HOROVOD_FUSION_THRESHOLD": "1000"}, 1000),
        ({"HOROVOD_FUSION_THRESHOLD": "0"}, None),
        ({"HOROVOD_FUSION_THRESHOLD": "big"}, None),
        ({"HOROVOD_AUTOTUNE": "1"}, None),
        ({"HOROVOD_AUTOTUNE": "0"}, 128 * 2**20),
    ],
)
def test_the_threshold_is_known_only_from_the_environment(environment, threshold):
    assert fusion_threshold(environment) == threshold


def of_recording(name):
    found = api.analyze_files(api.load_run(RECORDINGS / name)).derived["collectives"]
    return found[(found["collective"] == "ALLREDUCE") & ~found["warmup"]]


@pytest.mark.heavy
def test_a_recording_gives_one_row_an_execution_with_its_bytes():
    plain = of_recording("04_gloo_straggler_rank1_cache_off.json")

    by_step = plain.groupby("step")[["size_bytes", "num_tensors"]].sum()
    assert set(by_step["size_bytes"]) == {220200}
    assert set(by_step["num_tensors"]) == {6}
    assert plain["busbw_gb_per_s"].notna().all()
    assert plain["fill"].isna().all()
    assert (plain["transfer_ns"] + plain["copy_ns"] <= plain["dur_ns"]).all()


@pytest.mark.heavy
def test_fp16_halves_the_bytes():
    halves = of_recording("07_mpi_fp16.json")

    assert halves.groupby("step")["size_bytes"].sum().unique().tolist() == [110100]
