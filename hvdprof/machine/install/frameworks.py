"""Which frameworks Horovod is built for: those of the interpreter, as asked for."""

import importlib.metadata
import importlib.util

from hvdprof.errors import EnvironmentNotReadyError, MissingExtraError
from hvdprof.machine.install.torch_install import TorchInstall

_PACKAGES = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-intel",
    "tensorflow-cpu-aws",
    "tensorflow-aarch64",
    "tf-nightly",
    "tf-nightly-cpu",
)


def find_tensorflow() -> str | None:
    """The version of the running interpreter's TensorFlow; ``None`` where none is installed.

    Read from its packages: importing it costs seconds.
    """
    if importlib.util.find_spec("tensorflow") is None:
        return None
    for package in _PACKAGES:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def chosen_frameworks(
    torch: TorchInstall | None, tensorflow: str | None, *, with_tensorflow: bool
) -> tuple[TorchInstall | None, str | None]:
    """Those of the found ones that Horovod is built for: at least one.

    Raises:
        EnvironmentNotReadyError: TensorFlow is asked for and not there, or the other way round.
        MissingExtraError: There is neither.
    """
    if with_tensorflow and tensorflow is None:
        raise EnvironmentNotReadyError(
            "TensorFlow is not installed.", hint="python -m pip install tensorflow"
        )
    if with_tensorflow:
        return torch, tensorflow
    if torch is None and tensorflow is not None:
        raise EnvironmentNotReadyError(
            "torch is not installed, but TensorFlow is.",
            hint="hvdprof install-horovod --tensorflow",
        )
    if torch is None:
        raise MissingExtraError("Building Horovod", extra="bench")
    return torch, None
