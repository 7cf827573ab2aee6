import pandas as pd
import pytest

from hvdprof.dashboards.components.data_table import table_card
from hvdprof.model.tables.collective_tables import LINK_FIT
from hvdprof.model.tables.log_tables import STALLS
from hvdprof.model.tables.waiting_tables import STRAGGLERS

NAN = float("nan")


def grid_of(card):
    return next(one for one in card.children.children if hasattr(one, "columnDefs"))


def stragglers(**values):
    row = dict.fromkeys(STRAGGLERS.column_names, 0.5)
    names = {"pass_id": "p", "segment": "s", "rank": 1, "pattern": "persistent"}
    numbers = {
        "phase": "forward",
        "longest_run": 7,
        "num_events": 9,
        "first_step": 3,
        "lateness_ns": 3e6,
        "lateness_low_ns": 2e6,
    }
    return STRAGGLERS.frame([row | names | numbers | {"lateness_high_ns": 4e6} | values])


def test_heads_are_words_and_the_csv_keeps_the_declared_names():
    grid = grid_of(
        table_card("Late", STRAGGLERS, stragglers(), columns=["rank", "lateness_ns", "pattern"])
    )
    assert [(one["field"], one.get("headerName")) for one in grid.columnDefs] == [
        ("rank", "rank"),
        ("lateness_ns", "lateness"),
        ("lateness_low_ns", None),
        ("lateness_high_ns", None),
        ("pattern", "pattern"),
    ]
    assert [one["field"] for one in grid.columnDefs if one.get("hide")] == [
        "lateness_low_ns",
        "lateness_high_ns",
    ]
    assert "(CSV: lateness_ns, ns)" in grid.columnDefs[1]["headerTooltip"]


def test_a_number_is_sorted_by_value_and_shown_with_unit_and_interval():
    grid = grid_of(table_card("Late", STRAGGLERS, stragglers(), columns=["lateness_ns"]))
    assert grid.rowData == [
        {
            "lateness_ns_text": "3.00 ms (2.00 to 4.00)",
            "lateness_ns": 3e6,
            "lateness_low_ns": 2e6,
            "lateness_high_ns": 4e6,
        }
    ]


def test_what_is_missing_is_empty_in_the_csv_and_a_dash_on_the_page():
    frame = stragglers(lateness_ns=NAN, lateness_low_ns=NAN, lateness_high_ns=NAN)
    row = grid_of(table_card("Late", STRAGGLERS, frame, columns=["lateness_ns"])).rowData[0]
    assert row["lateness_ns"] is None
    assert row["lateness_ns_text"] == "-"


@pytest.mark.parametrize(("table", "names"), [(LINK_FIT, {"alpha_low_ns", "beta_high_ns_per_mb"})])
def test_without_a_choice_all_columns_are_shown_and_ends_of_intervals_hidden(table, names):
    grid = grid_of(table_card("Fit", table, table.empty()))
    assert {one["field"] for one in grid.columnDefs} == set(table.column_names)
    assert names <= {one["field"] for one in grid.columnDefs if one.get("hide")}


def test_a_long_text_wraps_in_a_column_of_bounded_width():
    grid = grid_of(
        table_card("Late", STRAGGLERS, stragglers(pattern="w " * 40), columns=["rank", "pattern"])
    )
    by_name = {one["field"]: one for one in grid.columnDefs}
    assert by_name["pattern"]["wrapText"]
    assert by_name["pattern"]["autoHeight"]
    assert "wrapText" not in by_name["rank"]


def test_a_time_that_a_log_prints_is_a_date():
    frame = pd.DataFrame({"time_ns": [1_555_163_792_000_000_000], "warning": [0]})
    card = str(table_card("Stalls", STALLS, frame, columns=("time_ns", "warning")))
    assert "2019-04-13 13:56:32" in card
