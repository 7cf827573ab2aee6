"""Samples of the machine beside a recording, from its begin to its end."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hvdprof import collect
from hvdprof.collect._hooks import PROCESS
from hvdprof.collect.devices.host_source import HostSource
from hvdprof.collect.devices.nvml import NvmlError, NvmlGpu
from hvdprof.collect.devices.rank_samples import GpuSource, asked_hz
from hvdprof.collect.devices.torch_device import TorchDevice
from hvdprof.collect.session import Session
from hvdprof.collect.turn_gate import TurnGate
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.sample_format import MEASURES
from tests.builders.nvml_library import UUID, NvmlLibrary


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PassPaths]:
    found = PassPaths(tmp_path)
    monkeypatch.setenv("HVDPROF_RECORDER_DIR", str(found.recorder_folder))
    monkeypatch.setenv("HVDPROF_SAMPLES", "10")
    monkeypatch.setattr(PROCESS, "session", Session())
    yield found
    collect.stop()


def recorded(rank: int) -> None:
    collect.start(rank=rank, size=2, local_rank=rank, local_size=2)
    time.sleep(0.35)
    with collect.step(samples=1):
        pass
    collect.stop()


def lines_of(path: Path) -> list[Any]:
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("rank", "scopes"), [(0, {"rank", "host"}), (1, {"rank"})])
@pytest.mark.parametrize("light", ["0", "1"])
def test_one_rank_of_a_host_samples_it(
    paths: PassPaths, monkeypatch: pytest.MonkeyPatch, rank: int, scopes: set[str], light: str
) -> None:
    monkeypatch.setenv("HVDPROF_LIGHT", light)
    recorded(rank)
    lines = lines_of(paths.samples_file(rank))

    assert {line["scope"] for line in lines} == scopes
    for line in lines:
        for name, number, mean, low, median, high in line["measures"]:
            assert MEASURES[name].scope == line["scope"]
            assert number >= 1
            assert low <= min(mean, median) <= max(mean, median) <= high
    assert not [one for one in threading.enumerate() if one.name == "hvdprof machine"]


def test_flops_of_a_warm_up_step_are_samples_where_they_are_asked_for(
    paths: PassPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("HVDPROF_FLOPS", "1")
    collect.start(rank=1, size=2, local_rank=1, local_size=2)
    for step in range(4):
        with collect.step(samples=1, warmup=step < 2):
            torch.ones(8, 8) @ torch.ones(8, 8)
    time.sleep(0.35)
    collect.stop()
    lines = [line for line in lines_of(paths.samples_file(1)) if line["scope"] == "device"]
    assert {tuple(one) for line in lines for one in line["measures"] if one[0] == "flop_fp32"}
    assert {one[2] for line in lines for one in line["measures"]} == {2 * 8**3}
    assert {line["device"] for line in lines} == {""}


def test_the_turns_of_other_launches_are_in_no_window(paths: PassPaths) -> None:
    collect.start(rank=0, size=2, local_rank=0, local_size=2)
    (sampler,) = TurnGate.pausing
    time.sleep(0.15)
    sampler.pause()
    begin_ns = time.monotonic_ns()
    # Longer than the shortest window.
    time.sleep(1.3)
    end_ns = time.monotonic_ns()
    sampler.resume()
    time.sleep(0.15)
    collect.stop()

    lines = lines_of(paths.samples_file(0))
    for scope in ("rank", "host"):
        windows = [(one["start_ns"], one["end_ns"]) for one in lines if one["scope"] == scope]
        assert [end <= begin_ns or begin >= end_ns for begin, end in windows] == [True, True]
    assert not TurnGate.pausing


def test_none_are_taken_where_none_are_asked_for(
    paths: PassPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HVDPROF_SAMPLES", "0")
    recorded(0)

    assert paths.recorder_file(0).exists()
    assert not paths.samples_file(0).exists()


@pytest.mark.parametrize("asked", ["-1", "11", "often"])
def test_another_rate_than_a_usable_one_is_said(
    paths: PassPaths, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], asked: str
) -> None:
    monkeypatch.setenv("HVDPROF_SAMPLES", asked)
    recorded(0)

    assert "the machine is not sampled" in capfd.readouterr().err
    assert '"kind":"end"' in paths.recorder_file(0).read_text()


def test_a_failure_ends_the_samples_alone(
    paths: PassPaths, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    def fails(self: object) -> dict[str, float]:
        calls.append(1)
        if len(calls) > 1:
            raise KeyError("a new kernel")
        return {}

    monkeypatch.setattr(HostSource, "read", fails)
    recorded(0)

    assert "no longer sampled: KeyError" in capfd.readouterr().err
    assert '"kind":"end"' in paths.recorder_file(0).read_text()


def test_once_a_second_by_default() -> None:
    assert asked_hz({}) == 1.0
    assert asked_hz({"HVDPROF_SAMPLES": "0.5"}) == 0.5


class OneGpu(TorchDevice):
    """A GPU that torch computes on after a while."""

    known = ""

    def uuid(self) -> str:
        return self.known


def test_a_gpu_is_sampled_once_torch_computes_on_it(tmp_path: Path) -> None:
    library = NvmlLibrary(tmp_path)
    library.set(sm=1500)
    gpu = OneGpu("cuda")
    source = GpuSource(gpu, lambda uuid: NvmlGpu(uuid, library.path))
    before = source.read()
    gpu.known = UUID

    assert before == {}
    assert source.read()["sm_clock"] == 1.5e9
    assert source.device == "NVIDIA Stand-in"
    source.close()


def test_a_missing_library_is_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    def missing(uuid: str) -> NvmlGpu:
        raise NvmlError("libnvidia-ml.so.1: not found")

    gpu = OneGpu("cuda")
    gpu.known = UUID
    source = GpuSource(gpu, missing)

    assert (source.read(), source.read()) == ({}, {})
    assert capfd.readouterr().err.count("the GPU is not sampled: libnvidia-ml.so.1") == 1
