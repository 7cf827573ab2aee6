"""What the section on the machine says of FLOPs and energy."""

from dataclasses import replace
from typing import Any

import pytest

from hvdprof.model.run import RunAnalysis
from hvdprof.model.tables.run_tables import RANKS, SEGMENTS
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES, RANK_MACHINE
from hvdprof.model.tables.scaling_tables import LAUNCHES
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.sections.machine_work import work_sentences
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import analysis as finished_analysis
from tests.builders.finished_analysis import run as finished_run
from tests.builders.finished_analysis import verdict

KEY = {"pass_id": "p", "segment": "s"}
CELL = {"model": "resnet18", "engine": "horovod", "compression": "none", "reduction": "average"}
NAN = float("nan")


def measured(measure: str, rank: int, mean: float, low: float = NAN, high: float = NAN) -> Any:
    ends = {"low": low, "high": high}
    return {**KEY, "rank": rank, "measure": measure, "mean": mean, **ends}


def said(
    rows: list[dict[str, Any]],
    *,
    batch: int = 16,
    gpus: tuple[str, ...] = ("a", "b"),
    device: str = "NVIDIA H200",
    np: int = 2,
) -> list[str]:
    """The sentences on a launch of two ranks, of which a cause takes 20 % of the step."""
    ranks = [{"pass_id": "p", "rank": n, "hostname": "h", "gpu": gpu} for n, gpu in enumerate(gpus)]
    names = [{"pass_id": "p", "rank": n, "device": device} for n in range(2)]
    cause = {**CELL, "np": 2, "cause_id": "c", "share": 0.2, "share_low": 0.15, "share_high": 0.25}
    frames = {
        SEGMENTS.name: declared_rows(SEGMENTS, {**KEY, **CELL, "size": 2, "batch_size": batch}),
        RANKS.name: declared_rows(RANKS, *ranks),
        DEVICE_SAMPLES.name: declared_rows(DEVICE_SAMPLES, *names),
    }
    known: RunAnalysis = finished_analysis(
        run=finished_run(**frames),
        launches=declared_rows(LAUNCHES, {**KEY, "step_time_ns": 1e8}),
        derived={WATERFALL.name: declared_rows(WATERFALL, cause)},
    )
    own = verdict(model="resnet18", np=np, engine="horovod", biggest_loss="x")
    known = replace(known, verdict=replace(own, parts=replace(own.parts, cause_id="c")))
    table = declared_rows(RANK_MACHINE, *rows)
    return [*work_sentences(known, table.astype({"pass_id": str, "segment": str, "measure": str}))]


def test_flops_with_interval_precision_and_mfu() -> None:
    rows = [
        row
        for rank in (0, 1)
        for row in (
            measured("flop_bf16", rank, 39e12),
            measured("flop_fp32", rank, 1e12),
            measured("flop_rate", rank, 400e12, 390e12, 410e12),
            measured("mfu", rank, 0.404, 0.396, 0.412),
        )
    ]
    assert said(rows) == [
        "400 ± 10 TFLOP/s per rank (mean), in fp32 2 %, bf16 98 %: 40.0 TFLOP per step, counted in "
        "one warm-up step.",
        "MFU 40.4 ± 0.8 % of the dense peak (docs/howto/machine.md).",
    ]


def test_an_unknown_device_is_refused_by_name() -> None:
    rows = [
        row
        for rank in (0, 1)
        for row in (
            measured("flop_bf16", rank, 1e9),
            measured("flop_rate", rank, 1e10),
            measured("mfu", rank, NAN),
        )
    ]
    first, second = said(rows, device="NVIDIA GeForce RTX 5090")
    assert first.startswith("10.0 GFLOP/s per rank (mean), in bf16: 1.00 GFLOP per step")
    assert second == "No MFU: no dense peak of NVIDIA GeForce RTX 5090 is known in bf16."


ENERGY = [measured("energy", 0, 600.0), measured("energy", 1, 400.0)]


def test_energy_per_sample_and_step_and_that_of_the_loss() -> None:
    (sentence,) = said(ENERGY)
    assert sentence == (
        "The GPUs draw 1,000 W by their energy counters: 3.12 J per sample, 100 J per step, 24.0 "
        "kWh per day, of which the largest loss of the steps takes 4.80 ± 1.20."
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"batch": 0}, "counters: 100 J per step"),
        ({"gpus": ("a", "a")}, "The GPUs draw 500 W"),
    ],
)
def test_energy_without_a_batch_or_of_a_gpu_that_ranks_share(
    values: dict[str, Any], expected: str
) -> None:
    (sentence,) = said(ENERGY, **values)
    assert expected in sentence


def test_nothing_is_said_where_the_counter_is_missing() -> None:
    assert said(ENERGY[:1]) == []
    assert said(ENERGY, gpus=("a", "")) == []
    assert said([measured("power", 0, 600.0), measured("power", 1, 400.0)]) == []


def test_a_loss_of_another_cell_is_not_held_against_this_energy() -> None:
    (sentence,) = said(ENERGY, np=4)
    assert sentence.endswith("24.0 kWh per day.")
