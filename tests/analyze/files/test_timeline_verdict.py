import re

import pytest

from hvdprof import api
from hvdprof.analyze.files.timelines.timeline_verdict import (
    pending_fact,
    pending_verdict,
    timeline_verdict,
)
from hvdprof.model.tables.timeline_tables import (
    EXECUTIONS,
    INFERRED_STEPS,
    PENDING_NEGOTIATIONS,
    TENSOR_USES,
)
from tests.builders.declared_rows import declared_rows
from tests.builders.places import RECORDINGS


def uses_without_ranks(number=20):
    starts = [10_000_000 * place for place in range(number)]
    times = [{"start_ns": start, "dur_ns": 4_000_000} for start in starts]
    uses = [
        {"negotiation_start_ns": start - 5_000_000, "negotiation_ns": 5_000_000, "last_rank": None}
        | {"last_after_ns": None}
        for start in starts
    ]
    return declared_rows(TENSOR_USES, *uses), declared_rows(EXECUTIONS, *times)


def found_in(uses, executions, steps, rank_ticks):
    row = {"rank_ticks": rank_ticks, "np": 2, "num_time_jumps": 0, "num_recordings": 1}
    return timeline_verdict(uses, executions, steps, PENDING_NEGOTIATIONS.empty(), row)


def verdict(name):
    return api.analyze_files(api.load_run(RECORDINGS / name)).files[0]


@pytest.mark.heavy
def test_a_rank_that_every_use_shows_late_is_named():
    page = verdict("04_gloo_straggler_rank1_cache_off.json")

    assert (
        "Rank 1 submits last in 10 of 11 steady steps; the others wait 50.6 ms per step (62.9 % of"
        in page.verdict
    )
    # The median step is shorter than what the others wait in the mean one.
    assert page.verdict.startswith("In 11 steady steps of about 48.0 ms (mean 80.4 ms), ")
    assert "In negotiation, ranks wait for the last rank" in page.caveat
    assert "hvdprof run --np 1,2,4 -- python train.py" in [one.command for one in page.unanswered]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("none", "after warm-up the file names no rank"),
        ("first use", "the file names the ranks of the first use of each tensor alone"),
        ("some uses", "the file names the ranks of some uses only"),
    ],
)
def test_a_file_without_every_rank_names_no_straggler_and_states_its_contents(kind, words):
    uses, executions = uses_without_ranks()
    found = found_in(uses, executions, INFERRED_STEPS.empty(), kind)

    assert f"No straggler can be named: {words}" in found.caveat
    assert "straggler" not in found.sentence


@pytest.mark.parametrize(("negotiation_ms", "is_named"), [(67, True), (36, False)])
def test_a_long_negotiation_is_a_straggler_without_a_name(negotiation_ms, is_named):
    uses, executions = uses_without_ranks()
    uses = uses.assign(negotiation_ns=negotiation_ms * 1_000_000)
    steps = declared_rows(
        INFERRED_STEPS,
        *(
            {"step": number, "dur_ns": 98_800_000, "complete": True, "confidence": 0.9}
            for number in range(5)
        ),
    )
    found = found_in(uses, executions, steps, "first use")
    waiting = (
        " Tensors wait for a straggler (negotiation, median 67.0 ms of a 98.8 ms step); the file "
        "cannot name the rank."
    )
    assert found.sentence.endswith(waiting) == is_named
    assert ("straggler" in found.sentence) == is_named
    unsure = steps.assign(confidence=0.3)
    of_unsure = found_in(uses, executions, unsure, "first use")
    assert "straggler" not in of_unsure.sentence


@pytest.mark.heavy
def test_adasum_is_never_cached_so_its_file_names_every_rank():
    assert "No straggler can be named" not in verdict("06_mpi_adasum.json").caveat


@pytest.mark.heavy
def test_a_short_file_gets_no_answer():
    assert verdict("17_gloo_process_sets_np3.json").verdict.startswith("Too short to judge")


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(path.name for path in RECORDINGS.glob("1*.json")))
def test_every_recording_gets_at_most_two_sentences(name):
    page = verdict(name)

    assert page.verdict.endswith(".")
    assert "nan" not in page.verdict.lower()
    assert len(re.findall(r"\.(?= |$)", page.verdict)) <= 2


def test_executions_of_no_length_at_one_moment_are_too_short_for_an_answer():
    uses, executions = uses_without_ranks()
    at_once = executions.assign(start_ns=0, dur_ns=0)
    found = found_in(uses, at_once, INFERRED_STEPS.empty(), "none")
    assert found.sentence.startswith("Too short to judge")


@pytest.mark.parametrize(
    ("negotiation_ns", "said"),
    [
        (7_000_000, "negotiation for 70.1 %, partly at the same time."),
        (5_000_000, "negotiation for 50.1 %, which can overlap."),
        (200_000, "negotiation for 2.0 %."),
    ],
)
def test_shares_that_can_overlap_do_not_read_as_a_sum(negotiation_ns, said):
    starts = [10_000_000 * place for place in range(100)]
    times = [{"start_ns": start, "dur_ns": 4_000_000} for start in starts]
    uses = [
        {"negotiation_start_ns": start - 5_000_000, "negotiation_ns": negotiation_ns}
        | {"last_rank": None, "last_after_ns": None}
        for start in starts
    ]
    tables = declared_rows(TENSOR_USES, *uses), declared_rows(EXECUTIONS, *times)
    found = found_in(*tables, INFERRED_STEPS.empty(), "first use")
    assert "collectives run for 40.0 % of the time" in found.sentence
    assert said in found.sentence


def pending_of(*groups):
    rows = [
        {"submitted_ranks": submitted, "missing_ranks": missing, "pending_ns": seconds * 10**9}
        for submitted, missing, number, seconds in groups
        for _ in range(number)
    ]
    return declared_rows(PENDING_NEGOTIATIONS, *rows)


def test_tensors_that_wait_for_other_ranks_are_other_statements():
    pending = pending_of(("0, 1", "2", 3, 60), ("0, 2", "1", 1, 2), ("", "", 2, 5))
    assert pending_verdict(pending, 1e6).sentence == (
        "Rank 2 has not submitted 3 tensors for 60.0 s, 2 tensors pending for 5.00 s (the file "
        "does not name the ranks that have not submitted them) and rank 1 has not submitted 1 "
        "tensor for 2.00 s until the end of the file."
    )
    (fact,) = pending_fact(pending)
    assert fact.text.splitlines() == [
        "3 tensors for 60.0 s, submitted by ranks 0 and 1, not by rank 2",
        "2 tensors for 5.00 s",
        "1 tensor for 2.00 s, submitted by ranks 0 and 2, not by rank 1",
    ]


def test_more_groups_of_pending_tensors_than_are_shown_are_counted():
    pending = pending_of(*(("0", str(rank), 6 - rank, 60) for rank in range(1, 6)))
    assert "and other ranks 3 tensors for 60.0 s until" in pending_verdict(pending, None).sentence
    assert pending_fact(pending)[0].text.endswith("\nand of 2 other groups of ranks")


def test_pending_tensors_of_one_group_are_one_statement():
    sentence = pending_verdict(pending_of(("0", "1", 2, 60)), None).sentence
    assert sentence == "Rank 1 has not submitted 2 tensors for 60.0 s until the end of the file."
