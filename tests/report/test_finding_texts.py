import pytest

from hvdprof.model.file_page import Fact, FilePage, Unanswered
from hvdprof.report.finding_texts import each_sentence, file_texts, finding_texts, first_clause
from tests.builders.finished_analysis import NAN, finding

FACTS = (
    Fact("num_ranks", "ranks", 16),
    Fact("waited_s", "waited at least", 62.0, "s"),
    Fact("transports", "transports", None),
    Fact("calls", "calls", 2, text="nccl:all_reduce\nnccl:broadcast"),
    Fact("hidden", "", 7),
)


@pytest.mark.parametrize(
    ("values", "figures"),
    [
        ({}, ""),
        ({"cost_share": 0.25}, "Costs 25.0 % of step time."),
        ({"cost_ns": 6e6}, "Costs 6.00 ms per step."),
        ({"job_share": 0.655}, "Costs 65.5 % of the recorded time."),
        (
            {"cost_ns": 6e6, "cost_share": 0.25, "gain_share": 0.2},
            "Costs 6.00 ms per step (25.0 % of step time). "
            "Potential gain if fixed: up to 20.0 % of step time.",
        ),
        ({"cost_ns": 6e6, "gain_share": 0.0001}, "Costs 6.00 ms per step."),
        ({"cost_ns": NAN, "gain_share": NAN}, ""),
        (
            {
                "cost_ns": 41.3e6,
                "cost_low_ns": 12e6,
                "cost_high_ns": 70e6,
                "cost_share": 0.566,
                "gain_share": 0.537,
            },
            "Costs 41 ms per step (57 % of step time). "
            "Potential gain if fixed: up to 54 % of step time.",
        ),
    ],
)
def test_cost_and_gain_are_sentences(values, figures):
    assert finding_texts(finding(**values)).figures == figures


@pytest.mark.parametrize(
    ("values", "cost"),
    [
        ({}, ""),
        ({"cost_ns": 6e6, "cost_share": 0.25}, "25.0 % of the step"),
        ({"job_share": 0.655}, "65.5 % of the recorded time"),
    ],
)
def test_the_cost_in_short_says_what_it_is_a_share_of(values, cost):
    assert finding_texts(finding(**values)).short_cost == cost


@pytest.mark.parametrize(
    ("values", "quote"),
    [
        ({"quote": "a line"}, "nccl.log:7: a line"),
        ({"quote": ""}, "nccl.log:7"),
        ({"quote": "X=1", "line": None, "file": ""}, "X=1"),
    ],
)
def test_a_quote_has_its_place(values, quote):
    assert finding_texts(finding(**values)).quote == quote


def test_the_command_is_the_one_that_the_finding_states():
    assert finding_texts(finding(command="unset X")).command == "unset X"


def page(**values):
    return FilePage(
        **{
            "file": "dumps/_dump_*",
            "kind": "16 dumps",
            "size_bytes": 49_500,
            "facts": FACTS,
            "unanswered": (Unanswered("how long ranks wait", "hvdprof run --np 16"),),
        }
        | values
    )


def test_a_fact_has_its_unit_and_one_without_a_label_no_line():
    assert file_texts(page()).facts == (
        ("ranks", "16"),
        ("waited at least", "62.0 s"),
        ("transports", "-"),
        ("calls", "nccl:all_reduce\nnccl:broadcast"),
    )


def test_kind_and_size_stand_beside_the_name_and_a_question_is_a_sentence():
    texts = file_texts(page())
    assert (texts.file, texts.about) == ("dumps/_dump_*", "16 dumps, 49.5 kB")
    assert texts.unanswered == (("How long ranks wait.", "hvdprof run --np 16"),)


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ({}, ""),
        ({"facts": ()}, "No content that hvdprof reads."),
        ({"facts": (), "left_out": "it breaks off"}, "Left out: see Warnings."),
    ],
)
def test_a_file_without_facts_says_why(values, note):
    assert file_texts(page(**values)).note == note


def test_a_number_or_a_name_ends_no_sentence():
    text = "Step 2.5 of main.py took 3.0 s. Fix it! Or wait."
    assert each_sentence(text) == ["Step 2.5 of main.py took 3.0 s.", "Fix it!", "Or wait."]
    assert each_sentence("") == []


def test_the_first_clause_has_no_full_stop():
    assert first_clause("Few steps. Measure more.") == "Few steps"
    assert first_clause("No stop") == "No stop"
