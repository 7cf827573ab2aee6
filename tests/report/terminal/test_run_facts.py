from dataclasses import replace

import pytest

from hvdprof.model.tables.scaling_tables import SCALING
from hvdprof.model.tables.waiting_tables import CLOCKS
from hvdprof.report.terminal.run_facts import run_facts, run_label, stop_text
from hvdprof.rundir.stopping import Stop, StopReason
from tests.builders import finished_analysis

STOP = Stop(
    reason=StopReason.PRECISION,
    num_repeats=3,
    most_repeats=6,
    half_width=0.0243,
    precision=0.03,
    budget_s=300.0,
    elapsed_s=212.4,
)


def clocks(u_ns):
    row = dict.fromkeys(CLOCKS.column_names, 0) | {"pass_id": "a", "segment": "b", "u_ns": u_ns}
    return {"clocks": CLOCKS.frame([row])}


def facts(**values):
    return dict(run_facts(finished_analysis.full_analysis(**values)))


def test_host_conditions_and_trace_overhead_are_printed():
    printed = facts()
    assert printed["started"] == "2026-11-20 22:48:41 UTC"
    assert printed["hosts"] == "node1 (AMD EPYC, 2 cores)"
    assert "horovod 0.28.1" in printed["versions"]
    assert printed["settings"] == "weak scaling, 1 thread per rank"
    assert "resnet18 np=2: 1.2 ± 0.4 %" in printed["trace overhead"]
    assert "adasum" not in printed["trace overhead"]


def test_passes_are_counted_by_mode_and_controller():
    passes = [finished_analysis.pass_record(name, []) for name in "ab"]
    passes.append(finished_analysis.pass_record("c", [], mode="throughput", pinned=False))
    run = finished_analysis.run(manifest=finished_analysis.manifest(passes=passes))
    printed = facts(run=run)
    assert printed["measured"] == (
        "2 passes in trace mode under mpi; 1 pass in throughput mode under mpi"
    )
    assert printed["settings"].endswith("2 of 3 passes pinned")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"turn_s": 1.0, "no_turns": ""}, "took turns"),
        ({"turn_s": None, "no_turns": "they use GPUs"}, "one after the other: they use GPUs"),
        ({"turn_s": None, "no_turns": ""}, None),
    ],
)
def test_it_is_printed_whether_launches_took_turns(settings, text):
    run = finished_analysis.run(manifest=finished_analysis.manifest(settings=settings))
    assert facts(run=run).get("launches") == text


def test_clock_offsets_are_printed_with_their_error():
    assert facts(derived=clocks(0))["clocks"] == "all ranks read the same clock"
    assert facts(derived=clocks(120_000))["clocks"].startswith("ranks agree to 120 µs")
    assert "clocks" not in facts()


def test_trace_overhead_is_printed_per_engine():
    scaling = SCALING.frame(
        [
            finished_analysis.cell(engine=engine, trace_overhead=cost)
            for engine, cost in (("horovod", 0.012), ("ddp", 0.034))
        ]
    )
    printed = dict(run_facts(replace(finished_analysis.full_analysis(), scaling=scaling)))
    assert "resnet18 np=2: 1.2" in printed["trace overhead"]
    assert "resnet18 np=2 DDP: 3.4" in printed["trace overhead"]


@pytest.mark.parametrize(
    ("folder", "name", "label"),
    [
        ("20261123-041115-bench", "bench", "20261123-041115-bench"),
        ("monday", "attached", "attached (monday)"),
    ],
)
def test_a_run_is_named_by_its_folder(folder, name, label, tmp_path):
    run = replace(finished_analysis.analysis().run, folder=tmp_path / folder)
    assert run_label(replace(run, manifest=replace(run.manifest, name=name))) == label


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Stopped after 3 of at most 6 repeats: ±2.4 % reached (3 % asked)."),
        (
            {"reason": "budget", "half_width": 0.042, "elapsed_s": 300.2, "missing_s": 250.0},
            "Stopped at 5 min, after 3 repeats: ±4.2 % reached, 3 % needs about 4 min more.",
        ),
        (
            {"reason": "budget", "half_width": 0.131, "num_repeats": 1, "missing_s": 250.0},
            "Stopped at 3 min 32 s, after 1 repeat: ±13 % reached (3 % asked).",
        ),
        (
            {"reason": "repeats", "num_repeats": 6, "half_width": 0.04, "missing_s": 44.0},
            "Stopped after 6 of at most 6 repeats: ±4.0 % reached, 3 % needs about 40 s more.",
        ),
        (
            {"reason": "budget", "half_width": 0.84, "missing_s": 6_556_140.0},
            "Stopped at 3 min 32 s, after 3 repeats: ±84 % reached, 3 % is out of reach here (more "
            "than a day).",
        ),
        (
            {"reason": "budget", "precision": None, "half_width": 0.04},
            "Stopped at 3 min 32 s, after 3 repeats: ±4.0 % reached.",
        ),
        (
            {"reason": "nothing", "half_width": None},
            "Stopped after 3 repeats, with no efficiency to narrow.",
        ),
    ],
)
def test_why_a_run_stopped(changes: dict[str, object], text: str) -> None:
    assert stop_text(replace(STOP, **changes)) == text


def test_a_run_with_exact_repeats_says_nothing() -> None:
    assert stop_text(None) == ""
