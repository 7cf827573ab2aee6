"""Which code is the user's, and how files are named: by their names and their modules alone.

The user's are the script and what it imports from outside site-packages and the standard library;
started with ``python -m``, all of the package that was started.
"""

import importlib.metadata
import os
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath
from types import CodeType

_OWN = f"{Path(__file__).absolute().parent.parent}/"
_STDLIB = f"{Path(os.__file__).absolute().parent}/"
_PACKAGES = ("/site-packages/", "/dist-packages/")
_ENTERED = ("<string>", "<stdin>", "<ipython-input", "<cell")
"""Begins of names of code that someone has typed, or a script has executed."""

_LAUNCHERS = ("horovod", "ipykernel", "ipykernel_launcher", "mpi4py", "pyspark", "ray", "torch")
"""Packages that are started with ``python -m`` and then run code of others."""

_BEGINS = ("_bootstrap", "bootstrap")
_BEGIN_FILES = ("/multiprocessing/process.py", "/hvdprof_import_hook.py")
"""Where a worker begins: the function of the standard library, and the recorder's around it."""

_FROZEN, _IPYTHON_CELL, _KERNEL_CELL = "<frozen ", "<ipython-input-", "ipykernel_"


class Owner(Enum):
    """Whose code it is.

    The recorder's own, and methods that the standard library writes, count as no code at all. What
    has called ``BEGIN`` belongs to the process from which a worker was forked.
    """

    USER = "user"
    LIBRARY = "library"
    UNSEEN = "unseen"
    BEGIN = "begin"


class UserCode:
    """Decides over code objects of a process, by its module ``__main__`` where that is known."""

    def __init__(self, main: object = None) -> None:
        self._package = _started_package(main)
        self._owner_of: dict[str, Owner] = {}

    def owner(self, code: CodeType, names: Mapping[str, object]) -> Owner:
        """Whose code it is, by the code and its global names."""
        file = code.co_filename
        if code.co_name in _BEGINS and file.endswith(_BEGIN_FILES):
            return Owner.BEGIN
        if file.startswith("<"):
            return self._owner_of_text(code, names)
        if not file.startswith("/"):
            return self._owner_by_module(names)
        known = self._owner_of.get(file)
        if known is None:
            known = self._owner_of[file] = self._owner_of_path(file)
        return known

    def _owner_of_path(self, file: str) -> Owner:
        if file.startswith(_OWN):
            return Owner.UNSEEN
        if self._package and file.startswith(self._package):
            return Owner.USER
        is_library = any(part in file for part in _PACKAGES) or file.startswith(_STDLIB)
        return Owner.LIBRARY if is_library or _is_zipped_stdlib(file) else Owner.USER

    def _owner_of_text(self, code: CodeType, names: Mapping[str, object]) -> Owner:
        file = code.co_filename
        if file.startswith(_FROZEN):
            return _owner_by_name(file.removeprefix(_FROZEN).rstrip(">"))
        is_of_tuple = str(names.get("__name__", "")).startswith("namedtuple_")
        if is_of_tuple or (code.co_name.startswith("__") and not file.startswith(_IPYTHON_CELL)):
            # Of a dataclass, or a named tuple: the line that calls it says more.
            return Owner.UNSEEN
        if "__name__" not in names and not file.startswith(_ENTERED):
            return Owner.LIBRARY
        return self._owner_by_module(names)

    def _owner_by_module(self, names: Mapping[str, object]) -> Owner:
        """By the file of the module, else by its name: frozen programs have no paths."""
        path = names.get("__file__")
        if isinstance(path, str) and path.startswith("/") and not hasattr(sys, "frozen"):
            return self._owner_of_path(path)
        name = names.get("__name__")
        return _owner_by_name(name if isinstance(name, str) else "__main__")


def shown_file(file: str) -> str:
    """How the file of the user's code is named: a cell of a notebook by its number where known."""
    if file.startswith(_IPYTHON_CELL):
        return f"In [{file.removeprefix(_IPYTHON_CELL).split('-')[0]}]"
    path = PurePath(file)
    if path.parent.name.startswith(_KERNEL_CELL):
        # The number of a cell by its file, where this process runs it; 0 elsewhere.
        shell_of = getattr(sys.modules.get("IPython"), "get_ipython", None)
        shell = shell_of() if shell_of is not None else None
        numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
        number = int(numbers.get(file, 0))
        return f"In [{number}]" if number else f"cell {path.stem}"
    return file


def shown_function(code: CodeType) -> str:
    """A function of a library, ``PIL/Image.py Image.decode``: its file within its package."""
    file = code.co_filename
    for part in _PACKAGES:
        _, found, tail = file.rpartition(part)
        if found:
            return f"{tail} {code.co_qualname}"
    if file.startswith(_STDLIB):
        return f"{file.removeprefix(_STDLIB)} {code.co_qualname}"
    return f"{file if file.startswith('<') else PurePath(file).name} {code.co_qualname}"


def _owner_by_name(module: str) -> Owner:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top.startswith("importlib"):
        return Owner.LIBRARY if top != "__main__" else Owner.USER
    try:
        importlib.metadata.distribution(top)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return Owner.USER
    return Owner.LIBRARY


def _is_zipped_stdlib(file: str) -> bool:
    zipped = f"python{sys.version_info.major}{sys.version_info.minor}.zip/"
    return zipped in file


def _started_package(main: object) -> str:
    """The folder of the package that ``python -m`` has started, or its one file; empty else."""
    name = getattr(getattr(main, "__spec__", None), "name", "")
    file = getattr(main, "__file__", None)
    package, _, _ = name.rpartition(".")
    if not isinstance(file, str) or name.partition(".")[0] in ("", *_LAUNCHERS):
        return ""
    if not package:
        return file
    folder = Path(file).absolute().parent
    depth = package.count(".")
    return f"{folder.parents[depth - 1] if depth else folder}/"
