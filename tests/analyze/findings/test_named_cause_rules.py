"""Findings on stragglers and pauses: one per row of WATERFALL."""

import pandas as pd
import pytest

from hvdprof.analyze.findings.advice import advice
from hvdprof.analyze.findings.machine_evidence import MachineEvidence
from hvdprof.analyze.pipeline import findings
from tests.analyze.findings.test_run_findings import (
    CELL,
    crowded,
    evidence,
    ranks,
    scaling,
    segments,
    straggler,
    table,
    term,
)
from tests.builders.finding_style import style_faults
from tests.builders.finished_analysis import cell

NAN = float("nan")


def only(*causes, launches=3, **values):
    """The finding on these rows, of a cell of so many launches."""
    rows = pd.concat([rows for name, rows in causes if name == "waterfall"], ignore_index=True)
    others = [one for one in causes if one[0] != "waterfall"]
    tables = [("waterfall", rows), ("scaling", scaling(cell(num_launches=launches))), *others]
    (row,) = findings(evidence(tables, **values)).to_dict("records")
    return row


def only_in(own, cause, *cells):
    """The finding on a row of WATERFALL of this cell, beside other cells."""
    tables = [cause, ("scaling", scaling(own, *cells))]
    (row,) = findings(evidence(tables)).to_dict("records")
    return row


def pause(pattern, **values):
    return straggler(pattern, term="pause", ranks="all", phase="outside", **values)


def test_the_evidence_says_who_how_often_how_late_and_where():
    row = only(straggler("persistent", num_launches=3))

    assert row["id"] == "persistent-straggler"
    assert row["subject"] == "rank 1"
    assert row["title"] == "Straggler: rank 1, data phase"
    assert row["evidence"] == (
        "resnet18 on 2 ranks: the other ranks wait for rank 1 in 90 % of the steps. "
        "This holds in 3 of 3 launches. The data phase explains 90 % of the delay."
    )
    assert row["cost_ns"] == pytest.approx(0.2 * 31e6)
    assert row["gain_share"] == 0.2
    assert row["confidence"] == "likely"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("cause", "id_", "title", "words", "action"),
    [
        (
            straggler("periodic", ranks="0", phase="outside", period_steps=20.0, num_events=9),
            "transient-straggler",
            "Rank 0 pauses every 20 steps, between steps",
            "There are 9 events in 1 of 3 launches, at a distance of 20 steps.",
            "Look for what only rank 0 does every 20 steps: a checkpoint, logging, evaluation.",
        ),
        (
            straggler("periodic", ranks="0", phase="evaluation", period_steps=10.0, num_events=5),
            "transient-straggler",
            "Rank 0 evaluates alone every 10 steps",
            "Time between steps with an evaluation explains 90 % of the delay.",
            "Split the evaluation among all ranks",
        ),
        (
            pause("periodic", period_steps=50.0),
            "stalled-steps",
            "All ranks pause every 50 steps, between steps",
            "all ranks pause in 90 % of the steps, for 6.00 ms each.",
            "Look for what all ranks do every 50 steps: evaluation, checkpoints,",
        ),
        (
            straggler("irregular", ranks="any", phase="forward", affected_share=0.07),
            "transient-straggler",
            "Any rank late in 7 % of steps, forward phase",
            "in 7 % of the steps one of the ranks is late, by 6.00 ms.",
            "Look for what shares the machine or the storage",
        ),
        (
            straggler("from-step", phase="forward", first_step=300),
            "persistent-straggler",
            "Straggler from step 300: rank 1, forward phase",
            "It begins at step 300, in 1 of 3 launches.",
            "Run `top -H` on the straggler's host during the job, and end what shares cores with",
        ),
        (
            pause("irregular", affected_share=0.02, num_events=1),
            "stalled-steps",
            "All ranks pause once, between steps",
            "There is 1 event in 1 of 3 launches.",
            "Look for what shares the machine",
        ),
        (
            straggler("persistent", ranks="0, 1, 2, 3", phase="backward"),
            "persistent-straggler",
            "Stragglers: 4 ranks, backward phase",
            "wait for ranks 0-3 in 90 % of the steps, each by 6.00 ms.",
            "Run `top -H` on ",
        ),
    ],
)
def test_titles_and_actions_follow_the_pattern(cause, id_, title, words, action):
    row = only(cause)

    assert (row["id"], row["title"]) == (id_, title)
    assert words in row["evidence"]
    assert row["action"].startswith(action)
    assert style_faults(row) == []


def test_a_pause_of_one_rank_is_no_pause_of_all():
    of_one = {"np": 1, "baseline": "", "num_launches": 3}
    row = only_in(cell(**of_one), pause("periodic", np=1, period_steps=50.0, affected_share=0.02))

    assert row["title"] == "Pauses every 50 steps, between steps"
    assert "on 1 rank: the rank pauses in 2 % of the steps, for 6.00 ms each." in row["evidence"]
    assert row["action"].startswith("Look for what the loop does every 50 steps: evaluation,")
    assert "all ranks" not in row["evidence"] + row["action"]
    assert "their scaling efficiency is too high" not in row["evidence"]
    assert style_faults(row) == []


def test_a_pause_of_the_baseline_raises_the_efficiency_of_more_ranks():
    own, two = (cell(np=size, baseline="horovod np=1") for size in (1, 2))
    row = only_in(own, pause("periodic", np=1, period_steps=50.0), two)

    assert "This cell is the baseline: unless more ranks stall as often" in row["evidence"]


@pytest.mark.parametrize("name", ["exposed-transfer", "compute-inflation", "jitter"])
def test_what_the_engine_costs_one_rank_is_no_finding(name):
    given = [term(name, 0.3, np=1), ("scaling", scaling(cell(np=1)))]
    assert findings(evidence(given)).empty


@pytest.mark.heavy
def test_a_straggler_does_not_accuse_all_ranks_of_a_second_thing():
    tables = [
        straggler("persistent")[1],
        term("jitter", 0.02)[1],
        term("exposed-transfer", 0.04)[1],
    ]
    found = findings(evidence([("waterfall", pd.concat(tables, ignore_index=True))]))

    assert list(found["id"]) == ["persistent-straggler"]


@pytest.mark.heavy
def test_the_uncertainty_over_launches_hides_no_straggler():
    row = only(straggler("persistent", low=-0.1))

    assert row["id"] == "persistent-straggler"


@pytest.mark.heavy
@pytest.mark.parametrize("oversubscribed", [False, True])
def test_a_straggler_of_an_oversubscribed_cell_has_a_caveat(oversubscribed):
    own = scaling(cell(oversubscribed=oversubscribed))
    found = findings(evidence([straggler("persistent"), ("scaling", own)])).set_index("id")

    evidence_text = found.loc["persistent-straggler", "evidence"]
    assert ("share cores or GPUs (oversubscribed)" in evidence_text) == oversubscribed


@pytest.mark.heavy
@pytest.mark.parametrize(("busy_cores", "competes"), [(0.5, False), (1.9, True)])
def test_ranks_that_mostly_wait_share_cores_without_a_caveat(busy_cores, competes):
    own = scaling(cell(oversubscribed=True, num_launches=3))
    given = segments(busy_cores=busy_cores)
    tables = [straggler("persistent", num_launches=3), ("scaling", own)]
    machine = crowded(0.05, ranks=ranks(0, 1))
    found = findings(evidence(tables, segments=given, **machine)).set_index("id")
    row = found.loc["persistent-straggler"]

    assert ("oversubscribed" in row["evidence"]) == competes
    assert row["confidence"] == ("possible" if competes else "likely")


@pytest.mark.heavy
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_a_straggler_on_a_host_without_gpus_gets_no_nvidia_smi_command(phase):
    cause = straggler("persistent", phase=phase)
    assert "nvidia-smi" not in only(cause)["action"]
    assert "/proc/cpuinfo" in only(cause)["action"]
    assert "nvidia-smi" in only(cause, ranks=ranks(0, 1, device="cuda:0"))["action"]


def test_the_hosts_of_the_ranks_are_named():
    own = {"ranks": ranks(0, 1, hosts=("node1", "node2"))}
    row = only(straggler("persistent", ranks="0, 1", phase="forward"), **own)
    assert "wait for ranks 0 and 1 (node1 and node2) in" in row["evidence"]
    assert row["action"].startswith("Run `top -H` on node1 and node2 during the job")
    assert "`grep MHz /proc/cpuinfo` with another" in row["action"]


def test_a_phase_longer_than_the_delay_is_explained():
    row = only(straggler("persistent", phase_share=1.38))
    assert (
        "The data phase explains all of the delay, and 38 % more that other phases offset."
        in row["evidence"]
    )


@pytest.mark.heavy
def test_a_rank_late_beside_other_processes_may_be_theirs():
    cause = straggler("persistent", num_launches=3)
    row = only(cause, **crowded(1.7))
    # The caveat of the verdict and a warning hold their number: once is enough.
    assert "Other processes" not in row["evidence"]
    assert row["action"].startswith("Compare the input of rank ")
    assert row["confidence"] == "possible"
    two_hosts = {"ranks": ranks(0, 0, hosts=("node1", "node2"), num_threads=1)}
    row = only(cause, **(crowded(1.7) | two_hosts))
    assert "other processes" not in (row["evidence"] + row["action"]).lower()


@pytest.mark.parametrize(("others", "action"), [(0.2, "Compare the work"), (0.3, "Run `top -H`")])
def test_other_processes_are_no_suspect_of_a_slow_forward_where_none_ran(others, action):
    row = only(straggler("persistent", phase="forward"), **crowded(others))

    assert row["action"].startswith(action)
    assert "pin every rank to its own cores" in row["action"].lower()
    assert style_faults(row) == []


@pytest.mark.parametrize(("others", "can_be"), [(0.36, True), (0.34, False)])
def test_a_cause_is_only_possible_where_other_processes_took_half_of_the_loss(others, can_be):
    # 0.15 cores are in use on an idle host, too: 0.2 of 0.4 are left.
    row = only(straggler("persistent", share=0.4, num_launches=3), **crowded(others))
    assert row["confidence"] == ("possible" if can_be else "likely")


def test_a_checkpoint_every_few_steps_is_no_other_process():
    own = straggler("periodic", phase="outside", period_steps=10.0, num_events=9)
    row = only(own, **crowded(1.7))
    assert row["action"].startswith("Look for what only rank ")
    assert "every 10 steps: a checkpoint, logging, evaluation" in row["action"]
    assert row["confidence"] == "possible"


@pytest.mark.heavy
def test_a_checkpoint_now_and_then_before_the_update_leads():
    row = only(straggler("irregular", phase="before_update", num_events=2), **crowded(1.7))
    assert row["action"].startswith("Look for what only rank ")
    assert "between backward() and optimizer.step(): a checkpoint, logging" in row["action"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("data", "phase", "says_so"),
    [
        ((0.0, NAN), "outside", True),
        ((-1e-9, 1e-7), "outside", True),
        ((0.01, NAN), "outside", False),
        ((0.0, 3e6), "outside", False),
        ((0.0, NAN), "forward", False),
    ],
)
def test_time_between_steps_may_be_data_where_no_loader_fetches_it(data, phase, says_so):
    share, baseline_ns = data
    loads = term("input-bound", share, baseline_ns=baseline_ns)
    row = only(straggler("persistent", phase=phase), loads)

    assert ("data source is not a DataLoader." in row["evidence"]) == says_so
    assert ('with collect.phase("data")' in row["action"]) == says_so
    assert style_faults(row) == []


@pytest.mark.parametrize(
    ("pattern", "is_first"),
    [("persistent", True), ("from-step", True), ("irregular", False), ("periodic", False)],
)
def test_a_rank_that_is_always_late_between_steps_is_first_asked_for_its_input(pattern, is_first):
    row = only(straggler(pattern, phase="outside"), term("input-bound", 0.0))
    marks = (
        'Write `with collect.phase("data"):` around data loading after `from hvdprof import '
        "collect`, to see whether it is that."
    )

    assert row["action"].startswith(marks) == is_first
    assert row["action"].endswith(marks) != is_first


def test_without_phases_nothing_is_said_of_data():
    assert "DataLoader" not in only(straggler("persistent", phase="outside"))["evidence"]


def test_overhead_between_steps_may_be_data_where_no_loader_fetches_it():
    row = only(term("outside", 0.3), term("input-bound", 0.0))

    assert row["id"] == "outside-phases"
    assert "data source is not a DataLoader." in row["evidence"]
    assert row["title"] == "Data loading or time outside phases: all ranks"
    # The headline takes the first sentence as the fix.
    assert row["fix"] == (
        'write `with collect.phase("data"):` around data loading after `from hvdprof import '
        "collect`, to see whether it is that"
    )
    assert row["action"].endswith("logging, checkpoints. Do it less often.")
    assert style_faults(row) == []


def test_overhead_beside_a_data_phase_is_none_of_the_input():
    row = only(term("outside", 0.3), term("input-bound", 0.01))

    assert row["title"] == "Time outside phases: all ranks"
    assert row["fix"].startswith("look for what the loop does between steps")


def test_a_straggler_before_the_update_is_sent_to_no_checkpoint():
    row = only(straggler("persistent", phase="before_update"))
    assert row["title"] == "Straggler: rank 1, before the update"
    assert "Time between backward and the update explains 90 % of the delay." in row["evidence"]
    assert row["action"].startswith("Move what only rank 1 does between backward() and optimizer")
    assert style_faults(row) == []


@pytest.mark.heavy
@pytest.mark.parametrize("phase", ["forward", "mixed"])
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("hosts", [("node1", "node1"), ("node1", "node2")])
def test_a_slow_rank_is_compared_with_its_neighbour_by_a_command(phase, device, hosts):
    own = ranks(0, 1, device=device, hosts=hosts)
    row = only(straggler("persistent", phase=phase), ranks=own)
    on_gpus, is_alone = device != "cpu", hosts[0] == hosts[1]
    neighbour = "another GPU" if on_gpus else "another rank"
    assert f"with {neighbour if is_alone else 'another host'}." in row["action"]
    tool = "`nvidia-smi -q -d CLOCK,PERFORMANCE`" if on_gpus else "`top -H`"
    assert row["fix"].startswith(f"run {tool} on {hosts[1]} during the job")
    assert ("vmstat" in row["action"]) == (phase == "mixed")
    assert style_faults(row) == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("engine", "call"),
    [("horovod", "hvd.allreduce()"), ("ddp", "torch.distributed.all_reduce()")],
)
def test_the_metric_of_a_split_evaluation_is_averaged_by_the_engine_of_the_job(engine, call):
    name, rows = straggler("periodic", ranks="0", phase="evaluation", period_steps=20.0)
    tables = [(name, rows.assign(engine=engine)), ("scaling", scaling(cell(engine=engine)))]
    (row,) = findings(evidence(tables)).to_dict("records")
    assert f"average the metric with {call}." in row["action"]


def lines(*rows):
    """LINE_CAUSES of the cause of a test, each with the fields stated."""
    own = {"cause_id": "c", "ranks": "1", "process": "main", "num_events": 4, "of_events": 6}
    return ("line_causes", table("line_causes", *(CELL | own | row for row in rows)))


FORWARD = {"against": "usual steps", "file": "/home/me/net.py", "line": 29, "function": "forward"}


@pytest.mark.parametrize(
    ("pattern", "others", "fix"),
    [
        ("irregular", 1.7, "end the other processes or use an idle machine, then measure again"),
        ("irregular", 0.05, "look at net.py:29"),
        # Other processes know nothing of the steps.
        ("periodic", 1.7, "look at net.py:29"),
    ],
)
def test_a_line_now_and_then_comes_behind_other_processes(pattern, others, fix):
    late = straggler(pattern, phase="mixed", cause_id="c", period_steps=10.0)
    row = only(late, lines(FORWARD), **crowded(others))
    assert row["fix"] == fix
    assert "ook at net.py:29" in row["action"]


@pytest.mark.parametrize(("beyond", "fix"), [(True, "look at net.py:29"), (False, "end the other")])
def test_beside_other_processes_a_line_leads_where_most_is_beyond_the_cores(
    monkeypatch, beyond, fix
):
    rules = "hvdprof.analyze.findings.run_rules.named_cause_rules.machine_evidence"
    monkeypatch.setattr(rules, lambda *_: MachineEvidence(beyond_cores=beyond))
    late = straggler("irregular", phase="mixed", cause_id="c", affected_share=0.2)
    row = only(late, lines(FORWARD), **crowded(1.7))
    assert row["fix"].startswith(fix)
    assert "pidstat" in row["action"]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (MachineEvidence(), ["Run `top -H`"]),
        (MachineEvidence(beyond_cores=True), ["Compare the work", "`taskset -cp PID`"]),
        (MachineEvidence(beyond_cores=True, excludes_cores=True), ["Compare the work"]),
    ],
)
def test_a_rank_late_in_most_steps_is_slow_and_not_interrupted(monkeypatch, seen, words):
    rules = "hvdprof.analyze.findings.run_rules.named_cause_rules.machine_evidence"
    monkeypatch.setattr(rules, lambda *_: seen)
    row = only(straggler("irregular", phase="mixed", affected_share=0.86))
    assert row["action"].startswith(words[0])
    assert all(word in row["action"] for word in words)
    assert ("taskset" in row["action"]) == (not seen.excludes_cores)


def test_an_evaluation_is_not_looked_at_but_split():
    alone = straggler("periodic", phase="evaluation", cause_id="c", period_steps=12.0)
    call = {"against": "exact", "leaf": "evaluation"}
    row = only(alone, lines(call, FORWARD))
    assert row["fix"].startswith("split the evaluation among all ranks")
    assert (row["code_file"], row["code_line"]) == ("/home/me/net.py", 29)
    assert "evaluation" in row["evidence"]
    assert "ook at" not in only(alone, lines(call))["action"]


@pytest.mark.parametrize(
    ("pattern", "phase", "words"),
    [("persistent", "mixed", "vmstat"), ("irregular", "forward", "pidstat")],
)
def test_what_the_machine_may_be_is_looked_at_before_the_line(monkeypatch, pattern, phase, words):
    rules = "hvdprof.analyze.findings.run_rules.named_cause_rules.machine_evidence"
    seen = MachineEvidence("Seen.", check=advice("run `top -H` on the host"))
    monkeypatch.setattr(rules, lambda *_: seen)
    often = 0.2 if pattern == "irregular" else 0.9
    row = only(straggler(pattern, phase=phase, affected_share=often))
    assert row["fix"] == "run `top -H` on the host"
    # Of a rank that is always slower, the usual advice is the same check again.
    assert (words in row["action"]) == (pattern == "irregular")


def test_an_unknown_share_of_the_phase_is_no_sentence():
    assert "explains" not in only(straggler("persistent", phase_share=NAN))["evidence"]
