"""Which torch an interpreter has, read from its files: importing it costs seconds and memory."""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

_ASSIGNED = r"^{name}(?:\s*:[^=]*)?\s*=\s*['\"]([^'\"]+)['\"]"


@dataclass(frozen=True, slots=True)
class TorchInstall:
    """A torch package on disk.

    ``version`` is torch's own, local part included (``'2.13.0+cpu'``); ``cuda`` is the CUDA it was
    built for, ``None`` for a build without CUDA; ``folder`` is the package's folder.
    """

    version: str
    cuda: str | None
    folder: Path


def find_torch() -> TorchInstall | None:
    """The torch of the running interpreter; ``None`` where none is installed."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    version = _assigned("__version__", text)
    if version is None:
        return None
    return TorchInstall(version=version, cuda=_assigned("cuda", text), folder=folder)


def _assigned(name: str, text: str) -> str | None:
    match = re.search(_ASSIGNED.format(name=re.escape(name)), text, re.MULTILINE)
    return match.group(1) if match else None
