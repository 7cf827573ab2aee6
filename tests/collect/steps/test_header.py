import json
import os
import sys
from types import SimpleNamespace

import pytest

from hvdprof.collect.host_facts import Identity
from hvdprof.collect.steps.header import LineWriter, header_line

ALONE = Identity(0, 1, 0, 1)


@pytest.mark.parametrize(("setting", "threads"), [("3", 3), ("0", None), ("", None), ("all", None)])
def test_tensorflow_and_its_threads_are_named_where_it_is_imported(monkeypatch, setting, threads):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(__version__="2.15.1"))
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", setting)

    line = header_line(ALONE, "cpu")

    assert line["versions"]["tensorflow"] == "2.15.1"
    assert line["num_threads"] == threads


def test_a_tensorflow_that_is_only_installed_is_not_asked(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "3")

    line = header_line(ALONE, "cpu")

    assert "tensorflow" not in line["versions"]
    assert line["num_threads"] is None


class FakeCuda:
    """``torch.cuda`` with two GPUs, the second one current."""

    def __init__(self, *, is_running: bool = True) -> None:
        self.is_initialized = lambda: is_running
        self.device_count = lambda: 2
        self.current_device = lambda: 1

    def get_device_properties(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(uuid=f"uuid-{index}")


def header_on(monkeypatch, device, *, cuda=None, **modules):
    torch = SimpleNamespace(
        cuda=cuda or FakeCuda(), get_num_threads=lambda: 1, __version__="2.11.0"
    )
    for name in ("tensorflow", "horovod.torch", "horovod.tensorflow", "torch.distributed"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name, module in {"torch": torch, **modules}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return header_line(ALONE, device)


@pytest.mark.parametrize(("device", "gpu"), [("cuda:0", "uuid-0"), ("cuda", "uuid-1")])
def test_the_gpu_is_named_by_its_uuid(monkeypatch, device, gpu):
    assert header_on(monkeypatch, device)["gpu"] == gpu


def test_no_gpu_is_asked_on_cpus_or_before_cuda_runs(monkeypatch):
    assert "gpu" not in header_on(monkeypatch, "cpu")
    assert "gpu" not in header_on(monkeypatch, "cuda", cuda=FakeCuda(is_running=False))


@pytest.mark.parametrize(
    ("config", "backend"),
    [
        ("cpu:gloo,cuda:nccl", "nccl"),
        ("cpu:gloo,cuda:gloo", "gloo"),
        ("nccl", "nccl"),
        ("cpu:gloo", None),
    ],
)
def test_the_process_group_states_its_backend_for_gpus(monkeypatch, config, backend):
    group = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_backend=lambda: "undefined",
        get_backend_config=lambda: config,
    )
    line = header_on(monkeypatch, "cuda:0", **{"torch.distributed": group})

    assert line.get("backend") == backend


@pytest.mark.parametrize(("has_nccl", "backend"), [(2, "nccl"), (0, "gloo")])
def test_a_horovod_without_nccl_reduces_by_its_controller(monkeypatch, has_nccl, backend):
    hvd = SimpleNamespace(
        is_initialized=lambda: True,
        nccl_built=lambda: has_nccl,
        mpi_enabled=lambda: False,
        gloo_enabled=lambda: True,
    )
    line = header_on(monkeypatch, "cuda:0", **{"horovod.torch": hvd})

    assert line["backend"] == backend
    assert "backend" not in header_on(monkeypatch, "cpu", **{"horovod.torch": hvd})


def test_each_write_is_one_whole_line(tmp_path):
    file = LineWriter(tmp_path / "recorder" / "rank-0.jsonl")
    file.write({"kind": "mark", "name": "début", "monotonic_ns": 5})
    assert json.loads(file.path.read_text(encoding="utf-8")) == {
        "kind": "mark",
        "name": "début",
        "monotonic_ns": 5,
    }
    assert file.path.read_bytes().endswith(b"\n")


def test_an_existing_recording_is_not_mixed_with_another(tmp_path):
    LineWriter(tmp_path / "rank-0.jsonl").close()
    with pytest.raises(FileExistsError):
        LineWriter(tmp_path / "rank-0.jsonl")


def test_line_that_fits_in_part_is_taken_back(tmp_path, monkeypatch):
    file = LineWriter(tmp_path / "rank-0.jsonl")
    file.write({"kind": "mark", "name": "whole", "monotonic_ns": 1})
    before = file.path.read_bytes()
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    with pytest.raises(OSError, match="only 7 of"):
        file.write({"kind": "mark", "name": "torn", "monotonic_ns": 2})
    assert file.path.read_bytes() == before


def test_of_several_lines_those_that_fit_stay(tmp_path, monkeypatch):
    file = LineWriter(tmp_path / "rank-0.jsonl")
    lines = [{"kind": "mark", "name": name, "monotonic_ns": 1} for name in ("a", "b", "c")]
    length = len(json.dumps(lines[0], separators=(",", ":"))) + 1
    write = os.write
    with monkeypatch.context() as patch:
        # The second line fits without its end.
        patch.setattr(
            os, "write", lambda descriptor, data: write(descriptor, data[: 2 * length - 1])
        )
        with pytest.raises(OSError, match="disk full"):
            file.write(*lines)
    assert [json.loads(line) for line in file.path.read_text().splitlines()] == lines[:1]
    assert file.size_bytes == length
    file.write(lines[2])
    assert [json.loads(line)["name"] for line in file.path.read_text().splitlines()] == ["a", "c"]


def test_closing_twice_is_fine_and_writing_afterwards_is_an_error(tmp_path):
    file = LineWriter(tmp_path / "rank-0.jsonl")
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.write({"kind": "end", "monotonic_ns": 1})
