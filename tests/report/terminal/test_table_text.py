import pandas as pd
import pytest

from hvdprof.model.schema import Column, Table
from hvdprof.report.terminal.table_section import (
    column_texts,
    ends_of_intervals,
    heading,
    interval_ends,
    is_number,
)

TABLE = Table(
    "example",
    "A row of an example.",
    (
        Column("tensor", "category", "A name."),
        Column("num_steps", "Int64", "A number."),
        Column("beta_ns_per_mb", "float64", "A slope.", "ns/MB"),
        Column("beta_low_ns_per_mb", "float64", "Its lower end.", "ns/MB"),
        Column("beta_high_ns_per_mb", "float64", "Its upper end.", "ns/MB"),
        Column("share", "float64", "A share.", "ratio"),
        Column("share_low", "float64", "Its lower end.", "ratio"),
        Column("share_high", "float64", "Its upper end.", "ratio"),
        Column("samples_per_s", "float64", "A rate.", "samples/s"),
        Column("waited_s", "float64", "A time.", "s"),
        Column("offset_low_ns", "float64", "An end that belongs to no number.", "ns"),
    ),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tensor", "tensor"),
        ("num_steps", "steps"),
        ("beta_ns_per_mb", "beta"),
        ("share_low", "share low"),
        ("samples_per_s", "samples per s"),
        ("waited_s", "waited"),
        ("offset_low_ns", "offset low"),
    ],
)
def test_a_heading_is_words_without_the_unit_that_every_cell_names(name, expected):
    column = next(one for one in TABLE.columns if one.name == name)
    assert heading(column) == expected


def test_the_ends_of_an_interval_are_found_with_and_without_a_unit_in_the_name():
    ends = {"beta_low_ns_per_mb", "beta_high_ns_per_mb", "share_low", "share_high"}
    assert ends_of_intervals(TABLE) == ends
    assert interval_ends(TABLE.columns[1], TABLE) is None


def test_texts_hold_unit_and_interval_and_missing_stays_missing():
    rows = TABLE.frame(
        {
            "tensor": ["w", None],
            "num_steps": pd.array([1234, None], dtype="Int64"),
            "beta_ns_per_mb": [820_000.0, float("nan")],
            "beta_low_ns_per_mb": [800_000.0, float("nan")],
            "beta_high_ns_per_mb": [840_000.0, float("nan")],
            "share": [0.5, 0.25],
            "share_low": [0.4, float("nan")],
            "share_high": [0.6, float("nan")],
            "samples_per_s": [10.0, 20.0],
            "waited_s": [1.0, 2.0],
            "offset_low_ns": [1.0, 2.0],
        }
    )
    texts = {one.name: column_texts(one, TABLE, rows) for one in TABLE.columns}
    assert texts["tensor"] == ["w", ""]
    assert texts["num_steps"] == ["1,234", "-"]
    assert texts["beta_ns_per_mb"] == ["820 µs/MB (800 to 840)", "-"]
    assert texts["share"] == ["50 % (40 to 60)", "25.0 %"]
    assert texts["waited_s"] == ["1.00 s", "2.00 s"]


def test_flags_and_names_are_no_numbers():
    dtypes = ("str", "category", "bool", "boolean", "Int64", "float64")
    numbers = [is_number(Column("a", dtype, "A.")) for dtype in dtypes]
    assert numbers == [False, False, False, False, True, True]
