import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.figures.style import longest as module
from hvdprof.figures.style.longest import largest_of_each


def test_the_largest_of_each_group_largest_first():
    table = pd.DataFrame({"step": [1, 1, 2, 3], "ns": [5, 9, 7, 1], "tensor": list("abcd")})
    found = largest_of_each(table, "ns", ["step"], 2)
    assert found["tensor"].tolist() == ["b", "c"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), max_size=60), st.integers(1, 8))
def test_few_candidates_find_what_sorting_everything_finds(rows, most):
    table = pd.DataFrame(rows, columns=["step", "ns"]).astype("int64")
    expected = table.groupby("step")["ns"].max().sort_values(ascending=False).head(most)
    before = module._CANDIDATES_OF_EACH
    module._CANDIDATES_OF_EACH = 1
    try:
        found = largest_of_each(table, "ns", ["step"], most)
    finally:
        module._CANDIDATES_OF_EACH = before
    assert found["ns"].tolist() == expected.tolist()
    assert found["step"].is_unique
