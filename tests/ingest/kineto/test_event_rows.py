"""Compiled code takes from a trace what the patterns take, also in odd spacing and of damage."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="compiled code needs numba")

from hvdprof.ingest.kineto import event_rows, trace_records
from hvdprof.ingest.kineto.event_rows import EventRows
from hvdprof.ingest.kineto.trace_events import Collected, collect
from hvdprof.ingest.kineto.trace_file import read_trace_file
from hvdprof.ingest.kineto.trace_records import TraceText, every_record
from tests.builders.mutants import damage
from tests.builders.places import CORPUS, needs_corpus

SPECIMENS = (
    "hta_nccl_data_rank0of2",
    "hta_sampled_rank0",
    "tracelens_resnet_act_checkpoint",
)
SPACINGS: dict[str, dict[str, Any]] = {
    "kineto": {"indent": 2},
    "compact": {"separators": (",", ":")},
    "one line": {},
    "unicode": {"ensure_ascii": False, "indent": 1},
}
CATEGORIES = (
    "cpu_op", "Operator", "Memset", "user_annotation", "GPU_User_Annotation", "kernel", "Kernel",
    "gpu_memcpy", "cuda_runtime", "cuda_driver", "Runtime", "python_function", "ac2g", "",
    "kernel\0", "é", "cuda_runtime_of_another_name",
)  # fmt: skip
NAMES = (
    "aten::add", "record_param_comms", "c10d::allreduce_", "ProfilerStep#3", "nccl:all_reduce",
    "gloo:all_reduce", "autograd::engine::evaluate_function: MmBackward0",
    "torch.distributed.ddp.reducer::copy_bucket_to_grad", "torch.distributed.ddp.reducer::mul_out",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "void  nccl::f<float>(x)", "voidnccl", "cudaFree",
    "cudaMalloc", "cudaFreeHost", "hipStreamSynchronize", "cudaLaunchKernel", 'a "quoted" name',
    "back\\slash", "autograd::engine::other", "é" * 9, "nested: {[,", "x" * 300,
)  # fmt: skip
TOKENS = (
    b'"ph"', b'"cat"', b'"name"', b'"tid"', b'"ts"', b'"dur"', b'"correlation"', b'"X"', b":", b",",
    b'"Sequence number"', b'"Fwd thread id"', b"{", b"}", b"[", b" ", b"\r\n", b"\t", b'"', b"-",
    b"0", b"7", b"12.5", b".0625", b"9999999999999999", b"12345678901234567", b'"kernel"',
    b'"cpu_op"', b'"cuda_runtime"', b'"record_param_comms"', b'"autograd::engine::', b'"5"', b"\0",
    b', {"ph": "X", "cat": "cpu_op", "ts": 4, "dur": 2.0015, "args": {"Sequence number": 4}}',
    b', {"ph": "X", "cat": "kernel", "ts": 4, "dur": 2, "tid": 3, "args": {"correlation": 4}}',
    b', {"cat": "cuda_runtime", "ph": "X", "name": "cudaFree", "ts": 1, "dur": 2, "correlation": 4',
)  # fmt: skip

_X = b'{"ph": "X", "ts": 4, "dur": 2, "args": {"correlation": 7, "Sequence number": 8}, '
ODD = {
    "two letters of a phase": b'{"ph": "XX", "ts": 4, "dur": 2, "cat": "kernel"}',
    "a phase behind another": b'{"ph": "XX", "ph": "X", "ts": 4, "dur": 2, "cat": "kernel"}',
    "a category without an end": _X + b'"cat": "kernel }',
    "a category in the next record": b'{"ts": 4, "ph": "X", "dur": 1, "cat": "',
    "the second category": _X + b'"cat": "a", "cat": "kernel"}',
    "the first name": _X + b'"cat": "cpu_op", "name": "c10d::reduce_", "name": "autograd::engine::'
    b'evaluate_function: A"}',
    "the second name": _X + b'"cat": "cpu_op", "name": "autograd::engine::evaluate_function: A", '
    b'"name": "c10d::reduce_"}',
    "a name far behind": _X + b'"cat": "cpu_op", "x": "' + b"x" * 200 + b'", "name": "c10d::a"}',
    "a kernel far behind": _X + b'"cat": "kernel", "x": "' + b"x" * 500 + b'", "name": "nccl"}',
    "a call of both kinds": _X + b'"cat": "runtime", "name": "cudaFree", "name": "nccl"}',
    "letters that are no capitals": _X + b'"cat": "CPU\x7fOP", "cat": "kernel"}',
}


@pytest.mark.parametrize("case", ODD)
def test_odd_events_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(trace_records, "CHUNK_BYTES", 700)
    between = b",\n" + _X + b'"cat": "cuda_runtime", "name": "cudaFree"}'
    between += b",\n" + _X + b'"cat": "cpu_op", "name": "autograd::engine::evaluate_function: B"}'
    path = tmp_path / "trace.json"
    events = (between * 3 + b", " + ODD[case]) * 9
    path.write_bytes(b'{"traceEvents": [' + events[1:] + b"]}")
    _assert_same(path)


def _events(numbers: random.Random, count: int) -> list[dict[str, Any]]:
    return [_event(numbers) for _ in range(count)]


def _event(numbers: random.Random) -> dict[str, Any]:
    args = {
        "External id": numbers.randrange(9),
        "Sequence number": numbers.choice((3, 10**17, "4", -1)),
        "Fwd thread id": numbers.choice((0, 1)),
        "correlation": numbers.choice((0, 7, 10**19)),
        "Collective name": "allreduce",
        "name": numbers.choice(NAMES),
        "list": [{"name": "c10d::x"}, {"cat": "kernel"}, "{"],
    }
    event = {
        "ph": numbers.choice("XXXXXXfsiM_"),
        "cat": numbers.choice(CATEGORIES),
        "name": numbers.choice(NAMES),
        "pid": 4,
        "tid": numbers.choice((1, "1", -2, "stream 7", 10**18)),
        "ts": numbers.choice((1.25, 17, 17.1234567, -0.5, "12.5", 10**16, 5 * 10**15, 1e30)),
        "dur": numbers.choice((1, 1, 2.0004, 0.9996, "7", 10**13, -3, None)),
        "args": {key: args[key] for key in args if numbers.random() < 0.4},
    }
    fields = [key for key in event if numbers.random() < 0.97]
    if numbers.random() < 0.3:
        numbers.shuffle(fields)
    return {key: event[key] for key in fields}


def _taken(path: Path, *, rows: bool) -> tuple[object, ...]:
    """What is found of a trace; the launches of an event may be there twice."""
    text, collected = TraceText(), Collected()
    scan = EventRows(collected) if rows else every_record
    for record in trace_records.trace_records(path, text, scan):
        collect(record, collected)
    found = {name: getattr(collected, name) for name in Collected.__slots__}
    launched: dict[int, int] = {}
    for key, start in zip(*found.pop("runtime"), strict=True):
        launched.setdefault(key, start)
    return found, launched, text


def _assert_same(path: Path) -> None:
    assert _taken(path, rows=True) == _taken(path, rows=False)


@pytest.fixture(params=[64, 1000, 20_000])
def _windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_records, "CHUNK_BYTES", request.param)


@pytest.mark.usefixtures("_windows")
@pytest.mark.parametrize("spacing", SPACINGS)
def test_events_of_any_spacing_are_the_same(tmp_path: Path, spacing: str) -> None:
    trace = {"schemaVersion": 1, "traceEvents": _events(random.Random(spacing), 400)}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace, **SPACINGS[spacing]), encoding="utf-8")
    _assert_same(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n").replace(b'\\"', b'"'))
    _assert_same(path)


@pytest.mark.usefixtures("_windows")
@pytest.mark.parametrize("seed", range(4))
def test_damage_and_nonsense_are_the_same(tmp_path: Path, seed: int) -> None:
    numbers = random.Random(seed)
    path = tmp_path / "trace.json"
    for _ in range(25):
        trace = {"traceEvents": _events(numbers, 40)}
        path.write_text(json.dumps(trace, **numbers.choice(list(SPACINGS.values()))))
        damage(numbers, path)
        content = bytearray(path.read_bytes())
        for _ in range(numbers.choice((0, 1, 30))):
            place = numbers.randint(0, len(content))
            content[place:place] = b"".join(numbers.choices(TOKENS, k=numbers.randint(1, 12)))
        path.write_bytes(content)
        _assert_same(path)


@needs_corpus
@pytest.mark.heavy
@pytest.mark.parametrize("name", SPECIMENS)
def test_public_traces_are_the_same_cut_and_damaged_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(trace_records, "CHUNK_BYTES", 1 << 16)
    content = gzip.decompress((CORPUS / "imports" / "kineto" / f"{name}.json.gz").read_bytes())
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    _assert_same(path)
    fast = read_trace_file(path)
    monkeypatch.setattr(event_rows, "has_numba", lambda: False)
    plain = read_trace_file(path)
    for field in plain.__slots__:
        np.testing.assert_equal(getattr(fast, field), getattr(plain, field), field)
    monkeypatch.undo()
    numbers = random.Random(name)
    for _ in range(10):
        first = numbers.randrange(len(content))
        path.write_bytes(content[first : first + 200_000])
        damage(numbers, path)
        _assert_same(path)


def test_rows_beyond_the_room_are_taken_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_rows, "_ROOM", 4)
    monkeypatch.setattr(trace_records, "CHUNK_BYTES", 5000)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": _events(random.Random(5), 300)}, indent=1))
    _assert_same(path)
