import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.errors import HvdprofError, UnreadableInputError
from hvdprof.ingest.sources import archives, tar_members
from hvdprof.ingest.sources.archives import is_archive, unpack
from hvdprof.ingest.sources.workspace import Workspace
from hvdprof.model.notes import texts
from tests.builders.examples import examples

FILES = {"job/rank.0/stdout": b"step 1\n" * 100, "job/rank.1/stdout": b"", "timeline.json": b"[]"}
LONG = "/".join(["d" * 60] * 5) + "/" + "ü" * 50
NAMES = st.binary(min_size=1, max_size=30).filter(
    lambda name: b"\0" not in name and b"/" not in name
)


def tar_of(files: dict[str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zip_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def unpacked(path: Path, content: bytes) -> tuple[dict[str, bytes], list[str]]:
    path.write_bytes(content)
    with Workspace() as workspace:
        found = unpack(path, workspace)
        files = {
            one.relative_to(found.folder).as_posix(): one.read_bytes()
            for one in found.folder.rglob("*")
            if one.is_file()
        }
        assert not any(one.is_symlink() for one in found.folder.rglob("*"))
        folder = found.folder
    assert not folder.exists()
    return files, list(texts(found.notes))


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zstd], ids=lambda one: one.__name__
)
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_archive(tmp_path: Path, pack: Callable[[bytes], bytes], form: int) -> None:
    files = FILES if form == tarfile.USTAR_FORMAT else {**FILES, LONG: b"long"}
    content = pack(tar_of(files, form))
    assert is_archive(content[:65536])
    assert unpacked(tmp_path / "a", content) == (files, [])


def test_a_zip_archive(tmp_path: Path) -> None:
    content = zip_of({**FILES, LONG: b"long"})
    assert is_archive(content)
    assert unpacked(tmp_path / "a", content) == ({**FILES, LONG: b"long"}, [])


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"a log\n" * 100, b"\0" * 2000, gzip.compress(b"a")],
    ids=["empty", "one byte", "log", "zeros", "gzip"],
)
def test_other_files_are_no_archives(text: bytes) -> None:
    assert not is_archive(text)


@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "a/../../evil", "a\\..\\evil", "."])
@pytest.mark.parametrize("pack", [tar_of, zip_of], ids=["tar", "zip"])
def test_nothing_leaves_the_folder(
    tmp_path: Path, name: str, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    files, notes = unpacked(tmp_path / "a", pack({name: b"evil", "good": b"1"}))
    assert files == {"good": b"1"}
    assert notes[0].startswith("1 entry is left out")
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind, target in ((tarfile.SYMTYPE, "/etc"), (tarfile.LNKTYPE, "good")):
            info = tarfile.TarInfo(f"link{kind!r}")
            info.type, info.linkname = kind, target
            archive.addfile(info)
        for kind in (tarfile.FIFOTYPE, tarfile.CHRTYPE):
            info = tarfile.TarInfo(f"device{kind!r}")
            info.type = kind
            archive.addfile(info)
        info = tarfile.TarInfo("linkb'2'/passwd")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    files, notes = unpacked(tmp_path / "a", out.getvalue())
    assert files == {"linkb'2'/passwd": b"x"}
    assert notes[0].startswith("4 entries are left out")


def test_a_name_that_stands_twice_and_a_file_as_a_folder(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in (("a", b"1"), ("a", b"2"), ("a/b", b"3"), ("x" * 300, b"4")):
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(content))
    files, notes = unpacked(tmp_path / "a", out.getvalue())
    assert files == {"a": b"1"}
    assert notes[0].startswith("3 entries")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "pack", [lambda files: gzip.compress(tar_of(files)), zip_of], ids=["tar.gz", "zip"]
)
def test_a_bomb_is_refused_at_a_bound_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    monkeypatch.setattr(archives, "_ALWAYS_BYTES", 1_000_000)
    path = tmp_path / "bomb"
    path.write_bytes(pack({"a": b"\0" * 30_000_000}))
    with Workspace() as workspace, pytest.raises(UnreadableInputError, match="unpacks to more"):
        unpack(path, workspace)
    monkeypatch.setattr(archives, "MOST_FILES", 10)
    path.write_bytes(pack({str(number): b"" for number in range(11)}))
    with Workspace() as workspace, pytest.raises(UnreadableInputError, match="more than 10 files"):
        unpack(path, workspace)


def test_a_header_that_states_a_giant_name_costs_no_memory(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 5 << 30
    content = info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    files, notes = unpacked(tmp_path / "a", content)
    assert (files, notes) == (
        {},
        ["the archive is damaged (a name is longer than 64 KiB); nothing of it is read"],
    )


def test_files_of_other_programs_that_are_zip_archives_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(zip_of({"model/data.pkl": b"", "model/data/0": b""}))
    with Workspace() as workspace, pytest.raises(UnreadableInputError, match="PyTorch checkpoint"):
        unpack(path, workspace)


def test_what_stands_before_damage_is_read(tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(50_000)
    whole = gzip.compress(tar_of({"first": b"1", "second": noise, "third": b"3"}))
    files, notes = unpacked(tmp_path / "a", whole[: len(whole) // 2])
    assert files["first"] == b"1"
    assert "third" not in files
    assert notes[0].startswith("the archive is damaged (")
    assert notes[0].endswith("; read up to there")


@pytest.mark.heavy
@settings(max_examples=examples(150), deadline=None)
@given(
    files=st.dictionaries(NAMES, st.binary(max_size=2000), min_size=1, max_size=4),
    packing=st.sampled_from([tar_of, zip_of, lambda files: gzip.compress(tar_of(files))]),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=6),
    cut=st.floats(0.1, 1),
)
def test_damaged_archives_end_in_a_message_or_in_files(
    tmp_path_factory: pytest.TempPathFactory,
    files: dict[bytes, bytes],
    packing: Callable[[dict[str, bytes]], bytes],
    changes: list[tuple[float, int]],
    cut: float,
) -> None:
    names = {os.fsdecode(name): content for name, content in files.items()}
    try:
        content = bytearray(packing(names))
    except UnicodeEncodeError:
        # ``zipfile`` writes no name that is not UTF-8.
        content = bytearray(tar_of(names))
    for place, value in changes:
        content[int(place * (len(content) - 1))] = value
    folder = tmp_path_factory.mktemp("mutant")
    path = folder / "a"
    path.write_bytes(content[: int(len(content) * cut)])
    with Workspace() as workspace:
        try:
            found = unpack(path, workspace)
        except HvdprofError:
            found = None
        assert [one.name for one in folder.iterdir()] == ["a"]
        if found is not None:
            for one in found.folder.rglob("*"):
                assert not one.is_symlink()
                assert one.resolve().is_relative_to(found.folder.resolve())


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_of_a_small_archive_that_is_cut_the_files_before_the_cut_are_there(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    noise = random.Random(1).randbytes(20_000)
    packed = pack(tar_of({"first": b"1\n", "second": noise}))
    files, notes = unpacked(tmp_path / "a", packed[: len(packed) // 2])
    assert files["first"] == b"1\n"
    assert noise.startswith(files["second"])
    assert "the archive is damaged" in notes[0]


@pytest.mark.parametrize("pack", [tar_of, zip_of], ids=["tar", "zip"])
def test_a_name_of_too_many_folders_is_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[[dict[str, bytes]], bytes],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deep = {"/".join(["d"] * depth): b"1" for depth in (700, 1400, 1900)}
    files, notes = unpacked(tmp_path / "a", pack({**deep, "good": b"1"}))
    assert files == {"good": b"1"}
    assert notes[0].startswith("3 entries are left out")
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_name_that_is_not_of_the_encoding_it_states_is_damage(tmp_path: Path) -> None:
    content = zip_of({"ü": b"1"})
    assert content.count("ü".encode()) == 2
    content = content.replace("ü".encode(), b"\xff\xfe")
    files, (note,) = unpacked(tmp_path / "a", content)
    assert files == {}
    assert note.startswith("the archive is damaged ('utf-8' codec can't decode")


def test_an_extended_header_with_a_giant_length_is_damage(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@PaxHeader")
    record = b"9" * 5000 + b" path=a\n"
    info.type, info.size = tarfile.XHDTYPE, len(record)
    content = info.tobuf(tarfile.GNU_FORMAT) + record.ljust(5120, b"\0") + bytes(1024)
    assert unpacked(tmp_path / "a", content) == (
        {},
        ["the archive is damaged (an extended header is damaged); nothing of it is read"],
    )


@pytest.mark.heavy
def test_content_of_members_that_are_left_out_counts_towards_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_ALWAYS_BYTES", 1_000_000)
    info = tarfile.TarInfo("device")
    info.type, info.size = tarfile.CHRTYPE, 30_000_000
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(info.tobuf() + bytes(info.size)))
    with Workspace() as workspace, pytest.raises(UnreadableInputError, match="unpacks to more"):
        unpack(path, workspace)


def test_the_number_of_headers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_members, "MOST_HEADERS", 3)
    info = tarfile.TarInfo("folder")
    info.type = tarfile.DIRTYPE
    path = tmp_path / "a"
    path.write_bytes(info.tobuf() * 4)
    with Workspace() as workspace, pytest.raises(UnreadableInputError, match="more than 3 entries"):
        unpack(path, workspace)


@pytest.mark.heavy
def test_a_giant_directory_of_a_zip_archive_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(zip_of({f"{number:0500}": b"" for number in range(9_000)}))
    with Workspace() as workspace, pytest.raises(UnreadableInputError, match="directory of more"):
        unpack(path, workspace)
