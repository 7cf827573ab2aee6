"""GPUs by NVIDIA's management library, which a stand-in replaces."""

import os
from pathlib import Path

import pytest

from hvdprof.collect.devices.nvml import NvmlError, NvmlGpu
from hvdprof.rundir.recording.sample_format import DEVICE, LIMITS, MEASURES
from tests.builders.nvml_library import UUID, NvmlLibrary


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> NvmlLibrary:
    return NvmlLibrary(tmp_path_factory.mktemp("nvml"))


def test_a_gpu_has_its_values_in_base_units(library: NvmlLibrary) -> None:
    library.set(
        sm=1980,
        memory=3201,
        power=698_500,
        energy=5 * 10**12,
        limit=700_000,
        heat=71,
        gen=5,
        width=16,
        corrected=2,
        uncorrected=1 << 40,
        reasons=0,
        used=97,
        bytes=80 * 10**9,
    )
    gpu = NvmlGpu(UUID, library.path)
    values = gpu.read()
    gpu.close()

    assert gpu.name == "NVIDIA Stand-in"
    assert values.keys() <= MEASURES.keys()
    assert {MEASURES[name].scope for name in values} == {DEVICE}
    assert {name: value for name, value in values.items() if name not in LIMITS} == {
        "sm_clock": 1980e6,
        "memory_clock": 3201e6,
        "power": pytest.approx(698.5),
        "energy": pytest.approx(5e9),
        "power_limit": pytest.approx(700),
        "temperature": 71,
        "pcie_generation": 5,
        "pcie_width": 16,
        "ecc_corrected": 2,
        "ecc_uncorrected": 1 << 40,
        "utilisation": 0.97,
        "memory_used": 80e9,
        "xid": 0,
    }


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (0x1, "limited_idle"),
        (0x2, "limited_setting"),
        (0x4, "limited_power"),
        (0x8, "limited_slowdown"),
        (0x10, "limited_sync"),
        (0x20, "limited_heat"),
        (0x40, "limited_hw_heat"),
        (0x80, "limited_power_brake"),
        (0x100, "limited_display"),
    ],
)
def test_each_reason_of_throttling_has_its_name(library: NvmlLibrary, bit: int, name: str) -> None:
    gpu = NvmlGpu(UUID, library.path)
    library.set(reasons=bit)
    values = gpu.read()

    assert {key for key, value in values.items() if value} == {name}
    assert set(LIMITS) <= values.keys()


def test_what_a_gpu_does_not_support_is_left_out(library: NvmlLibrary) -> None:
    library.set(sm=1000)

    assert NvmlGpu(UUID, library.path).read() == {"sm_clock": 1e9, "xid": 0}


def test_the_last_xid_error_stays(library: NvmlLibrary) -> None:
    gpu = NvmlGpu(UUID, library.path)
    library.set(xid=79)
    first = gpu.read()["xid"]
    library.set(sm=1)

    assert (first, gpu.read()["xid"]) == (79, 79)


def test_without_library_or_gpu_it_says_so(library: NvmlLibrary, tmp_path: Path) -> None:
    with pytest.raises(NvmlError, match="no GPU GPU-other"):
        NvmlGpu("GPU-other", library.path)
    with pytest.raises(NvmlError, match=r"libabsent\.so"):
        NvmlGpu(UUID, str(tmp_path / "libabsent.so"))


def test_a_rank_without_a_core_near_its_gpu_is_seen(
    library: NvmlLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.set(sm=1)
    gpu = NvmlGpu(UUID, library.path)
    assert "remote_cores" not in gpu.read()
    for near, is_remote in ((frozenset({0, 1}), 0.0), (frozenset({64}), 1.0)):
        gpu._near_cores = near
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 2})
        assert gpu.read()["remote_cores"] == is_remote
