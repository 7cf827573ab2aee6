"""Other people's real files: where they are, and the reason to skip where they are not."""

import os
from pathlib import Path

import pytest

CORPUS = Path(os.environ.get("HVDPROF_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="no corpus of public recordings on this machine"
)
