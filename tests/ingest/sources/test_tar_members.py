import io
import os
import tarfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hvdprof.ingest.sources.tar_members import TarDamageError, tar_members

PARTS = st.binary(min_size=1, max_size=40).filter(
    lambda name: not set(name) & set(b"\0/") and name not in (b".", b"..")
)
FILES = st.lists(
    st.tuples(st.lists(PARTS, min_size=1, max_size=9), st.binary(max_size=1500)), max_size=5
)
FORMATS = st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])


@pytest.mark.heavy
@given(files=FILES, form=FORMATS)
@example(files=[([b"\x80\n"], b"")], form=tarfile.PAX_FORMAT)
def test_members_are_those_that_tarfile_reads(
    files: list[tuple[list[bytes], bytes]], form: int
) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for parts, content in files:
            info = tarfile.TarInfo("/".join(map(os.fsdecode, parts)))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        expected = [
            (info.name, info.size, read.read() if (read := archive.extractfile(info)) else None)
            for info in archive
        ]
    out.seek(0)
    found = [
        (name, size, b"".join(pieces) if pieces is not None else None)
        for name, size, pieces in tar_members(out)
    ]
    assert found == expected


def test_content_that_nobody_reads_is_skipped() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in ("a", "b"):
            info = tarfile.TarInfo(name)
            info.size = 1000
            archive.addfile(info, io.BytesIO(bytes(1000)))
    out.seek(0)
    assert [name for name, _, _ in tar_members(out)] == ["a", "b"]


def test_an_archive_that_is_cut_off_says_so() -> None:
    info = tarfile.TarInfo("a")
    info.size = 5000
    stream = io.BytesIO(info.tobuf() + bytes(100))
    with pytest.raises(TarDamageError, match="ends early"):
        list(tar_members(stream))
