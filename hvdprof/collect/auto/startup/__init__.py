"""The folder that `hvdprof run` puts in front of PYTHONPATH; Python runs its `sitecustomize`."""

from pathlib import Path

FOLDER = Path(__file__).parent
