from io import StringIO
from pathlib import Path

import pytest

from hvdprof.analyze.files.file_analysis import analyze_files
from hvdprof.api import load_run
from hvdprof.model.file_page import FilePage, Gravity
from hvdprof.report.answers.files import files_answer
from hvdprof.report.screen.file_tiles import file_tiles
from tests.builders.nccl_log import init_line, job, of_rank

UNOPENED = "oak0:7000:7050 [0] misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed"
LOGGED = "[0]<stderr>:[2026-11-20 21:46:30.359090: {} /src/horovod/common/timeline.cc:320] {}\n"


def page_of(folder: Path, text: str) -> FilePage:
    path = folder / "job.log"
    path.write_text(text)
    (page,) = analyze_files(load_run(path)).files
    return page


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            job(),
            "Nothing wrong found: NCCL 2.20.5, 4 ranks, RoCE with GPUDirect; "
            "hvdprof reads no bandwidth in this file.",
        ),
        (
            job("NET/Socket/0"),
            "Nothing wrong found: NCCL 2.20.5, 4 ranks, TCP; "
            "hvdprof reads no bandwidth in this file.",
        ),
        (
            job(num_ranks=2),
            "Nothing wrong found: NCCL 2.20.5, 2 ranks, peer access; "
            "hvdprof reads no bandwidth in this file.",
        ),
        (
            job()[:2],
            "No warning or error in 1 NCCL line: NCCL 2.20.5; "
            "hvdprof reads no communicator, connection or bandwidth in this file.",
        ),
        (
            [of_rank(0, init_line(0, 4, "START", comm_id="0x51ab"))],
            "No warning or error in 1 NCCL line: 4 ranks, Init COMPLETE of 0 of 1 ranks seen; "
            "hvdprof reads no connection or bandwidth in this file. "
            "Note: log ends during NCCL initialization.",
        ),
    ],
    ids=["whole", "tcp", "one host", "two lines", "cut in init"],
)
def test_an_nccl_log_without_trouble_says_what_it_shows(
    tmp_path: Path, lines: list[str], sentence: str
) -> None:
    page = page_of(tmp_path, "\n".join(lines) + "\n")
    assert (page.verdict, page.gravity) == (sentence, Gravity.CLEAN)


def test_lines_that_healthy_jobs_print_are_no_warnings(tmp_path: Path) -> None:
    page = page_of(tmp_path, "\n".join([*job()[:5], UNOPENED, UNOPENED, *job()[5:]]) + "\n")
    facts = {fact.name: fact for fact in page.facts}
    assert facts["num_problems"].value == 0
    assert facts["num_harmless"].text == "2, such as: Call to ibv_open_device failed"
    assert [
        tile.value for tile in file_tiles(page) if tile.title == "NCCL warnings and errors"
    ] == ["0"]


def test_logs_of_one_job_have_one_page(tmp_path: Path) -> None:
    for rank in range(4):
        process = f"oak{rank // 2}:{7000 + 100 * rank}:"
        lines = [line for line in job() if line.startswith(process)]
        name = process.replace(":", ".") + "log"
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (page,) = analyze_files(load_run(tmp_path)).files
    assert (page.kind, page.file.endswith("oak0.7000.log and 3 more")) == ("4 NCCL logs", True)
    assert "4 ranks, RoCE with GPUDirect" in page.verdict


def test_a_finding_of_several_files_stands_once(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        text = "\n".join(job("NET/IB/0")).replace("oak", name)
        (tmp_path / f"{name}.log").write_text(text + "\n")
    found = analyze_files(load_run(tmp_path))
    assert found.findings["id"].tolist() == ["nccl-gpudirect-unused"]
    assert "2 more files show the same." in found.findings["evidence"].iloc[0]
    # Each job says it in its sentence; evidence and action stand once.
    assert all("Note: GPUDirect RDMA unused." in page.verdict for page in found.files)
    stream = StringIO()
    files_answer(found).write("terminal", stream)
    assert stream.getvalue().count("NCCL_DEBUG_SUBSYS") == 1


@pytest.mark.parametrize(
    ("text", "sentence", "gravity"),
    [
        (
            LOGGED.format("D", "Wrote 3 records."),
            "Nothing wrong found in 1 line of Horovod's log; hvdprof reads no rate in this file.",
            Gravity.CLEAN,
        ),
        (
            LOGGED.format("E", "Error writing to the Horovod Timeline after it was opened."),
            "Error in line 1: Error writing to the Horovod Timeline after it was opened.",
            Gravity.WARNING,
        ),
        (
            LOGGED.format("E", "Error opening the Horovod Timeline file /x/t.json, will not."),
            "Warning in line 1: Error opening the Horovod Timeline file /x/t.json, will not.",
            Gravity.WARNING,
        ),
    ],
    ids=["quiet", "error", "incident"],
)
def test_horovods_log_says_what_it_logged(
    tmp_path: Path, text: str, sentence: str, gravity: Gravity
) -> None:
    page = page_of(tmp_path, text)
    assert (page.verdict, page.gravity) == (sentence, gravity)


def test_an_autotuning_log_names_its_best_sample(tmp_path: Path) -> None:
    page = page_of(
        tmp_path,
        "hierarchical_allreduce,hierarchical_allgather,cache_enabled,cycle_time_ms,"
        "tensor_fusion_threshold,score\n0,0,1,5,4,10.2\n0,0,1,2.5,8,12.5\n",
    )
    assert page.verdict == (
        "Best of 2 samples: cycle time 2.50 ms, fusion threshold 8.39 MB (12.5 MB/s reduced)."
    )
    assert page.caveat == "The log does not show that tuning finished."


def test_an_abort_comes_before_peer_access(tmp_path: Path) -> None:
    ended = init_line(0, 4, "COMPLETE").replace("Init COMPLETE", "Abort COMPLETE")
    setting = "NCCL_P2P_LEVEL set by environment to LOC"
    lines = [*job(extra=[setting]), of_rank(0, ended)]
    text = "\n".join(lines).replace("P2P/CUMEM/read", "SHM/direct/direct") + "\n"
    page = page_of(tmp_path, text)
    assert page.verdict == (
        "Communicators were aborted: the job failed, or its program ends that way. "
        "Warning: peer access between GPUs disabled; fix: unset NCCL_P2P_LEVEL."
    )
