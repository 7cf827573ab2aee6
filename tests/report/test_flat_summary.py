"""A finished run as named numbers."""

import math

import pytest

from hvdprof.model.cell_key import CELL_KEY
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.flat_summary import differing_ranks, flat_summary
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import analysis, cell, full_analysis, verdict


def test_figures_of_cells_are_named_by_model_ranks_engine_and_toggles():
    figures = flat_summary(full_analysis())
    assert all(math.isfinite(value) for value in figures.values())
    assert figures["hvdprof/summary/efficiency"] == verdict().efficiency
    np2, np4 = (f"hvdprof/summary/resnet18/np{size}/horovod" for size in (2, 4))
    assert {f"{np4}/samples_per_second", f"{np2}/fp16/average/step_seconds"} <= set(figures)


def test_what_is_unknown_has_no_key_and_names_are_keys():
    figures = flat_summary(analysis([cell(model="a/b:c", efficiency=math.nan)]))
    own = [key for key in figures if key.startswith("hvdprof/summary/a_b_c/np")]
    assert own
    assert not [key for key in own if key.endswith("/efficiency")]


def test_costs_of_ranks_have_rank_and_phase_and_two_patterns_add_up():
    rows = [
        {"term": "straggler", "ranks": "1", "phase": "data", "pattern": "persistent"},
        {"term": "straggler", "ranks": "1", "phase": "data", "pattern": "periodic"},
        {"term": "input-bound", "ranks": "", "phase": "", "pattern": ""},
    ]
    of_cell = {name: cell()[name] for name in CELL_KEY} | {"time_ns": 2e6, "share": 0.1}
    table = declared_rows(WATERFALL, *(of_cell | row for row in rows))
    found = analysis([cell()], derived={WATERFALL.name: table})
    costs = {
        key.partition("/cost_seconds/")[2]: value
        for key, value in flat_summary(found).items()
        if "/cost_seconds/" in key
    }
    assert costs == pytest.approx({"straggler/rank_1/data": 0.004, "input-bound": 0.002})
    assert (
        differing_ranks(found)
        .splitlines()[0]
        .endswith("straggler: rank 1, data phase, 2.00 ms per step (10 %)")
    )
