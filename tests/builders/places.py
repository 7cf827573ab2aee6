"""Where the project, its own recordings and other people's files lie, for tests in any folder."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RECORDINGS = ROOT / "tests" / "ingest" / "recordings"

SHARED = ROOT.parent / "shared"
CORPUS = Path(os.environ.get("HVDPROF_CORPUS", SHARED / "corpus"))
SEEDS = Path(os.environ.get("HVDPROF_SEEDS", SHARED / "seeds"))
TIMELINES = Path(os.environ.get("HVDPROF_TIMELINES", SHARED / "timelines"))
FAULT_RECORDINGS = TIMELINES / "faults"

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="no corpus of public recordings on this machine"
)
