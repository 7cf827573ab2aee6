import json
import re

import pytest
from plotly.utils import PlotlyJSONEncoder

from hvdprof.dashboards.pages import compare
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from tests.analyze.test_engines import both_engines
from tests.builders.analysis import sweep, with_a_straggler
from tests.builders.run_directory import PassSpec, SegmentSpec, write_run
from tests.builders.served_dashboard import (
    check_in_browser,
    empty_run,
    measured_run,
    page_text,
    shown_text,
    standalone_timeline,
)

pytestmark = pytest.mark.slow

NOTHING = "Nothing to compare"


def compared(text, row="configuration"):
    """What stands in the columns of both in one row of the first table."""
    start = text.index(f'"children": "{row}"')
    cells = re.findall(r'"children": "([^"]*)"', text[start:])
    return cells[1], cells[2]


def test_a_cell_is_compared_with_its_toggle(tmp_path):
    text = page_text(compare, measured_run(tmp_path / "run"))
    assert compared(text) == ("mnist np=2, Horovod", "mnist np=2, fp16")
    for heading in ("Side by side", "The same in numbers", "Speedup of fp16, Adasum and DDP"):
        assert f'"{heading}"' in text
    assert "training loss, mean over ranks" in text
    assert '"No toggle was measured' not in text


def test_horovod_is_compared_with_ddp_where_both_were_measured(tmp_path):
    text = page_text(compare, write_run(tmp_path / "run", both_engines()))
    assert compared(text) == ("mnist np=2, Horovod", "mnist np=2, DDP")
    assert "mnist np=2, DDP for Horovod" in text
    assert "of the throughput of Horovod" in text
    # A curve of losses needs losses, which this run has not; both engines stand in the lists.
    assert text.count("mnist np=1, DDP") >= 2


def test_cells_are_taken_from_the_address(tmp_path):
    run = measured_run(tmp_path / "run")
    text = page_text(
        compare, run, one="mnist|1|horovod|none|average", other="mnist|2|horovod|none|average"
    )
    assert compared(text) == ("mnist np=1, Horovod", "mnist np=2, Horovod")


def test_two_runs_are_compared_by_the_same_cell(tmp_path):
    paths = [measured_run(tmp_path / name) for name in ("one", "two")]
    view = View(compare.PATH, {"run": "one", "with": "two"})
    shown = compare.layout(RunStore(paths), view)
    text = json.dumps(shown, cls=PlotlyJSONEncoder)
    assert compared(text) == ("mnist np=2, Horovod",) * 2
    assert compared(text, "run") == ("one", "two")
    # The same run twice: no cause differs significant.
    assert '"children": "yes"' not in text


def test_the_rank_that_changed_between_two_runs_is_named_with_its_cost(tmp_path):
    for name, extra in (("one", (0.02, 0.0, 0.01)), ("two", (0.42, 0.38, 0.41))):
        write_run(tmp_path / name, with_a_straggler(extra_ms=extra))
    view = View(compare.PATH, {"run": "one", "with": "two"})
    shown = compare.layout(RunStore([tmp_path / "one", tmp_path / "two"]), view)
    text = shown_text(shown)

    assert "Rank 1 is slower in forward by 393 µs" in text
    moved = text[text.index("What moved") :]
    assert moved.index("rank 1 slower in forward") < moved.index('"children": "yes"')
    assert "rank-change" in moved


def test_a_run_that_cannot_be_compared_is_named_and_the_page_continues(tmp_path):
    paths = [
        measured_run(tmp_path / "one"),
        standalone_timeline(tmp_path),
        empty_run(tmp_path / "none"),
    ]
    for name in ("timeline.json", "none"):
        view = View(compare.PATH, {"run": "one", "with": name})
        text = json.dumps(compare.layout(RunStore(paths), view), cls=PlotlyJSONEncoder)
        assert f"{name} cannot be compared" in text
        assert "Side by side" in text


def test_every_configuration_of_both_runs_is_in_one_table(tmp_path):
    paths = [measured_run(tmp_path / name) for name in ("one", "two")]
    view = View(compare.PATH, {"run": "one", "with": "two"})
    text = json.dumps(compare.layout(RunStore(paths), view), cls=PlotlyJSONEncoder)
    table = text[text.index("Every configuration") :]
    table = table[: table.index("Speedup of fp16")]
    for run in ("one", "two"):
        assert table.count(f'"children": "{run}"') == 3
    assert table.count("mnist np=2, fp16") == 2
    two_cells = [one for one in both_engines() if one.segments[0].engine == "ddp"]
    alone = page_text(compare, write_run(tmp_path / "ddp", two_cells))
    assert "Every configuration" not in alone


@pytest.mark.parametrize("make", [empty_run, standalone_timeline])
def test_without_data_it_says_how_to_get_them(tmp_path, make):
    folder = tmp_path / "run" if make is empty_run else tmp_path
    assert NOTHING in page_text(compare, make(folder))


@pytest.mark.browser
def test_in_a_browser(tmp_path):
    expected = {"measured": "Side by side", "empty": NOTHING, "timeline": NOTHING}
    check_in_browser(compare, tmp_path, expected)


def test_the_name_of_a_script_may_hold_any_sign(tmp_path):
    named = SegmentSpec(model="a|2|<b>.py")
    run = write_run(tmp_path / "run", [PassSpec(size=size, segments=[named]) for size in (1, 2)])
    # One number of ranks against another is no comparison of settings.
    text = page_text(compare, run)
    assert "No other run of a|2|<b>.py at np=2 is here." in text
    cell = "a|2|<b>.py|2|horovod|none|average"
    assert compared(page_text(compare, run, one=cell, other=cell))[0] == (
        "a|2|<b>.py np=2, Horovod"
    )


def test_one_run_asks_for_the_second_and_is_never_compared_with_itself(tmp_path):
    paths = [
        write_run(tmp_path / name, sweep(sizes), created_at=f"2026-11-1{day}T08:00:00+00:00")
        for day, (name, sizes) in enumerate(
            (("one", {1: 10.0, 2: 12.0}), ("two", {2: 12.5}), ("alone", {1: 10.0}))
        )
    ]
    view = View(compare.PATH, {"run": "one"})
    text = shown_text(compare.layout(RunStore(paths), view))
    assert "Compare one with which run?" in text
    assert '"/compare?run=one&with=two"' in text
    assert "with=alone" not in text
    assert "Side by side" not in text
    assert "2026-11-11 08:00 UTC" in text


def test_the_answer_is_above_the_choices(tmp_path):
    paths = [measured_run(tmp_path / "one")]
    paths += [write_run(tmp_path / name, sweep({1: 10.0, 2: 12.0})) for name in ("two", "three")]
    for run, other, answer in (
        ("one", None, "mnist np=2, fp16: "),
        ("two", "three", "EQUAL: "),
    ):
        view = View(compare.PATH, {"run": run}).changed(**{"with": other})
        first, second, *_ = compare.layout(RunStore(paths), view).children
        assert answer in shown_text(first)
        assert '"What to compare"' in shown_text(second)


def test_the_outcome_of_two_runs_is_above_their_difference(tmp_path):
    paths = [
        write_run(tmp_path / name, sweep({1: 10.0, 2: step_ms}))
        for name, step_ms in (("one", 12.0), ("two", 13.2))
    ]
    view = View(compare.PATH, {"run": "one", "with": "two"})
    text = shown_text(compare.layout(RunStore(paths), view))
    assert "REGRESSED: mnist on 2 ranks: step time +10.0 %" in text
    assert text.index("Every metric") < text.index("Side by side")
    assert "hvdprof compare one two" in text
    assert '"regressed"' in text
