"""Run by Python at the start of every process below `hvdprof run`.

Prepares the recording of a Horovod script, then runs the `sitecustomize` that the user has of his
own and that this one hides. Nothing is imported here that a script without Horovod would feel.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path


def _prepare() -> None:
    if not os.environ.get("HVDPROF_AUTORECORD"):
        return
    try:
        from hvdprof.collect import import_hook

        import_hook.install()
    except Exception as error:
        sys.stderr.write(
            f"hvdprof recorder: nothing is recorded: {type(error).__name__}: {error} "
            f"(is hvdprof installed for {sys.executable}?)\n"
        )


def _run_hidden() -> None:
    own = Path(__file__).resolve().parent
    others = [path for path in sys.path if Path(path).resolve() != own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_prepare()
_run_hidden()
