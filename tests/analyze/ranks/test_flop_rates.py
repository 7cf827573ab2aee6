"""FLOP/s and MFU from counted FLOPs, the step time and the peak of the device."""

import math
from typing import Any

import pandas as pd
import pytest

from hvdprof.analyze.ranks.rank_machine import PEAKS, peak_of, whole_windows, with_flop_rates
from hvdprof.model.tables.sample_tables import DEVICE_SAMPLES, RANK_MACHINE
from hvdprof.model.tables.scaling_tables import LAUNCHES
from tests.builders.declared_rows import declared_rows
from tests.builders.places import ROOT

KEY = {"pass_id": "p", "segment": "s"}
STEP = {"step_time_ns": 1e8, "step_time_error_ns": 1e6, "num_effective_steps": 100.0}


def rates(device: str, **counted: float) -> dict[str, dict[Any, Any]]:
    """The rows of one rank on a device, by measure."""
    rows = [
        {**KEY, "rank": 0, "measure": f"flop_{name}", "windows": 9, "mean": value}
        for name, value in counted.items()
    ]
    samples = declared_rows(DEVICE_SAMPLES, {"pass_id": "p", "rank": 0, "device": device})
    launches = declared_rows(LAUNCHES, {**KEY, **STEP})
    found = with_flop_rates(declared_rows(RANK_MACHINE, *rows), samples, launches)
    return {str(row["measure"]): row for row in found.to_dict("records")}


def test_the_interval_is_that_of_the_step_time() -> None:
    found = rates("NVIDIA H200", bf16=40e12)
    rate, mfu = found["flop_rate"], found["mfu"]
    assert rate["mean"] == pytest.approx(400e12)
    assert rate["low"] == pytest.approx(400e12 / (1 + 1.984 * 0.01), rel=1e-3)
    assert rate["high"] == pytest.approx(400e12 / (1 - 1.984 * 0.01), rel=1e-3)
    assert mfu["mean"] == pytest.approx(400 / 989)
    assert mfu["low"] < mfu["mean"] < mfu["high"]
    assert (mfu["windows"], mfu["rank"], mfu["pass_id"]) == (9, 0, "p")


def test_each_precision_has_its_own_peak() -> None:
    found = rates("NVIDIA H100 80GB HBM3", bf16=9.894e12, tf32=4.947e12)
    assert found["mfu"]["mean"] == pytest.approx(0.2)
    assert found["flop_rate"]["mean"] == pytest.approx(148.41e12)


@pytest.mark.parametrize(
    ("device", "precision"),
    [
        ("NVIDIA GeForce RTX 5090", "bf16"),
        ("NVIDIA GeForce RTX 4090 D", "bf16"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "bf16"),
        ("NVIDIA GH200 480GB", "bf16"),
        ("NVIDIA A10G", "bf16"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "bf16"),
        ("NVIDIA H200", "fp32"),
        ("NVIDIA H100 80GB HBM3", "other"),
    ],
)
def test_an_unknown_peak_is_no_number(device: str, precision: str) -> None:
    found = rates(device, **{precision: 1e12})
    assert math.isnan(found["mfu"]["mean"])
    assert found["flop_rate"]["mean"] == pytest.approx(1e13)


def test_a_cpu_has_its_rate_alone() -> None:
    assert rates("", fp32=1e9).keys() == {"flop_fp32", "flop_rate"}


def test_without_a_count_nothing_is_added() -> None:
    measured = declared_rows(RANK_MACHINE, {**KEY, "rank": 0, "measure": "rss", "mean": 1.0})
    same = with_flop_rates(measured, DEVICE_SAMPLES.empty(), LAUNCHES.empty())
    pd.testing.assert_frame_equal(same, measured)


def test_a_window_with_two_models_is_left_out() -> None:
    def window(measure: str, low: float, high: float) -> dict[str, object]:
        return {"pass_id": "p", "rank": 0, "measure": measure, "low": low, "high": high}

    samples = declared_rows(
        DEVICE_SAMPLES,
        window("flop_fp32", 1e9, 2e9),
        window("flop_fp32", 2e9, 2e9),
        window("power", 100.0, 700.0),
    )
    assert whole_windows(samples)["high"].tolist() == [2e9, 700.0]


@pytest.mark.parametrize(
    ("device", "bf16"),
    [
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA A100 80GB PCIe", 312.0),
        ("NVIDIA H100 PCIe", 756.5),
        ("NVIDIA H100 NVL", 835.0),
        ("NVIDIA L4", 121.0),
        ("NVIDIA L40S", 362.05),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("AMD Instinct MI250X", 191.5),
        ("AMD Instinct MI300X", 1307.4),
        ("NVIDIA B200", 2250.0),
        ("Tesla V100-SXM2-32GB", None),
        ("Tesla T4", None),
        ("NVIDIA L40", None),
    ],
)
def test_names_as_torch_has_them(device: str, bf16: float | None) -> None:
    assert peak_of(device, "bf16") == pytest.approx((bf16 or math.nan) * 1e12, nan_ok=True)


def test_every_peak_has_a_source_and_stands_in_the_documentation() -> None:
    page = (ROOT / "docs" / "howto" / "machine.md").read_text(encoding="utf-8")
    for peak in PEAKS:
        assert peak.source.startswith("https://")
        numbers = [f"{value:g}" if value else "" for value in peak[2:-1]]
        row = f"| {peak.title} | {' | '.join(numbers)} | <{peak.source}> |"
        assert row in page, row
