"""The strip of the run: where the cause acts, what is excluded, and at most 240 columns."""

import numpy as np
import pandas as pd
import pytest

from hvdprof.api import analyze_run, load_run
from hvdprof.figures.launch import num_steady
from hvdprof.figures.run_strip import MOST_COLUMNS, _columns, run_strip
from hvdprof.figures.typical_step import acting_steps
from hvdprof.model.causes import EXPOSED_TRANSFER, JITTER
from hvdprof.report.screen.tiles import verdict_cell
from tests.builders.recorded_runs import unpacked


@pytest.mark.parametrize("name", ["horovod-slow-data", "ddp-alone-pauses"])
def test_the_strip_marks_the_steps_of_the_cause(tmp_path, name):
    analysis = analyze_run(load_run(unpacked(name, tmp_path)))
    strip = run_strip(analysis, verdict_cell(analysis))
    acting = [one for one in strip.columns if one.acts]
    assert 0 < len(acting) <= sum(one.steady for one in strip.columns)
    assert all(strip.sentence.split(" acts in ")[0] in one.text for one in acting)
    assert f"acts in {len(acting)} of " in strip.sentence
    # The warm-up is in the strip, and says that it is.
    warm = [one for one in strip.columns if not one.steady]
    assert warm and all(one.text.endswith(", excluded: warm-up") for one in warm)
    assert num_steady(strip.steps.table) < strip.steps.num_steps
    assert max(one.height for one in strip.columns) == 1.0


def test_a_cause_that_no_single_step_shows_marks_none(tmp_path):
    analysis = analyze_run(load_run(unpacked("horovod-slow-data", tmp_path)))
    launch = run_strip(analysis, verdict_cell(analysis)).steps.launch
    for term in (JITTER, EXPOSED_TRANSFER):
        assert not acting_steps(analysis, launch, {"term": term, "rank": None, "ranks": ""})


def test_windows_of_a_light_recording_are_not_called_steps(tmp_path):
    analysis = analyze_run(load_run(unpacked("ddp-light-slow-update", tmp_path)))
    strip = run_strip(analysis, verdict_cell(analysis))
    assert not strip.sentence or strip.sentence.endswith((" window", " windows"))
    assert sum(one.size for one in strip.columns) == strip.steps.num_steps
    wide = next(one for one in strip.columns if one.size > 1)
    assert f"steps {wide.step} to {wide.step + wide.size - 1}, mean: " in wide.text


def test_many_steps_share_columns_and_the_longest_of_each_is_shown():
    step = np.arange(1_000)
    table = pd.DataFrame({"step": step, "steady": step >= 5, "why": "warm-up", "num_steps": 1})
    table["dur_ns"] = np.where(step == 503, 2e6, 1e6)
    columns = _columns(table, frozenset({503}), "pause")
    assert len(columns) == MOST_COLUMNS
    assert [(one.step, one.height, one.text) for one in columns if one.acts] == [
        (503, 1.0, "step 503: 2.00 ms, pause")
    ]
    assert columns[0].text.endswith(", excluded: warm-up")
    assert not columns[0].steady
