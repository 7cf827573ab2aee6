"""The MNIST tutorials of other people, their data, and a torchvision that imports without a GPU."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.builders.places import TUTORIALS

_SCRIPT = re.compile(
    r"# %load pytorch_mnist\.py\n(.*?\n    for epoch in range\(1, args\.epochs \+ 1\):\n"
    r"        train\(epoch\)\n        test\(\)\n)",
    re.DOTALL,
)
_RUNNER_PARTS = (
    re.compile(r"^import torch\nimport torch\.nn as nn\n.*?(?=^import torch\.optim)", re.M | re.S),
    re.compile(r"^import torch\.optim as optim\n.*?\n\n", re.M | re.S),
    re.compile(r"^import horovod\.torch as hvd\n.*?(?=^Now that)", re.M | re.S),
)

# The wheel without its GPU libraries lacks two operators that its import asks for.
OPERATORS = """\
import importlib.abc
import importlib.machinery
import pathlib
import runpy
import sys


class Operators(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            self.library = torch.library.Library("torchvision", "DEF")
            self.library.define("nms(Tensor a) -> Tensor")
            self.library.define("qnms(Tensor a) -> Tensor")
            sys.torchvision_operators = self.library
        return None


sys.meta_path.insert(0, Operators())
# The one that this stands before.
behind = sys.path[sys.path.index(str(pathlib.Path(__file__).parent)) + 1 :]
if found := importlib.machinery.PathFinder.find_spec("sitecustomize", behind):
    runpy.run_path(found.origin)
"""


def script() -> str:
    """The script of Horovod's own MNIST example, as a tutorial prints it."""
    for page in sorted(TUTORIALS.glob("*.txt")):
        if found := _SCRIPT.search(page.read_text()):
            return found[1]
    raise LookupError(f"no tutorial below {TUTORIALS} prints pytorch_mnist.py")


def runner_script(checkpoints: Path) -> str:
    """A script around the function that another tutorial hands to HorovodRunner.

    The function and what it needs stand as printed; the folder of checkpoints is this test's, and
    the runner, which is not public, is never called.
    """
    stand_in = "sys.modules['sparkdl'] = types.SimpleNamespace(HorovodRunner=None)\n"
    return _around_runner(checkpoints, stand_in, "train_hvd(learning_rate=0.001)\n")


def runner_notebook(checkpoints: Path) -> str:
    """The notebook of that tutorial with its own call, hvdprof in the runner's place, on Spark."""
    return _around_runner(
        checkpoints,
        "from hvdprof import api\n"
        "from tests.builders.session_driver import spark\n"
        "sys.modules['sparkdl'] = types.SimpleNamespace(HorovodRunner=api.HorovodRunner)\n",
        "with spark():\n"
        "    hr = HorovodRunner(np=2) \n"
        "    hr.run(train_hvd, learning_rate = 0.001)\n",
    )


def _around_runner(checkpoints: Path, runner: str, call: str) -> str:
    for page in sorted(TUTORIALS.glob("*.txt")):
        found = [part.search(page.read_text()) for part in _RUNNER_PARTS]
        if all(found):
            printed = "".join(one[0] for one in found if one)
            begin = f"import sys\nimport types\n{runner}PYTORCH_DIR = {str(checkpoints)!r}\n"
            return f"{begin}{printed}\n{call}"
    raise LookupError(f"no tutorial below {TUTORIALS} has a function for HorovodRunner")


def install_torchvision(folder: Path) -> None:
    """Put torchvision into a folder of its own, without what it asks for, and its operators."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, "torchvision==0.28.0", "pillow"], check=True, timeout=300)
    (folder / "sitecustomize.py").write_text(OPERATORS)


def write_digits(folder: Path, *, num_train: int, num_test: int) -> None:
    """MNIST's IDX files with random images, where torchvision looks for them before it downloads.

    The format: http://yann.lecun.com/exdb/mnist/ (magic numbers 2051 and 2049, big-endian).
    """
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    random = np.random.default_rng(0)
    for kind, number in (("train", num_train), ("t10k", num_test)):
        images = random.integers(0, 256, (number, 28, 28), dtype=np.uint8)
        labels = random.integers(0, 10, number, dtype=np.uint8)
        head = struct.pack(">iiii", 2051, number, 28, 28)
        (raw / f"{kind}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = struct.pack(">ii", 2049, number)
        (raw / f"{kind}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())
