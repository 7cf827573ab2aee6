import subprocess
import sys

import pandas as pd
import pytest

from hvdprof.model.causes import PART_NAMES, PARTS, RECORDED_PARTS
from hvdprof.model.schema import Column, Table
from hvdprof.model.table_catalogue import TABLES
from hvdprof.model.tables.run_tables import STEPS

EXAMPLE = Table("example", "One thing.", (Column("a", "int64", "A."), Column("b", "str", "B.")))


def test_every_column_has_a_sentence_a_dtype_and_a_unit_where_its_name_has_one() -> None:
    wrong = []
    for table in TABLES:
        faults = [] if table.doc.endswith(".") else ["no sentence"]
        if len(set(table.column_names)) != len(table.columns):
            faults.append("a column twice")
        for column in table.columns:
            if not column.doc.endswith("."):
                faults.append(f"{column.name}: no sentence")
            for suffix, unit in (("_ns", "ns"), ("_bytes", "bytes")):
                if column.name.endswith(suffix) and column.unit != unit:
                    faults.append(f"{column.name}: unit {column.unit!r}")
        wrong += [f"{table.name}: {fault}" for fault in faults]
    assert wrong == []


def test_an_empty_table_has_its_columns_and_dtypes() -> None:
    wrong = [
        table.name
        for table in TABLES
        if [(name, str(dtype)) for name, dtype in table.empty().dtypes.items()]
        != [(column.name, column.dtype) for column in table.columns]
    ]
    assert wrong == []


def test_names_of_tables_are_unique() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES)


def test_a_frame_has_the_declared_order_and_dtypes() -> None:
    frame = EXAMPLE.frame({"b": ["x"], "a": [1.0]})
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].dtype == "int64"


@pytest.mark.parametrize("names", [["b", "a", "b"], ["é", "", "Z"], ["a", None], list("ab") * 40])
def test_the_categories_of_a_frame_are_those_that_pandas_finds(names: list[str | None]) -> None:
    table = Table("names", "One name.", (Column("name", "category", "A."),))

    found = table.frame({"name": names})["name"]

    expected = pd.Series(names, name="name", dtype="str").astype("category")
    pd.testing.assert_series_equal(found, expected)
    assert found.cat.categories.dtype == expected.cat.categories.dtype


@pytest.mark.parametrize(
    ("first", "chosen", "stored"),
    [
        ("hvdprof.cli.main", "auto", "python"),
        ("hvdprof.cli.main", "pyarrow", "pyarrow"),
        ("hvdprof.api", "auto", "pyarrow"),
    ],
)
def test_commands_store_text_as_strings_of_python_and_users_programs_as_they_chose(
    first: str, chosen: str, stored: str
) -> None:
    program = (
        f"import {first}, pandas as pd; pd.set_option('mode.string_storage', {chosen!r}); "
        "import hvdprof.model.schema; print(pd.Series(['a']).dtype.storage)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == f"{stored}\n", found.stderr


@pytest.mark.parametrize("data", [[], {"b": [], "a": []}, pd.DataFrame({"b": [], "a": []})])
def test_a_frame_without_rows_has_the_declared_dtypes_and_is_its_own(data: object) -> None:
    first = EXAMPLE.frame(data)
    first["a"] = first["a"].astype("float64")
    first["c"] = 0

    again = EXAMPLE.frame(data)
    assert list(again.columns) == ["a", "b"]
    assert [str(dtype) for dtype in again.dtypes] == ["int64", "str"]


def test_a_frame_without_rows_of_other_columns_is_an_error() -> None:
    with pytest.raises(ValueError, match="missing columns"):
        EXAMPLE.frame(pd.DataFrame({"a": []}))


@pytest.mark.parametrize("data", [{"a": [1]}, {"a": [1], "b": ["x"], "c": [0]}])
def test_missing_and_unknown_columns_are_errors(data: dict[str, list[object]]) -> None:
    with pytest.raises(ValueError, match="missing columns"):
        EXAMPLE.frame(data)


def test_the_parts_of_a_step_are_its_columns_and_have_names() -> None:
    assert {f"{part}_ns" for part in RECORDED_PARTS} <= set(STEPS.column_names)
    assert tuple(PART_NAMES) == PARTS
