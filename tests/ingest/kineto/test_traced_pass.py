"""Traces of several ranks are read at once, in the order in which they were given."""

import threading
import time
from pathlib import Path

import pytest

from hvdprof.ingest.kineto import traced_pass
from hvdprof.ingest.kineto.trace_file import read_trace_file
from tests.builders.profiler_traces import TracedJob, write_traces


def test_traces_are_read_side_by_side_and_stay_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_traces(tmp_path, TracedJob(size=4), range(4))
    torn = tmp_path / "trace_rank9.json"
    torn.write_bytes(paths[0].read_bytes()[:3000])
    beside = threading.Barrier(2)

    def read(path: Path, **options: object) -> object:
        if path in paths[:2]:
            # Without a second reader the first one waits in vain.
            beside.wait(timeout=60)
        return read_trace_file(path, **options)

    monkeypatch.setattr(traced_pass, "read_trace_file", read)
    monkeypatch.setattr(traced_pass, "usable_cores", lambda: 2)
    monkeypatch.setattr(traced_pass, "has_numba", lambda: True)
    steps = []
    missing = tmp_path / "missing.json"
    found = traced_pass.read_traces(
        [torn, *paths[::-1], missing], [], progress=lambda path, done: steps.append(done)
    )
    assert [rank.path for rank in found.ranks.values()] == paths
    assert list(found.left_out) == [missing, torn]
    assert steps == sorted(steps)
    assert steps[-1] == sum(path.stat().st_size for path in (torn, *paths))


def test_a_failure_of_the_callback_ends_the_reading(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, TracedJob(size=2), range(2))

    def stop(path: Path, done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        traced_pass.read_traces(paths, [], progress=stop)


def test_no_more_are_read_at_once_than_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_traces(tmp_path, TracedJob(size=4), range(4))
    open_ones: list[Path] = []
    most = 0

    def read(path: Path, **options: object) -> object:
        nonlocal most
        open_ones.append(path)
        most = max(most, len(open_ones))
        time.sleep(0.05)
        open_ones.remove(path)
        return read_trace_file(path, **options)

    monkeypatch.setattr(traced_pass, "read_trace_file", read)
    monkeypatch.setattr(traced_pass, "usable_cores", lambda: 4)
    monkeypatch.setattr(traced_pass, "has_numba", lambda: True)
    traced_pass.read_traces(paths, [], jobs=1)
    assert most == 1
    traced_pass.read_traces(paths, [])
    assert most > 1
