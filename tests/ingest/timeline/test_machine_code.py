import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

pytest.importorskip("numba", reason="machine code needs numba")

from hvdprof.ingest.timeline import horovod_timeline, machine_code
from hvdprof.ingest.timeline.machine_code import (
    Compiled,
    NotCompiledError,
    has_numba,
    numba_refusal,
)
from hvdprof.ingest.timeline.meaning.uses import ENOUGH_ROWS, run_loop
from tests.builders.places import RECORDINGS
from tests.builders.refusing_numba import refuse_loops
from tests.builders.timeline_reference import assert_same

STEP = 3


def double(value):
    return 2 * value


def weigh(pair, flags, table, first):
    """The sum of some of the numbers, and all of them times two in the second column."""
    numbers, doubled = pair
    total = 0
    for row in range(first, len(numbers)):
        doubled[row] = double(numbers[row])
        if flags[row]:
            total += numbers[row] * table[row, 1] + STEP
    return total


def divide(numbers, by):
    return numbers[0] // by


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine_code, "_folders", lambda: (tmp_path,))
    return tmp_path


@pytest.fixture
def refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_loops(monkeypatch, cache)


def arguments(dtype: str = "int64"):
    numbers = np.arange(5, dtype=dtype)
    table = np.arange(10).reshape(5, 2)
    return (numbers, np.zeros_like(numbers)), np.array([True, False] * 3)[:5], table, 1


@pytest.mark.heavy
def test_it_gives_what_plain_python_gives() -> None:
    for dtype in ("int64", "int32", "uint8"):
        plain, fast = arguments(dtype), arguments(dtype)

        assert Compiled(weigh)(*fast) == weigh(*plain) == 2 * 5 + 4 * 9 + 2 * STEP
        assert fast[0][1].tolist() == plain[0][1].tolist() == [0, 2, 4, 6, 8]


@pytest.mark.heavy
def test_columns_that_lie_apart_and_words_at_odd_addresses_are_read() -> None:
    text = np.arange(40, dtype=np.uint8)
    words = np.ndarray(20, np.uint64, text.data, strides=(1,))
    plain, fast = arguments(), arguments()
    apart = np.arange(10)[::2]
    flags, table = np.ones(5, bool), np.asfortranarray(np.ones((5, 2), np.int64))

    assert Compiled(divide)(words[3:], 1) == int.from_bytes(bytes(range(3, 11)), "little")
    assert Compiled(weigh)((apart, fast[0][1]), flags, table, 0) == 20 + 5 * STEP
    assert weigh((apart, plain[0][1]), flags, table, 0) == 20 + 5 * STEP


@pytest.mark.heavy
def test_what_fails_in_the_loop_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="divide failed"):
        Compiled(divide)(np.ones(1, np.int64), 0)


@pytest.mark.heavy
def test_code_of_the_cache_is_not_compiled_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Compiled(weigh)(*arguments())
    (file,) = cache.iterdir()
    monkeypatch.setattr(machine_code, "_compile", lambda *_: pytest.fail("compiled again"))

    assert Compiled(weigh)(*arguments()) == 52
    assert [file] == list(cache.iterdir())


@pytest.mark.heavy
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:200] + bytes([content[200] ^ 255]) + content[201:],
    ],
    ids=["empty", "cut", "one byte"],
)
def test_damaged_code_is_compiled_anew(
    cache: Path, damage: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    Compiled(weigh)(*arguments())
    (file,) = cache.iterdir()
    file.write_bytes(damage(file.read_bytes()))

    assert Compiled(weigh)(*arguments()) == 52
    monkeypatch.setattr(machine_code, "_compile", lambda *_: pytest.fail("compiled again"))
    assert Compiled(weigh)(*arguments()) == 52


@pytest.mark.heavy
@pytest.mark.parametrize("change", [{"STEP": 4}, {"double": lambda value: 2 * value + 1}])
def test_a_change_of_the_loop_or_of_what_it_uses_replaces_it_in_the_cache(
    cache: Path, change: dict[str, object]
) -> None:
    Compiled(weigh)(*arguments())
    (before,) = cache.iterdir()
    other = FunctionType(weigh.__code__, weigh.__globals__ | change, "weigh")
    other.__qualname__, other.__module__ = weigh.__qualname__, weigh.__module__

    assert Compiled(other)(*arguments()) == other(*arguments())
    (after,) = cache.iterdir()
    assert after != before


@pytest.mark.heavy
def test_without_a_folder_for_the_cache_it_compiles_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(machine_code, "_folders", lambda: (tmp_path / "file" / "folder",))

    assert Compiled(weigh)(*arguments()) == 52


@pytest.mark.heavy
def test_code_in_a_folder_that_everyone_may_write_to_is_not_run(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Compiled(weigh)(*arguments())
    compiled_again: list[object] = []
    compile_ = machine_code._compile
    monkeypatch.setattr(
        machine_code, "_compile", lambda *given: compiled_again.append(given) or compile_(*given)
    )
    cache.chmod(0o777)

    assert Compiled(weigh)(*arguments()) == 52
    assert len(compiled_again) == 1


@pytest.mark.usefixtures("refused")
def test_a_loop_that_numba_refuses_turns_compiled_code_off_with_one_sentence() -> None:
    assert has_numba()
    assert numba_refusal() == ""
    with pytest.raises(NotCompiledError):
        Compiled(weigh)(*arguments())

    assert not has_numba()
    (version,) = re.findall(r"numba ([\d.]+) refuses weigh \(KeyError: ", numba_refusal())
    assert version
    assert "\n" not in numba_refusal()


def fill_doubled(inputs, outputs):
    (numbers,), (doubled,) = inputs, outputs
    for row in range(len(numbers)):
        doubled[row] = 2 * numbers[row]


@pytest.mark.usefixtures("refused")
def test_a_loop_over_columns_that_numba_refuses_runs_as_plain_python() -> None:
    rows = np.arange(10 * ENOUGH_ROWS)
    doubled = np.zeros_like(rows)

    run_loop(fill_doubled, (rows,), (doubled,))

    assert doubled.tolist() == (2 * rows).tolist()
    assert "fill_doubled" in numba_refusal()


@pytest.mark.usefixtures("refused")
def test_a_large_timeline_is_read_without_the_numba_that_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = RECORDINGS / "07_mpi_fp16.json"
    plain = horovod_timeline.read_raw(path)
    monkeypatch.setattr(horovod_timeline, "SMALL_BYTES", 1)

    assert_same(horovod_timeline.read_raw(path), plain)
    assert "parse" in numba_refusal()


def test_numba_is_not_imported_where_the_code_is_in_the_cache(tmp_path: Path) -> None:
    path = RECORDINGS / "07_mpi_fp16.json"
    code = (
        "import sys; from pathlib import Path;"
        "from hvdprof.ingest.timeline import horovod_timeline;"
        "horovod_timeline.SMALL_BYTES = 0;"
        f"print(len(horovod_timeline.read_raw(Path({str(path)!r})).slices));"
        "print('numba' in sys.modules)"
    )
    shown = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]

    assert shown[-1].stdout.split()[1] == "False"
    assert shown[0].stdout.split()[0] == shown[1].stdout.split()[0] != "0"
