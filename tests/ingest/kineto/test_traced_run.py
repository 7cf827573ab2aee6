"""Profiler traces give the tables that the recorder fills, and the same verdict."""

import dataclasses
import json
import re
import shlex
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from hvdprof.analyze.communication.matched_collectives import collective_bandwidths
from hvdprof.api import (
    AttachedFiles,
    AttachedJob,
    analyze_run,
    attach,
    load_run,
)
from hvdprof.cli.main import build_app
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.ingest.kineto.standalone_traces import _name_of
from hvdprof.model.causes import RECORDED_PARTS
from hvdprof.model.notes import texts
from hvdprof.model.run import Run, RunAnalysis
from hvdprof.model.tables.rank_collective_tables import MATCHED_COLLECTIVES
from hvdprof.report.formats import REPORTERS
from hvdprof.report.screen.rank_phases import slowest_phase
from hvdprof.rundir.manifest import Manifest
from tests.builders.declared_rows import declared_rows
from tests.builders.places import RECORDINGS
from tests.builders.profiler_traces import TracedJob, annotation, kernel, operation, write_traces

RECORDED = RECORDINGS / "kineto_gloo_backward_rank1"
TRACES = [RECORDED / f"trace_rank{rank}.json.gz" for rank in (0, 1)]
DATA_LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
LATE = TracedJob(size=3, late={(1, "backward"): 2000.0})


def _mean_parts(run: Run, rank: int) -> dict[str, float]:
    """The mean of each part over the steps that the profiler and the recorder both hold, ms."""
    steps = run.steps[(run.steps["rank"] == rank) & (run.steps["step"] >= 3)]
    return {part: steps[f"{part}_ns"].astype("float64").mean() / 1e6 for part in RECORDED_PARTS}


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_phases_and_waits_are_those_of_the_job(tmp_path: Path, backend: str) -> None:
    run = load_run(write_traces(tmp_path, dataclasses.replace(LATE, backend=backend)))
    steps = run.steps[run.steps["step"] > 2]
    assert set(run.steps["warmup"][run.steps["step"] == 2]) == {True}
    by_rank = steps.groupby("rank").mean(numeric_only=True) / 1e6
    assert by_rank["dur_ns"].tolist() == pytest.approx([12.5] * 3)
    assert by_rank["data_ns"].tolist() == pytest.approx([1.0] * 3)
    assert by_rank["forward_ns"].tolist() == pytest.approx([3.0] * 3)
    assert by_rank["backward_ns"].tolist() == pytest.approx([5.0, 7.0, 5.0])
    assert by_rank["blocked_ns"].tolist() == pytest.approx([3.0, 1.0, 3.0])
    assert by_rank["optimizer_ns"].tolist() == pytest.approx([0.5] * 3)


def test_the_wait_of_ddp_reaches_to_its_copies_of_the_buckets(tmp_path: Path) -> None:
    (path,) = write_traces(tmp_path, dataclasses.replace(LATE, size=1, num_steps=2, late={}))
    trace = json.loads(path.read_text())
    name = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
    # The update begins 200 µs later, behind the copy.
    for event in trace["traceEvents"]:
        if event["name"] == "Optimizer.step#SGD.step":
            event["ts"] += 200
            event["dur"] -= 200
    trace["traceEvents"].append(operation(name, 1_010_150.0, 40.0))
    path.write_text(json.dumps(trace))
    blocked = load_run([path]).steps["blocked_ns"].tolist()
    assert blocked == [1_190_000, 1_000_000]


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize("phase", ["data", "forward", "backward"])
def test_the_straggler_is_named_with_phase_and_cost(
    tmp_path: Path, backend: str, phase: str
) -> None:
    job = dataclasses.replace(LATE, backend=backend, late={(1, phase): 2000.0})
    analysis = analyze_run(load_run(write_traces(tmp_path, job)))
    (late,) = analysis.stragglers[analysis.stragglers["pattern"] == "persistent"].to_dict("records")
    assert (late["rank"], late["phase"]) == (1, phase)
    assert late["cost_ns"] == pytest.approx(2e6, rel=0.01)
    assert f"straggler (rank 1, {phase} phase), 2.00 ms per step" in analysis.verdict.sentence
    assert "The profiler was on" in analysis.verdict.caveat


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_collectives_have_wait_transfer_and_exposed_time(tmp_path: Path, backend: str) -> None:
    analysis = analyze_run(
        load_run(write_traces(tmp_path, dataclasses.replace(LATE, backend=backend)))
    )
    found = analysis.matched_collectives
    assert len(found) == 12
    assert set(found["last_rank"]) == {1}
    assert found["wait_sum_ns"].tolist() == [4_000_000] * 12
    # The submission of Gloo lies 1 µs before the end of backward.
    assert found["transfer_ns"].tolist() == pytest.approx([1_000_000] * 12, abs=1000)
    assert found["busbw_gb_per_s"].iloc[0] == pytest.approx(1000 / 1e6 * 4 / 3, rel=0.01)
    calls = analysis.run.rank_collectives
    exposed = calls.groupby("rank")["exposed_ns"].mean()
    assert exposed.tolist() == pytest.approx([3e6, 1e6, 3e6])


@pytest.mark.heavy
def test_clocks_of_other_hosts_are_bounded_by_the_collectives(tmp_path: Path) -> None:
    job = dataclasses.replace(
        LATE, host=lambda rank: f"node{rank}", shift_us=lambda rank: 40_000.0 * rank
    )
    analysis = analyze_run(load_run(write_traces(tmp_path, job)))
    clocks = analysis.clocks.set_index("rank")
    middle = (clocks["offset_low_ns"] + clocks["offset_high_ns"]) / 2
    for rank in (1, 2):
        assert clocks["consistent"][rank]
        assert abs(middle[rank]) <= clocks["u_ns"][rank] < 1.1e6
    offsets = analysis.run.ranks.set_index("rank")["clock_offset_ns"]
    for rank in (1, 2):
        assert offsets[rank] - offsets[0] == pytest.approx(-40e6 * rank, abs=1e6)
    # Lateness is measured on the clock of each rank alone.
    late = analysis.stragglers[analysis.stragglers["pattern"] == "persistent"]
    assert late["rank"].tolist() == [1]
    assert late["lateness_ns"].tolist() == pytest.approx([2e6])


@pytest.mark.heavy
def test_one_rank_alone_gives_facts_and_names_no_straggler(tmp_path: Path) -> None:
    analysis = analyze_run(load_run(write_traces(tmp_path, LATE, [1])))
    assert analysis.verdict.sentence == (
        "trace, rank 1 of 3: 12.5 ms per step, 8.0 % of it blocked in collectives."
    )
    assert "no whole trace of ranks 0 and 2" in analysis.verdict.caveat
    assert "hvdprof run --launcher torchrun --np 3" in analysis.verdict.caveat
    assert analysis.stragglers.empty
    assert analysis.caused_wait.empty
    assert analysis.waterfall.empty


@pytest.mark.heavy
def test_few_steps_name_no_straggler_and_say_why(tmp_path: Path) -> None:
    analysis = analyze_run(load_run(write_traces(tmp_path, dataclasses.replace(LATE, num_steps=3))))
    assert "2 steps are too few to name a straggler" in analysis.verdict.caveat
    assert (
        "Too few steps to name a straggler: rank 1 arrives last in 2 of 2 steps; the others wait "
        "2.00 ms per step (" in analysis.verdict.sentence
    )
    assert "jitter" not in analysis.verdict.sentence
    assert analysis.caused_wait["wait_as_last_ns"].tolist() == pytest.approx([0, 2e6, 0])


@pytest.mark.heavy
def test_fsdp_on_cpus_hides_its_waits_so_that_no_rank_is_named(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, LATE)
    for path in paths:
        text = path.read_text().replace("DistributedDataParallel.forward", "FSDP::root_pre_forward")
        path.write_text(text)
    analysis = analyze_run(load_run(paths))
    assert analysis.verdict.sentence == "trace, 3 ranks: 12.5 ms per step."
    assert "no straggler is named" in analysis.verdict.caveat
    # Advice for DDP, such as no_sync() or its communication hooks, does not apply.
    assert set(analysis.run.segments["engine"]) == {"fsdp"}
    assert analysis.run.steps["blocked_ns"].isna().all()
    assert analysis.run.rank_collectives["exposed_ns"].isna().all()
    assert analysis.stragglers.empty
    assert analysis.findings.empty
    assert analysis.matched_collectives["wait_sum_ns"].tolist() == [4_000_000] * 12


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_traces_that_time_no_collective_say_so_and_name_no_rank(
    tmp_path: Path, backend: str
) -> None:
    paths = write_traces(tmp_path, dataclasses.replace(LATE, backend=backend))
    for path in paths:
        trace = json.loads(path.read_text())
        trace["traceEvents"] = [
            event
            for event in trace["traceEvents"]
            if not re.match(r"gloo:|nccl|record_param_comms|c10d::", event["name"])
        ]
        path.write_text(json.dumps(trace))
    analysis = analyze_run(load_run(paths))
    assert analysis.verdict.sentence == "trace, 3 ranks: 12.5 ms per step."
    assert "The traces time no collective" in analysis.verdict.caveat
    assert analysis.run.steps["blocked_ns"].isna().all()
    assert analysis.findings.empty
    assert analysis.stragglers.empty
    assert slowest_phase(analysis.rank_costs) == ""


@pytest.mark.heavy
def test_a_trace_of_the_host_alone_has_no_length_of_a_collective_of_nccl(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, dataclasses.replace(LATE, backend="nccl"))
    for path in paths:
        trace = json.loads(path.read_text())
        trace["traceEvents"] = [
            event
            for event in trace["traceEvents"]
            if event.get("cat") in ("cpu_op", "user_annotation")
        ]
        trace["traceEvents"].append(annotation("nccl:all_reduce", 1_000_000.0, 30.0))
        path.write_text(json.dumps(trace))
    analysis = analyze_run(load_run(paths))
    assert "blocked" not in analysis.verdict.sentence
    assert "Record with ProfilerActivity.CUDA" in analysis.verdict.caveat


@pytest.mark.heavy
def test_a_collective_hidden_behind_work_bounds_no_clock(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, dataclasses.replace(LATE, backend="nccl"))
    for rank, path in enumerate(paths):
        trace = json.loads(path.read_text())
        trace["traceEvents"] += [
            kernel("ncclDevKernel_Broadcast_RING_LL(x)", event["ts"] + 50 * rank, 20, 41,
                   {"External id": 5000 + number})
            for number, event in enumerate(trace["traceEvents"])
            if event["name"] == "optimizer_kernel"
        ]  # fmt: skip
        trace["traceEvents"] += [
            operation("record_param_comms", event["ts"] - 1, 1,
                      {"External id": event["args"]["External id"], "Collective name": "broadcast",
                       "Group size": 3, "dtype": "Float", "In msg nelems": 5})
            for event in trace["traceEvents"]
            if "Broadcast" in event["name"]
        ]  # fmt: skip
        path.write_text(json.dumps(trace))
    analysis = analyze_run(load_run(paths))
    assert set(analysis.run.rank_collectives["collective"]) == {"ALLREDUCE", "BROADCAST"}
    assert set(analysis.run.arrivals["tensor"]) == {"allreduce 0"}
    assert analysis.clocks["consistent"].all()


@pytest.mark.heavy
def test_traces_without_steps_say_what_marks_them(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, dataclasses.replace(LATE, marked=False))
    for path in paths:
        path.write_text(path.read_text().replace("Optimizer.step#SGD.step", "update"))
    analysis = analyze_run(load_run(paths))
    assert "hold no steps, but 36 collectives" in analysis.verdict.sentence
    assert len(analysis.matched_collectives) == 12


@pytest.mark.heavy
def test_the_profiler_and_the_recorder_agree_on_one_run() -> None:
    traced = load_run(TRACES)
    recorded = load_run([RECORDED / f"rank-{rank}.jsonl" for rank in (0, 1)])
    for rank in (0, 1):
        ours, theirs = _mean_parts(recorded, rank), _mean_parts(traced, rank)
        for part in ("data", "forward", "backward", "blocked", "optimizer"):
            assert theirs[part] == pytest.approx(ours[part], rel=0.1, abs=0.2), part
    analysis = analyze_run(traced)
    (late,) = analysis.stragglers[analysis.stragglers["pattern"] == "persistent"].to_dict("records")
    assert (late["rank"], late["phase"]) == (1, "backward")
    # Rank 1 slept 15 ms in each backward pass.
    assert late["lateness_ns"] == pytest.approx(15e6, rel=0.1)


@pytest.mark.heavy
def test_attached_traces_are_a_run_directory_with_the_same_answer(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    manifest = attach(folder, AttachedFiles(traces=TRACES), AttachedJob(name="mine", batch_size=4))
    assert manifest.passes[0].size == 2
    analysis = analyze_run(load_run(folder))
    assert "straggler (rank 1, backward phase)" in analysis.verdict.sentence
    assert set(analysis.run.steps["samples"]) == {4}
    alone = load_run(TRACES)
    pd.testing.assert_frame_equal(
        analysis.run.rank_collectives.drop(columns="pass_id"),
        alone.rank_collectives.drop(columns="pass_id"),
    )


def _torn_set(folder: Path, *, packed: bool) -> list[Path]:
    """Traces of two ranks, of which that of rank 1 breaks off."""
    paths = write_traces(folder, dataclasses.replace(LATE, size=2), packed=packed)
    content = paths[1].read_bytes()
    paths[1].write_bytes(content[: -len(content) // 4])
    return paths


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("packed", "reason"), [(True, "the gzip data ends early"), (False, "it breaks off")]
)
def test_a_torn_trace_is_named_with_its_reason_in_every_output(
    tmp_path: Path, packed: bool, reason: str
) -> None:
    torn = _torn_set(tmp_path / "traces", packed=packed)[1]
    command = ["analyze", str(tmp_path / "traces"), "--format", "json"]
    result = CliRunner().invoke(build_app(), command)
    (warning,) = [one for one in json.loads(result.output)["warnings"] if reason in one]
    assert warning.startswith(f"{torn}: ")
    folder = tmp_path / "run"
    result = CliRunner().invoke(
        build_app(), ["attach", str(folder), "--trace", str(tmp_path / "traces" / "*")]
    )
    assert f"{torn}: " in result.output
    assert reason in result.output
    assert not list(folder.rglob(torn.name))
    assert warning in Manifest.read(folder).warnings
    for format_ in ("terminal", "html", "json"):
        output = tmp_path / f"report.{format_}"
        command = ["analyze", str(folder)]
        command += [] if format_ == "terminal" else ["-o", str(output)]
        result = CliRunner().invoke(build_app(), command, env={"COLUMNS": "400"})
        text = result.output if format_ == "terminal" else output.read_text()
        # JSON has the sentence among its warnings, and with its code.
        assert text.count(reason) == (2 if format_ == "json" else 1), format_


@pytest.mark.heavy
def test_a_trace_with_fewer_steps_than_others_is_named(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, dataclasses.replace(LATE, num_steps=15))
    assert "common to all ranks" not in analyze_run(load_run(paths)).verdict.caveat
    trace = json.loads(paths[1].read_text())
    events = sorted(trace["traceEvents"], key=lambda event: float(event["ts"]))
    trace["traceEvents"] = events[: len(events) // 2]
    paths[1].write_text(json.dumps(trace))
    analysis = analyze_run(load_run(paths))
    assert (
        "After warm-up, rank 1 has 7 steps, rank 0 has 14: only the 7 common to all ranks count."
        in analysis.verdict.caveat
    )
    assert analysis.launches["num_steps"].tolist() == [7]


def test_of_torn_traces_alone_the_message_has_the_reasons(tmp_path: Path) -> None:
    first, second = _torn_set(tmp_path, packed=True)
    first.write_bytes(second.read_bytes())
    with pytest.raises(UnreadableInputError, match="None of the 2 traces is whole") as caught:
        load_run([tmp_path])
    assert f"{first}: the gzip data ends early" in caught.value.message
    assert f"{second}: the gzip data ends early" in caught.value.message


@pytest.mark.heavy
def test_attached_traces_of_other_jobs_and_timelines_are_refused(tmp_path: Path) -> None:
    job = AttachedJob(name="mine")
    other = write_traces(tmp_path / "other", LATE, [0])
    with pytest.raises(UnreadableInputError, match="These 2 traces are of 2 recordings"):
        attach(tmp_path / "a", AttachedFiles(traces=[TRACES[0], *other]), job)
    copied = attach(tmp_path / "d", AttachedFiles(traces=[*TRACES, *_copies(tmp_path)]), job)
    assert copied.warnings == [f"{tmp_path}/copy.json.gz: a copy of {TRACES[0]}; it is left out."]
    timeline = RECORDINGS / "06_mpi_adasum.json"
    with pytest.raises(UsageError, match="different jobs"):
        attach(tmp_path / "b", AttachedFiles(traces=TRACES, timelines=[timeline]), job)
    with pytest.raises(UnreadableInputError, match="--trace cannot take it"):
        attach(tmp_path / "c", AttachedFiles(traces=[timeline]), job)


def _copies(folder: Path) -> list[Path]:
    copy = folder / "copy.json.gz"
    copy.write_bytes(TRACES[0].read_bytes())
    return [copy]


@pytest.mark.heavy
def test_the_terminal_names_the_straggler_and_how_to_open_the_dashboard() -> None:
    result = CliRunner().invoke(build_app(), ["analyze", *map(str, TRACES)])
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "straggler (rank 1, backward phase)" in text
    assert "--trace" in text
    assert "Add --repeats" not in text
    assert "pinned" not in text


@pytest.mark.heavy
def test_other_files_beside_traces_stay_in_the_tables(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text("node0:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n")
    run = load_run([*TRACES, log])
    assert run.recorded
    assert len(run.steps)
    assert run.notes == ()


@pytest.mark.heavy
def test_throughputs_of_several_sizes_beside_traces_name_the_command(tmp_path: Path) -> None:
    logs = [tmp_path / f"np {size}.log" for size in (1, 4)]
    for log, size, rate in zip(logs, (1, 4), (612.0, 1_960.0), strict=True):
        log.write_text(f"Total img/sec on {size} CPU(s): {rate} +-1.0\n")
    assert load_run([*TRACES, logs[0]]).notes == ()
    (note,) = texts(load_run([*TRACES, *logs]).notes)
    command = shlex.split(note.split("`")[1])
    result = CliRunner().invoke(build_app(), command[1:])
    assert result.exit_code == 0, result.output
    assert "80.1 ± 0.1 %" in result.output


@pytest.mark.heavy
def test_a_folder_of_traces_and_others_has_one_page_of_the_traces(tmp_path: Path) -> None:
    paths = write_traces(tmp_path, LATE)
    (tmp_path / "nccl.log").write_text("node0:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1\n")
    analysis = analyze_run(load_run([tmp_path]))
    assert "straggler (rank 1, backward phase)" in analysis.verdict.sentence
    (page,) = [one for one in analysis.pages if "PyTorch" in one.kind]
    assert (page.file, page.kind) == (f"{paths[0]} and 2 more", "3 PyTorch profiler traces")
    facts = {fact.name: fact.value for fact in page.facts}
    assert facts["num_ranks"] == 3
    assert "num_traces" not in facts
    text = CliRunner().invoke(build_app(), ["analyze", str(tmp_path)]).output
    assert "apart from other files" not in text
    assert "straggler (rank 1, backward phase)" in " ".join(text.split())
    (alone,) = analyze_run(load_run(paths[:1])).pages
    assert {fact.name: fact.value for fact in alone.facts}["num_traces"] == 1


@pytest.mark.heavy
def test_traces_that_are_no_set_are_left_out_beside_others(tmp_path: Path) -> None:
    write_traces(tmp_path / "a", LATE, [0])
    write_traces(tmp_path / "b", dataclasses.replace(LATE, num_steps=5), [0])
    (tmp_path / "nccl.log").write_text("node0:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1\n")
    text = (
        CliRunner().invoke(build_app(), ["analyze", str(tmp_path)], env={"COLUMNS": "400"}).output
    )
    assert text.count("Left out: see Warnings.") == 2
    assert text.count("These 2 traces are of 2 recordings") == 1


@pytest.mark.parametrize(
    ("name", "job"),
    [("run_rank0of8.json", "run"), ("trace_rank12.json.gz", "trace"), ("rank_3.json", "trace")],
)
def test_the_name_of_a_job_has_no_rank(name: str, job: str) -> None:
    assert _name_of([Path(name)]) == job


def _with_data_named(folder: Path, name: str) -> Run:
    paths = write_traces(folder, dataclasses.replace(LATE, data=6000.0, late={}))
    for path in paths:
        path.write_text(path.read_text().replace(DATA_LOADER, name))
    return load_run(paths)


@pytest.mark.heavy
def test_advice_on_unmarked_data_names_what_the_reader_takes_for_the_data_phase(
    tmp_path: Path,
) -> None:
    findings = analyze_run(_with_data_named(tmp_path / "before", "my_batches")).findings
    (action,) = findings.loc[findings["id"] == "outside-phases", "action"]
    named = re.search(r'torch\.profiler\.record_function\("(.+?)"\)', action)
    assert named is not None, action
    assert "collect.phase" not in action
    marked = _with_data_named(tmp_path / "after", named[1])
    assert marked.steps["data_ns"].max() > 5e6
    assert "outside-phases" not in set(analyze_run(marked).findings["id"])


def _rendered(analysis: RunAnalysis, name: str) -> str:
    stream = StringIO()
    next(one for one in REPORTERS if one.name == name)().render(analysis, stream)
    return stream.getvalue()


@pytest.mark.heavy
def test_what_traces_do_not_say_is_unknown(tmp_path: Path) -> None:
    traces = write_traces(tmp_path / "t", dataclasses.replace(LATE, num_steps=4))
    attach(tmp_path / "run", AttachedFiles(traces=traces), AttachedJob(name="mine"))
    analysis = analyze_run(load_run(tmp_path / "run"))
    (cell,) = json.loads(_rendered(analysis, "json"))["scaling"]
    assert (cell["compression"], cell["reduction"]) == ("unknown", "unknown")
    assert cell["batch_size"] is None
    assert "toggles unknown" in _rendered(analysis, "terminal")
    page = _rendered(analysis, "html")
    assert "toggles unknown" in page
    assert all(one not in page for one in ("none average", "passes pinned", "throughput mode"))


@pytest.mark.heavy
def test_a_stated_batch_size_is_shown(tmp_path: Path) -> None:
    traces = write_traces(tmp_path / "t", dataclasses.replace(LATE, num_steps=4))
    attach(tmp_path / "run", AttachedFiles(traces=traces), AttachedJob(name="a", batch_size=8))
    assert analyze_run(load_run(tmp_path / "run")).scaling["batch_size"].tolist() == [8]


@pytest.mark.heavy
def test_median_and_mean_of_a_step_are_named_where_they_differ() -> None:
    analysis = analyze_run(load_run(TRACES))
    assert "80.3 ms per step (median), mean 90.4 ms, 9.4 % of it blocked" in (
        analysis.verdict.sentence
    )
    text = _rendered(analysis, "terminal")
    assert "per step beyond the compute that the ranks share" in " ".join(text.split())
    assert "# for dashboard and export" in text
    # Its traces are the run itself, and too few steps have a 95th percentile.
    assert "PyTorch profiler trace of rank" not in text
    assert analysis.scaling["step_time_p95_ns"].isna().all()


def _watchdog(rank: int, sequence: int = 8, enqueued: int = 11) -> str:
    """What the watchdog of a rank prints of an all-reduce that timed out."""
    work = f"WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=96, NumelOut=96)"
    tag = f"[rank{rank}]:[E ProcessGroupNCCL.cpp:616]"
    return (
        f"{tag} [Rank {rank}] Watchdog caught collective operation timeout: {work} ran for 600020 "
        f"milliseconds before timing out.\n{tag} [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        f"failure detected by watchdog at work: {sequence}, last enqueued NCCL work: {enqueued}, "
        f"last completed NCCL work: {sequence - 1}.\n"
    )


def _verdict_beside(tmp_path: Path, texts: dict[str, str], *, is_attached: bool) -> str:
    """The verdict on traces of four ranks beside the output of their job."""
    traces = write_traces(tmp_path / "traces", dataclasses.replace(LATE, size=4, backend="nccl"))
    logs = []
    for name, text in texts.items():
        logs.append(tmp_path / name)
        logs[-1].write_text(text)
    if not is_attached:
        return analyze_run(load_run([*traces, *logs])).verdict.sentence
    given = AttachedFiles(traces=traces, outputs=logs)
    attach(tmp_path / "run", given, AttachedJob(name="mine"))
    return analyze_run(load_run(tmp_path / "run")).verdict.sentence


@pytest.mark.heavy
@pytest.mark.parametrize("is_attached", [True, False])
def test_a_time_out_beside_traces_leads_and_names_the_rank_that_is_missing(
    tmp_path: Path, is_attached: bool
) -> None:
    text = "".join(_watchdog(rank) for rank in (0, 1, 3))
    sentence = _verdict_beside(tmp_path, {"job.out": text}, is_attached=is_attached)
    assert sentence.startswith("Error: collective timeout (ALLREDUCE, without rank 2); fix: ")
    assert "straggler (rank 1, backward phase)" in sentence


@pytest.mark.heavy
@pytest.mark.parametrize("is_attached", [True, False])
def test_of_the_output_of_all_ranks_that_of_the_rank_behind_leads(
    tmp_path: Path, is_attached: bool
) -> None:
    texts = {
        f"rank{rank}.out": _watchdog(rank) if rank < 3 else _watchdog(rank, 7, 7)
        for rank in range(4)
    }
    sentence = _verdict_beside(tmp_path, texts, is_attached=is_attached)
    behind, steps = (sentence.find(one) for one in ("rank 3 behind", "per step"))
    assert 0 <= behind < steps
    assert "collective timeout" not in sentence[:behind]


@pytest.mark.heavy
def test_a_time_out_comes_before_the_failure_of_another_rank(tmp_path: Path) -> None:
    texts = {f"rank{rank}.out": _watchdog(rank) for rank in (1, 2, 3)}
    texts = {"rank0.out": "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n", **texts}
    sentence = _verdict_beside(tmp_path, texts, is_attached=False)
    timeout, failure, steps = (
        sentence.find(one) for one in ("without rank 0", "out of memory", "per step")
    )
    assert 0 <= timeout < failure < steps


@pytest.mark.heavy
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_bus_bandwidth_by_collective_and_payload_is_in_every_output(
    tmp_path: Path, backend: str
) -> None:
    job = dataclasses.replace(LATE, backend=backend)
    analysis = analyze_run(load_run(write_traces(tmp_path, job)))
    (row,) = analysis.collective_bandwidths.to_dict("records")
    assert (row["collective"], row["num_ranks"], row["number"]) == ("ALLREDUCE", 3, 12)
    assert row["size_low_bytes"] == row["size_high_bytes"] == 1000
    # 1000 bytes in 1 ms, times 2 * (3 - 1) / 3; one rank of three is 2 ms late.
    assert row["busbw_median_gb_per_s"] == pytest.approx(0.001 * 4 / 3, rel=0.01)
    assert row["wait_mean_ns"] == pytest.approx(2e6 * 2 / 3, rel=0.01)
    for name in ("terminal", "html", "markdown", "json"):
        wanted = "busbw_median_gb_per_s" if name == "json" else "median busbw"
        assert wanted in _rendered(analysis, name), name


def test_payloads_of_one_power_of_two_are_one_row_and_the_longest_are_first() -> None:
    sizes = [600, 1000, 1023, 1024, 5_000_000]
    matched = declared_rows(
        MATCHED_COLLECTIVES,
        *(
            {
                "collective": "ALLREDUCE",
                "size_bytes": size,
                "num_ranks": 2,
                "transfer_ns": size,
                "busbw_gb_per_s": 1.0,
            }
            for size in sizes
        ),
    )
    table = collective_bandwidths(matched)
    columns = ["size_low_bytes", "size_high_bytes", "number"]
    assert table[columns].to_numpy().tolist() == [
        [5_000_000, 5_000_000, 1],
        [600, 1023, 3],
        [1024, 1024, 1],
    ]
