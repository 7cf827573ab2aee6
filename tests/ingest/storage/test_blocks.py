import numpy as np
import pandas as pd
import pytest

from hvdprof.ingest.storage.blocks import block_of, length_of, stacked
from hvdprof.model.schema import Column, Table, names

TABLE = Table(
    "example",
    "One thing.",
    (
        Column("file", "category", "A name."),
        Column("step", "int64", "A number."),
        Column("size", "Int64", "A number or none."),
    ),
)


def test_pieces_are_stacked_in_order_and_single_values_hold_for_all_rows() -> None:
    frame = stacked(
        TABLE,
        [
            {"file": "a", "step": np.array([1, 2]), "size": pd.array([None, 5], dtype="Int64")},
            {"file": names(["b", "a"]), "step": 7, "size": pd.array([3, 4], dtype="Int64")},
        ],
    )

    assert frame["file"].tolist() == ["a", "a", "b", "a"]
    assert frame["step"].tolist() == [1, 2, 7, 7]
    assert frame["size"].isna().tolist() == [True, False, False, False]
    assert frame["size"].tolist()[1:] == [5, 3, 4]
    assert [str(dtype) for dtype in frame.dtypes] == ["category", "int64", "Int64"]


@pytest.mark.heavy
def test_pieces_with_the_same_names_share_their_categories() -> None:
    one, other = names(["b", "a", "b"]), names(["a", "b"])
    assert one.tolist() == ["b", "a", "b"]
    assert one.categories.tolist() == ["a", "b"]
    assert one.dtype is other.dtype
    assert names([]).tolist() == []


def test_names_of_many_pieces_are_one_category_and_missing_ones_stay_missing() -> None:
    pieces = [
        {"file": names([f"f{one}", "same"]), "step": one, "size": pd.array([one, 1], dtype="Int64")}
        for one in range(300)
    ]
    missing = pd.Categorical(["same", None])
    pieces.append({"file": missing, "step": 0, "size": pd.array([0, 0], dtype="Int64")})
    frame = stacked(TABLE, pieces)
    assert frame["file"].tolist()[:4] == ["f0", "same", "f1", "same"]
    assert len(frame["file"].cat.categories) == 301
    assert frame["file"].isna().tolist() == [False] * 601 + [True]


def test_a_frame_as_a_piece_is_the_same_frame_again() -> None:
    frame = TABLE.frame({"file": ["x", "y"], "step": [1, 2], "size": [None, 3]})

    pd.testing.assert_frame_equal(stacked(TABLE, [block_of(frame)]), frame)


def test_no_piece_is_an_empty_table() -> None:
    assert stacked(TABLE, []).empty
    assert list(stacked(TABLE, []).columns) == TABLE.column_names


def test_length_of_a_piece() -> None:
    assert length_of({"file": "name", "step": np.zeros(4)}) == 4
    assert length_of({"file": "name", "step": 3}) == 1
