import pytest

from hvdprof.report.finding_texts import command_of, finding_texts
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


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ("Set HOROVOD_CYCLE_TIME=0.1 (milliseconds).", "export HOROVOD_CYCLE_TIME=0.1"),
        ("Set NCCL_DEBUG_SUBSYS=INIT,NET on all ranks.", "export NCCL_DEBUG_SUBSYS=INIT,NET"),
        ("Unset NCCL_P2P_DISABLE. Or `nvidia-smi topo -m`.", "unset NCCL_P2P_DISABLE"),
        ("Run `hvdprof net --hosts a,b` first. Set X_Y=1.", "hvdprof net --hosts a,b"),
        ("Try the other controller (`--controller mpi`).", ""),
        ("Raise num_workers= on rank 1.", ""),
        ("With NCCL_SHM_DISABLE=1, GPUs send over the network.", ""),
    ],
)
def test_the_command_of_an_action_can_be_copied(action, command):
    assert command_of(action) == command
