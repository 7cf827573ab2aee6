# ruff: noqa: E501  (lines of logs are as long as they are)
import json
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.nccl_tests.algbw import is_consistent
from hvdprof.ingest.logs.nccl_tests.nccl_tests_output import NcclTests
from hvdprof.model.notes import texts
from hvdprof.report.sections.file_page import nccl_test_sections
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part

NEW = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
OLD = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
ROOTED = "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error\n"
BARE = "           size    time   algbw   busbw\n            (B)    (us)  (GB/s)  (GB/s)\n"


def rows_of(folder: Path, text: str) -> list[dict[str, object]]:
    tables, _ = read_part(NcclTests, text, folder)
    frame = tables["nccl_tests"]
    return [{str(name): row[name] for name in row} for row in frame.to_dict("records")]


@pytest.mark.parametrize(
    ("text", "head", "places"),
    [
        (NEW + "  1048576  262144  float  sum  -1  28.56  36.71  64.24  0  28.37  36.96  64.68  3\n",
         (1048576, 262144, "float", "sum", -1), [(False, 28_560, 64.24), (True, 28_370, 64.68)]),
        (NEW + "  32070000  16035000  half  none  -1  32070  1.0  2.0  N/A  32052  1.0  2.5  N/A\n",
         (32070000, 16035000, "half", "none", -1), [(False, 32_070_000, 2.0), (True, 32_052_000, 2.5)]),
        (OLD + "  4294967296  1073741824  float  sum  32070  133.92  234.37  N/A  32052  134.00  234.50  2e-07\n",
         (4294967296, 1073741824, "float", "sum", None), [(False, 32_070_000, 234.37), (True, 32_052_000, 234.5)]),
        (OLD + "  8  2  float             12070  0.00  0.01  0e+00  1.38  0.01  0.02  0e+00\n",
         (8, 2, "float", "", None), [(False, 12_070_000, 0.01), (True, 1_380, 0.02)]),
        (ROOTED + "  8  2  float       0    34.61    0.00    0.00    N/A    34.33    0.00    0.00    N/A\n",
         (8, 2, "float", "", 0), [(False, 34_610, 0.0), (True, 34_330, 0.0)]),
        (BARE + "  1_073_741_824  8203.9  130.88  229.04\n",
         (1073741824, None, "", "", None), [(None, 8_203_900, 229.04)]),
    ],
)  # fmt: skip
def test_every_layout(tmp_path: Path, text: str, head: tuple, places: list) -> None:
    rows = rows_of(tmp_path, text)
    for row, (in_place, time_ns, busbw) in zip(rows, places, strict=True):
        found = (row["size_bytes"], row["count"], row["dtype"], row["redop"], row["root"])
        assert tuple(None if pd.isna(value) else value for value in found) == head
        assert pd.isna(row["in_place"]) if in_place is None else row["in_place"] == in_place
        assert (row["time_ns"], row["busbw_gb_s"]) == (time_ns, busbw)


def test_wrong_elements_and_errors_have_their_columns(tmp_path: Path) -> None:
    new = rows_of(tmp_path, NEW + " 8 2 float sum -1 1.0 0.01 0.2 0 1.0 0.01 0.2 3\n")
    assert [row["num_wrong"] for row in new] == [0, 3]
    old = rows_of(tmp_path, OLD + " 8 2 float sum 1.0 0.01 0.2 N/A 1.0 0.01 0.2 2e-07\n")
    assert all(pd.isna(row["num_wrong"]) for row in old)
    assert old[1]["max_error"] == 2e-07
    assert pd.isna(old[0]["max_error"])


@pytest.mark.parametrize(
    "row",
    [
        "   8388608  2097152  float  sum  -1host:1:2 [1] NCCL INFO AllReduce: opCount 0\nhost:1:2 [0] NCCL INFO x\n"
        "    83.33  100.66  100.67      0host:1:2 [1] NCCL INFO y\n    80.98  103.59  103.60      0\n",
        "[1,0]<stdout>:   8388608  2097152  float  sum  -1[1,0]<stdout>:   83.33  100.66  100.67  0"
        "[1,0]<stdout>:    80.98  103.59  103.60      0\n",
        "0:    8388608  2097152  float  sum  -1  83.33  100.66  100.67  0  80.98  103.59  103.60  0\n",
    ],
)  # fmt: skip
def test_rows_that_others_cut_are_put_together(tmp_path: Path, row: str) -> None:
    head = "".join(f"0: {line}\n" for line in NEW.splitlines()) if row.startswith("0: ") else NEW
    rows = rows_of(tmp_path, head + row)
    assert [(one["time_ns"], one["busbw_gb_s"]) for one in rows] == [
        (83_330, 100.67),
        (80_980, 103.60),
    ]
    assert {one["line"] for one in rows} == {2}


def test_a_truncated_row_is_skipped_with_a_warning(tmp_path: Path) -> None:
    text = (
        NEW
        + "  8  2  float  sum  -1  12.90  0.00  0.00  0\n 16  4  float  sum  -1  1.0 0.02 0.2 0 1.0 0.02 0.2 0\n"
    )
    tables, reader = read_part(NcclTests, text, tmp_path)
    assert set(tables["nccl_tests"]["size_bytes"]) == {16}
    assert list(tables["nccl_test_runs"]["num_damaged"]) == [1]
    assert list(texts(reader.notes())) == ["1 row of nccl-tests omitted: cut"]


def test_two_runs_in_one_file(tmp_path: Path) -> None:
    run = (
        "# Collective test starting: {}_perf\n"
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n"
        "#  Rank  0 Group  0 Pid  1 on a device  0 [0x07] NVIDIA X\n"
        "#  Rank  1 Group  0 Pid  2 on b device  0 [0x07] NVIDIA X\n"
        + NEW
        + " 8 2 float sum -1 1.0 0.01 0.2 0 1.0 0.01 0.2 0\n# Avg bus bandwidth    : {}\n"
        "# Collective test concluded: {}_perf\n"
    )
    text = run.format("all_reduce", 1.5, "all_reduce") + run.format("broadcast", 2.5, "broadcast")
    tables, _ = read_part(NcclTests, text, tmp_path)
    runs = tables["nccl_test_runs"]
    assert list(runs["operation"]) == ["all_reduce", "broadcast"]
    assert list(runs["avg_busbw_gb_s"]) == [1.5, 2.5]
    assert list(runs["np"]) == list(runs["num_hosts"]) == [2, 2]
    assert list(tables["nccl_tests"]["run"]) == [0, 0, 1, 1]


ROW = " {size} {count} float sum -1 {time} {alg} {bus} {wrong} {time} {alg} {bus} {wrong}\n"


def row(size: int, *, algbw: float, wrong: int | str = 0) -> str:
    """A row whose time fits its size, as nccl-tests prints it."""
    time = f"{size / algbw / 1e3:.4g}"
    alg, bus = f"{algbw:.2f}", f"{2 * algbw:.2f}"
    return ROW.format(size=size, count=size // 4, time=time, alg=alg, bus=bus, wrong=wrong)


def test_each_run_has_its_own_peak_average_and_wrong_elements(tmp_path: Path) -> None:
    average = "# Avg bus bandwidth    : {}\n"
    text = (
        NEW
        + row(1 << 20, algbw=20.0)
        + row(1 << 21, algbw=15.0, wrong=2)
        + average.format(35.0)
        + "some text of the job\n"
        # Another run whose line of column names was lost.
        + row(1 << 20, algbw=5.0)
        + average.format(10.0)
    )
    tables, _ = read_part(NcclTests, text, tmp_path)
    runs = tables["nccl_test_runs"]
    assert list(runs["peak_busbw_gb_s"]) == [40.0, 10.0]
    assert list(runs["peak_size_bytes"]) == [1 << 20, 1 << 20]
    assert list(runs["avg_busbw_gb_s"]) == [35.0, 10.0]
    assert list(runs["num_wrong"]) == [4, 0]
    assert list(runs["num_sizes"]) == [2, 1]


@pytest.mark.parametrize(
    ("size", "time", "algbw", "fits"),
    [
        (1_048_576, "28.56", "36.71", True),
        (1_048_576, "28.56", "36.73", False),
        (17_179_869_184, "127997", "134.22", True),
        (0, "6.43", "0.00", True),
        (64, "0", "1", True),
        (4, "1", "2", False),
    ],
)
def test_algbw_is_size_divided_by_time(size: int, time: str, algbw: str, fits: bool) -> None:
    assert is_consistent(size, time, algbw) == fits


def test_the_matrix_of_another_tool_is_refused(tmp_path: Path) -> None:
    text = BARE + "  1024  12.40  0.08  0.10\n  0  1  2  3\n  1  12.4  9.1  9.0\n"
    tables, reader = read_part(NcclTests, text, tmp_path)
    assert list(tables["nccl_tests"]["size_bytes"]) == [1024]
    assert list(tables["nccl_test_runs"]["num_refused"]) == [2]
    assert list(texts(reader.notes())) == [
        "2 rows omitted: algbw is not size divided by time, as in nccl-tests"
    ]


def test_old_all_gather_leaves_out_the_part_of_the_rank(tmp_path: Path) -> None:
    own = " 65536 8192 float 16.57 1.98 1.98 0e+00 13.83 2.37 2.37 0e+00\n"
    assert len(rows_of(tmp_path, OLD + own)) == 2
    assert len(rows_of(tmp_path, OLD + own.replace("8192", "4096"))) == 0


def test_rows_without_column_names_are_read(tmp_path: Path) -> None:
    old = " 67108864 16777216 float 1568.3 42.79 42.79 0e+00 1560.9 42.99 42.99 0e+00\n"
    for text, column in ((row(1 << 20, algbw=20.0), "num_wrong"), (old, "max_error")):
        tables, reader = read_part(NcclTests, f"text\n{text}", tmp_path)
        assert len(tables["nccl_tests"]) == 2
        assert tables["nccl_tests"][column].notna().all()
        assert list(texts(reader.notes())) == [
            "rows of nccl-tests from line 2 on stand without column names"
        ]


@pytest.mark.parametrize(
    "text",
    [" 8 2 float sum -1 12.90 0.50 0.00 0 12.90 0.50 0.00 0\n", " 1 2 float 3 4 5 6 7 8 9 10\n"],
)
def test_other_numbers_without_column_names_are_not(tmp_path: Path, text: str) -> None:
    tables, reader = read_part(NcclTests, text, tmp_path)
    assert len(tables["nccl_tests"]) == 0
    assert not reader.kinds()


def test_a_header_without_rows_is_said(tmp_path: Path) -> None:
    _, reader = read_part(NcclTests, "job output\n" + NEW, tmp_path)
    assert list(texts(reader.notes())) == [
        "the file holds no row of nccl-tests from the run that begins in line 2"
    ]


# Ranks, sizes, device and average as stated in the corpus' index; None where it states none.
STATED = {
    "a3mega_h100_16.txt": (16, 31, "NVIDIA H100 80GB HBM3", 70.742),
    "abci2_allreduce_inter_anode_job02.sh.7194279.nccl": (16, 24, "A100-SXM4-40GB", 7.41855),
    "abci2_allreduce_inter_anode_job16.sh.7194312.nccl": (128, 24, "A100-SXM4-40GB", 5.52162),
    "abci2_allreduce_intra_anode_job08.sh.7280517.nccl": (8, 24, "A100-SXM4-40GB", 21.2687),
    "abci2_allreduce_intra_vnode_job04.sh.7280532.nccl": (4, 24, "Tesla V100-SXM2-16GB", 18.8014),
    "alcf_polaris_nccl2.18_n2g4_all_gather.txt": (8, 29, "NVIDIA A100-SXM4-40GB", 2.62677),
    "alcf_polaris_nccl2.18_n8g4_all_reduce_env1.txt": (32, 29, "NVIDIA A100-SXM4-40GB", 1.97456),
    "alcf_polaris_nccl2.18_n8g4_all_reduce_env5.txt": (32, 29, "NVIDIA A100-SXM4-40GB", 8.40912),
    "alcf_sophia_n2g8_all_reduce.txt": (16, 0, "NVIDIA A100-SXM4-40GB", None),
    "aws_do_eks_efa_table.txt": (None, 5, "", 1.15327),
    "aws_do_eks_karpenter_efa.txt": (None, 31, "", 0.960456),
    "aws_do_eks_karpenter_socket.txt": (None, 31, "", 0.733914),
    "awsome_awsbatch.txt": (None, 32, "", 156.742),
    # The index counts none of its rows, since they stand behind tags.
    "awsome_mpi_prefixed_truncated.txt": (None, 7, "", 52.9753),
    "awsome_srun_prefixed_a.txt": (None, 29, "", None),
    "coreweave_gb200_1440.txt": (1440, 6, "NVIDIA GB200", 297.808),
    "coreweave_h100_64_sharp.txt": (None, 5, "", 373.187),
    # Sizes with underscores, which the index does not count.
    "stas_h100_8gpu.txt": (None, 20, "", None),
    "superbench_nccl_allgather.log": (8, 34, "A100-SXM4-40GB", 58.2651),
    "superbench_nccl_allreduce.log": (8, 34, "A100-SXM4-40GB", 68.4048),
    "superbench_nccl_alltoall.log": (8, 34, "A100-SXM4-40GB", 58.6481),
    "superbench_nccl_broadcast.log": (8, 34, "A100-SXM4-40GB", 64.8653),
}


@pytest.mark.heavy
@needs_corpus
@pytest.mark.parametrize("name", STATED)
def test_the_corpus_is_as_its_index_states(tmp_path: Path, name: str) -> None:
    tables, _ = read_part(NcclTests, (CORPUS / "nccl_tests" / name).read_bytes(), tmp_path)
    (run,) = tables["nccl_test_runs"].to_dict("records")
    ranks, num_sizes, device, average = STATED[name]
    assert (None if pd.isna(run["np"]) else run["np"]) == ranks
    assert (run["num_sizes"], run["device"]) == (num_sizes, device)
    assert (None if pd.isna(run["avg_busbw_gb_s"]) else run["avg_busbw_gb_s"]) == average
    assert run["failed"] == (num_sizes == 0)
    rows = tables["nccl_tests"]
    assert len(rows) == num_sizes * (1 if name == "stas_h100_8gpu.txt" else 2)
    complete = {"a3mega_h100_16.txt", "abci2_allreduce_inter_anode_job02.sh.7194279.nccl"}
    if name in complete:
        # nccl-tests averages exactly these numbers.
        assert rows["busbw_gb_s"].mean() == pytest.approx(average, abs=0.01)


@pytest.mark.heavy
@needs_corpus
@pytest.mark.parametrize(
    ("name", "num_sizes", "average"),
    [("timezzx_nccl_all_subsys.log", 11, 178.078), ("keitaw_p5_2.22.3.log", 32, 124.584)],
)
def test_tables_inside_nccl_logs(tmp_path: Path, name: str, num_sizes: int, average: float) -> None:
    tables, _ = read_part(NcclTests, (CORPUS / "nccl_logs" / name).read_bytes(), tmp_path)
    (run,) = tables["nccl_test_runs"].to_dict("records")
    assert (run["num_sizes"], run["num_damaged"]) == (num_sizes, 0)
    assert tables["nccl_tests"]["busbw_gb_s"].mean() == pytest.approx(average, abs=0.01)


@needs_corpus
def test_rows_cut_by_instrumentation(tmp_path: Path) -> None:
    content = (CORPUS / "nccl_tests" / "huyutuo_v100_4node_instrumented.txt").read_bytes()
    tables, _ = read_part(NcclTests, content, tmp_path)
    assert list(tables["nccl_tests"]["time_ns"]) == [794_506_000, 791_533_000, 2_381_400, 1_940_100]


IN_PLACE_FIRST = (
    "#                                        in-place                       out-of-place\n"
    "#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
)


def test_a_program_that_measures_one_place_alone_has_rows_of_it(tmp_path: Path) -> None:
    text = IN_PLACE_FIRST + (
        "     6291456       1572864    76.21   82.55  144.46      0\n"
        "    12582912       3145728    138.4   90.93  159.12      0\n"
        "# Avg bus bandwidth    : 151.79\n"
    )
    rows = rows_of(tmp_path, text)
    assert [(row["in_place"], row["size_bytes"], row["count"]) for row in rows] == [
        (True, 6291456, 1572864),
        (True, 12582912, 3145728),
    ]
    tables, part = read_part(NcclTests, text, tmp_path)
    assert tables["nccl_test_runs"]["num_sizes"].tolist() == [2]
    assert not any("cut" in note for note in texts(part.notes()))


def test_in_place_may_come_first(tmp_path: Path) -> None:
    text = IN_PLACE_FIRST + "  1048576  262144  28.56  36.71  64.24  0  28.37  36.96  64.68  3\n"
    rows = rows_of(tmp_path, text)
    assert [(row["in_place"], row["busbw_gb_s"]) for row in rows] == [(True, 64.24), (False, 64.68)]


def test_one_half_row_is_cut(tmp_path: Path) -> None:
    tables, part = read_part(
        NcclTests, NEW + "  1048576  262144  float  sum  -1  28.56  36.71  64.24  0\n", tmp_path
    )
    assert tables["nccl_tests"].empty
    assert any("1 row of nccl-tests omitted: cut" in note for note in texts(part.notes()))


def test_a_table_beside_another_is_omitted_and_said(tmp_path: Path) -> None:
    row = "  1048576  262144  float  sum  -1  28.56  36.71  64.24  0  28.37  36.96  64.68  0"
    text = f"{NEW.rstrip()} | {NEW}{row} | {row}\n{row} | 1048576\n"
    tables, part = read_part(NcclTests, text, tmp_path)
    assert len(tables["nccl_tests"]) == 4
    assert any("the table beside that of the run" in note for note in texts(part.notes()))


def test_processes_that_print_at_once_are_one_run_each(tmp_path: Path) -> None:
    begin = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 1(bytes) warmup iters: 5 iters: 20\n"
    tables, _ = read_part(NcclTests, begin + begin + NEW + NEW, tmp_path)
    assert len(tables["nccl_test_runs"]) == 2


ITERATIONS = NEW.replace("#wrong", "#wrong  i_min  i_max  i_p99  i_cv%")
HOST = NEW.replace("    time", " cputime")
OF_FOUR = (
    "  1048576  262144  float  sum  -1  25.24  41.54  62.31  0 {0} 25.24  41.54  62.31  0 {0}\n"
)


def test_columns_of_single_iterations_stand_behind_each_measurement(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, ITERATIONS + OF_FOUR.format("24.74 78.25 75.73 41.00"))
    assert [(row["in_place"], row["busbw_gb_s"]) for row in rows] == [(False, 62.31), (True, 62.31)]


def test_a_time_of_day_stands_behind_both_measurements(tmp_path: Path) -> None:
    # With -S; -N, -R and -a change no column.
    stamped = NEW.rstrip("\n") + "           timestamp\n"
    rows = rows_of(tmp_path, stamped + OF_FOUR.format("").rstrip("\n") + "  2026-10-01 10:20:30\n")
    assert [(row["in_place"], row["busbw_gb_s"]) for row in rows] == [(False, 62.31), (True, 62.31)]
    assert [row["num_wrong"] for row in rows] == [0, 0]


def test_times_of_the_call_on_the_host_give_no_bandwidth(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    row = "  16777216  4194304  float  sum  -1  9.00  1864.1  2796.2  0  9.00  1864.1  2796.2  0\n"
    path.write_text(f"{HOST}{row}# Avg bus bandwidth    : 9544.23\n")
    run = load_run(path)
    assert run.nccl_tests["time_ns"].tolist() == [9000, 9000]
    assert run.nccl_tests["busbw_gb_s"].isna().all()
    assert run.nccl_test_runs["avg_busbw_gb_s"].isna().all()
    (page,) = analyze_files(run).files
    assert page.verdict.startswith("No bandwidth: with -C 1, nccl-tests times the call on the host")
    (table,) = nccl_test_sections(run.nccl_test_runs, run.nccl_tests)
    assert table.rows[0][2] == "-"


LISTED = "#  Rank  {0} Group  0 Pid 4242 on nodeA device  {0} [0xa4] NVIDIA H100\n"


@pytest.mark.parametrize("header", [NEW, ""])
@pytest.mark.parametrize(("num_listed", "np"), [(1, None), (2, None), (4, 4)])
def test_a_list_of_devices_that_lacks_ranks_gives_no_number(
    tmp_path: Path, header: str, num_listed: int, np: int | None
) -> None:
    text = "".join(map(LISTED.format, range(num_listed))) + header + OF_FOUR.format("") * 2
    tables, _ = read_part(NcclTests, text, tmp_path)
    assert len(tables["nccl_tests"]) == 4
    (found,) = tables["nccl_test_runs"]["np"]
    assert found == np if np else pd.isna(found)


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (
            (100, 200, 600, 13000, 26000),
            "Peak bus bandwidth: 28.0 GB/s at 16.8 MB. From 33.6 MB on",
        ),
        ((100, 200, 600, 13000, 2100), ""),
    ],
)
def test_a_bandwidth_that_falls_says_from_which_size_on(
    tmp_path: Path, times: tuple[int, ...], said: str
) -> None:
    rows = [
        f"  {size}  {size // 4}  float  sum  -1  {time}  {size / time / 1e3:.2f}  "
        f"{size / time / 1e3:.2f}  0  {time}  {size / time / 1e3:.2f}  {size / time / 1e3:.2f}  {wrong}\n"
        for size, time, wrong in zip(
            (2**20, 2**22, 2**24, 2**25, 2**26), times, (0, 0, 0, 0, 7 * (not said)), strict=True
        )
    ]
    path = tmp_path / "out.txt"
    path.write_text(NEW + "".join(rows))
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith(said or "Error: 7 wrong elements at 67.1 MB; fix: run")
    assert ("falls to 2.58 GB/s" in page.verdict) == bool(said)


def json_of(rows: list[dict[str, object]], *, gpus: int = 1, **more: object) -> str:
    """What ``all_reduce_perf -J FILE`` writes, without blanks and with six decimals."""
    devices = [
        {"rank": gpus * place, "group": 0, "pid": 50 + place, "hostname": f"node{place // 2}",
         "device": 0, "device_hex": "0000:10:00", "device_info": "NVIDIA H100 80GB HBM3"}
        for place in range(4)
    ]  # fmt: skip
    document = {
        "version": 2,
        "start_time": "2026-10-01 10:20:00",
        "args": ["./build/all_reduce_perf", "-J", "out.json"],
        "env": [f"VARIABLE_{place}={'x' * 900}" for place in range(90)],
        "nccl_version": 23007,
        "config": {"nthreads": 1, "ngpus": gpus, "devices": devices},
        "results": rows,
        "average_bus_bandwidth": {"bandwidth": 121.0, "okay": "unchecked"},
        "errors": [""],
        **more,
    }
    return json.dumps(document, separators=(",", ":"))


def json_row(size: int, time_us: float, busbw: float, **more: object) -> dict[str, object]:
    place = {
        "time": time_us,
        "alg_bw": round(size / time_us / 1e3, 6),
        "bus_bw": busbw,
        "nwrong": 0.0,
    }
    head = {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1"}
    return head | {"out_of_place": place, "in_place": place | {"nwrong": 2.0}} | more


def run_of_json(text: str, folder: Path) -> tuple[pd.Series, pd.DataFrame, tuple[str, ...]]:
    path = folder / "out.json"
    path.write_text(text)
    run = load_run(path)
    return run.table("nccl_test_runs").iloc[0], run.table("nccl_tests"), texts(run.notes)


def test_json_has_the_runs_and_rows_of_the_table(tmp_path: Path) -> None:
    rows = [json_row(8, 20.00004, 0.0006), json_row(268435456, 1362.17728, 295.595287)]
    run, tests, notes = run_of_json(json_of(rows), tmp_path)
    assert (run["operation"], run["np"], run["num_hosts"]) == ("all_reduce", 4, 2)
    assert (run["peak_busbw_gb_s"], run["peak_size_bytes"]) == (295.595287, 268435456)
    assert (run["num_wrong"], run["avg_busbw_gb_s"], run["failed"]) == (4, 121.0, False)
    assert list(tests["time_ns"]) == [20_000, 20_000, 1_362_177, 1_362_177]
    assert list(tests["in_place"]) == [False, True] * 2
    assert list(tests["num_wrong"]) == [0, 2, 0, 2]
    assert not notes


def test_json_lists_the_first_gpu_of_each_process(tmp_path: Path) -> None:
    size = 268435456
    rows = [json_row(size, 1362.17728, round(size / 1362.17728 / 1e3 * 2 * 15 / 16, 6))]
    assert run_of_json(json_of(rows, gpus=4), tmp_path)[0]["np"] == 16
    assert pd.isna(run_of_json(json_of(rows, gpus=2), tmp_path)[0]["np"])


def test_json_with_times_of_the_host_has_no_bandwidth(tmp_path: Path) -> None:
    place = {"cpu_time": 9.0, "alg_bw": 9000.0, "bus_bw": 9000.0, "nwrong": None}
    row = json_row(81_000_000, 9.0, 1.0) | {"out_of_place": None, "in_place": place}
    run, tests, _ = run_of_json(json_of([row]), tmp_path)
    assert list(tests["time_ns"]) == [9000]
    assert tests["busbw_gb_s"].isna().all()
    assert pd.isna(run["peak_busbw_gb_s"])


def test_json_that_is_cut_keeps_its_whole_rows(tmp_path: Path) -> None:
    rows = [json_row(8, 20.0, 0.0006), json_row(4096, 21.0, 0.29), json_row(65536, 22.0, 4.4)]
    text = json_of(rows)
    run, tests, notes = run_of_json(text[: text.index("65536") + 40], tmp_path)
    assert list(tests["size_bytes"]) == [8, 8, 4096, 4096]
    assert run["np"] == 4
    assert "its whole rows count" in notes[0]


@pytest.mark.parametrize("end", [0.97, 0.5])
def test_json_without_a_whole_row_is_refused(end: float, tmp_path: Path) -> None:
    text = json_of([json_row(8, 20.0, 0.0006)])
    with pytest.raises(UnreadableInputError, match=r"damaged file of nccl-tests \(-J\)"):
        run_of_json(text[: int(len(text) * end)], tmp_path)


def test_json_rows_that_contradict_themselves_do_not_count(tmp_path: Path) -> None:
    wrong = json_row(4096, 21.0, 0.29) | {"out_of_place": None}
    wrong["in_place"] = {"time": 21.0, "alg_bw": 7.0, "bus_bw": 10.5, "nwrong": 0.0}
    run, tests, notes = run_of_json(json_of([json_row(8, 20.0, 0.0006), wrong]), tmp_path)
    assert list(tests["size_bytes"]) == [8, 8]
    assert run["num_refused"] == 1
    assert "algbw is not size divided by time" in notes[0]


BEGUN = "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)\n# Using devices\n" + "".join(
    f"#  Rank {rank:2d} Group  0 Pid   18{rank:02d} on   oak1 device  {rank} [0x8d] NVIDIA H100\n"
    for rank in range(4)
)


@pytest.mark.parametrize("end", ["", "#  Rank  4 Group  0 Pid 18", "#  Rank  4 Gr"])
def test_a_list_of_ranks_that_ends_with_the_file_is_no_number_of_ranks(
    tmp_path: Path, end: str
) -> None:
    path = tmp_path / "out.log"
    path.write_text(BEGUN + end if end else BEGUN.rstrip("\n"))
    (page,) = analyze_files(load_run(path)).files
    facts = {fact.name: fact.value for fact in page.facts}
    assert facts["num_ranks"] is None
    path.write_text(f"{BEGUN}#\n{NEW}  8  2  float  sum  -1  12.9")
    (page,) = analyze_files(load_run(path)).files
    assert {fact.name: fact.value for fact in page.facts}["num_ranks"] == 4


def test_a_row_that_is_cut_in_its_head_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.write_text(f"{NEW}  8  2  float  sum")
    found = " ".join(texts(load_run(path).notes))
    assert "1 row of nccl-tests omitted: cut" in found


def test_a_bandwidth_that_was_rounded_to_zero_is_not_called_zero(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    path.write_text(f"{NEW}  8  2  float  sum  -1  12.90  0.00  0.00  0  12.87  0.00  0.00  0\n#\n")
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict == "Bus bandwidth below 0.01 GB/s at every size here, up to 8 B."
    facts = {fact.name: fact.text for fact in page.facts}
    assert facts["peak_busbw_gb_s"] == "below 0.01 GB/s"


def test_the_operation_stands_behind_the_rows_of_newer_tests(tmp_path: Path) -> None:
    row = "  1048576  262144  float  none  0  151.9  6.90  6.90  0  149.8  7.00  7.00  0\n"
    text = f"{NEW}{row}# Avg bus bandwidth    : 6.95\n# Collective test concluded: broadcast_perf\n"
    tables, _ = read_part(NcclTests, text, tmp_path)
    assert tables["nccl_test_runs"]["operation"].tolist() == ["broadcast"]


def test_a_run_whose_end_is_not_in_the_file_is_not_called_good(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    row = "  1048576  262144  float  sum  -1  28.56  36.71  64.24  0  28.37  36.96  64.68  0\n"
    for end, failed in (("", None), ("# Avg bus bandwidth    : 64.4\n", "no")):
        path.write_text(NEW + row + end)
        (page,) = analyze_files(load_run(path)).files
        assert {fact.name: fact.value for fact in page.facts}["failed"] == failed


def test_runs_of_which_one_has_no_bandwidth_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    row = "  1048576  262144  float  sum  -1  28.56  36.71  64.24  0  28.37  36.96  64.68  0\n"
    host = NEW.replace("time", "cputime")
    path.write_text(f"{NEW}{row}# Avg bus bandwidth    : 64.4\n{host}{row}")
    (page,) = analyze_files(load_run(path)).files
    assert "no bandwidth" in {fact.name: fact.text or fact.value for fact in page.facts}["each_run"]
