"""The synthetic trace of the speed measurement is one that the reader understands."""

from pathlib import Path

import pytest

from benchmarks.kineto_ingest import write
from hvdprof.ingest.kineto.trace_file import read_trace_file


@pytest.mark.heavy
def test_the_trace_has_steps_collectives_and_kernels(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write(path, 1000)
    file = read_trace_file(path)
    assert [one.name for one in file.annotations] == ["ProfilerStep#0"]
    assert len(file.calls) == 2
    assert all(call.end_ns is not None for call in file.calls)
    assert len(file.launches[0]) == 2000
    assert file.notes == []
