"""Horovod's source with our patch: on archives made here, and on the real one where pip gets it."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hvdprof.errors import BuildFailedError
from hvdprof.machine.install import horovod_source
from hvdprof.machine.install.horovod_source import (
    PATCH_FILE,
    apply_patch,
    download_command,
    unpack_patched,
)

DIFF = """--- a/horovod/one.py
+++ b/horovod/one.py
@@ -1,3 +1,4 @@
 first
-second
+other
+more
 third
@@ -6 +7 @@ a place
-sixth
+last
--- a/horovod/two.py
+++ b/horovod/two.py
@@ -2 +2 @@
-b
+c
"""
ONE = "first\nsecond\nthird\nfourth\nfifth\nsixth\n"


def make_source(root: Path, *, one: str = ONE) -> Path:
    (root / "horovod").mkdir(parents=True)
    (root / "horovod" / "one.py").write_text(one)
    (root / "horovod" / "two.py").write_text("a\nb\n")
    return root


def test_every_hunk_of_every_file_is_applied(tmp_path: Path) -> None:
    root = make_source(tmp_path)
    apply_patch(DIFF, root)
    changed = "first\nother\nmore\nthird\nfourth\nfifth\nlast\n"
    assert (root / "horovod" / "one.py").read_text() == changed
    assert (root / "horovod" / "two.py").read_text() == "a\nc\n"


def test_another_source_is_refused_with_the_place(tmp_path: Path) -> None:
    root = make_source(tmp_path, one=ONE.replace("second", "2nd"))
    with pytest.raises(ValueError, match=r"line 1 of horovod/one\.py"):
        apply_patch(DIFF, root)


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_an_archive_that_is_missing_or_damaged(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "horovod-0.28.1.tar.gz").write_bytes(content)
    with pytest.raises(BuildFailedError, match="could not be prepared"):
        unpack_patched(tmp_path)


@pytest.mark.parametrize("has_filters", [True, False])
def test_what_is_unpacked_is_patched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_filters: bool
) -> None:
    if not has_filters:  # Python 3.11.2
        whole = tarfile.TarFile.extractall
        monkeypatch.delattr(tarfile, "data_filter")
        monkeypatch.setattr(
            tarfile.TarFile, "extractall", lambda self, path: whole(self, path, filter="tar")
        )
    (tmp_path / "own.patch").write_text(DIFF)
    monkeypatch.setattr(horovod_source, "PATCH_FILE", tmp_path / "own.patch")
    with tarfile.open(tmp_path / "horovod-0.28.1.tar.gz", "w:gz") as archive:
        archive.add(make_source(tmp_path / "original"), "horovod-0.28.1")
    root = unpack_patched(tmp_path)
    assert (root / "horovod" / "two.py").read_text() == "a\nc\n"


@pytest.mark.install
def test_the_patch_fits_the_real_source(tmp_path: Path) -> None:
    command = download_command(sys.executable, tmp_path)
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    root = unpack_patched(tmp_path)
    assert "distutils" not in (root / "horovod" / "runner" / "js_run.py").read_text()
    changed = PATCH_FILE.read_text().count("--- a/")
    for path in root.glob("horovod/**/*.py"):
        compile(path.read_text(), str(path), "exec")
    assert changed == 15
