import pytest

from hvdprof.model.cause_names import cause_name, cause_title, ranks_of, short_cause_name
from hvdprof.model.tables.waterfall_tables import WATERFALL, WATERFALL_DIFF
from tests.builders.declared_rows import declared_rows

NAN = float("nan")


def row(term="straggler", ranks="1", phase="data", pattern="persistent", **values):
    names = {"term": term, "ranks": ranks, "phase": phase, "pattern": pattern}
    return declared_rows(WATERFALL, names | values).to_dict("records")[0]


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ({}, ("straggler", "rank 1, data phase")),
        ({"phase": "outside"}, ("straggler", "rank 1, between steps")),
        ({"phase": "mixed"}, ("straggler", "rank 1, no single phase")),
        ({"ranks": "1, 3"}, ("stragglers", "ranks 1 and 3, data phase")),
        ({"ranks": "1, 3, 5"}, ("stragglers", "3 ranks, data phase")),
        (
            {"pattern": "from-step", "first_step": 300},
            ("straggler from step 300", "rank 1, data phase"),
        ),
        (
            {"ranks": "0", "phase": "outside", "pattern": "periodic", "period_steps": 20.0},
            ("rank 0 pauses every 20 steps, between steps", ""),
        ),
        (
            {"ranks": "0", "phase": "evaluation", "pattern": "periodic", "period_steps": 10.0},
            ("rank 0 evaluates alone every 10 steps", ""),
        ),
        ({"phase": "evaluation"}, ("straggler", "rank 1, between steps (evaluation)")),
        (
            {"pattern": "periodic", "period_steps": 7.0},
            ("rank 1 late every 7 steps, data phase", ""),
        ),
        (
            {"ranks": "1, 3", "pattern": "periodic", "period_steps": 7.0},
            ("2 ranks late every 7 steps, data phase", ""),
        ),
        (
            {"pattern": "irregular", "affected_share": 0.07, "delay_ns": 150e6, "num_events": 6},
            ("rank 1 late in 7 % of steps, data phase", ""),
        ),
        (
            {"pattern": "irregular", "affected_share": 0.02, "delay_ns": 150e6, "num_events": 2},
            ("rank 1 late twice, data phase", ""),
        ),
        (
            {"pattern": "for-a-while", "phase": "backward", "first_step": 30, "last_step": 54},
            ("straggler in steps 30 to 54", "rank 1, backward phase"),
        ),
        (
            {"pattern": "growing", "phase": "backward", "last_delay_ns": 60e6},
            ("straggler that grows to 60.0 ms", "rank 1, backward phase"),
        ),
        (
            {
                "ranks": "any",
                "pattern": "irregular",
                "affected_share": 0.07,
                "delay_ns": 150e6,
                "num_events": 7,
            },
            ("any rank late in 7 % of steps, data phase", ""),
        ),
        (
            {
                "term": "pause",
                "ranks": "all",
                "phase": "outside",
                "pattern": "periodic",
                "period_steps": 50.0,
            },
            ("all ranks pause every 50 steps, between steps", ""),
        ),
        (
            {
                "term": "pause",
                "ranks": "all",
                "phase": "forward",
                "pattern": "periodic",
                "period_steps": 50.0,
            },
            ("all ranks pause every 50 steps, forward phase", ""),
        ),
        ({"term": "jitter", "ranks": "", "phase": "", "pattern": ""}, ("jitter", "")),
        (
            {"term": "compute-inflation", "ranks": "", "phase": "", "pattern": ""},
            ("compute slowdown", ""),
        ),
    ],
)
def test_the_title_names_rank_phase_and_period(given, title):
    assert cause_title(row(**given)) == title


def test_the_name_of_a_row_has_no_numbers_of_its_events():
    values = {"affected_share": 0.07, "delay_ns": 150e6, "num_events": 7}
    own = row(ranks="any", pattern="irregular", **values)

    assert cause_name(own) == "any rank late now and then, data phase"
    assert cause_name(row()) == "straggler: rank 1, data phase"
    assert cause_name(row("residual", "", "", "")) == "rounding residual"


def test_input_names_the_ranks_that_wait_longest():
    assert cause_name(row("input-bound", "1", "", "")) == "input (rank 1 waits longest)"
    assert cause_name(row("input-bound", "0, 3", "", "")) == "input (ranks 0 and 3 wait longest)"
    assert cause_name(row("input-bound", "", "", "")) == "input (all ranks)"
    assert cause_name(row("input-bound", "", "", "", np=1)) == "input"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "straggler: rank 1"),
        ({"pattern": "periodic", "period_steps": 7.0}, "rank 1 late every 7 steps"),
        ({"term": "input-bound", "phase": "", "pattern": ""}, "input"),
        ({"term": "baseline-credit", "ranks": "", "phase": "", "pattern": ""}, "baseline overhead"),
    ],
)
def test_a_short_name_leaves_out_the_phase(given, name):
    assert short_cause_name(row(**given)) == name


def test_a_difference_of_two_cells_has_no_period():
    names = {"term": "pause", "ranks": "all", "phase": "outside"}
    rows = declared_rows(
        WATERFALL_DIFF, names | {"pattern": "periodic"}, names | {"pattern": "irregular"}
    ).to_dict("records")

    assert [cause_name(one) for one in rows] == [
        "all ranks pause periodically, between steps",
        "all ranks pause now and then, between steps",
    ]


def test_the_ranks_of_a_row():
    assert ranks_of(row(ranks="1, 13")) == (1, 13)
    assert [ranks_of(row(ranks=text)) for text in ("any", "all", "")] == [(), (), ()]
