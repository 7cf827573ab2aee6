import json
import pickle
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hvdprof.api import analyze_run, load_run
from hvdprof.cli.main import build_app
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.ingest.rundir.attach_sources import Given
from hvdprof.ingest.rundir.attached_run import Stated, attach
from hvdprof.model.notes import texts
from hvdprof.model.run import RunAnalysis
from hvdprof.rundir.attached import attached_files
from tests.builders import nccl_log
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.nsys_exports import write_export
from tests.builders.run_spec import SegmentSpec
from tests.builders.timeline_text import timeline_text
from tests.ingest.logs.test_ras_text import INCOMPLETE, MISMATCH

MINE = Stated(name="mine")
ITERATION = (
    " [2026-03-01 10:00:{number:02d}] iteration {number:8d}/     500 | consumed samples: "
    "{samples:12d} | elapsed time per iteration (ms): 500.0 | learning rate: 1.0E-05 | "
    "global batch size:   256 | lm loss: 1.0E+01 |\n"
)
MEGATRON = "using world size: 8, data-parallel size: 8\n" + "".join(
    ITERATION.format(number=number, samples=number * 256) for number in range(1, 6)
)
DEEPSPEED = (
    "[2022-06-26 01:39:56,470] [INFO] [logging.py:69:log_dist] [Rank 0] comm op: all_gather_base | "
    "time (ms): 0.11 | msg size: 6.0 MB | algbw (Gbps): 954.41 | busbw (Gbps): 894.76\n"
)
INSPECTOR = {
    "header": {"id": "0xabc", "rank": 1, "n_ranks": 4, "nnodes": 2},
    "metadata": {
        "inspector_output_format_version": "v4.0", "hostname": "oak", "dump_timestamp_us": 1,
        "pid": 7,
    },
    "coll_perf": {
        "coll": "AllReduce", "coll_sn": 3, "coll_msg_size_bytes": 2**20, "coll_exec_time_us": 100,
        "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 10.0, "coll_busbw_gbs": 15.0,
    },
}  # fmt: skip


def hung(folder: Path) -> Path:
    """Dumps of four ranks, of which rank 2 has not submitted call 6."""
    calls = {rank: 5 if rank == 2 else 6 for rank in range(4)}
    return write_dumps(
        folder,
        {
            rank: dump(ranks=range(4), enqueued=number, completed=5, late_ns=1000 * rank)
            for rank, number in calls.items()
        },
    )


def attached(tmp_path: Path, *recordings: Path, **others: list[Path]) -> RunAnalysis:
    attach(tmp_path / "run", Given(recordings=recordings, **others), MINE)
    return analyze_run(load_run(tmp_path / "run"))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.heavy
def test_dumps_lead_with_the_rank_that_a_hang_begins_with(tmp_path: Path) -> None:
    analysis = attached(tmp_path, hung(tmp_path / "dumps"))
    assert analysis.verdict.sentence.startswith("Hang: rank 2 has not submitted")
    assert analysis.run.manifest.passes[0].size == 4
    assert sorted(analysis.run.table("files")["file"]) == [
        f"recordings/dump_{rank}" for rank in range(4)
    ]
    (page,) = analysis.pages
    assert {fact.name: fact.value for fact in page.facts}["hang_ranks"] == "2"
    copies = {Path(one.given).name: one.copy for one in attached_files(analysis.run.manifest)}
    copied = (tmp_path / "run" / copies["dump_2"]).read_bytes()
    assert copied == (tmp_path / "dumps" / "dump_2").read_bytes()


@pytest.mark.heavy
def test_a_dump_is_a_part_of_the_verdict_beside_a_timeline(tmp_path: Path) -> None:
    timeline = written(
        tmp_path / "horovod.json", timeline_text(SegmentSpec(num_steps=12), 4, 1_000_000_000)
    )
    analysis = attached(tmp_path, hung(tmp_path / "dumps"), timelines=[timeline])
    hang, steps = (analysis.verdict.sentence.find(one) for one in ("Hang: rank 2", "steady steps"))
    assert 0 <= hang < steps


@pytest.mark.heavy
def test_a_time_out_in_a_recording_is_stated_once(tmp_path: Path) -> None:
    said = "[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation "
    work = "timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=96, NumelOut=96) ran for 600020 "
    log = written(tmp_path / "job.out", f"{said}{work}milliseconds before timing out.\n")
    sentence = attached(tmp_path, hung(tmp_path / "dumps"), log).verdict.sentence
    assert sentence.startswith("dump_*: Hang: rank 2 ")
    assert sentence.count("collective timeout") == 1


@pytest.mark.heavy
def test_an_inspector_log_states_the_ranks(tmp_path: Path) -> None:
    log = written(tmp_path / "oak-pid7.log", json.dumps(INSPECTOR) + "\n")
    analysis = attached(tmp_path, log)
    assert analysis.run.manifest.passes[0].size == 4
    (row,) = analysis.run.table("inspector_collectives").to_dict("records")
    assert (row["file"], row["rank"], row["seq"]) == ("recordings/oak-pid7.log", 1, 3)
    assert "AllReduce" in analysis.verdict.sentence


@pytest.mark.heavy
def test_iterations_of_megatron_state_the_ranks(tmp_path: Path) -> None:
    analysis = attached(tmp_path, written(tmp_path / "slurm-7.out", MEGATRON))
    assert analysis.run.manifest.passes[0].size == 8
    assert len(analysis.run.table("training_iterations")) == 5
    assert "500 ms" in analysis.verdict.sentence


@pytest.mark.heavy
def test_a_ras_report_of_every_rank_states_the_ranks(tmp_path: Path) -> None:
    analysis = attached(tmp_path, written(tmp_path / "ras.txt", MISMATCH))
    assert analysis.run.manifest.passes[0].size == 8
    assert analysis.verdict.sentence.startswith(
        "Rank 7 of communicator 27a079b828ff1a75 (GPU 7, pid 9 on 10.0.0.1) is behind"
    )


def test_a_ras_report_of_absent_ranks_alone_states_none(tmp_path: Path) -> None:
    report = written(tmp_path / "ras.txt", INCOMPLETE.replace("3,5", "0,1"))
    with pytest.raises(UsageError, match="how many ranks"):
        attach(tmp_path / "run", Given(recordings=[report]), MINE)


@pytest.mark.heavy
def test_what_states_no_ranks_needs_them_stated(tmp_path: Path) -> None:
    kernel = [(0, 100, 0, "gemm"), (100, 140, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")]
    export = write_export(tmp_path / "report.sqlite", kernel)
    log = written(tmp_path / "deepspeed.log", DEEPSPEED)
    given = Given(recordings=[export, log])
    with pytest.raises(UsageError, match="how many ranks"):
        attach(tmp_path / "run", given, MINE)
    attach(tmp_path / "run", given, Stated(name="mine", size=2))
    run = load_run(tmp_path / "run")
    assert len(run.table("nsys_gpus")) == len(run.table("comms_log")) == 1
    sentence = analyze_run(run).verdict.sentence
    assert sentence.startswith("report.sqlite: ")
    assert " deepspeed.log: " in sentence


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("nccl.log", "\n".join(nccl_log.job()).encode(), "nccl.log is an NCCL log"),
        ("horovod.json", b'[{"ph": "B", "name": "NEGOTIATE_ALLREDUCE"}', "Horovod timeline"),
    ],
)
def test_a_file_of_no_other_recorder_is_refused_alone_and_left_out_beside_others(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    good, bad = hung(tmp_path / "dumps"), tmp_path / name
    bad.write_bytes(content)
    with pytest.raises(UnreadableInputError, match=problem):
        attach(tmp_path / "run", Given(recordings=[bad]), MINE)
    assert not (tmp_path / "run").exists()
    manifest = attach(tmp_path / "run", Given(recordings=[good, bad]), MINE)
    (warning,) = manifest.warnings
    assert problem in warning
    assert not list((tmp_path / "run").rglob(name))


@pytest.mark.heavy
def test_output_of_megatron_speaks_and_states_the_ranks(tmp_path: Path) -> None:
    output = tmp_path / "job.out"
    output.write_text("\n".join(nccl_log.job()) + "\n" + MEGATRON)
    with pytest.raises(UnreadableInputError, match=r"NCCL's log in it: use --stdout"):
        attach(tmp_path / "run", Given(recordings=[output]), MINE)
    output.write_text(MEGATRON)
    manifest = attach(tmp_path / "run", Given(outputs=[output]), MINE)
    assert manifest.passes[0].size == 8
    verdict = analyze_run(load_run(tmp_path / "run")).verdict
    assert verdict.sentence == "Iteration: median 500 ms, 512 samples/s."
    assert verdict.caveat.count("baseline") == 1


@pytest.mark.heavy
def test_files_of_no_use_are_left_out_and_named(tmp_path: Path) -> None:
    folder = hung(tmp_path / "dumps")
    content = (folder / "dump_3").read_bytes()
    (folder / "dump_3").write_bytes(content[: len(content) // 2])
    (folder / "dump_00").write_bytes(pickle.dumps(dump(ranks=range(4), late_ns=5), protocol=2))
    (folder / "notes.txt").write_text("hello\n")
    (folder / "dump_4").touch()
    command = ["attach", str(tmp_path / "run"), "--recording", str(folder)]
    result = CliRunner().invoke(build_app(), command)
    assert result.exit_code == 0, result.output
    analysis = analyze_run(load_run(tmp_path / "run"))
    for text in (result.output, "\n".join(analysis.warnings)):
        for name in ("dump_3", "rank 0 too", "notes.txt holds nothing", "dump_4 is empty"):
            assert text.count(name) == 1, name
    assert {path.name for path in (tmp_path / "run").rglob("dump_*")} == {
        "dump_0", "dump_1", "dump_2",
    }  # fmt: skip
    assert analysis.verdict.sentence.startswith("Hang: rank 2 has not submitted")
    assert "No dump of rank 3" in analysis.verdict.caveat


def test_files_that_are_all_of_no_use_are_refused(tmp_path: Path) -> None:
    folder = hung(tmp_path / "dumps")
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UnreadableInputError, match="dump_0"):
        attach(tmp_path / "run", Given(recordings=[folder]), MINE)
    assert not (tmp_path / "run").exists()


def test_files_of_one_name_keep_it(tmp_path: Path) -> None:
    logs = []
    for host in ("oak", "elm"):
        (tmp_path / host).mkdir()
        logs.append(written(tmp_path / host / "comms.log", DEEPSPEED))
    attach(tmp_path / "run", Given(recordings=logs), Stated(name="mine", size=2))
    run = load_run(tmp_path / "run")
    assert sorted(run.table("comms_log")["file"]) == [
        "recordings/2/comms.log",
        "recordings/comms.log",
    ]


def test_a_copy_that_is_gone_is_noted(tmp_path: Path) -> None:
    attach(tmp_path / "run", Given(recordings=[hung(tmp_path / "dumps")]), MINE)
    (gone,) = (tmp_path / "run").rglob("dump_2")
    gone.unlink()
    run = load_run(tmp_path / "run")
    assert any("dump_2" in note for note in texts(run.notes))
