from pathlib import Path

import pytest

from hvdprof.rundir import line_file
from hvdprof.rundir.line_file import read_lines


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
    monkeypatch.setattr(line_file, "LONGEST_LINE", 16)
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * 100 + b'"}\n{"a": 2}\n')
    found: list[object] = []
    assert read_lines(path, lambda _, line: found.append(line)) == ["line 1 is damaged: ValueError"]
    assert found == [{"a": 2}]
