import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pytest

from hvdprof.rundir.json_codec import decode


@dataclass(frozen=True)
class Part:
    name: str
    ratio: float = 0.5


@dataclass(frozen=True)
class Whole:
    sizes: tuple[int, ...]
    np: str | int | Sequence[int] | None
    parts: tuple[Part, ...] = ()
    extra: dict[str, object] | None = None


@pytest.mark.parametrize(
    "whole",
    [
        Whole((1, 2), "1,2"),
        Whole((), 4, (Part("a"), Part("b", 1.0)), {"x": [True, None]}),
        Whole((3,), (1, 2)),
        Whole((3,), None),
    ],
)
def test_a_record_survives_json(whole: Whole) -> None:
    assert decode(Whole, json.loads(json.dumps(asdict(whole))), "whole") == whole
    # A record that was never written still holds tuples.
    assert decode(Whole, asdict(whole), "whole") == whole


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "whole is list, not dict"),
        ({"np": 1}, "whole has no 'sizes'"),
        ({"sizes": [1, "2"], "np": 1}, r"whole\.sizes\[1\] is str, not int"),
        ({"sizes": [True], "np": 1}, r"whole\.sizes\[0\] is bool, not int"),
        ({"sizes": "12", "np": 1}, r"whole\.sizes is str, not list"),
        ({"sizes": [], "np": 1.5}, r"whole\.np is float, not str"),
        ({"sizes": [], "np": 1, "parts": [{}]}, r"whole\.parts\[0\] has no 'name'"),
    ],
)
def test_other_types_are_named_with_their_place(data: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(Whole, data, "whole")


def test_keys_of_a_newer_version_are_skipped_unless_they_matter() -> None:
    data = {"sizes": [], "np": 1, "parts": [{"name": "a", "colour": "red"}]}
    assert decode(Whole, data, "whole").parts == (Part("a"),)
    with pytest.raises(ValueError, match=r"whole\.parts\[0\] has 'colour', unknown here"):
        decode(Whole, data, "whole", unknown_keys=False)


def test_whole_numbers_are_read_as_the_floats_of_a_field() -> None:
    part = decode(Part, {"name": "a", "ratio": 1}, "part")
    assert isinstance(part.ratio, float)
