import pandas as pd
import pytest

from hvdprof.figures.waits import mean_waits, wait_by_rank, wait_by_tensor
from hvdprof.model.tables.waiting_tables import CAUSED_WAIT, COLLECTIVE_ARRIVALS

HOSTILE = "<img src=x onerror=alert(1)>"


def caused_wait_row(rank, fair_ms, waited_ms=1.0):
    return {
        "pass_id": "p",
        "segment": "s",
        "rank": rank,
        "num_steps": 10,
        "share_last": 0.5,
        "share_undecided": 0.0,
        "waited_ns": waited_ms * 1e6,
        "wait_as_last_ns": fair_ms * 1e6 / 2,
        "caused_wait_ns": fair_ms * 1e6,
        "cost_ns": 0.0,
        "cost_share": 0.0,
    }


def arrival_row(tensor, step, wait_ms, last_rank=1):
    return {
        "pass_id": "p",
        "segment": "s",
        "step": step,
        "tensor": tensor,
        "num_ranks": 2,
        "first_ns": 0,
        "second_last_ns": 0,
        "last_ns": round(wait_ms * 1e6),
        "last_rank": last_rank,
        "wait_sum_ns": round(wait_ms * 1e6),
        "decided": True,
    }


def test_a_bar_a_rank_and_a_measure():
    figure = wait_by_rank(
        CAUSED_WAIT.frame([caused_wait_row(0, 3.0), caused_wait_row(1, 0.5, waited_ms=4.0)])
    )
    bars = {bar.name: list(bar.y) for bar in figure.data}
    assert bars["wait of the rank itself"] == pytest.approx([1.0, 4.0])
    assert bars["caused wait (Shapley)"] == pytest.approx([3.0, 0.5])
    assert bars["wait as last rank"] == pytest.approx([1.5, 0.25])
    assert figure.layout.xaxis.title.text == "rank"


def test_of_many_ranks_those_that_caused_most_wait_are_shown():
    figure = wait_by_rank(
        CAUSED_WAIT.frame([caused_wait_row(rank, fair_ms=rank) for rank in range(100)])
    )
    assert list(figure.data[0].x) == [str(rank) for rank in range(60, 100)]
    assert figure.layout.xaxis.title.text == "rank (the 40 with the largest caused wait of 100)"


def test_tensors_are_ordered_by_their_mean_wait_and_name_their_last_rank():
    rows = [
        arrival_row("a", 0, 1.0),
        arrival_row("a", 1, 3.0),
        arrival_row("b", 0, 5.0, last_rank=0),
        arrival_row("b", 1, 7.0),
        arrival_row("b", 2, 6.0, last_rank=0),
    ]
    waits = mean_waits(COLLECTIVE_ARRIVALS.frame(rows))
    assert waits["tensor"].tolist() == ["b", "a"]
    assert waits["wait_ns"].tolist() == [6e6, 2e6]
    assert waits["most_last"].tolist() == [0, 1]
    assert waits["most_last_share"].tolist() == pytest.approx([2 / 3, 1.0])


def test_names_of_tensors_stay_text():
    figure = wait_by_tensor(COLLECTIVE_ARRIVALS.frame([arrival_row(HOSTILE, 0, 1.0)]))
    assert "<img" not in figure.to_json().replace("\\u003c", "<")
    assert "&lt;img" in figure.layout.yaxis.ticktext[0]


def test_what_all_names_begin_with_is_said_once():
    rows = [arrival_row(f"allreduce.net.{name}", 0, 1.0) for name in ("conv.weight", "conv.bias")]
    axis = wait_by_tensor(COLLECTIVE_ARRIVALS.frame(rows)).layout.yaxis
    assert axis.ticktext == ("weight", "bias")
    assert axis.title.text == "allreduce.net.conv.…"


@pytest.mark.parametrize(
    ("draw", "table"), [(wait_by_rank, CAUSED_WAIT), (wait_by_tensor, COLLECTIVE_ARRIVALS)]
)
def test_without_rows_it_says_so(draw, table):
    assert isinstance(table.empty(), pd.DataFrame)
    assert draw(table.empty()).layout.annotations[0].text
