import importlib.util
import sys
from pathlib import Path

import pytest

from hvdprof.machine.install.torch_install import find_torch

CPU = """from typing import Optional
__all__ = ['__version__', 'debug', 'cuda']
__version__ = '2.13.0+cpu'
debug = False
cuda: Optional[str] = None
git_version = 'cf30153c'
"""
CUDA = CPU.replace("+cpu", "+cu130").replace("Optional[str] = None", "Optional[str] = '13.0'")


def put_torch(folder: Path, version_text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "torch").mkdir()
    (folder / "torch/__init__.py").write_text("raise ImportError('must not be imported')\n")
    if version_text is not None:
        (folder / "torch/version.py").write_text(version_text, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("text", "version", "cuda"), [(CPU, "2.13.0+cpu", None), (CUDA, "2.13.0+cu130", "13.0")]
)
def test_version_is_read_without_importing(
    text: str,
    version: str,
    cuda: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_torch(tmp_path, text, monkeypatch)
    torch = find_torch()
    assert torch is not None
    assert (torch.version, torch.cuda) == (version, cuda)
    assert torch.folder == tmp_path / "torch"


@pytest.mark.parametrize("text", [None, "", "version = 3\n"])
def test_a_package_that_is_not_torch(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_torch(tmp_path, text, monkeypatch)
    assert find_torch() is None


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert find_torch() is None
