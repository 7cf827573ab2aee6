import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from hvdprof.rundir import json_codec
from hvdprof.rundir.json_codec import LARGEST_INTEGER, decode, parse_json, read_lines


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


@pytest.mark.parametrize(
    ("damage", "clause"),
    [
        (b"\xff{}", "line 2 is damaged: UnicodeDecodeError"),
        (b'{"a": 1e999}', "line 2 is damaged: ValueError"),
        (b'{"a": -Infinity}', "line 2 is damaged: ValueError"),
        (b'{"a": %d}' % 2**63, "line 2 is damaged: ValueError"),
        (b'{"a": ' + b"9" * 6000 + b"}", "line 2 is damaged: ValueError"),
        (b"[" * 100_000, "line 2 is damaged: ValueError"),
        (b"7", "line 2 is damaged: ValueError"),
        (b'{"b": 5}', "line 2 is damaged: KeyError"),
        (b'{"a": "x"', "line 2 is damaged: JSONDecodeError"),
    ],
)
def test_damage_costs_its_line_alone(tmp_path: Path, damage: bytes, clause: str) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"a": 1}\n' + damage + b'\n\n{"a": "\\ud800\xc3\xa9"}\n{"a": NaN}')
    found: list[tuple[int, object]] = []
    clauses = read_lines(path, lambda number, line: found.append((number, line["a"])))
    assert clauses == [clause]
    assert found[:2] == [(1, 1), (4, "?é")]
    assert [number for number, _ in found] == [1, 4, 5]


def test_an_endless_line_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_codec, "LONGEST_LINE", 16)
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * 100 + b'"}\n{"a": 2}\n')
    found: list[object] = []
    assert read_lines(path, lambda _, line: found.append(line)) == ["line 1 is damaged: ValueError"]
    assert found == [{"a": 2}]
