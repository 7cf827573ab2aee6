"""Where the project, its own recordings and other people's files lie, for tests in any folder.

Files of other people are not part of the repository. A test that reads them carries the marker of
their folder from this module; the summary of pytest counts what was skipped without them.
"""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RECORDINGS = ROOT / "tests" / "ingest" / "recordings"

_SHARED = ROOT.parent / "shared"
CORPUS = Path(os.environ.get("HVDPROF_CORPUS", _SHARED / "corpus"))
TUTORIALS = Path(os.environ.get("HVDPROF_TUTORIALS", _SHARED / "seeds"))

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="no corpus of public recordings (HVDPROF_CORPUS)"
)
needs_tutorials = pytest.mark.skipif(
    not TUTORIALS.is_dir(), reason="no copies of public tutorials (HVDPROF_TUTORIALS)"
)
needs_gpu = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU")


def recording(name: str) -> Path:
    """A timeline of the repository; those of ``basics`` and ``faults`` are compressed."""
    places = (
        RECORDINGS / f"{name}.json",
        RECORDINGS / "basics" / f"{name}.json.gz",
        RECORDINGS / "faults" / f"{name}.json.gz",
    )
    return next(path for path in places if path.is_file())


LEAN_START = ROOT / "tests" / "builders" / "lean_start"
"""A folder for ``PYTHONPATH``: its module says what it leaves out of a process."""
