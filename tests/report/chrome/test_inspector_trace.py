import json
from pathlib import Path
from typing import Any

import pytest

from hvdprof.api import load_run
from hvdprof.errors import UsageError
from hvdprof.report.chrome.chrome_trace import TraceContent, write_trace
from hvdprof.report.chrome.inspector_trace import has_inspector_logs, inspector_content
from tests.ingest.logs.test_nccl_inspector import START_US, header, kernel_times, perf, text


def record(
    rank: int, seq: int, start: int, stop: int, *, group: str = "0xab", size: int = 2, **more: Any
) -> dict[str, object]:
    head: dict[str, Any] = header(rank, size)
    head["header"]["id"] = group
    return {**head, "coll_perf": perf(seq, **kernel_times(start, stop), **more)}


def content_of(folder: Path, **logs: list[object]) -> TraceContent:
    folder.mkdir()
    for name, records in logs.items():
        (folder / f"{name}.log").write_text(text(*records))
    run = load_run(folder)
    assert has_inspector_logs(run)
    return inspector_content(run)


def events(content: TraceContent) -> list[tuple[object, ...]]:
    return [
        (one.lane.process, one.lane.name, one.name, one.start_ns // 1000 - START_US, one.dur_ns)
        for one in content.events
    ]


def test_each_log_is_a_rank_with_its_kernels_in_time(tmp_path: Path) -> None:
    content = content_of(
        tmp_path / "logs",
        pid9=[record(0, 1, 0, 100), record(0, 2, 120, 200)],
        pid7=[record(1, 1, 40, 100)],
    )
    assert content.processes == {0: "rank 0 (node-1)", 1: "rank 1 (node-1)"}
    assert events(content) == [
        (0, "communicator 0xab", "AllReduce", 0, 100_000),
        (1, "communicator 0xab", "AllReduce", 40, 60_000),
        # Another channel of the builder starts at 90: both calls are in progress at once.
        (0, "communicator 0xab (2)", "AllReduce", 90, 110_000),
    ]
    assert content.about["np"] == 2


@pytest.mark.heavy
def test_a_process_is_named_by_its_rank_in_the_largest_communicator(tmp_path: Path) -> None:
    logs: dict[str, list[object]] = {
        f"pid{rank}": [
            record(rank % 2, 1, 0, 100, group=f"0x{rank // 2}"),
            record(rank, 1, 10, 110, group="0xff", size=4, coll="AllGather"),
        ]
        for rank in range(4)
    }
    content = content_of(tmp_path / "logs", **logs)
    assert list(content.processes.values()) == [f"rank {rank} (node-1)" for rank in range(4)]
    assert {lane.name for lane in content.lanes if lane.process == 3} == {
        "communicator 0x1",
        "communicator 0xff",
    }


def test_ranks_in_one_file_and_calls_at_once_have_lanes_of_their_own(tmp_path: Path) -> None:
    records: list[object] = [record(rank, 1, rank, 100) for rank in (0, 1)]
    content = content_of(tmp_path / "logs", all=[*records, record(1, 2, 20, 90)])
    assert list(content.processes.values()) == ["rank 0 (node-1)", "rank 1 (node-1)"]
    assert [lane.name for lane in content.lanes if lane.process == 1] == [
        "communicator 0xab",
        "communicator 0xab (2)",
    ]


def test_the_file_is_a_chrome_trace(tmp_path: Path) -> None:
    content = content_of(tmp_path / "logs", one=[record(1, 3, 0, 100, coll_algo="RING")])
    with (tmp_path / "trace.json").open("w") as file:
        write_trace(content, file)
    written = json.loads((tmp_path / "trace.json").read_text())
    (drawn,) = [one for one in written["traceEvents"] if one["ph"] == "X"]
    assert (drawn["ts"], drawn["dur"]) == (0, 100)
    assert drawn["args"] == {
        "seq": 3, "rank": 1, "num_ranks": 2, "size_bytes": 2**20, "busbw_gb_s": 15.0,
        "algorithm": "RING",
    }  # fmt: skip


def test_logs_without_kernel_times_name_the_setting(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="without kernel times") as raised:
        content_of(tmp_path / "logs", one=[{**header(), "coll_perf": perf(1)}])
    assert "NCCL_INSPECTOR_DUMP_VERBOSE=1" in str(raised.value.hint)
