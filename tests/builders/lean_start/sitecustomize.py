"""Start processes of Horovod without what takes processor time and changes nothing they do.

Python runs this in each process of a test with real ranks, but those of time: ``tests/conftest.py``
puts the folder into ``PYTHONPATH``.

* ``import torch`` registers how operators act on tensors without data: a quarter of its time. Only
  compilers and DTensor ask for that; it is registered when one of them is imported.
* Each ``horovodrun`` imports torch in a child process, only to ask Horovod whether it was built
  with Gloo or MPI. The first one of a worker of the tests does; the others read its answer.
* Spark forks the workers of all jobs of a session from one process, and each imports Horovod's
  half for Spark, with pandas and SciPy. That process imports it for all.
"""

import os
import sys

WITHOUT_DATA = "torch._meta_registrations"
ASK = {"torch._dynamo", "torch.distributed.tensor"}


class _Finder:
    """Gives torch a module that registers nothing, and the real one to those that ask for it."""

    def find_spec(self, name: str, *_: object) -> object:
        if name == WITHOUT_DATA:
            from importlib.machinery import ModuleSpec

            return ModuleSpec(name, self)
        if name in ASK:
            sys.meta_path.remove(self)
            sys.modules.pop(WITHOUT_DATA, None)
            __import__(WITHOUT_DATA)
        return None

    def create_module(self, _spec: object) -> None:
        """The module is an ordinary one."""

    def exec_module(self, _module: object) -> None:
        import torch

        # What the real one imports does this for torch.Generator, from torch 2.13 on.
        if late := getattr(torch._C, "_set_generator_metaclass", None):
            from torch._opaque_base import OpaqueBaseMeta

            late(OpaqueBaseMeta)


def _remember_features(folder: str) -> None:
    """Let ``horovodrun`` keep what it asks of an installed Horovod in a folder."""
    import json
    from pathlib import Path

    from horovod.common import util

    ask = util._check_extension_lambda

    def answer(extension: str, asked: object, feature: str, verbose: bool) -> object:
        place = f"{util.__file__} {extension} {feature}".replace("/", "_")
        file = Path(folder, f"{place}.json")
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            new = file.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps(ask(extension, asked, feature, verbose)))
            new.replace(file)
        return json.loads(file.read_text())

    util._check_extension_lambda = answer


if "HVDPROF_TESTS_WARM" in os.environ:
    # Only there: every process of a test runs this.
    __import__("warm_proxy").continue_warm()
if not any(type(finder).__name__ == _Finder.__name__ for finder in sys.meta_path):
    sys.meta_path.insert(0, _Finder())
_state = os.environ.get("XDG_STATE_HOME")
if _state and "".join(sys.orig_argv[1:2]).endswith("/horovodrun"):
    _remember_features(_state)
elif sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    __import__("horovod.spark")
