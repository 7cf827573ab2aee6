import pytest

from hvdprof.figures.history_figure import history_figure
from hvdprof.model.results.comparison import HISTORY, STEP_TIME, History
from tests.builders.declared_rows import declared_rows


def row(run, value, **more):
    cell = {"model": "<b>m</b>", "np": 2, "engine": "horovod", "compression": "none"}
    return cell | {"reduction": "average", "run": run, "value": value} | more


@pytest.mark.heavy
def test_a_change_is_marked_with_its_size_and_names_are_no_html():
    rows = declared_rows(
        HISTORY,
        row("a", 50e6, low=49e6, high=51e6),
        row("b", 55e6, low=54e6, high=56e6, is_change=True, change=0.1),
    )
    figure = history_figure(History(STEP_TIME, "", rows))
    (trace,) = figure.data
    assert trace.text == ("", "+10.0 %")
    assert list(trace.y) == [50.0, 55.0]
    assert trace.name == "&lt;b&gt;m&lt;/b&gt; on 2 ranks"
    assert figure.layout.yaxis.title.text == "step time, ms"


def test_without_rows_it_says_so():
    figure = history_figure(History(STEP_TIME, "", HISTORY.empty()))
    assert "No cell" in figure.layout.annotations[0].text
