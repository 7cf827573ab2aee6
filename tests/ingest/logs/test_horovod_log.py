from pathlib import Path

import pandas as pd
import pytest

from hvdprof.ingest.logs.horovod_log import HorovodLog
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part


def test_every_part_of_a_line(tmp_path: Path) -> None:
    text = (
        "[1,5]<stderr>:[1970-01-01 00:00:01.  3056: W /a b/x/stall.cc:105] [2]: a message\n"
        "[1,5]<stdout>:[1970-01-01 00:00:02.000001: T controller.cc:7] no rank of its own\n"
        "[I operations.cc:12] without a time\n"
        "[W ProcessGroupNCCL.cpp:12] of another program\n"
        "[2020-12-09 09:15:14.209630: T ] cut source\n"
    )
    tables, _ = read_part(HorovodLog, text, tmp_path)
    log = tables["horovod_log"]
    assert list(log["level"]) == ["warning", "trace", "info", "trace"]
    assert list(log["source"]) == ["stall.cc:105", "controller.cc:7", "operations.cc:12", ""]
    assert list(log["rank"].fillna(-1)) == [2, 5, -1, -1]


def test_microseconds_are_padded_with_blanks(tmp_path: Path) -> None:
    text = "[1970-01-01 00:00:01.  3056: W x/stall.cc:105] [2]: a message\n"
    tables, _ = read_part(HorovodLog, text, tmp_path)
    (row,) = tables["horovod_log"].to_dict("records")
    assert row["time_ns"] == 1_003_056_000
    assert (row["rank"], row["message"]) == (2, "a message")


def test_no_time_and_no_rank_are_missing(tmp_path: Path) -> None:
    tables, _ = read_part(HorovodLog, "[W operations.cc:12] x\n", tmp_path)
    (row,) = tables["horovod_log"].to_dict("records")
    assert pd.isna(row["time_ns"])
    assert pd.isna(row["rank"])


@pytest.mark.parametrize("stamp", ["2026-99-99 99:99:99.000000", "2026-02-30 00:00:00.000000"])
def test_an_impossible_time_is_missing(tmp_path: Path, stamp: str) -> None:
    tables, _ = read_part(HorovodLog, f"[{stamp}: W operations.cc:12] x\n", tmp_path)
    assert tables["horovod_log"]["time_ns"].isna().all()


@pytest.mark.slow
@needs_corpus
def test_the_trace_of_the_corpus(tmp_path: Path) -> None:
    content = (CORPUS / "horovod_logs" / "huyutuo_vgg16_trace_rank0of4.log").read_bytes()
    tables, _ = read_part(HorovodLog, content, tmp_path)
    log = tables["horovod_log"]
    assert len(log) == 5348
    assert set(log["level"]) == {"trace"}
    assert (log["time_ns"].diff().dropna() >= 0).mean() > 0.99
