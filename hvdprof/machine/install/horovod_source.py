"""Horovod's source as it is built here: what PyPI has, with the changes of ``horovod.patch``.

The patch lets Horovod 0.28.1 run with TensorFlow 2.16 and later (Keras 3) and with Python 3.12 and
later (no distutils), and builds for CPUs where an nvcc has no toolkit. It is an ordinary one:
``patch -p1 < horovod.patch`` does by hand what this module does on machines without that program.
"""

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from hvdprof.errors import BuildFailedError

HOROVOD_PIN = Path(__file__).with_name("horovod.txt")
"""Requirement with the hash of the file that pip may download for it."""

PATCH_FILE = Path(__file__).with_name("horovod.patch")

_FILE = re.compile(r"^--- a/\S+\n\+\+\+ b/(\S+)\n", re.MULTILINE)
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*\n", re.MULTILINE)


def download_command(python: str, folder: Path) -> list[str]:
    """The pip command that puts the archive of Horovod's source into a folder."""
    options = ["--no-build-isolation", "--no-deps", "--no-cache-dir", "--no-binary", ":all:"]
    target = ["--dest", str(folder), "--require-hashes", "-r", str(HOROVOD_PIN)]
    return [python, "-m", "pip", "download", *options, *target]


def unpack_patched(folder: Path) -> Path:
    """Unpack the archive of a folder, change it by ``horovod.patch``, and return its place.

    Raises:
        BuildFailedError: There is no archive, it is damaged, or it is of another version.
    """
    archives = sorted(folder.glob("horovod-*.tar.gz"))
    try:
        with tarfile.open(archives[0]) as archive:
            # Python before 3.11.4, Debian 12's, has no filters; pip has checked the hash.
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(folder / "source")
        (root,) = (folder / "source").iterdir()
        apply_patch(PATCH_FILE.read_text(encoding="utf-8"), root)
    except (OSError, tarfile.TarError, IndexError, ValueError) as error:
        raise BuildFailedError(
            f"Horovod's source could not be prepared: {error or 'no archive'}.",
            hint="Remove horovod-*.tar.gz from the folders of PIP_FIND_LINKS and try again.",
        ) from error
    return root


def apply_patch(patch: str, root: Path) -> None:
    """Change the files below a folder as a unified diff says.

    Raises:
        ValueError: A file does not have the lines that the diff has.
        OSError: A file is missing or cannot be written.
    """
    names = list(_FILE.finditer(patch))
    ends = [name.start() for name in names[1:]] + [len(patch)]
    for name, end in zip(names, ends, strict=True):
        path = root / name[1]
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        for first, old, new in _hunks_backwards(patch[name.end() : end]):
            if lines[first : first + len(old)] != old:
                raise ValueError(f"line {first + 1} of {name[1]} is not that of Horovod 0.28.1")
            lines[first : first + len(old)] = new
        path.write_text("".join(lines), encoding="utf-8")


def _hunks_backwards(diff: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """From the last on, so that those before keep their line numbers: index, old and new lines."""
    places = list(_HUNK.finditer(diff))
    ends = [place.start() for place in places[1:]] + [len(diff)]
    for place, end in reversed(list(zip(places, ends, strict=True))):
        lines = diff[place.end() : end].splitlines(keepends=True)
        old = [line[1:] for line in lines if line[0] in " -"]
        new = [line[1:] for line in lines if line[0] in " +"]
        yield int(place[1]) - 1, old, new
