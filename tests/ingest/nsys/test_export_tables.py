import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.errors import UnreadableInputError
from tests.builders.nsys_exports import PID, write_export
from tests.builders.places import CORPUS, needs_corpus

MS = 1_000_000
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
KERNELS = [
    (0, 10 * MS, 0, "gemm"),
    (5 * MS, 15 * MS, 0, ALLREDUCE),
    (20 * MS, 30 * MS, 0, "gemm"),
    (22 * MS, 28 * MS, 0, ALLREDUCE),
    (0, 10 * MS, 1, "gemm"),
    (10 * MS, 12 * MS, 1, ALLREDUCE),
]


def test_computation_communication_and_what_is_exposed(tmp_path: Path) -> None:
    run = load_run(write_export(tmp_path / "a.sqlite", KERNELS, ["ncclAllReduce"] * 3 + ["step"]))
    first, second = run.nsys_gpus.to_dict("records")
    assert (first["pid"], first["num_kernels"], first["num_nccl_calls"]) == (PID, 4, 3)
    names = ("span_ns", "computing_ns", "communicating_ns", "exposed_ns", "idle_ns")
    assert [first[name] / MS for name in names] == [30, 20, 16, 5, 5]
    assert [second[name] / MS for name in names] == [12, 10, 2, 2, 0]
    row = run.nsys_nccl_kernels.to_dict("records")[0]
    assert (row["name"], row["collective"], row["number"]) == (ALLREDUCE, "ALLREDUCE", 2)
    assert (row["total_ns"], row["exposed_ns"]) == (16 * MS, 5 * MS)


@pytest.mark.heavy
def test_the_verdict_names_the_gpu_with_the_most_exposed_communication(tmp_path: Path) -> None:
    (page,) = analyze_files(load_run(write_export(tmp_path / "a.sqlite", KERNELS))).files
    assert page.kind == "export of Nsight Systems (SQLite)"
    assert page.verdict == (
        "Exposed communication: 16.7 % of the recorded time on GPU 0 (pid 4242), the most of 2 "
        "GPUs (5.00 ms); computation hides 68.8 % of the NCCL time."
    )
    assert page.unanswered


def test_the_verdict_says_where_a_gpu_runs_no_kernel_for_longer(tmp_path: Path) -> None:
    kernels = [*KERNELS[:4], (60 * MS, 61 * MS, 0, "gemm")]
    (page,) = analyze_files(load_run(write_export(tmp_path / "a.sqlite", kernels))).files
    assert page.verdict.startswith("Exposed communication: 8.2 % of the recorded time (5.00 ms)")
    assert page.verdict.endswith("% of the NCCL time. No kernel runs in 57.4 % of the time.")


def test_an_export_without_nccl_says_so(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite", [(0, 5, 0, "gemm")], with_process=False)
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith("No NCCL kernels were recorded")


def test_an_export_without_kernels_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInputError, match="without CUDA kernels"):
        load_run(write_export(tmp_path / "a.sqlite", (), ["step"]))


def test_the_file_and_its_folder_stay_as_they_are(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a #1?.sqlite", KERNELS)
    before = path.read_bytes()
    path.chmod(0o400)
    load_run(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_cut_export_ends_in_one_message(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite", KERNELS * 500)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(UnreadableInputError, match="damaged SQLite file"):
        load_run(path)


def test_a_view_in_place_of_the_table_is_not_read(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite", KERNELS)
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO other")
        database.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM other")
        database.commit()
    with pytest.raises(UnreadableInputError, match="without CUDA kernels"):
        load_run(path)


@pytest.mark.parametrize("times", ["start = 'a', end = 'b'", f"start = {-(2**63)}"])
def test_times_that_are_no_numbers_end_in_one_message(tmp_path: Path, times: str) -> None:
    path = write_export(tmp_path / "a.sqlite", KERNELS)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {times}")
        database.commit()
    with pytest.raises(UnreadableInputError, match="no numbers"):
        load_run(path)


@needs_corpus
def test_an_export_of_two_gpus() -> None:
    run = load_run(CORPUS / "imports" / "nsys" / "mfu_2gpu_before.sqlite")
    assert list(run.nsys_gpus["num_kernels"]) == [1993, 2017]
    assert int(run.nsys_gpus["num_nccl_kernels"].sum()) == 66
    assert int(run.nsys_gpus["num_nccl_calls"].sum()) == 462
    kernels = run.nsys_nccl_kernels
    assert set(kernels["collective"]) == {"SENDRECV"}
    assert int(kernels["total_ns"].sum()) == 25_401_752
    assert (kernels["exposed_ns"] <= kernels["total_ns"]).all()


@pytest.mark.parametrize("command", [b"CREATE TABLE", b"CREATE TABLX"])
def test_a_schema_that_is_no_utf_8_ends_in_tables_or_in_one_message(
    tmp_path: Path, command: bytes
) -> None:
    path = write_export(tmp_path / "a.sqlite", KERNELS, ["step"])
    content = path.read_bytes().replace(b"CREATE TABLE StringIds", command + b" StringIds")
    path.write_bytes(content.replace(b"StringIds", b"String\xff\xfes"))
    try:
        assert len(load_run(path).nsys_gpus) == 2
    except UnreadableInputError as error:
        assert "damaged SQLite file" in error.message
