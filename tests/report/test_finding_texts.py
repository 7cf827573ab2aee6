import pytest

from hvdprof.report.finding_texts import finding_texts
from tests.builders.finished_analysis import NAN, finding


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
