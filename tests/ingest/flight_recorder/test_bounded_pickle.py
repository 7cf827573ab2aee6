import io
import os
import pickle
import subprocess
from pathlib import Path

import pytest

from hvdprof.ingest.flight_recorder import bounded_pickle
from hvdprof.ingest.flight_recorder.bounded_pickle import (
    DEEPEST,
    RefusedPickleError,
    _PlainUnpickler,
    load_plain,
)

PLAIN = {
    "text": "a \N{SNOWMAN}", "numbers": [0, 1, -1, 300, 70_000, 2**40, -(2**70), 0.5],
    "others": (True, False, None, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
    "shared": [[1]] * 3, "empty": {}, "many": list(range(3000)),
}  # fmt: skip


class Calls:
    def __init__(self, function: object, *args: object) -> None:
        self.call = (function, args)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


_HOLDS_CODE = r"would call a function or class when loaded \(byte \d+\)"
_HOLDS_MORE = r"holds more than plain values \(byte \d+\)"


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_back(protocol: int) -> None:
    assert load_plain(pickle.dumps(PLAIN, protocol=protocol)) == PLAIN


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_a_call_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    witness = tmp_path / "ran"
    data = pickle.dumps({"entries": Calls(os.mkdir, str(witness))}, protocol=protocol)
    with pytest.raises(RefusedPickleError, match=_HOLDS_CODE if protocol else _HOLDS_MORE):
        load_plain(data)
    assert not witness.exists()


@pytest.mark.parametrize("value", [Path, subprocess.Popen, ValueError("no"), {1, 2}, b"bytes"])
def test_a_class_and_other_types_are_refused(value: object) -> None:
    with pytest.raises(RefusedPickleError, match=f"{_HOLDS_MORE}|{_HOLDS_CODE}"):
        load_plain(pickle.dumps([value], protocol=4))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.",
        b"\x80\x02(ios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02X\x01\x00\x00\x00aQ.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02}}b.",
    ],
    ids=["global", "inst", "stack-global", "persistent", "extension", "build"],
)
def test_every_opcode_that_can_reach_code_is_refused(data: bytes) -> None:
    with pytest.raises(RefusedPickleError, match=f"{_HOLDS_CODE}|outside the file"):
        load_plain(data)


def test_the_unpickler_refuses_classes_without_the_check() -> None:
    for data in (b"\x80\x02cos\nsystem\n.", b"\x80\x02X\x01\x00\x00\x00aQ."):
        with pytest.raises(RefusedPickleError):
            _PlainUnpickler(io.BytesIO(data)).load()


@pytest.mark.heavy
def test_deep_nesting_is_refused() -> None:
    value: list[object] = []
    for _ in range(DEEPEST - 2):
        value = [value]
    assert load_plain(pickle.dumps(value, protocol=2)) == value
    for data in (
        b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b".",
        b"\x80\x02N" + b"\x85" * 100_000 + b".",
    ):
        with pytest.raises(RefusedPickleError, match="nested"):
            load_plain(data)


def test_a_memo_of_many_places_is_refused() -> None:
    with pytest.raises(RefusedPickleError, match="memo"):
        load_plain(b"\x80\x02]r\xff\xff\xff\x7f.")


def test_too_many_containers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_pickle, "MOST_CONTAINERS", 1000)
    for value in ([{} for _ in range(2000)], [(number,) for number in range(2000)]):
        with pytest.raises(RefusedPickleError, match="containers"):
            load_plain(pickle.dumps(value, protocol=2))


def test_values_shared_at_every_level_are_read_once() -> None:
    value: list[object] = []
    for _ in range(DEEPEST - 2):
        value = [value, value]
    assert isinstance(load_plain(pickle.dumps(value, protocol=2)), list)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(RefusedPickleError, match="nested"):
        load_plain(pickle.dumps(value, protocol=2))


@pytest.mark.heavy
def test_long_runs_of_opcodes_are_read_whole() -> None:
    value = {"numbers": [(number, 0.5, number % 3 == 0, 2**40) for number in range(30_000)]}
    assert load_plain(pickle.dumps(value, protocol=2)) == value


def test_every_cut_is_refused() -> None:
    data = pickle.dumps({"a": [1, (2, 3)], "b": "text" * 5}, protocol=2)
    for end in range(len(data)):
        with pytest.raises(RefusedPickleError):
            load_plain(data[:end])


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02.",
        b"\x80\x02a.",
        b"\x80\x02h\x05.",
        b"\x80\x02}K\x01a.",
        b"\x80\x02e.",
        b"\x80\x02X\xff\xff\xff\xffa.",
    ],
)
def test_nonsense_is_refused(data: bytes) -> None:
    with pytest.raises(RefusedPickleError):
        load_plain(data)
