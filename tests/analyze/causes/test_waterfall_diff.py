"""Differences of waterfalls between engines; those of any two cells: test_waterfall_difference."""

from hvdprof.analyze.causes.waterfall_diff import engine_diffs
from hvdprof.model.causes import CAUSES
from hvdprof.model.tables.waterfall_tables import WATERFALL
from tests.analyze.test_engines import both_engines
from tests.builders.analysis import analysis_of, sweep


def test_ddp_less_horovod_on_every_size_measured_with_both(tmp_path):
    analysis = analysis_of(tmp_path, both_engines())
    diffs = analysis.table("engine_diffs")
    assert 2 in set(diffs["np"])
    assert diffs.loc[diffs["np"] == 2, "term"].tolist() == list(CAUSES)
    waterfall = analysis.table("waterfall").set_index(["engine", "np", "term"])["time_ns"]
    for row in diffs.to_dict("records"):
        assert row["one_ns"] == waterfall["horovod", row["np"], row["term"]]
        assert row["other_ns"] == waterfall["ddp", row["np"], row["term"]]


def test_one_engine_alone_has_no_difference(tmp_path):
    analysis = analysis_of(tmp_path, sweep({0: 10, 1: 10, 2: 12}))
    assert len(analysis.table("waterfall"))
    assert analysis.table("engine_diffs").empty
    assert engine_diffs(WATERFALL.empty()).empty
