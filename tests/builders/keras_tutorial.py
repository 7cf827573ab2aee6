"""The Keras script of a public tutorial, and its digits without a download."""

import re
from pathlib import Path

import numpy as np

from tests.builders.places import TUTORIALS

_FUNCTION = re.compile(r"^  def training_func\(\):\n(?:(?:    .*)?\n)+", re.M)

# Keras compares what lies on the disk with the digest of the real digits, else it downloads them.
DIGITS = """\
import importlib.abc
import sys


class Digits(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname == "tf_keras.src.datasets.mnist":
            sys.meta_path.remove(self)
            import tf_keras.src.utils.data_utils as data_utils

            data_utils.get_file = lambda path, **_: path
        return None


sys.meta_path.insert(0, Digits())
"""


def script() -> str:
    """A script that calls the function which the tutorial hands to ``horovod.run``, as printed."""
    for page in sorted(TUTORIALS.glob("*.txt")):
        if found := _FUNCTION.search(page.read_text()):
            return f"import horovod\n\nif True:\n{found[0]}\n  training_func()\n"
    raise LookupError(f"no tutorial below {TUTORIALS} has a function for horovod.run")


def write_digits(folder: Path, *, rank: int, number: int) -> None:
    """Random images where the script of a rank looks for MNIST, in the format of Keras."""
    random = np.random.default_rng(rank)
    images = random.integers(0, 256, (number, 28, 28), dtype=np.uint8)
    labels = random.integers(0, 10, number, dtype=np.uint8)
    np.savez(
        folder / f"mnist-{rank}.npz", x_train=images, y_train=labels, x_test=images, y_test=labels
    )
