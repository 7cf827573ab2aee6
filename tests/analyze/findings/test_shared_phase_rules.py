"""Time in the data phase and between steps, of all ranks or of some."""

import dataclasses

import pandas as pd
import pytest

from hvdprof.analyze.findings.advice import advice
from hvdprof.analyze.findings.input_evidence import InputEvidence
from hvdprof.analyze.findings.line_evidence import NO_LINES
from hvdprof.analyze.pipeline import findings
from hvdprof.model.tables.collective_tables import BREAKDOWN
from hvdprof.model.tables.sample_tables import RANK_MACHINE
from tests.analyze.findings.test_run_findings import NAMES, evidence, straggler, term
from tests.builders.declared_rows import declared_rows
from tests.builders.finding_style import style_faults

STEP_NS = 31e6
PART_OF = {"input-bound": "data", "outside": "outside"}


def spent(name, *milliseconds):
    """BREAKDOWN with the time of each rank in the part of a term."""
    rows = [
        {**NAMES, "rank": rank, "part": PART_OF[name], "time_ns": own * 1e6}
        for rank, own in enumerate(milliseconds)
    ]
    return ("breakdown", declared_rows(BREAKDOWN, *rows))


def only(name, times, **values):
    mean = sum(times) / len(times) * 1e6 / STEP_NS
    cause = term(name, values.pop("share", mean), **values)
    (row,) = findings(evidence([cause, spent(name, *times)])).to_dict("records")
    return row


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("times", "ranks", "title", "words"),
    [
        ((0.7, 13.3), "1", "rank 1 waits", "Rank 1 spends 13.3 ms per step there, the other ranks"),
        (
            (9.0, 0.7, 0.7, 9.2),
            "0, 3",
            "ranks 0 and 3 wait",
            "Ranks 0 and 3 spend 9.10 ms per step",
        ),
    ],
)
def test_the_ranks_that_wait_longest_are_named_and_the_others_not_called_fast(
    times, ranks, title, words
):
    row = only("input-bound", times, ranks=ranks, share=0.4)

    assert row["title"] == f"Input-bound: {title} longest"
    assert words in row["evidence"]
    assert "they may load as slowly" in row["evidence"]
    assert "waits for data take 40.0 %" in row["evidence"]
    # One setting holds for all ranks.
    assert "rank" not in row["action"].partition(". ")[0]
    # The cost is that of the waterfall, not the mean of all ranks.
    assert row["cost_ns"] == 0.4 * STEP_NS
    assert style_faults(row) == []


def test_the_other_ranks_are_said_to_have_batches_where_they_do(monkeypatch):
    rules = "hvdprof.analyze.findings.run_rules.shared_phase_rules"
    for late, are_ready in (((1,), True), ((0,), False), ((), False)):
        monkeypatch.setattr(f"{rules}.ranks_without_batches", lambda *_, late=late: late)
        text = only("input-bound", (0.7, 13.3), ranks="1", share=0.4)["evidence"]
        assert ("the other ranks 700 µs, which have batches ready." in text) is are_ready
        assert ("they may load as slowly" in text) is not are_ready


@pytest.mark.heavy
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("seen", "times", "fix", "has_queues"),
    [
        ({"is_waiting": True}, (9.0, 9.0), "look at reader.py:9", False),
        ({"is_waiting": True}, (0.7, 13.3), "look at reader.py:9", True),
        ({"has_none": True}, (0.7, 13.3), "look at reader.py:9", False),
        ({"has_none": True}, (9.0, 9.0), "add workers", False),
        ({}, (0.7, 13.3), "add workers", True),
    ],
)
def test_the_line_comes_first_where_more_workers_may_not_help(
    monkeypatch, seen, times, fix, has_queues
):
    rules = "hvdprof.analyze.findings.run_rules.shared_phase_rules"
    stages = InputEvidence("Seen.", advice("add workers"), **seen)
    lines = dataclasses.replace(NO_LINES, fix=advice("look at reader.py:9"))
    monkeypatch.setattr(f"{rules}.input_evidence", lambda *_: stages)
    monkeypatch.setattr(f"{rules}.line_evidence", lambda *_: lines)

    row = only("input-bound", times, ranks="1" if times[0] < 1 else "", share=0.4)

    assert row["fix"] == fix
    # Without workers no queue fills.
    assert ("queues fill" in row["evidence"]) == has_queues


@pytest.mark.parametrize("name", ["input-bound", "outside"])
def test_the_waterfall_decides_whose_time_it_is(name):
    row = only(name, (0.7, 13.3))

    assert "rank 1" not in row["title"]
    assert "ranks on time spend" in row["evidence"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["input-bound", "outside"])
@pytest.mark.parametrize("times", [(6.0, 7.0), (4.0, 8.0), (7.0, 7.0, 7.0, 9.0)])
def test_what_all_ranks_spend_is_that_of_all_ranks(name, times):
    row = only(name, times)

    assert row["title"].endswith((": all ranks", "every rank waits for data"))
    assert "ranks on time spend" in row["evidence"]


@pytest.mark.heavy
def test_a_named_straggler_is_not_compared_with_the_normal_ranks():
    causes = pd.concat(
        [straggler("persistent", phase="outside")[1], term("outside", 0.3)[1]],
        ignore_index=True,
    )
    rows = findings(evidence([("waterfall", causes), spent("outside", 9.3, 25.0)]))
    titles = set(rows["title"])

    assert not any("overhead of rank" in title for title in titles)


@pytest.mark.parametrize(
    ("phase", "ranks", "asked"),
    [("data", "1", (0,)), ("forward", "1", ()), ("data", "0, 1", ())],
)
def test_the_input_beside_a_straggler_is_that_of_the_other_ranks(monkeypatch, phase, ranks, asked):
    seen = []
    rules = "hvdprof.analyze.findings.run_rules.shared_phase_rules.input_evidence"

    def stages(_evidence, _cell, own):
        seen.append(own)
        return InputEvidence("", advice("add workers"))

    monkeypatch.setattr(rules, stages)
    of_all, late = term("input-bound", 0.3), straggler("persistent", ranks=ranks, phase=phase)
    causes = ("waterfall", pd.concat([of_all[1], late[1]], ignore_index=True))
    findings(evidence([causes, spent("input-bound", 9.0, 40.0)]))
    assert seen == [asked]


def both_parts(between, before):
    """BREAKDOWN with the time of each rank between steps and before the update, ms."""
    rows = [
        {**NAMES, "rank": rank, "part": part, "time_ns": own * 1e6}
        for part, times in (("outside", between), ("before_update", before))
        for rank, own in enumerate(times)
    ]
    return ("breakdown", declared_rows(BREAKDOWN, *rows))


def test_time_before_the_update_of_all_ranks_is_named():
    given = [term("outside", 7 / 31), both_parts((1.0, 1.0), (6.0, 6.0))]
    (row,) = findings(evidence(given)).to_dict("records")
    assert row["title"] == "Time outside phases: all ranks, before the update"
    assert "between backward() and optimizer.step()" in row["action"].partition(":")[0]
    assert style_faults(row) == []


def test_ranks_that_lose_as_much_in_different_places_are_all_ranks():
    given = [term("outside", 7 / 31), both_parts((1.0, 6.0), (6.0, 1.0))]
    (row,) = findings(evidence(given)).to_dict("records")
    assert row["title"] == "Time outside phases: all ranks"


def with_copies(name, times, share, size=77e6):
    """The finding on a term, with copies to the GPU that take a share of the time."""
    rate = 23.2 * size
    means = {"batches": 23.2, "copy_gpu": share, "copied": rate, "copied_pageable": rate}
    usual = {"windows": 20, **dict.fromkeys(("mean", "low", "high", "others"), 0.0)}
    rows = [
        {**NAMES, **usual, "rank": rank, "measure": measure, "mean": mean}
        for rank in range(len(times))
        for measure, mean in means.items()
    ]
    machine = ("rank_machine", declared_rows(RANK_MACHINE, *rows))
    cause = term(name, sum(times) / len(times) * 1e6 / STEP_NS)
    tables = [cause, spent(name, *times), machine]
    (row,) = findings(evidence(tables)).to_dict("records")
    assert style_faults(row) == []
    return row


@pytest.mark.heavy
def test_copies_that_explain_time_outside_phases_are_the_first_thing_to_change():
    row = with_copies("outside", (8.0, 8.0), 0.25)
    assert "From a batch of a rank (77.0 MB in pageable memory)" in row["evidence"]
    assert row["fix"].startswith("set pin_memory=True in the DataLoader")
    # Of 8 ms, or of what no copy takes so long for.
    for share, size in ((0.06, 77e6), (0.25, 1e6)):
        row = with_copies("outside", (8.0, 8.0), share, size)
        assert "in pageable memory" in row["evidence"]
        assert not row["fix"].startswith("set pin_memory")


@pytest.mark.heavy
def test_copies_stand_behind_what_the_input_lacks():
    row = with_copies("input-bound", (8.0, 8.0), 0.25)
    assert row["fix"].startswith("use more DataLoader workers")
    assert "set pin_memory=True in the DataLoader, and copy with" in row["action"].replace(
        "Set pin", "set pin"
    )
