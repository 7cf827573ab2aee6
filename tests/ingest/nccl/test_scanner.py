import time
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.ingest.load import load_run
from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.ingest.nccl.repeated_calls import RepeatedCalls
from hvdprof.ingest.text.printed_lines import UntouchedLines
from hvdprof.model.notes import texts
from tests.builders.nccl_log import call_line, init_line, job, of_rank, recorded, said

LOG_PREFIXES = {
    "mpirun": ("[1,3]<stdout>:", 3),
    "mpirun with blank": ("[1,3]<stderr>: ", 3),
    "mpirun with date": ("Fri Jun 19 08:53:03 2020[1,11]<stdout>:", 11),
    "srun": ("5: ", 5),
    "sagemaker": ("[1,mpirank:6,algo-1]<stdout>:", 6),
    "gloo": ("[0]<stdout>:", 0),
    "indented": ("    ", None),
    "stamp": ("[2026-03-03 12:11:38] ", None),
    "ansi": ("\x1b[0;36m(Worker_TP0 pid=481416)\x1b[0;0m ", None),
    "kubectl": ("2024-05-01T10:11:12.345678901Z ", None),
}


@pytest.mark.parametrize("prefix", LOG_PREFIXES, ids=str)
def test_log_prefixes_are_removed_and_their_rank_is_used(tmp_path: Path, prefix: str) -> None:
    text, rank = LOG_PREFIXES[prefix]
    line = text + said(init_line(1, 2, "COMPLETE"))
    row = recorded(tmp_path, line + "\r\n").ranks.iloc[0]
    assert (row["host"], row["pid"], row["rank"]) == ("oak1", 7100, 1)
    tag = row["tag_rank"]
    assert tag == rank if rank is not None else str(tag) == "<NA>"


@pytest.mark.parametrize(
    "line",
    [
        "oak1:7100:7200 [0] INFO NCCL_IB_DISABLE set by environment to 1",
        "<cluster_name>:919:1150 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1",
        "a1b2c3d4e5f6:919:1150 [-1] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
    ],
)
def test_settings_are_read_behind_every_kind_of_prefix(tmp_path: Path, line: str) -> None:
    assert recorded(tmp_path, [line]).settings["value"].tolist() == ["1"]


def test_trace_and_call_lines_are_counted_by_their_level(tmp_path: Path) -> None:
    lines = [
        "oak1:7100:7200 [1] 117.724290 some_init:1396 NCCL TRACE NET/OFI words",
        "oak1:7100:7200 NCCL CALL ncclGetUniqueId(0x32b3)",
        "oak1:7100:7200 NCCL CALL ncclAllReduce(71e6,71e6,10,7,0,0,0xe3,0xc7)",
    ]
    kinds = recorded(tmp_path, lines).line_kinds
    assert kinds[["kind", "count", "understood"]].to_numpy().tolist() == [
        ["TRACE", 1, True],
        ["CALL", 2, True],
    ]


def test_glued_versions_are_two(tmp_path: Path) -> None:
    versions = recorded(
        tmp_path, ["NCCL version 2.7.8+cuda10.2NCCL version 2.7.8+cuda10.2"]
    ).versions
    assert versions[["version", "build", "count"]].to_numpy().tolist() == [["2.7.8", "cuda10.2", 2]]


def test_two_writers_in_one_line_are_both_read(tmp_path: Path) -> None:
    lines = [
        said("cudaDriverVersion 12020"),
        said("comm 0x9497 rank 1 nranks ")
        + said("NCCL_P2P_DISABLE set by environment to 1", pid=8),
        said("cudaDev 0") + said(init_line(1, 2, "COMPLETE")),
    ]
    recording = recorded(tmp_path, lines)
    assert recording.settings["pid"].tolist() == [8]
    assert recording.ranks["host"].tolist() == ["oak1"]
    assert recording.line_kinds.loc[~recording.line_kinds["understood"], "count"].sum() == 2


# A cut behind the 26th letter leaves `Channel 03/0 : 1`, a whole line of another kind.
@pytest.mark.heavy
@pytest.mark.parametrize("cuts", [range(1, 26), range(27, 60)], ids=["before", "behind"])
def test_a_line_that_another_writer_cut_is_put_together_again(
    tmp_path: Path, cuts: Iterable[int]
) -> None:
    assert [cut for cut in cuts if not _is_completed(tmp_path, cut)] == []


def _is_completed(folder: Path, cut: int) -> bool:
    line = of_rank(1, "Channel 03/0 : 1[1] -> 5[0] [send] via NET/IB/2/GDRDMA")
    head = line.index("] ") + 2
    whole = line[: head + cut]
    watchdog = "[rank4]:[E ProcessGroupNCCL.cpp:563] [Rank 4] Watchdog caught collective operation "
    lines = [
        *job(),
        whole + watchdog + "timeout: WorkNCCL(SeqNum=1) ran for 9 ms",
        line[head + cut :],
    ]
    recording = recorded(folder, lines)
    problems = recording.problems[["kind", "tag_rank"]].astype(object).to_numpy().tolist()
    completed = recording.connections.iloc[-1]
    # A cut within `GDRDMA` or behind it leaves a line that is complete in itself.
    place = (completed["line"], completed["nic"], completed["source"])
    return problems == [["watchdog", 4]] and place == (len(job()) + 1, 2, 1)


def test_a_line_cut_by_another_process_waits_for_its_rest(tmp_path: Path) -> None:
    lines = [
        *job(),
        of_rank(0, "Channel 01/0 : 0[0] -> 2[0] [sen") + of_rank(3, "cudaDriverVersion 12020"),
        of_rank(3, "Connected all rings"),
        "d] via NET/IB/0/GDRDMA",
    ]
    recording = recorded(tmp_path, lines)
    row = recording.connections.iloc[-1]
    assert (row["pid"], row["destination"], row["direction"]) == (7000, 2, "send")
    assert recording.line_kinds["understood"].all()


@pytest.mark.parametrize("rest", [["0, vendor err 129 (Recv)"], [], [said("cudaDriverVersion 1")]])
def test_a_work_request_is_read_with_or_without_its_second_half(
    tmp_path: Path, rest: list[str]
) -> None:
    line = (
        "oak1:7100:7200 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer "
        "10.2.0.5<33092> with error 12, opcode 0, len"
    )
    problems = recorded(tmp_path, [line, *rest]).problems
    assert problems[["kind", "code", "where", "count"]].to_numpy().tolist() == [
        ["completion", 12, "transport/net_ib.cc:1296", 1]
    ]
    assert problems["text"].iloc[0].endswith("(Recv)" if rest and "vendor" in rest[0] else "len")


@pytest.mark.parametrize(
    "text",
    [
        "NET/IB : Got completion from peer 10.2.0.6<5> with status=12 opcode=0 len=0 vendor err 1",
        "NET/IB: Got completion from peer 1.2.3.4<4> with status=IBV_WC_RETRY_EXC_ERR(12) "
        "opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=129 hca mlx5_1",
    ],
)
def test_work_requests_of_later_versions(tmp_path: Path, text: str) -> None:
    line = f"[2026-09-09 10:46:33] oak1:1:2 [1] transport/net_ib/p2p.cc:648 NCCL WARN {text}"
    assert recorded(tmp_path, [line]).problems["code"].tolist() == [12]


def test_the_same_warning_is_one_row_with_a_count(tmp_path: Path) -> None:
    line = "oak1:1:2 [1] misc/x.cc:1 NCCL WARN Call to something failed"
    problems = recorded(tmp_path, [line] * 7).problems
    assert problems[["count", "line", "last_line"]].to_numpy().tolist() == [[7, 1, 7]]


def test_trails_and_last_words(tmp_path: Path) -> None:
    lines = [
        said("proxy.cc:858 -> 6 [Proxy Thread]"),
        "oak1.example.org: rank 4 died from signal 6 and dumped core",
        "oak1: Test NCCL failure common.cu:1012 'unhandled system error'",
    ]
    problems = recorded(tmp_path, lines).problems
    assert problems["kind"].tolist() == ["trail", "died", "failure"]
    assert problems["code"].tolist()[:2] == [6, 6]
    assert problems["where"].iloc[0] == "proxy.cc:858"


@pytest.mark.slow
def test_a_log_full_of_damage_does_not_try_for_ever(tmp_path: Path) -> None:
    glued = of_rank(0, "Channel 01/0 : 0[0] -> 2[0] [sen") + of_rank(3, "cudaDriverVersion 12020")
    lines = [glued, *["another program says something"] * 40] * 500
    recording = recorded(tmp_path, lines)
    assert recording.connections.empty
    kinds = recording.line_kinds.set_index("kind")["count"]
    assert kinds.to_dict() == {"Channel": 500, "cudaDriverVersion": 500}


def test_only_the_next_line_can_be_the_rest_of_an_interrupted_line(tmp_path: Path) -> None:
    broken, rest = said("Channel 01/0 : 0[0] -> 2[0] [send] via"), "NET/IB/0"
    assert len(recorded(tmp_path, [broken, rest]).connections) == 1
    assert recorded(tmp_path, [broken, "other words", rest]).connections.empty


@pytest.mark.heavy
def test_output_without_lines_of_nccl_costs_little(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    ordinary = "2026-11-20 21:56:09,123 INFO trainer.py:231 Epoch 3/90 step=7 loss=0.1234 acc=45\n"
    path.write_text("\n".join(job()) + "\n" + ordinary * 100_000 + call_line(0, 1000) + "\n")
    start = time.process_time()
    recording = read_nccl_logs([path])
    seconds = time.process_time() - start
    assert recording.calls["line"].tolist() == [100_000 + len(job()) + 1]
    # 0.1 s on an idle machine; 0.6 s when every line went through the scanner.
    assert seconds < 0.45


SHORTENED = {
    "no host": (":{pid}:{tid} [{dev}] ", "", "pid"),
    "no host, no colon": ("{pid}:{tid} [{dev}] ", "", "pid"),
    "device alone": (" [{dev}] ", "", "dev"),
    "host alone": ("oak7 [{dev}] ", "oak7", "dev"),
    "numbered": ("7  [{dev}] ", "", "dev"),
    "behind a tag": ("[1,3]<stdout>: [{dev}] ", "", "rank"),
    "behind a pod": ("[pod/oak9/main] :{pid}:{tid} [{dev}] ", "oak9", "pid"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("layout", SHORTENED)
def test_prefixes_that_people_shortened_are_read(tmp_path: Path, layout: str) -> None:
    form, host, process = SHORTENED[layout]
    texts = ["Using network IB", "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"]
    lines = [
        form.format(pid=7100 + device, tid=7200, dev=device) + f"NCCL INFO {text}"
        for text in texts
        for device in (0, 1)
    ]
    recording = recorded(tmp_path, [*lines, lines[0].replace("INFO", "WARN")])
    pids = {"pid": [7100, 7101], "dev": [-1, -2], "rank": [-4, -4]}[process]
    networks, connections = recording.networks, recording.connections
    assert networks[["host", "pid"]].to_numpy().tolist() == [[host, pid] for pid in pids]
    assert connections["pid"].tolist() == pids
    assert recording.problems["kind"].tolist() == ["warning"]
    run = load_run([tmp_path / "nccl.log"])
    assert run.table("files")["kind"].tolist() == ["NCCL log"]


def test_the_rest_of_a_torn_line_is_no_shortened_prefix(tmp_path: Path) -> None:
    whole = said("Using network IB")
    recording = recorded(tmp_path, [whole, "oak1:7100", " [0] NCCL INFO Using network Socket"])
    assert recording.networks["pid"].tolist() == [7100]


def test_warnings_of_nccl_2_30_name_a_function(tmp_path: Path) -> None:
    line = (
        "[2026-05-05 06:16:47] node-01:189884:189885 [3] plugin/net.cc:334 (ncclNetInit) "
        "NCCL WARN Failed to initialize any NET plugin"
    )
    (problem,) = recorded(tmp_path, [line]).problems.to_dict("records")
    assert (problem["host"], problem["pid"]) == ("node-01", 189884)
    assert problem["where"] == "plugin/net.cc:334"
    assert problem["text"] == "Failed to initialize any NET plugin"


@pytest.mark.heavy
@pytest.mark.parametrize("rest", ["a", "ab.c-", "oak1:7100:7200 [0] NCCL INFO Channel 00/02 : 0 1"])
def test_a_line_of_a_megabyte_takes_no_longer_than_its_beginning(tmp_path: Path, rest: str) -> None:
    line = said("Using network Socket") + " " + rest * (1_000_000 // len(rest))
    began = time.process_time()
    recording = recorded(tmp_path, [line, *job()])
    # The prefix was looked for at each of a million places: 16 s.
    assert time.process_time() - began < 2.5
    assert len(recording.ranks) == len(recorded(tmp_path, job(), "plain.log").ranks)
    note = "1 line longer than 4 kB, of which only the beginning was read."
    assert note in texts(recording.notes)


@pytest.mark.heavy
def test_a_line_with_a_number_beyond_64_bits_is_not_understood(tmp_path: Path) -> None:
    lines = [*job(), said(f"Channel {'9' * 25}/02 : 0 1"), said(f"Init timings - {'9' * 30}")]
    recording = recorded(tmp_path, lines)
    unknown = recording.line_kinds[~recording.line_kinds["understood"]]
    assert set(unknown["kind"]) == {"Channel", "Init"}
    assert len(recording.channels) == len(recorded(tmp_path, job(), "plain.log").channels)


@pytest.mark.heavy
def test_a_warning_with_such_a_number_is_a_problem(tmp_path: Path) -> None:
    text = said(f"misc/a.cc:7 NCCL WARN Call failed with {'9' * 25}").replace("NCCL INFO ", "", 1)
    assert len(recorded(tmp_path, [*job(), text]).problems) == 1


def _long_log(tag: str) -> list[str]:
    """Calls of four ranks, interrupted by what changes how later ones are read."""
    lines = [tag + line for line in job()]
    for number in range(600):
        rank = number % 4
        call = call_line(rank, 1024 * (1 + number // 4 % 9), n=number // 4)
        odd = {
            # A new communicator at the address of another.
            150: of_rank(1, init_line(1, 4, "COMPLETE", comm_id="0x99")),
            210: call[:60],
            211: call + tag + call_line(0, 5),
            260: call.replace("datatype 7", "datatype 9"),
            261: call.replace("datatype 7", "datatype 3"),
            300: call.replace("AllReduce", "Broadcast"),
            333: call.replace("count", "count " + "9" * 25),
            400: call.replace("0x7f0000000000", "(nil)"),
            450: "a line of the script",
        }
        lines.append(tag + odd.get(number, call))
    return lines


@pytest.mark.parametrize("tag", ["", "[1,3]<stdout>:"])
def test_repeated_calls_are_read_as_each_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    read_ahead = RepeatedCalls.read
    num_ahead = 0

    def counting(calls: RepeatedCalls, lines: UntouchedLines, place: int, file: str) -> int:
        nonlocal num_ahead
        behind = read_ahead(calls, lines, place, file)
        num_ahead += behind - place
        return behind

    monkeypatch.setattr(RepeatedCalls, "read", counting)
    ahead = recorded(tmp_path, _long_log(tag))
    assert 300 < num_ahead < 600
    monkeypatch.setattr(RepeatedCalls, "read", lambda calls, lines, place, file: place)
    single = recorded(tmp_path, _long_log(tag))
    for field in fields(single):
        of_ahead, of_single = getattr(ahead, field.name), getattr(single, field.name)
        if isinstance(of_single, pd.DataFrame):
            pd.testing.assert_frame_equal(of_ahead, of_single)
        else:
            assert of_ahead == of_single
