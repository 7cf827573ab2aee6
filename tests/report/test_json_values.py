import math

import pandas as pd
import pytest

from hvdprof.report.json_values import json_rows, json_value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (math.inf, None),
        (pd.NA, None),
        (1.5, 1.5),
        (True, True),
        (("a", math.nan), ["a", None]),
        ({"a": {"b": pd.NA}}, {"a": {"b": None}}),
    ],
)
def test_what_is_missing_or_not_finite_is_null(value, expected):
    assert json_value(value) == expected


def test_rows_keep_the_types_of_their_columns():
    table = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "x": [0.5, math.nan]})
    assert json_rows(table) == [{"n": 1, "x": 0.5}, {"n": None, "x": None}]


def test_a_value_without_a_form_is_refused():
    with pytest.raises(TypeError, match="set"):
        json_value({1, 2})
