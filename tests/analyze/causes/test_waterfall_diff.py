"""Differences of waterfalls between engines; those of any two cells: test_waterfall_difference."""

import pandas as pd
import pytest

from hvdprof.analyze.causes.waterfall_diff import engine_diffs, waterfall_diff
from hvdprof.model.causes import CAUSES, COMPUTE_INFLATION, INPUT_BOUND, JITTER, PAUSE, STRAGGLER
from hvdprof.model.tables.waterfall_tables import WATERFALL
from tests.analyze.test_engines import both_engines
from tests.builders.analysis import analysis_of, sweep
from tests.builders.declared_rows import declared_rows


@pytest.mark.heavy
def test_ddp_less_horovod_on_every_size_measured_with_both(tmp_path):
    analysis = analysis_of(tmp_path, both_engines())
    diffs = analysis.table("engine_diffs")
    assert 2 in set(diffs["np"])
    unnamed = [term for term in CAUSES if term not in (STRAGGLER, PAUSE)]
    assert diffs.loc[diffs["np"] == 2, "term"].tolist() == unnamed
    waterfall = analysis.table("waterfall").set_index(["engine", "np", "term"])["time_ns"]
    for row in diffs.to_dict("records"):
        assert row["one_ns"] == waterfall["horovod", row["np"], row["term"]]
        assert row["other_ns"] == waterfall["ddp", row["np"], row["term"]]


@pytest.mark.heavy
def test_one_engine_alone_has_no_difference(tmp_path):
    analysis = analysis_of(tmp_path, sweep({0: 10, 1: 10, 2: 12}))
    assert len(analysis.table("waterfall"))
    assert analysis.table("engine_diffs").empty
    assert engine_diffs(WATERFALL.empty()).empty


def row(term, time_ms, **names):
    times = {f"{name}_ns": time_ms * 1e6 for name in ("time", "time_low", "time_high")}
    cell = {"model": "m", "np": 2, "engine": "horovod"}
    return declared_rows(WATERFALL, cell | {"term": term} | times | names)


def test_a_straggler_of_one_cell_alone_is_nothing_in_the_other():
    slow = {"ranks": "1", "phase": "data", "pattern": "persistent"}
    one = pd.concat([row(STRAGGLER, 30.0, **slow), row(JITTER, 5.0)])
    diff = waterfall_diff(one, row(JITTER, 4.0)).set_index("term")

    assert diff["difference_ns"].tolist() == [-30e6, -1e6]
    assert diff.loc[STRAGGLER, ["ranks", "phase", "pattern"]].tolist() == [
        "1",
        "data",
        "persistent",
    ]
    assert diff.loc[STRAGGLER, "significant"]


def test_stragglers_of_other_ranks_are_other_causes():
    names = {"phase": "data", "pattern": "persistent"}
    diff = waterfall_diff(
        row(STRAGGLER, 30.0, ranks="1", **names), row(STRAGGLER, 10.0, ranks="2", **names)
    )

    assert sorted(diff["difference_ns"]) == [-30e6, 10e6]


def test_terms_against_a_baseline_that_one_cell_lacks_are_omitted():
    one = pd.concat([row(JITTER, 5.0), row(COMPUTE_INFLATION, 9.0)])

    assert waterfall_diff(one, row(JITTER, 4.0))["term"].tolist() == [JITTER]


def test_input_that_lies_on_one_rank_of_one_cell_is_the_same_term():
    diff = waterfall_diff(row(INPUT_BOUND, 40.0, ranks="1"), row(INPUT_BOUND, 5.0))

    assert diff["ranks"].tolist() == [""]
    assert diff["difference_ns"].tolist() == [-35e6]
