import pytest

from hvdprof.report.finding_texts import finding_texts
from tests.builders.finished_analysis import NAN, finding


@pytest.mark.parametrize(
    ("values", "figures"),
    [
        ({}, ""),
        ({"cost_share": 0.25}, "Costs 25.0 % of step time."),
        ({"cost_ns": 6e6}, "Costs 6.00 ms per step."),
        (
            {"cost_ns": 6e6, "cost_share": 0.25, "gain_share": 0.2},
            "Costs 6.00 ms per step (25.0 % of step time). "
            "Potential gain if fixed: up to 20.0 % of step time.",
        ),
        ({"cost_ns": 6e6, "gain_share": 0.0001}, "Costs 6.00 ms per step."),
        ({"cost_ns": NAN, "gain_share": NAN}, ""),
    ],
)
def test_cost_and_gain_are_sentences(values, figures):
    assert finding_texts(finding(**values)).figures == figures


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
