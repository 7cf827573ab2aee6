# ruff: noqa: E501  (lines of logs are as long as they are)
import json
from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.deepspeed.deepspeed_comms import DeepSpeedComms
from tests.builders.printed import read_part

VERBOSE = """\
[2022-06-26 01:39:55,722] [INFO] [logging.py:69:log_dist] [Rank 0] rank=0 | comm op: reduce_scatter_base | time (ms): 9.46 | msg size: 678.86 MB | algbw (Gbps): 1204.52  | busbw (Gbps): 1129.23
[2022-06-26 01:39:56,470] [INFO] [logging.py:69:log_dist] [Rank 0] comm op: all_gather_base | time (ms): 0.11 | msg size: 6.0 MB | algbw (Gbps): 954.41 | busbw (Gbps): 894.76
"""
SUMMARY = """\
Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)     busbw_avg (Gbps)
broadcast
                    0B                  2                   0.19                0.10                0.00                0.00
                    2.0 KB              146                 11.12               0.08                0.43                0.41
reduce_scatter_tensor
                    678.86 MB           40                  602.29              9.69                1468.06             1376.31
"""


def rows_of(text: str, folder: Path) -> list[dict[object, object]]:
    return read_part(DeepSpeedComms, text, folder)[0]["comms_log"].to_dict("records")


def test_single_calls_in_bytes_and_gigabytes_per_second(tmp_path: Path) -> None:
    first, second = rows_of(VERBOSE, tmp_path)
    assert (first["operation"], first["size_bytes"]) == ("reduce_scatter_base", 711_836_303)
    assert (first["rank"], first["total_ns"]) == (0, 9_460_000)
    assert first["busbw_gb_s"] == pytest.approx(1129.23 / 8)
    assert (second["operation"], second["size_bytes"]) == ("all_gather_base", 6 * 2**20)


def test_a_summary_is_read_by_operation_and_size(tmp_path: Path) -> None:
    rows = rows_of(SUMMARY, tmp_path)
    assert [(row["operation"], row["number"]) for row in rows] == [
        ("broadcast", 2), ("broadcast", 146), ("reduce_scatter_tensor", 40),
    ]  # fmt: skip
    assert (rows[2]["total_ns"], rows[2]["mean_ns"]) == (602_290_000, 9_690_000)


def test_debug_names_the_caller(tmp_path: Path) -> None:
    text = SUMMARY.replace("broadcast\n", "broadcast | [Caller Func: _broadcast_model]\n")
    assert rows_of(text, tmp_path)[1]["caller"] == "_broadcast_model"


def test_a_summary_ends_where_other_lines_begin(tmp_path: Path) -> None:
    other = "a line of the script that is no name\n" * 4
    rows = rows_of(f"{SUMMARY}{other}  1.0 KB   3   1.0  1.0  1.0  1.0\n", tmp_path)
    assert len(rows) == 3


def test_summaries_are_numbered(tmp_path: Path) -> None:
    assert [row["summary"] for row in rows_of(SUMMARY * 2, tmp_path)] == [0, 0, 0, 1, 1, 1]


@pytest.mark.heavy
def test_the_dictionary_of_a_summary_as_json(tmp_path: Path) -> None:
    entry = {
        "count": 40, "total_latency_ms": 602.5, "avg_latency_ms": 9.69, "tput_avg_gbps": 1468.0,
        "busbw_avg_gbps": 1376.0, "msg_size_bytes": 2**20, "msg_size_str": "1.0 MB",
    }  # fmt: skip
    content = {
        "summary": {"all_reduce": {str(2**20): entry, "8": {"count": 1}}},
        "straggler_analysis": None,
        "metadata": {"world_size": 4, "rank": 0, "timestamp": "2026-01-01"},
    }
    path = tmp_path / "comms.json"
    path.write_text(json.dumps(content, indent=1))
    run = load_run(path)
    (row,) = run.comms_log.to_dict("records")
    assert (row["operation"], row["size_bytes"], row["number"]) == ("all_reduce", 2**20, 40)
    assert (row["total_ns"], row["busbw_gb_s"]) == (602_500_000, 172.0)
    (page,) = analyze_files(run).files
    assert page.verdict.startswith("all_reduce of 1.05 MB takes 100.0 % of the logged time")
    path.write_text(json.dumps(content)[:-30])
    with pytest.raises(UnreadableInputError, match="damaged DeepSpeed summary"):
        load_run(path)


def test_a_cut_line_is_no_row(tmp_path: Path) -> None:
    assert rows_of(VERBOSE[:150] + "\n", tmp_path) == []
