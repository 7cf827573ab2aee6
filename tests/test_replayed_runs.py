"""Recorded runs with an injected truth: which rank is late, in which phase, and at which cost.

Each test names the test of real ranks which proves that such a run is recorded whole.
"""

import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.model.run import RunAnalysis
from tests.builders.recorded_runs import unpacked

pytestmark = pytest.mark.slow


def replayed(name: str, folder) -> RunAnalysis:
    return analyze_run(load_run(unpacked(name, folder)))


def is_late(analysis: RunAnalysis, phase: str, cost_ms: tuple[float, float]) -> None:
    """Whether rank 1 of two alone is a persistent straggler, at a cost between two."""
    stragglers = analysis.table("stragglers")
    of_two = stragglers[stragglers["pass_id"].astype(str).str.contains("np2")].set_index("rank")
    assert of_two.loc[1, ["pattern", "phase"]].tolist() == ["persistent", phase]
    assert of_two.loc[0, "pattern"] == "none"
    low_ms, high_ms = cost_ms
    assert low_ms < of_two.loc[1, "cost_ns"] / 1e6 < high_ms
    named = [str(one) for one in analysis.findings["id"] if "straggler" in str(one)]
    assert named == ["persistent-straggler"]


@pytest.mark.parametrize(
    ("name", "phase", "fault_ms"),
    [
        ("fsdp-slow-data", "data", 120),
        ("fsdp-slow-forward", "forward", 120),
        ("fsdp-slow-backward", "backward", 60),
    ],
)
def test_the_late_rank_of_fsdp_is_named_with_phase_and_cost(tmp_path, name, phase, fault_ms):
    """Recorded as `tests/test_run_fsdp.py` proves it."""
    analysis = replayed(name, tmp_path)

    assert f"rank 1, {phase} phase" in analysis.verdict.sentence, analysis.verdict.sentence
    is_late(analysis, phase, (0.7 * fault_ms, 1.6 * fault_ms))
    (lateness_ns,) = analysis.table("stragglers").query("rank == 1")["lateness_ns"]
    assert 0.7 * fault_ms < lateness_ns / 1e6 < 1.6 * fault_ms


@pytest.mark.parametrize(
    ("name", "phase", "fault_ms"),
    [
        ("ddp-slow-forward", "forward", 60),
        # Two micro-batches per update.
        ("ddp-slow-backward", "backward", 2 * 15),
        ("ddp-trainer-slow-data", "data", 60),
    ],
)
def test_the_late_rank_of_ddp_is_named_with_phase_and_cost(tmp_path, name, phase, fault_ms):
    """Recorded as `tests/test_run_ddp.py` proves it: loops, `no_sync()`, a trainer on mpirun."""
    analysis = replayed(name, tmp_path)

    loss = f"Largest loss: straggler (rank 1, {phase} phase)"
    assert loss in analysis.verdict.sentence, analysis.verdict.sentence
    is_late(analysis, phase, (0.7 * fault_ms, 1.3 * fault_ms))


def test_a_light_recording_names_the_late_rank_with_phase_and_cost(tmp_path):
    """Recorded as `test_a_light_recording_holds_windows_without_steps_and_gradients` proves it."""
    analysis = replayed("ddp-light-slow-update", tmp_path)

    assert "straggler (rank 1, before the update)" in analysis.verdict.sentence
    is_late(analysis, "before_update", (0.7 * 15, 1.3 * 15))


def test_a_clean_ddp_script_names_no_rank(tmp_path):
    """Recorded as the module fixture `clean` of `tests/test_run_ddp.py`."""
    findings = replayed("ddp-sweep", tmp_path).findings

    assert [one for one in findings["id"].astype(str) if "straggler" in one] == []


@pytest.mark.parametrize(
    ("name", "phase", "fault_ms"),
    [
        # Four micro-batches per update.
        ("horovod-accumulate-slow-forward", "forward", 4 * 30),
        ("horovod-by-hand-slow-between", "outside", 30),
        ("horovod-prefetch-slow-backward", "backward", 30),
    ],
)
def test_the_phase_of_a_straggler_is_right_in_every_loop(tmp_path, name, phase, fault_ms):
    """Recorded as `test_kinds_of_scripts_are_recorded_whole` proves it."""
    is_late(replayed(name, tmp_path), phase, (0.7 * fault_ms, 1.6 * fault_ms))


def test_both_engines_are_paired_and_name_the_late_rank(tmp_path):
    """Recorded as `tests/test_bench_engines.py` proves it."""
    analysis = replayed("bench-engines-late-rank", tmp_path)

    assert analysis.scaling["num_launches"].tolist() == [2, 2]
    (toggle,) = analysis.table("toggles").to_dict("records")
    assert (toggle["engine"], toggle["toggle"], toggle["num_pairs"]) == ("ddp", "ddp", 2)
    findings = analysis.findings
    late = findings[findings["id"].astype(str).str.endswith("-straggler")]
    assert set(late["subject"].astype(str)) == {"rank 1"}
    assert set(late["engine"]) == {"horovod", "ddp"}
    assert late["title"].str.endswith("rank 1, forward phase").all()
