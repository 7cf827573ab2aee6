import json
import random
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.ingest.logs.nccl_inspector import NcclInspector
from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.text.printed_lines import LogFile
from hvdprof.model.file_page import FilePage
from hvdprof.model.notes import texts
from tests.builders.printed import read_part

START_US = 1_752_867_229_000_000


def perf(seq: int, *, coll: str = "AllReduce", size: int = 2**20, micros: int = 100, **more):
    return {
        "coll": coll,
        "coll_sn": seq,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": micros,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 10.0,
        "coll_busbw_gbs": 15.0,
        **more,
    }


def header(rank: int = 0, num_ranks: int = 2, version: str = "v4.0"):
    return {
        "header": {"id": "0xab", "rank": rank, "n_ranks": num_ranks, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": version,
            "git_rev": "x",
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": START_US,
            "hostname": "node-1",
            "pid": 7,
        },
    }


def kernel_times(start_us: int, stop_us: int, at_us: int = 0):
    begin, end = START_US + at_us + start_us, START_US + at_us + stop_us
    events = [
        {"channel_id": 0, "kernel_start_ts": begin, "kernel_stop_ts": begin + 10},
        {"channel_id": 1, "kernel_start_ts": 0, "kernel_stop_ts": 0},
        {"channel_id": 2, "kernel_start_ts": end - 10, "kernel_stop_ts": end},
    ]
    return {"event_trace_ts": {"kernel_events": events}}


def text(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def pages(folder: Path) -> list[FilePage]:
    return list(analyze_files(load_run(folder)).files)


def test_every_line_of_4_0_has_its_header(tmp_path: Path) -> None:
    lines = [{**header(rank), "coll_perf": perf(3)} for rank in (0, 1)]
    rows = read_part(NcclInspector, text(*lines), tmp_path)[0]["inspector_collectives"]
    assert list(rows["rank"]) == [0, 1]
    assert list(rows["exec_ns"]) == [100_000, 100_000]
    assert list(rows["busbw_gb_s"]) == [15.0, 15.0]


def test_bare_lines_of_4_4_inherit_the_last_header(tmp_path: Path) -> None:
    records = [
        {**header(0, version="v4.4"), "dump_stats": {}},
        {"coll_perf": perf(1, coll_algo="RING", coll_proto="unknown")},
        {"p2p_perf": {"p2p": "Send", "p2p_sn": 4, "p2p_msg_size_bytes": 8, "p2p_exec_time_us": 2}},
        {"proxy_op": {"total_us": 3}},
        {**header(1, version="v4.4"), "dump_stats": {}},
        {"coll_perf": perf(1)},
    ]
    rows = read_part(NcclInspector, text(*records), tmp_path)[0]["inspector_collectives"]
    assert list(rows["rank"]) == [0, 0, 1]
    assert list(rows["algorithm"]) == ["RING", "", ""]
    assert list(rows["protocol"]) == ["", "", ""]
    assert list(rows["point_to_point"]) == [False, True, False]


def test_sizes_of_gathers_and_scatters_are_those_of_all_ranks(tmp_path: Path) -> None:
    record = {**header(num_ranks=8), "coll_perf": perf(1, coll="ReduceScatter", size=100)}
    (row,) = read_part(NcclInspector, text(record), tmp_path)[0]["inspector_collectives"].to_dict(
        "records"
    )
    assert (row["message_bytes"], row["size_bytes"]) == (100, 800)


def test_cut_and_headless_records_are_counted(tmp_path: Path) -> None:
    whole = text({"coll_perf": perf(1)})
    _, reader = read_part(NcclInspector, whole + text({"coll_perf": perf(2)})[:-30], tmp_path)
    assert [note.split(" Inspector")[0] for note in texts(reader.notes())] == ["1 damaged", "1"]


@pytest.mark.heavy
def test_the_verdict_is_the_longest_collective_with_its_bandwidth(tmp_path: Path) -> None:
    lines = [{**header(), "coll_perf": perf(1, micros=300)}]
    lines += [{**header(), "coll_perf": perf(2, size=2**10, micros=100)}]
    (tmp_path / "log").write_text(text(*lines))
    (page,) = pages(tmp_path)
    assert page.verdict == (
        "AllReduce of 1.05 MB on 2 ranks takes 75.0 % of the time in collectives; median bus "
        "bandwidth 15.0 GB/s."
    )
    assert page.caveat == "Times and bandwidths include waiting for the last rank."


@pytest.mark.heavy
def test_lost_numbers_are_counted_per_rank(tmp_path: Path) -> None:
    lines = [{**header(rank), "coll_perf": perf(seq)} for rank in (0, 1) for seq in (1, 2, 5)]
    (tmp_path / "log").write_text(text(*lines, {**header(1), "coll_perf": perf(3)}))
    (page,) = pages(tmp_path)
    (lost,) = [fact for fact in page.facts if fact.name == "num_lost"]
    assert lost.value == 3
    assert "rank 0 of 0xab: 2 of 5" in lost.text


@pytest.mark.heavy
def test_kernel_times_of_all_ranks_split_waiting_from_transfer(tmp_path: Path) -> None:
    for rank, start in enumerate((0, 40)):
        trace = kernel_times(start, 100)
        record = {**header(rank), "coll_perf": perf(1, **trace)}
        (tmp_path / f"node-pid{rank}.log").write_text(text(record))
    (page,) = pages(tmp_path)
    facts = {fact.name: fact.value for fact in page.facts}
    assert facts["wait_sum_ns"] == 40_000
    assert facts["transfer_median_ns"] == 60_000
    assert page.verdict.endswith(
        "25.0 % of that time is waiting. Too few calls to name a straggler: rank 1 arrives last in "
        "1 of 1 all-reduce; the others wait 40.0 µs per call (40.0 % of the recorded time)."
    )
    assert page.kind == "2 NCCL Inspector logs"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("lasts", "clause"),
    [
        ([1] * 9, "Rank 1 arrives last in 8 of 8 all-reduces; the others wait 40.0 µs per call"),
        ([1, 0] * 4, "No persistent straggler: rank 0 arrives last in 4 of 7 all-reduces;"),
    ],
)
def test_a_rank_is_last_beyond_chance_or_not(tmp_path: Path, lasts: list[int], clause: str) -> None:
    for rank in (0, 1):
        records = [
            {
                **header(rank),
                "coll_perf": perf(seq, **kernel_times(40 * (rank == last), 100, 200 * seq)),
            }
            for seq, last in enumerate(lasts, start=1)
        ]
        (tmp_path / f"node-pid{rank}.log").write_text(text(*records))
    (page,) = pages(tmp_path)
    assert f"25.0 % of that time is waiting. {clause}" in page.verdict


@pytest.mark.parametrize("record", [{"coll_perf": 3}, {"coll_perf": {"coll": "AllReduce"}}, []])
def test_odd_records_are_no_error(tmp_path: Path, record: object) -> None:
    tables, _ = read_part(NcclInspector, text(record), tmp_path)
    assert tables["inspector_collectives"].empty


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"coll_busbw_gbs": 15.0', '"coll_busbw_gbs": 1e999'),
        ('"coll_busbw_gbs": 15.0', '"coll_busbw_gbs": 1e300'),
        ('"coll_busbw_gbs": 15.0', f'"coll_busbw_gbs": {"9" * 400}'),
        ('"coll_exec_time_us": 100', f'"coll_exec_time_us": {2**63}'),
    ],
)
def test_a_record_with_an_absurd_number_is_left_out_and_counted(
    tmp_path: Path, old: str, new: str
) -> None:
    lines = text(*({**header(rank), "coll_perf": perf(3)} for rank in (0, 1)))
    (tmp_path / "a.log").write_text(lines + lines.replace(old, new, 1))
    run = load_run(tmp_path)
    assert len(run.inspector_collectives) == 3
    assert any("left out" in note or "omitted" in note for note in texts(run.notes))


def test_names_with_half_a_surrogate_pair_are_read(tmp_path: Path) -> None:
    lines = text({**header(), "coll_perf": perf(3)}).replace("node-1", "\\ud800x")
    (tmp_path / "a.log").write_text(lines)
    assert list(load_run(tmp_path).inspector_collectives["host"]) == ["?x"]


@pytest.mark.heavy
@pytest.mark.parametrize("change", [{"num_ranks": None}, {"length": 0}])
def test_kernel_times_without_ranks_or_length_give_no_share_of_waiting(
    tmp_path: Path, change: dict[str, object]
) -> None:
    records = []
    for rank in (0, 1):
        head = header(rank)
        if "num_ranks" in change:
            head["header"]["n_ranks"] = None
        times = {"kernel_start_ts": START_US + 5, "kernel_stop_ts": START_US + 5}
        if "length" not in change:
            times["kernel_stop_ts"] += 9
        trace = {"event_trace_ts": {"kernel_events": [times]}}
        records.append({**head, "coll_perf": perf(3, **trace)})
    (tmp_path / "a.log").write_text(text(*records))
    (page,) = pages(tmp_path)
    assert "waiting;" not in page.verdict


def test_times_need_not_be_whole(tmp_path: Path) -> None:
    more = {"coll_msg_size_bytes": 1048576.0, "coll_exec_time_us": 500.5}
    event = {"kernel_start_ts": START_US + 0.25, "kernel_stop_ts": START_US + 1.5}
    times = {"event_trace_ts": {"kernel_events": [event]}}
    lines = text({**header(), "coll_perf": perf(1) | more | times})
    tables, reader = read_part(NcclInspector, lines, tmp_path)
    (row,) = tables["inspector_collectives"].to_dict("records")
    assert (row["exec_ns"], row["size_bytes"]) == (500_500, 2**20)
    assert row["end_ns"] - row["start_ns"] == 1250
    assert reader.notes() == []


def test_lines_of_records_alone_are_read_without_asking_every_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [
        text({**header(), "coll_perf": perf(n, **kernel_times(n, n + 9))}) for n in range(500)
    ]
    records[300] = '{"coll_perf": {"coll": "AllReduce", "coll_sn": 1e400}}\n'
    records[400] = "  20  30 a line of another tool\n"
    log = tmp_path / "rank0.log"
    log.write_text("".join(records))
    asked = []
    takers = LogFile.takers

    def counted(file: LogFile, patterns: tuple[str, ...]) -> Sequence[int]:
        asked.append(patterns)
        return takers(file, patterns)

    monkeypatch.setattr(LogFile, "takers", counted)
    file = read_printed_file(log)
    tables, alone = read_part(NcclInspector, "".join(records), tmp_path)
    (frame,) = [frame for name, frame in file.tables if name == "inspector_collectives"]
    assert frame["line"].tolist() == [n + 1 for n in range(500) if n not in (300, 400)]
    assert frame["start_ns"].tolist() == tables["inspector_collectives"]["start_ns"].tolist()
    assert len(asked) < 50
    assert [note.code for note in file.notes] == [note.code for note in alone.notes()]


@pytest.mark.parametrize("seed", range(4))
def test_records_of_a_block_give_what_they_give_one_by_one(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    odd = ['"x"', "null", "1e400", "1e300", "1e-300", "9" * 30, "NaN", "true", "\\u0000", "{", "}"]
    lines = []
    for number in range(600):
        head = header(draw.randrange(4), 8) if draw.random() < 0.7 else {}
        own = perf(number, coll=draw.choice(["AllReduce", "AllGather"]), micros=draw.randrange(99))
        if draw.random() < 0.5:
            own |= kernel_times(number, number + draw.randrange(-2, 50))
        line = json.dumps({**head, draw.choice(["coll_perf", "other"]): own})
        if draw.random() < 0.05:
            at = draw.randrange(len(line))
            line = line[:at] + draw.choice(odd) + line[at + draw.randrange(2) :]
        lines.append(line)
    log = tmp_path / "rank0.log"
    log.write_text("\n".join(lines) + "\n")
    file = read_printed_file(log)
    tables, alone = read_part(NcclInspector, log.read_bytes(), tmp_path)
    (frame,) = [frame for name, frame in file.tables if name == "inspector_collectives"]
    expected = tables["inspector_collectives"].astype({"file": str})
    assert len(frame) > 200
    pd.testing.assert_frame_equal(frame.drop(columns="file"), expected.drop(columns="file"))
    notes = [note for note in file.notes if "is too large" not in note.text]
    assert [note.text for note in notes] == [note.text for note in alone.notes()]


def test_a_record_without_an_id_has_no_communicator(tmp_path: Path) -> None:
    record = text({**header(), "coll_perf": perf(1)}).replace('"0xab"', "null")
    tables, _ = read_part(NcclInspector, record, tmp_path)
    assert tables["inspector_collectives"]["communicator"].tolist() == [""]
