"""Run by Python at the start of every process below `hvdprof run`.

Prepares the recording of a Horovod script, then runs the user's own `sitecustomize`, which this
one hides. Imports nothing that a script without Horovod would notice.

Tested by tests/collect/auto/test_startup.py.
"""

import os
import sys
from importlib.machinery import PathFinder


def _prepare() -> None:
    if not os.environ.get("HVDPROF_AUTORECORD"):
        return
    try:
        # By its own name, from the folder of this file: its package would import the recorder.
        __import__("hvdprof_import_hook").install()
    except Exception as error:
        sys.stderr.write(
            f"hvdprof recorder: nothing is recorded: {type(error).__name__}: {error}\n"
        )


def _run_hidden() -> None:
    own = os.path.realpath(__file__).rpartition(os.sep)[0]
    others = [path for path in sys.path if os.path.realpath(path) != own]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    # From importlib.util, it would bring contextlib, functools and collections.
    from importlib._bootstrap import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_prepare()
_run_hidden()
