import pytest

from hvdprof.rundir.json_text import LARGEST_INTEGER, parse_json


def test_values_are_those_of_json() -> None:
    assert parse_json('{"a": [1, -2.5, null, "x"]}') == {"a": [1, -2.5, None, "x"]}
    assert parse_json(b"[true]") == [True]
    assert parse_json(str(LARGEST_INTEGER)) == LARGEST_INTEGER


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, "[" * 200_000 + "]" * 200_000, "{", str(2**63), "-1" + "0" * 30, "1" * 5000],
    ids=["open", "deep", "no JSON", "65 bits", "negative", "too many digits"],
)
def test_all_that_is_wrong_is_one_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(text)
