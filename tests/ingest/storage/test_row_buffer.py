import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.storage import row_buffer
from hvdprof.ingest.storage.row_buffer import Rows
from hvdprof.model.schema import Column, Table

DTYPES = ("category", "str", "int64", "int32", "Int64", "Int32", "float64", "bool", "boolean")
TABLE = Table("all_dtypes", "A row.", tuple(Column(f"a_{name}", name, "x") for name in DTYPES))

INT32 = st.integers(-(2**31), 2**31 - 1)
# The least of all whole numbers stands for a missing one.
INT64 = st.integers(-(2**63) + 1, 2**63 - 1)
ROW = st.tuples(
    st.text(max_size=2),
    st.text(max_size=2),
    INT64,
    INT32,
    st.none() | INT64,
    st.none() | INT32,
    st.none() | st.floats(allow_nan=False),
    st.booleans(),
    st.none() | st.booleans(),
)


def plain(value: object) -> object:
    return None if pd.isna(value) else value


@pytest.mark.slow
@given(rows=st.lists(ROW, max_size=12), pack_at=st.integers(1, 5))
def test_rows_come_back_as_they_were_added(rows: list[tuple[object, ...]], pack_at: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_buffer, "_PACK_AT", pack_at)
        buffer = Rows(TABLE)
        for number, row in enumerate(rows):
            if number % 2:
                buffer.append(*row)
            else:
                buffer.add(**dict(zip(TABLE.column_names, row, strict=True)))
            assert len(buffer) == number + 1
        frame = buffer.frame()
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == {
        f"a_{name}": name for name in DTYPES
    }
    read = [tuple(map(plain, row)) for row in frame.itertuples(index=False, name=None)]
    assert read == rows
    assert len(buffer) == len(rows)


def test_the_last_row_can_be_changed_wherever_the_border_of_packing_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_buffer, "_PACK_AT", 2)
    buffer = Rows(Table("t", "A row.", (Column("n", "int64", "x"),)))
    for number in range(5):
        buffer.append(number)
        buffer.set_last(n=10 * number)
    assert buffer.frame()["n"].tolist() == [0, 10, 20, 30, 40]


def test_columns_are_those_of_the_table() -> None:
    buffer = Rows(Table("t", "A row.", (Column("n", "int64", "x"),)))
    with pytest.raises(ValueError, match="has no column other"):
        buffer.add(n=1, other=2)
    with pytest.raises(KeyError):
        buffer.add()


def test_many_rows_repeat_a_few() -> None:
    columns = (Column("name", "category", "x"), Column("n", "Int64", "x"))
    buffer = Rows(Table("t", "A row.", columns))
    buffer.append("a", None)
    buffer.extend([("b", None), ("a", 7)], np.array([0, 1, 0]), {"n": np.array([5, 6, 1 << 40])})
    buffer.append("c", 2)
    rows = buffer.frame()
    assert rows["name"].tolist() == ["a", "b", "a", "b", "c"]
    assert [plain(number) for number in rows["n"]] == [None, 5, 6, 1 << 40, 2]


def test_categories_are_in_the_order_of_their_first_rows() -> None:
    table = Table("names", "A row.", (Column("name", "category", "x"),))
    buffer = Rows(table)
    names = [f"name {number * 7 % 30}" for number in range(60)]
    for name in names:
        buffer.append(name)
    assert list(buffer.frame()["name"].cat.categories) == names[:30]


def test_rows_put_aside_in_a_file_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "_ASIDE_AT", 10)
    columns = {"a": "category", "owner": "Int64", "n": "Int64", "line": "int64", "part": "float64"}
    table = Table("t", "A row.", tuple(Column(name, dtype, "x") for name, dtype in columns.items()))
    frames = []
    for aside in (False, True):
        buffer = Rows(table, aside=aside)
        for piece in range(5):
            rows = [("x", 0, None, 0, 0.0), (f"y{piece}", 1, 7, 0, 0.0)]
            which = np.array([0, 1, 1, 0])
            lines = np.arange(4) + 10**piece
            buffer.extend(rows, which, {"line": lines, "part": lines / 3})
            buffer.append("z", -1, 3, 5, 0.5)
        frames.append(buffer.frame({"owner": np.array([40, -1, -1])}))
        assert (buffer._file is not None) == aside
    pd.testing.assert_frame_equal(*frames)
    assert frames[0]["owner"].tolist()[:2] == [40, pd.NA]


def test_the_file_of_rows_that_are_never_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_buffer, "_ASIDE_AT", 2)
    buffer = Rows(Table("t", "A row.", (Column("n", "int64", "x"),)), aside=True)
    buffer.extend([(1,)], np.zeros(3, dtype=np.int64), {})
    file = buffer._file
    del buffer
    assert file is not None
    assert file.closed
