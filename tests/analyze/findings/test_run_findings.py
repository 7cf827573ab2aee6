"""Every rule has a case that triggers it and one that must not."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from hvdprof.analyze.communication.network import net_hosts, net_links
from hvdprof.analyze.findings.advice import advice
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding, by_gravity, severity_of_cost
from hvdprof.analyze.findings.input_evidence import InputEvidence
from hvdprof.analyze.findings.run_rules import causes_rules
from hvdprof.analyze.pipeline import findings
from hvdprof.ingest.rundir.run_files import net_transfers
from hvdprof.model.notes import Note, NoteCode
from hvdprof.model.table_catalogue import TABLES
from hvdprof.rundir.failures.launcher_failures import Failure, with_kind
from hvdprof.rundir.launch_format import DdpFacts
from hvdprof.rundir.recording.stall_format import StallCause
from tests.builders.declared_rows import declared_rows
from tests.builders.evaluated_steps import evaluated_steps
from tests.builders.finding_style import style_faults
from tests.builders.finished_analysis import cell, manifest, pass_record, run, segment
from tests.builders.net_recording import of_hosts
from tests.builders.places import DOCS

MANUAL = DOCS / "reference" / "findings.md"
NAMES = {"pass_id": "p", "segment": "s"}
CELL = {
    "model": "resnet18",
    "np": 2,
    "engine": "horovod",
    "compression": "none",
    "reduction": "average",
}


def table(name, *rows):
    """Rows of a declared table; what a test does not state is empty."""
    return declared_rows(next(one for one in TABLES if one.name == name), *rows)


@cache
def segments(**values):
    row = {
        **NAMES,
        "mode": "throughput",
        "engine": "horovod",
        "model": "resnet18",
        "size": 2,
        "compression": "none",
        "reduction": "average",
        "status": "done",
        "num_ranks_recorded": 2,
    }
    return table("segments", row | values)


def evidence(tables=(), *, environment=None, controller="mpi", mode="throughput", **run_fields):
    record = pass_record(
        "p", [segment("s")], mode=mode, controller=controller, environment=environment or {}
    )
    frames = dict(tables)
    own = {"segments": segments(), "manifest": manifest(passes=[record])}
    others = {name: frames.pop(name) for name in list(frames) if name in OF_RUN}
    frames.setdefault("scaling", scaling())
    return Evidence(run(**(own | others | run_fields)), frames)


OF_RUN = ("stalls", "incidents", "horovod_log", "autotune", "timelines")


def scaling(*cells):
    return table("scaling", *cells) if cells else _baseline()


@cache
def _baseline():
    return table("scaling", cell())


def steps_of(step_ns):
    return scaling(cell(step_time_median_ns=step_ns))


def ids(given):
    return list(findings(given)["id"])


def term(name, share, low=None, **values):
    row = {"term": name, "share": share, "time_ns": share * 31e6, "saved_if_removed_share": share}
    row["share_low"] = share / 2 if low is None else low
    return ("waterfall", table("waterfall", CELL | row | values))


def under_ddp(*given):
    name, rows = term(*given)
    return [(name, rows.assign(engine="ddp")), ("scaling", scaling(cell(engine="ddp")))]


def straggler(pattern, *, share=0.2, **values):
    row = {"ranks": "1", "pattern": pattern, "phase": "data", "phase_share": 0.9}
    row |= {"affected_share": 0.9, "delay_ns": 6e6, "num_events": 54, "num_launches": 1}
    return term("straggler", share, **(row | values))


def crowded(other_cpu_cores, num_cores=2, **values):
    """A run of two ranks with a thread each, beside other processes."""
    record = pass_record("p", [segment("s")], mode="throughput", controller="mpi")
    record.other_cpu_cores = other_cpu_cores
    host = {"hostname": "node1", "num_cores": num_cores}
    return {
        "manifest": manifest(passes=[record], hosts=[host]),
        "ranks": ranks(0, 1, num_threads=1),
        **values,
    }


FAULTS = "sleep:phase=data,rank=1,amount=20ms"


def clocks(*consistent, **names):
    rows = ({**NAMES, **names, "rank": i, "consistent": one} for i, one in enumerate(consistent))
    return ("clocks", table("clocks", *rows))


GROWING = {"low": 1e9, "high": 2e9, "growth": 1e6, "growth_low": 9e5, "growth_high": 2e6}
GROWING |= {"last_growth": 1e6}


def sampled(measure, **values):
    return "rank_machine", table("rank_machine", {**NAMES, "rank": 1, "measure": measure, **values})


def swapping(bytes_per_s):
    window = {"pass_id": "p", "rank": 0, "duration_ns": 10**9}
    rows = ({**window, "measure": name, "mean": bytes_per_s} for name in ("swap_in", "swap_out"))
    return "host_samples", table("host_samples", *rows)


def ranks(*local_ranks, hosts=("node1", "node1"), **values):
    return table(
        "ranks",
        *(
            {"pass_id": "p", "rank": number, "local_rank": local, "hostname": host, **values}
            for number, (local, host) in enumerate(zip(local_ranks, hosts, strict=True))
        ),
    )


def on_two_hosts(share):
    use = {"np": 2, "num_hosts": 2, "share": share, "share_low": share - 0.05}
    use |= {"share_high": share + 0.05, "busbw_gb_per_s": 0.02, "allowed_gb_per_s": 0.025}
    return evidence(
        [term("exposed-transfer", 0.4), ("net_use", table("net_use", use))],
        ranks=ranks(0, 0, hosts=("node1", "node2")),
    )


def links_of(speeds, **values):
    return ("net_hosts", net_hosts(net_links(net_transfers(of_hosts(speeds, **values))[0])))


def collectives(size_bytes, per_step=30):
    return table(
        "collectives",
        *(
            {**NAMES, "step": step, "fusion_id": number, "size_bytes": size_bytes}
            for step in range(3)
            for number in range(per_step)
        ),
    )


def one_large_collective(covered_share):
    covered = round(400 * covered_share)
    overlap = {"communication_ns": 400, "overlapped_ns": covered, "exposed_ns": 400 - covered}
    rows = [{**NAMES, "step": step, **overlap} for step in range(3)]
    rows = [row | {"blocking_exposed_ns": row["exposed_ns"]} for row in rows]
    return evidence(
        [("collectives", collectives(50_000_000, 1)), ("overlap", table("overlap", *rows))],
        steps=table("steps", *({**NAMES, "step": step, "dur_ns": 1000} for step in range(3))),
    )


def long_steps(which):
    """Steps of one rank."""
    times = [30_000_000 * (4 if step in which else 1) for step in range(100)]
    rows = [
        {**NAMES, "step": step, "dur_ns": time, "steady": True} for step, time in enumerate(times)
    ]
    return evidence([("job_steps", table("job_steps", *rows))], segments=segments(size=1))


def sizes(efficiency_of_four):
    two = {"efficiency": 0.9, "efficiency_low": 0.88, "efficiency_high": 0.92}
    four = {
        "np": 4,
        "efficiency": efficiency_of_four,
        "efficiency_low": efficiency_of_four - 0.02,
        "efficiency_high": efficiency_of_four + 0.02,
    }
    return ("scaling", scaling(cell(**two), cell(**four)))


def toggled(rate, **toggle):
    values = {
        "samples_per_s": rate,
        "samples_per_s_low": rate - 20,
        "samples_per_s_high": rate + 20,
    }
    return ("scaling", scaling(cell(), cell(**values, **toggle)))


def traced(cost, low, high=None):
    values = {"trace_overhead": cost, "trace_overhead_low": low}
    values["trace_overhead_high"] = 2 * cost - low if high is None else high
    return ("scaling", scaling(cell(**values)))


def incident(kind):
    return ("incidents", table("incidents", {"file": "f", "line": 3, "kind": kind}))


TINY_BUCKETS = DdpFacts(gradient_bytes=45_000_000, bucket_cap_mb=0.01)


def failed_with(reason):
    """The manifest of a run of an older version whose launch failed for that reason, by rank 1."""
    record = pass_record("p", [segment("s")])
    record.segments[0].failure = with_kind(Failure(reason=reason, rank=1))
    return manifest(passes=[record])


def slow_start(later_ms):
    """The first 20 steps of 40 are left out as warm-up; rank 1 is later in its data phase there."""
    rng = np.random.default_rng(0)
    ms, rows, begin = 1_000_000, [], 0
    for step in range(40):
        data = np.array([5.0, 5.0 + later_ms * (step < 20)]) + rng.normal(0, 0.2, 2)
        whole = round((data.max() + 12) * ms)
        for rank in range(2):
            phases = {"data_ns": round(data[rank] * ms), "forward_ns": 10 * ms}
            times = {"start_ns": begin, "dur_ns": whole, "num_steps": 1}
            waits = {"blocked_ns": whole - sum(phases.values())}
            rows.append({**NAMES, "rank": rank, "step": step, **times, **phases, **waits})
        begin += whole
    of_job = [{**NAMES, "step": step, "steady": step >= 20} for step in range(40)]
    return evidence([("job_steps", table("job_steps", *of_job))], steps=table("steps", *rows))


def steps_of_ranks(*ends, **values):
    """As many steps of each rank."""
    rows = [
        {**NAMES, "rank": rank, "step": step, "num_steps": 1}
        for rank, end in enumerate(ends)
        for step in range(end)
    ]
    return evidence(steps=table("steps", *rows), **values)


CASES = {
    "small-buckets": lambda: (
        evidence(under_ddp("exposed-transfer", 0.4), ddp=TINY_BUCKETS),
        evidence(under_ddp("exposed-transfer", 0.4)),
    ),
    "persistent-straggler": lambda: (
        evidence([straggler("persistent")]),
        evidence([straggler("persistent", share=0.04)]),
    ),
    "transient-straggler": lambda: (
        evidence([straggler("irregular")]),
        evidence([straggler("persistent")]),
    ),
    "rotating-stragglers": lambda: (
        evidence([term("jitter", 0.12)]),
        evidence([term("jitter", 0.04)]),
    ),
    "input-bound": lambda: (
        evidence([term("input-bound", 0.3)]),
        evidence([term("input-bound", 0.04)]),
    ),
    "outside-phases": lambda: (
        evidence([term("outside", 0.3)]),
        evidence([term("outside", 0.3, low=-0.1)]),
    ),
    "exposed-transfer": lambda: (
        evidence([term("exposed-transfer", 0.4)], ranks=ranks(0, 0, hosts=("node1", "node2"))),
        evidence([term("exposed-transfer", 0.4, low=-0.1)]),
    ),
    "network-bound": lambda: (on_two_hosts(share=0.9), on_two_hosts(share=0.3)),
    "below-network": lambda: (on_two_hosts(share=0.3), on_two_hosts(share=0.9)),
    "gloo-transfer": lambda: (
        evidence([term("exposed-transfer", 0.4)], controller="gloo"),
        evidence([term("exposed-transfer", 0.4)], controller="mpi"),
    ),
    "shared-memory-transfer": lambda: (
        evidence([term("exposed-transfer", 0.4)], controller="mpi"),
        evidence([term("exposed-transfer", 0.4)], controller="gloo"),
    ),
    # A step of 36.9 ms is not short against a cycle of 1 ms.
    "cycle-bound": lambda: (
        evidence([term("exposed-transfer", 0.1), ("scaling", steps_of(19e6))]),
        evidence([term("exposed-transfer", 0.1), ("scaling", steps_of(36.9e6))]),
    ),
    "compute-inflation": lambda: (
        evidence([term("compute-inflation", 0.11)]),
        evidence([term("compute-inflation", -0.11)]),
    ),
    "slow-host-link": lambda: (
        evidence([links_of([1e8, 1e8, 2e7])]),
        evidence([links_of([1e8] * 3)]),
    ),
    "far-host": lambda: (
        evidence([links_of([1e9] * 4, delays_ns=(10_000, 10_000, 10_000, 900_000))]),
        evidence([links_of([1e9] * 4, delays_ns=(10_000, 10_000, 10_000, 30_000))]),
    ),
    "size-cliff": lambda: (evidence([sizes(0.6)]), evidence([sizes(0.87)])),
    "fusion-too-small": lambda: (
        evidence(environment={"HOROVOD_FUSION_THRESHOLD": "0"}),
        evidence(environment={"HOROVOD_FUSION_THRESHOLD": "67108864"}),
    ),
    "cycle-too-long": lambda: (
        evidence(environment={"HOROVOD_CYCLE_TIME": "50"}),
        evidence(environment={"HOROVOD_CYCLE_TIME": "2.5"}),
    ),
    "cache-off": lambda: (
        evidence(environment={"HOROVOD_CACHE_CAPACITY": "0"}),
        evidence(environment={"HOROVOD_CACHE_CAPACITY": "0"}, mode="attribution"),
    ),
    "autotune-active": lambda: (
        evidence([("autotune", table("autotune", {"file": "a.csv", "final": False}))]),
        evidence([("autotune", table("autotune", {"file": "a.csv", "final": True}))]),
    ),
    "timeline-slows": lambda: (evidence([traced(0.9, 0.5)]), evidence([traced(0.9, -0.2)])),
    "many-small-messages": lambda: (
        evidence([("collectives", collectives(1000))]),
        evidence([("collectives", collectives(10_000_000))]),
    ),
    "stalled-steps": lambda: (long_steps(range(5, 100, 20)), long_steps([50])),
    "slow-start": lambda: (slow_start(70.0), slow_start(0.4)),
    "uneven-steps": lambda: (steps_of_ranks(12, 16), steps_of_ranks(15, 16)),
    "evaluation-excluded": lambda: (
        evidence(**evaluated_steps([60.0, 60.0])),
        evidence(**evaluated_steps([5.0, 5.0])),
    ),
    "evaluation-straggler": lambda: (
        evidence(**evaluated_steps([10.0, 60.0])),
        evidence(**evaluated_steps([60.0, 60.0])),
    ),
    "fusion-too-large": lambda: (one_large_collective(0.05), one_large_collective(0.7)),
    "stalled-tensors": lambda: (
        evidence([("stalls", table("stalls", {"file": "f", "line": 1, "stalled_rank": 1}))]),
        evidence(),
    ),
    "unequal-batches": lambda: (
        evidence(
            [], manifest=failed_with("rank 0 lost a peer; unequal numbers of batches per rank: x")
        ),
        evidence([], manifest=failed_with("rank 0 lost a peer")),
    ),
    "cache-evictions": lambda: (
        evidence([incident("cache-eviction")]),
        evidence([incident("mpi")]),
    ),
    "fp16-costs": lambda: (
        evidence([toggled(800.0, compression="fp16")]),
        evidence([toggled(1030.0, compression="fp16")]),
    ),
    "adasum-costs": lambda: (
        evidence([toggled(500.0, reduction="adasum")]),
        evidence([toggled(1100.0, reduction="adasum")]),
    ),
    "oversubscribed": lambda: (
        evidence([("scaling", scaling(cell(oversubscribed=True)))]),
        evidence(),
    ),
    "same-hostname": lambda: (evidence(ranks=ranks(0, 0)), evidence(ranks=ranks(0, 1))),
    "timeline-tail-lost": lambda: (
        evidence(notes=(Note(NoteCode.NEVER_END, "s.json: 3 events have no end.", number=3),)),
        evidence(notes=(Note(NoteCode.NEVER_BEGIN, "s.json: 3 events never end.", number=3),)),
    ),
    "no-rank-evidence": lambda: (
        evidence(segments=segments(num_ranks_recorded=1)),
        evidence(segments=segments(num_ranks_recorded=2)),
    ),
    "faults-injected": lambda: (
        evidence(notes=(Note(NoteCode.FAULTS_INJECTED, "Said so.", "p", value=FAULTS),)),
        evidence(notes=(Note(NoteCode.RECORDER_PROBLEM, "p: no hook.", "p", value=FAULTS),)),
    ),
    "clocks-contradict": lambda: (
        evidence([clocks(True, False)]),
        evidence([clocks(True, True)]),
    ),
    "memory-grows": lambda: (
        evidence([sampled("rss", **GROWING)]),
        evidence([sampled("rss", **{**GROWING, "last_growth": 0.0})]),
    ),
    "host-swaps": lambda: (evidence([swapping(2e6)]), evidence([swapping(0.9e6)])),
    "allocation-retries": lambda: (
        evidence([sampled("torch_retries", mean=0.01)]),
        evidence([sampled("torch_retries", mean=0.0)]),
    ),
    "unequal-memory": lambda: (
        evidence([sampled("torch_peak", high=6.1e9, others=5e9)]),
        evidence([sampled("torch_peak", high=5.9e9, others=5e9)]),
    ),
    "gpu-error": lambda: (
        evidence([sampled("xid", high=79.0)]),
        evidence([sampled("xid", high=0.0)]),
    ),
}
"""By rule, a function: evidence that triggers it, and evidence just below."""


@pytest.mark.heavy
def test_every_rule_is_triggered_by_its_case_and_by_no_evidence_just_below():
    wrong = []
    for rule, case in CASES.items():
        triggering, below = case()
        rows = findings(triggering)
        rows = rows[rows["id"] == rule]
        if rows.empty or rule in ids(below):
            wrong.append((rule, "not triggered" if rows.empty else "triggered just below"))
            continue
        row = rows.iloc[0]
        faults = style_faults(row)
        if "nan" in (row["title"] + row["evidence"]).lower():
            faults = [*faults, "nan"]
        wrong += [(rule, fault) for fault in faults]
    assert wrong == []


@pytest.mark.heavy
def test_on_a_script_no_rule_names_the_command_of_the_reference_models():
    named = set()
    for rule, case in CASES.items():
        given, _ = case()
        settings = given.run.manifest.settings | {"script": {"command": ["python", "train.py"]}}
        of_script = replace(given.run, manifest=replace(given.run.manifest, settings=settings))
        for one in (given, replace(given, run=of_script)):
            for row in findings(one).to_dict("records"):
                text = " ".join(str(value) for value in row.values())
                named |= {(rule, one is given)} if "hvdprof bench" in text else set()
    assert named == {(rule, True) for rule in ("size-cliff", "fusion-too-large", "small-buckets")}


def test_a_healthy_run_gives_nothing():
    assert ids(evidence()) == []


def test_every_rule_of_the_manual_has_a_case_and_every_case_is_in_the_manual():
    documented = {
        line.split("`")[1]
        for line in MANUAL.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    }
    assert documented == set(CASES)


def test_findings_come_with_cost_and_gain_and_the_costliest_first():
    both = [term("jitter", 0.25)[1], term("exposed-transfer", 0.4, saved_if_removed_share=0.3)[1]]
    given = evidence([("waterfall", pd.concat(both, ignore_index=True))])

    rows = findings(given)

    assert list(rows["id"]) == ["shared-memory-transfer", "rotating-stragglers"]
    assert rows.loc[0, "cost_share"] == 0.4
    assert rows.loc[0, "gain_share"] == 0.3
    assert (rows.loc[0, "model"], rows.loc[0, "np"]) == ("resnet18", 2)


def test_severity_follows_cost():
    assert [severity_of_cost(share) for share in (0.06, 0.1, 0.2)] == ["note", "warning", "error"]
    finding = Finding("a", "note", "", "", "", "", "certain")
    worse = replace(finding, severity="error", cost_share=0.3)
    assert sorted([finding, worse], key=by_gravity) == [worse, finding]


def test_faults_injected_into_many_ranks_are_reported_once():
    passes = ("01-np2-throughput-r1", "02-np2-trace-r1")
    notes = [
        Note(NoteCode.FAULTS_INJECTED, f"{name}: rank {rank}.", name, rank, value=FAULTS)
        for name in passes
        for rank in range(2)
    ]

    (row,) = findings(evidence(notes=tuple(notes))).to_dict("records")

    assert row["evidence"].startswith("Faults were injected on purpose into 2 passes: sleep:")
    assert row["evidence"].count("amount=20ms") == 1
    assert row["quote"] == notes[0].text


def test_contradicting_clocks_name_their_launches_and_ranks():
    right, wrong = clocks(True, True)[1], clocks(True, False, True, False, pass_id="q")[1]
    frame = pd.concat([right.astype({"pass_id": str}), wrong.astype({"pass_id": str})])

    (row,) = findings(evidence([("clocks", frame)])).to_dict("records")

    assert "1 of 2 launches" in row["evidence"]
    assert row["subject"] == "ranks 1 and 3"
    assert "The first of them is q" in row["evidence"]


@pytest.mark.parametrize(
    ("error_ns", "title", "fix"),
    [
        (0, "Steps that do not match", "give all ranks equally many batches per epoch"),
        (900, "Contradicting clocks", "check the hosts' clocks"),
    ],
)
def test_one_clock_for_all_ranks_contradicts_nothing(error_ns, title, fix):
    frame = clocks(False, False, exchange_error_ns=error_ns, offset_low_ns=0, offset_high_ns=0)[1]

    (row,) = findings(evidence([("clocks", frame)])).to_dict("records")

    assert row["title"] == title
    assert row["fix"].startswith(fix)
    assert ("not the same step" in row["evidence"]) == (error_ns == 0)
    assert ("The clock exchange is wrong" in row["evidence"]) == (error_ns > 0)


@pytest.mark.parametrize(
    ("which", "words"),
    [
        (range(5, 100, 20), "at a distance of 20"),
        ([5, 30, 55], "at a distance of 25"),
        ([3, 50, 61, 97], ": single steps take"),
        # Of three stalls two distances as alike as these come by chance in one launch of eight.
        ([5, 35, 58], ": single steps take"),
    ],
)
def test_stalls_at_a_regular_interval_are_distinguished(which, words):
    row = findings(long_steps(which)).iloc[0]

    assert row["id"] == "stalled-steps"
    assert words in row["evidence"]
    assert "90.0 ms longer" in row["evidence"]


def test_the_rank_that_ends_first_is_named_with_its_steps():
    row = findings(steps_of_ranks(16, 12)).set_index("id").loc["uneven-steps"]

    assert row["subject"] == "rank 1"
    assert (
        "Rank 1 ended after 12 steps, rank 0 after 16, warm-up included, in p." in row["evidence"]
    )
    assert "in 1 of 1 launches" in row["evidence"]


@pytest.mark.parametrize("status", ["running", "partial", "failed"])
def test_of_a_launch_that_did_not_end_by_itself_no_rank_ended_first(status):
    assert "uneven-steps" not in ids(steps_of_ranks(16, 12, segments=segments(status=status)))


@pytest.mark.parametrize(("ended", "is_said"), [(True, True), (False, False)])
def test_a_recording_without_its_end_is_no_rank_that_ended_first(ended, is_said):
    given = steps_of_ranks(16, 12, ranks=ranks(0, 1, ended=ended))
    assert ("uneven-steps" in ids(given)) is is_said


def test_where_ranks_come_and_go_no_rank_ended_first():
    record = pass_record("p", [segment("s")], mode="throughput", session=0)
    given = steps_of_ranks(16, 12, manifest=manifest(passes=[record]))
    assert "uneven-steps" not in ids(given)


def test_a_rank_that_starts_slowly_is_named_with_the_steps_that_are_left_out():
    given = slow_start(70.0)
    row = findings(given).set_index("id").loc["slow-start"]

    assert "rank 1 takes 70.1 ms more per step than the others in steps 0 to 19" in row["evidence"]
    assert "data phase" in row["evidence"] and "The others wait 1.40 s" in row["evidence"]
    # Where it is named for the same behind them, that says it.
    known = term("straggler", 0.3, ranks="1", phase="data", pattern="persistent")[1]
    named = replace(given, tables={**given.tables, "waterfall": known})
    assert "slow-start" not in ids(named)


@pytest.mark.parametrize(("baseline", "is_said"), [("horovod np=1", True), ("torch np=1", False)])
def test_stalls_of_the_baseline_say_that_they_raise_the_efficiency(baseline, is_said):
    times = [30_000_000 * (4 if step in range(5, 100, 20) else 1) for step in range(100)]
    rows = [
        {**NAMES, "step": step, "dur_ns": time, "steady": True} for step, time in enumerate(times)
    ]
    tables = [
        ("job_steps", table("job_steps", *rows)),
        ("scaling", scaling(cell(baseline=baseline))),
    ]
    found = findings(evidence(tables, segments=segments(size=1))).set_index("id")

    text = found.loc["stalled-steps", "evidence"]
    assert ("their scaling efficiency is too high" in text) == is_said


def exposed(**values):
    (row,) = findings(evidence([term("exposed-transfer", 0.4)], **values)).to_dict("records")
    return row


def test_on_one_host_of_cpus_no_network_and_no_nccl_is_spoken_of():
    for controller, by in (("mpi", "shared memory"), ("gloo", "loopback")):
        row = exposed(controller=controller)
        assert by in row["evidence"]
        assert "NCCL" not in row["evidence"] + row["action"]
        assert "On one host no faster network helps" in row["action"]
        assert "hvdprof net" not in row["action"]


@pytest.mark.heavy
def test_cores_that_all_compute_are_named_where_the_ranks_take_them():
    crowded = exposed(ranks=ranks(0, 1, num_threads=1))
    spare = replace(manifest(), hosts=[{"hostname": "node1", "num_cores": 16}])
    record = pass_record("p", [segment("s")], mode="throughput", controller="mpi")
    roomy = exposed(ranks=ranks(0, 1, num_threads=1), manifest=replace(spare, passes=[record]))
    assert "which all compute" in crowded["evidence"]
    assert crowded["action"].startswith("Run fewer ranks than cores, so that")
    assert "OMP_NUM_THREADS" not in crowded["action"]
    threaded = exposed(ranks=ranks(0, 1, num_threads=2))
    assert threaded["action"].startswith("Set a smaller OMP_NUM_THREADS or run fewer ranks")
    assert "which all compute" not in roomy["evidence"]
    assert "OMP_NUM_THREADS" not in roomy["action"]


def test_advice_on_other_processes_is_in_the_caveat_not_in_each_finding():
    given = evidence([term("exposed-transfer", 0.4)], **crowded(1.7))
    (row,) = findings(given).to_dict("records")
    assert "End the other processes" not in row["action"]
    assert "Run fewer ranks" in row["action"]


@pytest.mark.parametrize(
    ("others", "device", "confidence"),
    [(1.7, "cpu", "possible"), (0.1, "cpu", "likely"), (1.7, "cuda:0", "likely")],
)
def test_transfers_on_cores_beside_other_processes_are_only_possible(others, device, confidence):
    beside = crowded(others) | {"ranks": ranks(0, 1, num_threads=1, device=device)}
    (row,) = findings(evidence([term("exposed-transfer", 0.4)], **beside)).to_dict("records")
    assert row["confidence"] == confidence


def test_between_gpus_of_one_host_nccl_is_named_and_the_cores_are_not():
    row = exposed(ranks=ranks(0, 1, device="cuda:0", backend="nccl"))
    assert row["title"] == "Exposed communication between GPUs of one host"
    assert "NCCL_DEBUG=INFO" in row["action"]
    assert "core" not in row["evidence"] + row["action"]


def test_between_hosts_without_a_measurement_it_is_asked_for():
    row = exposed(ranks=ranks(0, 0, hosts=("node1", "node2")))
    assert "between 2 hosts" in row["evidence"]
    assert "hvdprof net --hosts" in row["action"]


def test_the_share_of_the_network_stands_as_evidence_with_its_interval():
    (row,) = findings(on_two_hosts(0.9)).to_dict("records")
    assert row["evidence"].endswith(
        "Large allreduces reach 20.0 MB/s of bus bandwidth. That is 90.0 % (85.0 to 95.0) of the "
        "25.0 MB/s that the same 2 hosts gave before the run."
    )


@pytest.mark.heavy
def test_a_host_slow_over_tcp_is_reported_once():
    of_tcp = links_of([1e8, 1e8, 2e7])[1]
    both = pd.concat([of_tcp, links_of([1e8, 1e8, 2e7], what="broadcast")[1]])
    (row,) = findings(evidence([("net_hosts", both)])).to_dict("records")
    assert row["subject"] == "h3"
    assert row["title"] == "Slow network link: h3"
    assert row["evidence"].startswith("The best of 2 pairs with h3 reaches 20.0 MB/s")
    assert "over TCP, 20.0 % (20.0 to 20.0) of what the other hosts have" in row["evidence"]
    assert "ethtool" in row["action"]


@pytest.mark.heavy
def test_a_host_slow_under_horovod_alone_is_no_network_fault():
    quick = links_of([1e8] * 3)[1]
    slow = links_of([1e8, 1e8, 2e7], what="broadcast")[1]
    (row,) = findings(evidence([("net_hosts", pd.concat([quick, slow]))])).to_dict("records")
    assert "over Horovod" in row["evidence"]
    assert "ethtool" not in row["action"]
    assert "HOROVOD_GLOO_IFACE" in row["action"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "memory bandwidth"),
        ({"ranks": ranks(0, 1, device="cuda:0")}, "nvidia-smi"),
        ({"ranks": ranks(0, 1, num_threads=1)}, "Run fewer ranks per host than it has cores."),
        ({"ranks": ranks(0, 1, num_threads=2)}, "Set a smaller OMP_NUM_THREADS"),
    ],
)
def test_compute_slowdown_names_where_the_ranks_ran(values, words):
    (row,) = findings(evidence([term("compute-inflation", 0.3)], **values)).to_dict("records")
    assert words in row["action"]
    assert ("nvidia-smi" in row["action"]) == (words == "nvidia-smi")
    assert row["confidence"] == "likely"
    assert row["evidence"].endswith("30.0 % (15.0 or more) of the step.")


def test_compute_slowdown_beside_other_processes_names_them_first():
    given = evidence([term("compute-inflation", 0.3)], **crowded(1.7))
    (row,) = findings(given).to_dict("records")
    # The caveat of the verdict and a warning hold their number: once is enough.
    assert "Other processes" not in row["evidence"]
    assert "End the other processes" in row["action"]
    assert row["confidence"] == "possible"


@pytest.mark.parametrize(("others", "cores"), [(0.1, 2), (1.7, 64), (None, 2)])
def test_other_processes_on_spare_cores_are_not_reported_as_the_cause(others, cores):
    given = evidence([term("compute-inflation", 0.3)], **crowded(others, cores))
    (row,) = findings(given).to_dict("records")
    assert "processes" not in row["evidence"] + row["action"]


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("compute-inflation", "run fewer ranks per host than it has cores"),
        ("exposed-transfer", "run fewer ranks than cores, so that Horovod's threads get cores"),
        ("jitter", "even out the work per sample (bucket by length, equal shards)"),
    ],
)
def test_a_load_too_small_for_the_loss_is_neither_cause_nor_fix(name, fix):
    (row,) = findings(evidence([term(name, 0.26)], **crowded(0.24))).to_dict("records")
    assert row["fix"] == fix
    assert "other processes or use" not in row["action"]
    assert row["confidence"] == "likely"


def test_stalls_are_a_mean_over_all_launches_of_the_cell():
    times = [30_000_000 * (4 if step in (3, 50, 61, 97) else 1) for step in range(100)]
    launches = [("s", times), ("t", [30_000_000] * 100)]
    steps = table(
        "job_steps",
        *(
            {**NAMES, "segment": name, "step": step, "dur_ns": time, "steady": True}
            for name, lengths in launches
            for step, time in enumerate(lengths)
        ),
    )
    own = [segments(size=1, segment=name).astype(object) for name in "st"]
    declared = next(one for one in TABLES if one.name == "segments")
    given = evidence([("job_steps", steps)], segments=declared.frame(pd.concat(own)))
    (row,) = findings(given).to_dict("records")
    assert row["cost_share"] == pytest.approx(4 * 90 / (100 * 30 + 4 * 90) / 2)
    assert row["evidence"].endswith("4 such steps occur in 1 of 2 launches.")


def test_an_error_without_a_cost_comes_before_every_loss():
    hang = Finding("a", "error", "", "", "", "", "certain")
    loss = replace(hang, cost_share=0.9)
    warning = replace(hang, severity="warning")
    assert sorted([warning, loss, hang], key=by_gravity) == [hang, loss, warning]


def test_findings_of_one_rank_come_last_within_their_severity():
    one = Finding("a", "error", "", "", "", "", "certain", np=1, cost_share=0.9)
    two = replace(one, np=2, cost_share=0.3)
    note = replace(two, severity="note")
    assert sorted([one, note, two], key=by_gravity) == [two, one, note]


def test_rotating_stragglers_beside_other_processes_are_only_possible():
    (row,) = findings(evidence([term("jitter", 0.3)], **crowded(1.7))).to_dict("records")
    # The caveat of the verdict and a warning hold their number: once is enough.
    assert "Other processes" not in row["evidence"]
    assert "End the other processes" not in row["action"]
    assert row["confidence"] == "possible"


@pytest.mark.parametrize(("load", "is_alone"), [(0.05, True), (1.7, False), (None, False)])
def test_ranks_without_cores_are_sent_to_their_own_threads_where_nothing_else_ran(
    monkeypatch, load, is_alone
):
    monkeypatch.setattr(causes_rules, "cores_of_ranks", lambda *_: 0.4)
    beside = {} if load is None else crowded(load)
    (row,) = findings(evidence([term("jitter", 0.3)], **beside)).to_dict("records")
    assert ("Other processes used at most 0.2 cores" in row["evidence"]) is is_alone
    assert row["action"].startswith("Run fewer ranks" if is_alone else "Give the ranks cores")


def test_a_handful_of_steps_has_no_rotating_stragglers():
    few = evidence([term("jitter", 0.3), ("scaling", scaling(cell(num_steps=7)))])
    enough = evidence([term("jitter", 0.3), ("scaling", scaling(cell(num_steps=8)))])
    assert "rotating-stragglers" not in ids(few)
    assert "rotating-stragglers" in ids(enough)


def twice(status):
    """Two launches of the cell, the second one with this status."""
    both = [segments(size=1, segment="s"), segments(size=1, segment="t", status=status)]
    frame = pd.concat([one.astype(object) for one in both])
    return next(one for one in TABLES if one.name == "segments").frame(frame)


@pytest.mark.heavy
@pytest.mark.parametrize(("status", "expected"), [("failed", []), ("partial", ["stalled-steps"])])
def test_a_launch_that_failed_speaks_for_no_cell(status, expected):
    slow = long_steps(range(5, 100, 20)).tables["job_steps"].assign(segment="t")
    quick = long_steps([]).tables["job_steps"]
    steps = [("job_steps", pd.concat([quick, slow], ignore_index=True))]
    assert ids(evidence(steps, segments=twice(status))) == expected


@pytest.mark.slow
def test_memory_is_pinned_for_gpus_alone():
    for device, on_gpu in (("cpu", False), ("cuda:0", True)):
        given = evidence([term("input-bound", 0.3)], ranks=ranks(0, 1, device=device))
        (row,) = findings(given).to_dict("records")
        assert ("pin_memory" in row["action"]) == on_gpu


def test_a_trace_overhead_that_is_not_known_slows_nothing():
    assert "timeline-slows" in ids(evidence([traced(0.5, 0.1, 0.9)]))
    assert "timeline-slows" not in ids(evidence([traced(0.74, 0.01, 1.98)]))


@pytest.mark.parametrize("has_batches", [True, False])
def test_ranks_with_batches_ready_do_not_wait_for_data(monkeypatch, has_batches):
    stages = InputEvidence("Seen.", advice("pin less"), has_batches=has_batches)
    rules = "hvdprof.analyze.findings.run_rules.shared_phase_rules"
    monkeypatch.setattr(f"{rules}.input_evidence", lambda *_: stages)
    (row,) = findings(evidence([term("input-bound", 0.3)])).to_dict("records")
    ready, waits = "taking over batches that are ready", "every rank waits for data"
    assert row["title"] == f"Input-bound: {ready if has_batches else waits}"
    assert row["confidence"] == ("possible" if has_batches else "certain")


@pytest.mark.parametrize("name", ["input-bound", "outside"])
def test_a_loss_of_scaling_is_named_apart_from_what_the_baseline_has(name):
    given = evidence([term(name, 0.2, baseline_share=0.3, baseline_ns=0.3 * 31e6)])
    (row,) = findings(given).to_dict("records")

    assert "more than the baseline" in row["evidence"]
    assert row["evidence"].endswith("With what the baseline spends, it is 50.0 % of the step.")
    assert row["cost_ns"] == pytest.approx(0.2 * 31e6)
    assert row["gain_share"] == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["input-bound", "outside"])
def test_what_the_baseline_has_as_well_is_named_once_as_no_loss_of_scaling(name):
    shared = {"low": -0.01, "baseline_share": 0.3, "baseline_ns": 0.3 * 31e6}
    given = evidence([term(name, 0.01, **shared)])
    (row,) = findings(given).to_dict("records")

    assert "spend 31.0 % of the step" in row["evidence"]
    assert row["evidence"].endswith("The baseline spends 30.0 % there as well: no loss of scaling.")
    assert (row["severity"], row["cost_share"]) == ("error", pytest.approx(0.31))
    assert not len(findings(evidence([term(name, 0.01, **(shared | {"baseline_share": 0.05}))])))


@pytest.mark.parametrize(("copying", "is_named"), [(0.2, True), (0.01, False)])
def test_copies_for_fusion_are_named_where_they_are_much(copying, is_named):
    given = evidence([term("exposed-transfer", 0.4, executing_share=0.8, copying_share=copying)])
    (text,) = findings(given)["evidence"]

    named = "in 80 % of that time, 20 % with copies for fusion. Negotiation"
    assert (named in text) == is_named
    assert ("copies" in text) == is_named


def test_input_bound_ranks_are_named_with_more_ranks_than_cores_too():
    crowded_cell = ("scaling", scaling(cell(oversubscribed=True)))
    rows = findings(evidence([crowded_cell, term("input-bound", 0.3)]))
    (row,) = rows[rows["id"] == "input-bound"].to_dict("records")
    assert "(oversubscribed)" in row["evidence"]
    assert row["confidence"] == "possible"


def test_the_cost_of_a_cliff_is_the_step_time_above_the_size_before():
    (row,) = findings(evidence([sizes(0.6)])).to_dict("records")
    assert row["cost_share"] == pytest.approx(1 - 0.6 / 0.9)
    assert row["cost_ns"] == pytest.approx((1 - 0.6 / 0.9) * 31e6)


@pytest.mark.heavy
def test_ranks_that_were_ready_are_not_called_missing():
    rows = [{"file": "f", "line": 1, "state": "ready", "stalled_rank": rank} for rank in (0, 2)]
    (row,) = findings(evidence([("stalls", table("stalls", *rows))])).to_dict("records")
    assert row["evidence"] == "Horovod's stall check warned once that tensors stalled."
    many = [{"file": "f", "state": "missing", "stalled_rank": rank} for rank in range(512)]
    (row,) = findings(evidence([("stalls", table("stalls", *many))])).to_dict("records")
    assert "missing on ranks 0-511." in row["evidence"]


STALL = "stall at step 5 of main: rank 0 blocked for 20.0 s on stalled rank 1"


def stalled(*tensors, cause=StallCause.RANK, file="passes/p/stalls.jsonl", **values):
    """What a watchdog's or a log's line on one stall gives."""
    at = {"file": file, "line": 1}
    rows = [
        {**at, "state": "missing", "stalled_rank": 1, "tensor": tensor, "waited_s": 60.5}
        for tensor in tensors
    ]
    seen = {**at, "kind": "stall", "failed_rank": 1, "message": STALL, "cause": cause, **values}
    frames = [("stalls", table("stalls", *rows)), ("incidents", table("incidents", seen))]
    (row,) = findings(evidence(frames)).to_dict("records")
    assert style_faults(row) == []
    return row


@pytest.mark.heavy
def test_a_stall_that_the_watchdog_saw_is_not_a_warning_of_horovod():
    stack = "rank 1 in backward: /job/train.py:15 backward"
    row = stalled("fc.weight", "fc.bias", stack=stack)
    assert row["subject"] == "rank 1"
    assert row["evidence"] == (
        f"hvdprof's watchdog saw a stall. S{STALL[1:]}. The first stalled tensor is fc.weight."
    )
    assert (row["lead"], row["quote"]) == (f"S{STALL[1:]}.", stack)
    assert "the quoted line of code" in row["action"]
    silent = stalled()
    assert (silent["title"], silent["quote"]) == ("Stalled tensors", "")
    assert "Look at what the missing ranks did" in silent["action"]
    log = stalled("fc.weight", message="One or more tensors", file="stderr.txt", cause="")
    assert log["evidence"].startswith(
        "Horovod's stall check warned once that tensors stalled for 60.5 s or more, missing on "
        "rank 1."
    )
    assert log["quote"] == "One or more tensors"


@pytest.mark.heavy
def test_the_last_stall_of_a_launch_that_hung_is_an_error():
    file = "passes/p/stalls.jsonl"
    stall = {"file": file, "kind": "stall", "message": STALL, "cause": StallCause.RANK}
    seen = [
        {**stall, "line": line, "failed_rank": line, "stack": stack}
        for line, stack in enumerate(("rank 0: a.py:1 load", "rank 1: b.py:7"))
    ]
    for reason, severity, quote in (
        ("no progress on any rank for 70.0 s; rank 0 had done 39 steps", "error", "rank 1: b.py:7"),
        ("rank 1 raised ValueError", "warning", "rank 0: a.py:1 load"),
    ):
        frames = [("incidents", table("incidents", *seen))]
        given = evidence(frames, manifest=failed_with(reason))
        (row,) = findings(given).to_dict("records")
        assert (row["severity"], row["quote"]) == (severity, quote)


@pytest.mark.heavy
def test_a_stall_in_which_the_user_ended_the_job_is_an_error():
    place = {"hanging_rank": 1, "hangs_at": "data.py:33 (load, data phase)"}
    row = stalled(**place)
    assert (row["severity"], row["lead"]) == ("warning", f"S{STALL[1:]}.")
    row = stalled(**place, until_end=True)
    hangs = "Rank 1 hangs at data.py:33 (load, data phase)."
    assert (row["severity"], row["lead"]) == ("error", f"S{STALL[1:]}. {hangs}")
    assert stalled(until_end=True)["lead"] == f"S{STALL[1:]}."


@pytest.mark.heavy
def test_the_fix_of_a_hang_in_a_checkpoint_is_to_write_it_less_often():
    row = stalled(cause=StallCause.CHECKPOINT, stack="rank 0: /t.py:9 save")
    assert row["action"].startswith("Write the checkpoint less often")


def test_unequal_numbers_of_batches_lead_with_their_fix():
    row = stalled(cause=StallCause.UNEQUAL, stack="rank 1: /job/t.py:15 save")
    assert (row["id"], row["title"]) == ("unequal-batches", "Unequal numbers of batches")
    assert row["action"].startswith("Give every rank as many batches: drop_last=True")


def test_a_job_that_failed_by_unequal_numbers_of_batches_says_so():
    what = "unequal numbers of batches per rank: rank 1 had ended the training loop after 39 steps"
    given = evidence([], manifest=failed_with(f"rank 0 lost a peer; {what}"))
    (row,) = findings(given).to_dict("records")
    assert style_faults(row) == []
    assert (row["id"], row["severity"], row["subject"]) == ("unequal-batches", "error", "rank 1")
    assert row["evidence"] == f"{what[0].upper()}{what[1:]}."


def test_a_stall_without_a_stalled_rank_is_a_hung_collective():
    row = stalled(cause=StallCause.COLLECTIVE, failed_rank=None)
    assert (row["title"], row["subject"]) == ("Hung collective", "ranks")
    assert "network" in row["action"]


def test_ranks_in_different_collectives_are_no_hung_collective():
    row = stalled(cause=StallCause.MISMATCH, failed_rank=None)
    assert (row["title"], row["subject"]) == ("Mismatched collectives", "ranks")
    assert row["action"].startswith("Call the same collectives in the same order on every rank.")


def test_a_controller_that_is_not_known_is_not_called_mpi():
    row = exposed(controller="")
    assert row["id"] == "exposed-transfer"
    assert "MPI" not in row["evidence"] + row["action"]


def test_collectives_of_one_rank_send_nothing():
    alone = evidence([("collectives", collectives(1000))], segments=segments(size=1))
    assert "many-small-messages" not in ids(alone)


def small_collectives(step_ns=100e6, environment=None, launches=("s",)):
    rows = pd.concat([collectives(1000).assign(segment=name) for name in launches])
    given = evidence(
        [("collectives", rows), ("scaling", steps_of(step_ns))],
        environment=environment,
        segments=pd.concat([segments().assign(segment=name) for name in launches]),
    )
    table_of = findings(given)
    (row,) = table_of[table_of["id"] == "many-small-messages"].to_dict("records")
    return row


@pytest.mark.heavy
def test_many_small_collectives_of_a_run_are_one_finding():
    assert small_collectives()["evidence"] == (
        "resnet18 on 2 ranks: 30 of 30 collectives per step carry less than 65.5 kB. Their latency "
        "dominates, not the bandwidth."
    )
    evidence_of_three = small_collectives(launches=("s", "t", "u"))["evidence"]
    assert evidence_of_three.endswith("The same holds for 2 other launches.")


@pytest.mark.parametrize(
    ("executing_share", "is_cycle"), [(math.nan, False), (0.1, False), (0.7, True)]
)
def test_a_wait_of_many_cycles_is_not_for_the_cycle(executing_share, is_cycle):
    # 9.3 ms in a step of 19 ms: cycles of 1 ms explain a few of them, and what executes is none.
    exposed = term("exposed-transfer", 0.3, executing_share=executing_share)
    given = evidence([exposed, ("scaling", steps_of(19e6))])
    assert ("cycle-bound" in ids(given)) == is_cycle


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("step_ns", "environment", "begin"),
    [
        (100e6, {}, "Set HOROVOD_CYCLE_TIME=2.5 or pass groups="),
        (100e6, {"HOROVOD_CYCLE_TIME": "5"}, "Set HOROVOD_CYCLE_TIME=10 or pass groups="),
        (9e6, {}, "Pass groups="),
        (100e6, {"HOROVOD_CYCLE_TIME": "10"}, "Pass groups="),
    ],
)
def test_a_cycle_is_advised_that_the_run_did_not_have_and_its_step_can_bear(
    step_ns, environment, begin
):
    assert small_collectives(step_ns, environment)["action"].startswith(begin)


def test_settings_of_horovod_say_nothing_of_ddp_alone():
    given = {
        "HOROVOD_FUSION_THRESHOLD": "0",
        "HOROVOD_CYCLE_TIME": "50",
        "HOROVOD_CACHE_CAPACITY": "0",
    }
    ddp = pass_record(
        "p", [segment("s", engine="ddp")], mode="throughput", controller="gloo", environment=given
    )
    under_ddp = manifest(passes=[ddp], environment=given)
    assert ids(evidence(environment=given)) != []
    assert ids(evidence(manifest=under_ddp, segments=segments(engine="ddp"))) == []


def test_one_rank_is_not_called_ranks():
    alone = cell(np=1, trace_overhead=0.9, trace_overhead_low=0.5)
    (row,) = findings(evidence([("scaling", scaling(alone))])).to_dict("records")
    assert row["evidence"].startswith("resnet18 on 1 rank: the pass")


@pytest.mark.parametrize(
    ("pinned", "num_cores", "is_said"),
    [
        ({"num_threads": 1, "num_affinity_cores": 1}, 4, True),
        # No mask; more threads than cores; a mask of all cores; unknown threads.
        ({"num_threads": 1, "num_affinity_cores": 0}, 4, False),
        ({"num_threads": 4, "num_affinity_cores": 2}, 4, False),
        ({"num_threads": 1, "num_affinity_cores": 4}, 4, False),
        ({"num_threads": -1, "num_affinity_cores": 1}, 4, False),
        ({"num_threads": 1, "num_affinity_cores": 1}, 1, False),
    ],
)
def test_ranks_pinned_to_too_few_cores_are_not_too_many_for_the_host(pinned, num_cores, is_said):
    host = {"hostname": "node1", "num_cores": num_cores}
    record = pass_record("p", [segment("s")], mode="throughput", controller="mpi", environment={})
    found = findings(
        evidence(
            [("scaling", scaling(cell(oversubscribed=True)))],
            ranks=ranks(0, 1, device="cpu", **pinned),
            manifest=manifest(passes=[record], hosts=[host]),
        )
    )
    (row,) = found[found["id"] == "oversubscribed"].to_dict("records")
    assert (row["title"] == "Ranks pinned to too few cores") == is_said
    assert row["fix"].startswith("give the ranks one core per thread") == is_said
    assert ("The host has 4 cores" in row["evidence"]) == is_said
    assert style_faults(row) == []
