"""Timeline profiler and scaling-efficiency analyzer for Horovod.

The names of ``hvdprof.api`` that stay from version to version are here, too:
``hvdprof.analyze_run("runs/RUN")``. They are declared in ``__init__.pyi``.
"""

import importlib

from hvdprof.errors import HvdprofError as HvdprofError

__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """A name of ``hvdprof.api.__all__``; importing the package alone imports none of them.

    Raises:
        AttributeError: There is no such name.
    """
    if not name.startswith("_"):
        api = importlib.import_module(f"{__name__}.api")
        if name in api.__all__:
            value: object = getattr(api, name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(
        [*importlib.import_module(f"{__name__}.api").__all__, "HvdprofError", "__version__"]
    )
