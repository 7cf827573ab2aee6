import importlib.metadata
import importlib.util
from pathlib import Path

import pytest

from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError
from hvdprof.machine.install.frameworks import chosen_frameworks, find_tensorflow
from hvdprof.machine.install.torch_install import TorchInstall

TORCH = TorchInstall("2.13.0+cpu", None, Path("/venv/torch"))


def test_torch_is_built_for_alone_unless_tensorflow_is_asked_for() -> None:
    assert chosen_frameworks(TORCH, "2.21.0", with_tensorflow=False) == (TORCH, None)
    assert chosen_frameworks(TORCH, "2.21.0", with_tensorflow=True) == (TORCH, "2.21.0")
    assert chosen_frameworks(None, "2.21.0", with_tensorflow=True) == (None, "2.21.0")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(MissingExtraError):
        chosen_frameworks(None, None, with_tensorflow=False)
    with pytest.raises(EnvironmentNotReadyError, match="TensorFlow is not installed"):
        chosen_frameworks(TORCH, None, with_tensorflow=True)
    with pytest.raises(EnvironmentNotReadyError) as caught:
        chosen_frameworks(None, "2.21.0", with_tensorflow=False)
    assert "--tensorflow" in caught.value.hint


def test_the_version_is_that_of_the_package_that_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(package: str) -> str:
        if package != "tensorflow-cpu":
            raise importlib.metadata.PackageNotFoundError(package)
        return "2.21.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert find_tensorflow() == "2.21.0"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert find_tensorflow() is None
