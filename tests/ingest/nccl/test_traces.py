from pathlib import Path

import pytest

from hvdprof.ingest.nccl.reader import read_nccl_logs
from tests.builders.nccl_log import job, recorded
from tests.builders.places import CORPUS, needs_corpus


def traced(stamp: str, function: str, text: str) -> str:
    return f"oak0:7000:7050 [0] {stamp} {function} NCCL TRACE {text}"


def test_a_trace_line_has_a_time_a_place_and_words(tmp_path: Path) -> None:
    lines = [
        *job(),
        traced("117.724290", "some_init:1396", "NET/OFI Provider tcp needs 3 keys"),
        traced("1000.000000", "reg:5", "buffer 0x7f12ab of 4096 bytes"),
        traced("1000.500000", "reg:5", "buffer 0x7f99cd of 8192 bytes"),
    ]
    traces = recorded(tmp_path, lines).traces
    assert traces["time_ns"].tolist() == [117_724_290, 1_000_000_000, 1_000_500_000]
    assert traces["function"].tolist() == ["some_init:1396", "reg:5", "reg:5"]
    assert traces["text"].tolist() == [
        "NET/OFI Provider tcp needs N keys",
        "buffer N of N bytes",
        "buffer N of N bytes",
    ]
    assert set(traces["host"]) == {"oak0"}
    assert set(traces["pid"]) == {7000}
    assert traces["line"].tolist() == [len(lines) - 2, len(lines) - 1, len(lines)]


def test_a_trace_line_without_a_stamp_has_no_time(tmp_path: Path) -> None:
    traces = recorded(tmp_path, [*job(), "oak0:7000:7050 [0] NCCL TRACE words"]).traces
    assert traces["time_ns"].isna().tolist() == [True]
    assert traces["text"].tolist() == ["words"]


@pytest.mark.heavy
@needs_corpus
def test_the_times_of_a_public_log_rise_within_each_process() -> None:
    path = CORPUS / "nccl_logs" / "alcf_polaris_vae_20250115_with_aws.log"
    traces = read_nccl_logs([path]).traces
    assert len(traces) == 92
    by_process = traces.groupby(["host", "pid"], observed=True)["time_ns"]
    assert by_process.ngroups == 8
    # Stamps of threads of one process may pass each other by less than a millisecond.
    assert by_process.apply(lambda times: times.diff().dropna().min() > -1_000_000).all()
    # Milliseconds: taken for seconds, this job would have run for 42 hours.
    assert traces["time_ns"].max() < 3_600_000_000_000
