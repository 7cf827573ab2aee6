import dataclasses
import zipfile
from pathlib import Path

import pytest

from hvdprof.errors import StorageError
from hvdprof.machine.install.wheel_cache import (
    WheelCache,
    WheelKey,
    is_whole,
    platform_tag,
    python_tag,
)

KEY = WheelKey(
    horovod="0.28.1",
    torch="2.13.0+cpu",
    python="cpython-311",
    mpi="openmpi-4.1.8",
    flags=("gloo", "cpu"),
    platform="linux-x86_64-glibc2.36",
)
NAME = "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"


def make_wheel(path: Path, *, library: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("horovod/__init__.py", "__version__ = '0.28.1'\n" * 200)
        if library:
            archive.writestr("horovod/torch/mpi_lib_v2.cpython-311.so", bytes(range(256)) * 40)
        archive.writestr("horovod-0.28.1.dist-info/RECORD", "")
    return path


def start_of_library_data(wheel: Path) -> int:
    with zipfile.ZipFile(wheel) as archive:
        entry = archive.getinfo("horovod/torch/mpi_lib_v2.cpython-311.so")
    return entry.header_offset + 30 + len(entry.filename)


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("horovod", "0.28.2"),
        ("torch", "2.12.0+cpu"),
        ("python", "cpython-312"),
        ("mpi", "openmpi-5.0.11"),
        ("flags", ("gloo", "nccl")),
        ("platform", "linux-aarch64-glibc2.36"),
        ("recipe", 99),
        ("tensorflow", "2.21.0"),
    ],
)
def test_everything_that_changes_the_wheel_changes_the_key(field: str, other: object) -> None:
    changed = dataclasses.replace(KEY, **{field: other})
    assert changed.folder_name != KEY.folder_name


def test_the_name_is_stable_and_readable() -> None:
    assert KEY.folder_name == dataclasses.replace(KEY).folder_name
    # Wheels that were cached before there were builds for TensorFlow are still found.
    assert KEY.folder_name == (
        "horovod-0.28.1-torch-2.13.0+cpu-cpython-311-openmpi-4.1.8-00fad2f42f00"
    )


def test_a_wheel_for_tensorflow_alone_is_whole(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / NAME, library=False)
    assert not is_whole(wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("horovod/tensorflow/mpi_lib.cpython-311.so", b"library")
    assert is_whole(wheel)


def test_tags_name_this_interpreter_and_machine() -> None:
    assert python_tag().startswith("cpython-3")
    assert platform_tag().startswith("linux-")


def test_stored_wheels_are_found_by_their_key_alone(tmp_path: Path) -> None:
    cache = WheelCache(tmp_path / "wheels")
    assert cache.find(KEY) is None
    stored = cache.store(KEY, make_wheel(tmp_path / NAME))
    assert cache.find(KEY) == stored
    assert cache.find(dataclasses.replace(KEY, torch="2.12.0+cpu")) is None
    assert [path.name for path in stored.parent.iterdir()] == [NAME]


@pytest.mark.parametrize("damage", ["cut", "empty", *range(0, 60, 7)])
def test_a_damaged_wheel_is_removed_and_not_used(damage: str | int, tmp_path: Path) -> None:
    cache = WheelCache(tmp_path / "wheels")
    stored = cache.store(KEY, make_wheel(tmp_path / NAME))
    content = bytearray(stored.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = bytearray()
    else:
        assert isinstance(damage, int)
        content[start_of_library_data(stored) + damage] ^= 0xFF
    stored.write_bytes(content)
    assert cache.find(KEY) is None
    assert not stored.exists()


def test_a_wheel_without_the_compiled_library_is_not_whole(tmp_path: Path) -> None:
    assert is_whole(make_wheel(tmp_path / "a.whl"))
    assert not is_whole(make_wheel(tmp_path / "b.whl", library=False))
    assert not is_whole(tmp_path / "absent.whl")
    with pytest.raises(StorageError, match="damaged on its way"):
        WheelCache(tmp_path / "w").store(KEY, tmp_path / "b.whl")
    assert WheelCache(tmp_path / "w").find(KEY) is None


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "wheels").write_text("a file where the folder should be")
    with pytest.raises(StorageError):
        WheelCache(tmp_path / "wheels").store(KEY, make_wheel(tmp_path / NAME))
