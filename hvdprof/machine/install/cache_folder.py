"""Where built wheels and build logs are cached for all virtual environments."""

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The user's cache folder of hvdprof; it need not exist.

    ``HVDPROF_CACHE_DIR``, else ``XDG_CACHE_HOME``/hvdprof, else ``~/.cache/hvdprof``.
    """
    variables = os.environ if environment is None else environment
    if variables.get("HVDPROF_CACHE_DIR"):
        return Path(variables["HVDPROF_CACHE_DIR"]).expanduser()
    base = variables.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path is invalid and is ignored.
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "hvdprof"
