"""Loops over arrays as machine code: numba compiles a loop once, llvmlite loads it from then on.

Importing numba and making it load what it compiled takes half a second and 100 MB of every command;
llvmlite takes a tenth of that. So the machine code is cached beside this module, else in the user's
cache folder. It serves only while the loop, all that it calls, the versions and the processor are
the same, and only where no other user can have written it.

A loop is called as numba's own code is: each array as its address, lengths and strides. References
are not counted (``_nrt``), and what the loop calls is inlined: both would take most of the time.

Both need parts of numba that other versions may not have. Where this one refuses a loop, all are
run without it from then on.
"""

import contextlib
import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hvdprof.errors import StorageError
from hvdprof.machine.install.cache_folder import cache_folder
from hvdprof.model.arrays import Column
from hvdprof.rundir.trusted_file import let_only_owner_write, open_trusted, trusted_folder
from hvdprof.rundir.written_file import open_whole

if TYPE_CHECKING:
    from llvmlite.binding import TargetMachine
    from numba.core.dispatcher import Dispatcher
    from numba.core.types import Type

Argument = Column | int | tuple["Argument", ...]


class ArrayShape(NamedTuple):
    """The type of an array."""

    dtype: str
    ndim: int
    contiguous: bool
    aligned: bool


Shape = ArrayShape | None | tuple["Shape", ...]
"""What numba compiles for: ``None`` for a number, a tuple for a tuple."""

Shapes = tuple[Shape, ...]

Loop = FunctionType

_ENTRY = "entry"
_HEX_DIGITS = 16
_CHECKSUM_BYTES = hashlib.sha256().digest_size
_compiling = threading.Lock()
_refusals: list[str] = []


class NotCompiledError(Exception):
    """The installed numba refuses a loop; it has to run as plain Python."""


def has_numba() -> bool:
    """Whether compiled code may be used."""
    return not _refusals and _is_numba_installed()


def numba_refusal() -> str:
    """Why timelines are read without the installed numba, and the fix; empty where it is used."""
    return _refusals[0] if _refusals else ""


@functools.cache
def _is_numba_installed() -> bool:
    return importlib.util.find_spec("numba") is not None


class Compiled:
    """A function of whole numbers, arrays and tuples of arrays that runs as machine code.

    It must not allocate arrays, and returns a whole number or nothing. What it calls are functions
    that its module knows by name. Other threads run meanwhile.
    """

    def __init__(self, function: Loop) -> None:
        self._function = function
        self._entries: dict[Shapes, Callable[..., int]] = {}

    def __call__(self, *arguments: Argument) -> int:
        """What the function returns; 0 where it returns nothing.

        Raises:
            NotCompiledError: The installed numba refuses it; arguments are as they were.
        """
        shape = tuple(map(_shape_of, arguments))
        numbers: list[int] = []
        _add_numbers(arguments, numbers)
        with _compiling:
            entry = self._entries.get(shape)
            if entry is None:
                entry = self._entries[shape] = _entry(self._function, shape, len(numbers))
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        if entry(ctypes.byref(result), ctypes.byref(error), *numbers):
            raise RuntimeError(f"{self._function.__qualname__} failed")
        return result.value


@functools.cache
def compiled(function: Loop) -> Compiled:
    """The compiled form of a function; the same one whenever it is asked for."""
    return Compiled(function)


def _shape_of(argument: Argument) -> Shape:
    if isinstance(argument, tuple):
        return tuple(map(_shape_of, argument))
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return ArrayShape(argument.dtype.char, argument.ndim, flags.c_contiguous, flags.aligned)
    return None


def _add_numbers(argument: Argument, numbers: list[int]) -> None:
    """An argument as numba passes it: of arrays their owners (none), sizes, address and edges."""
    if isinstance(argument, tuple):
        for member in argument:
            _add_numbers(member, numbers)
    elif isinstance(argument, np.ndarray):
        address = argument.__array_interface__["data"][0]
        numbers += (0, 0, argument.size, argument.itemsize, address)
        numbers += argument.shape + argument.strides
    else:
        numbers.append(argument)


def _entry(function: Loop, shape: Shapes, num_numbers: int) -> Callable[..., int]:
    try:
        return _loaded(function, shape, num_numbers)
    except Exception as error:
        # Any exception: another version may lack a module, an option or a type.
        first_line = str(error).strip().partition("\n")[0]
        _refusals.append(
            f"Compiled code is not used: numba {_version_of('numba')} refuses "
            f"{function.__name__} ({type(error).__name__}: {first_line}). Large timelines take "
            "some twenty times as long. Install another version of numba."
        )
        raise NotCompiledError(_refusals[-1]) from error


def _version_of(distribution: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return "of unknown version"


def _loaded(function: Loop, shape: Shapes, num_numbers: int) -> Callable[..., int]:
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name = _name_of(function, shape)
    code = _cached(name)
    if code is None:
        code = _compile(function, shape)
        _keep(name, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * num_numbers)
    entry = kind(engine.get_function_address(_ENTRY))
    # The code lives as long as its engine.
    setattr(entry, "engine", engine)  # noqa: B010 - ctypes declares no attributes
    return entry


def _target() -> "TargetMachine":
    from llvmlite import binding as llvm

    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="default",
        codemodel="jitdefault",
        jit=True,
    )


def _compile(function: Loop, shape: Shapes) -> bytes:
    from llvmlite import binding as llvm

    jitted = _jitted(function, {}, inlined=False)
    jitted.compile(tuple(map(_numba_type, shape)))
    (signature,) = jitted.signatures
    module = llvm.parse_assembly(jitted.inspect_llvm(signature))
    called = [function.name for function in module.functions if function.is_declaration]
    if not all(name.startswith("llvm.") for name in called):
        # Loading code whose symbols are not found would end the process.
        raise RuntimeError(f"{function.__qualname__} calls {', '.join(called)}")
    # All else is inlined.
    (entry,) = (function for function in module.functions if not function.is_declaration)
    entry.name = _ENTRY
    return bytes(_target().emit_object(module))


def _jitted(function: Loop, done: dict[Loop, "Dispatcher"], *, inlined: bool) -> "Dispatcher":
    """The function as numba takes it, and in it those that it calls."""
    from numba import njit

    known = dict(function.__globals__)
    for name, value in _globals_of(function):
        if isinstance(value, FunctionType):
            done[value] = done.get(value) or _jitted(value, done, inlined=True)
            known[name] = done[value]
    copy = FunctionType(function.__code__, known, function.__name__)
    jitted: Dispatcher = njit(  # type: ignore[call-overload]
        copy, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=inlined
    )
    return jitted


def _globals_of(function: Loop) -> list[tuple[str, object]]:
    """What a function uses of its module, by name."""
    known = function.__globals__
    return [(name, known[name]) for name in function.__code__.co_names if name in known]


def _numba_type(shape: Shape) -> "Type":
    from numba import from_dtype, types

    if shape is None:
        return types.int64
    if not isinstance(shape, ArrayShape):
        members = tuple(map(_numba_type, shape))
        joined: Type = types.BaseTuple.from_types(members)  # type: ignore[no-untyped-call]
        return joined
    layout: Literal["C", "A"] = "C" if shape.contiguous else "A"
    return types.Array(from_dtype(np.dtype(shape.dtype)), shape.ndim, layout, aligned=shape.aligned)


# -- the cache -------------------------------------------------------------------------------


def _folders() -> tuple[Path, Path]:
    return Path(__file__).parent / "__pycache__", cache_folder() / "machine_code"


def _name_of(function: Loop, shape: Shape) -> str:
    """The name of a cached file: what it is for, then what it was made of."""
    from llvmlite import binding as llvm

    numba = importlib.util.find_spec("numba")
    version = Path(numba.origin).stat().st_mtime_ns if numba and numba.origin else 0
    processor = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    where = _digest(function.__module__, function.__qualname__, shape, *processor)
    source = _digest(llvm.llvm_version_info, version, *_source_of(function, set()))
    return f"{function.__name__}-{where}-{source}.o"


def _source_of(function: Loop, done: set[Loop]) -> Iterator[object]:
    """The code of a function and all that it calls, and the values that it takes from modules."""
    done.add(function)
    code = function.__code__
    yield from (code.co_code, code.co_consts, code.co_names, code.co_varnames)
    for name, value in _globals_of(function):
        if not isinstance(value, FunctionType):
            yield name if isinstance(value, ModuleType | type) else (name, value)
        elif value not in done:
            yield from _source_of(value, done)


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:_HEX_DIGITS]


def _cached(name: str) -> bytes | None:
    """The machine code of that name, its checksum right: damaged code would end the process."""
    for folder in _folders():
        with contextlib.suppress(OSError):
            # Code of another user would run as this one.
            with open_trusted(folder / name, beside=Path(__file__)) as file:
                content = file.read()
            code = content[_CHECKSUM_BYTES:]
            if hashlib.sha256(code).digest() == content[:_CHECKSUM_BYTES]:
                return code
    return None


def _keep(name: str, code: bytes) -> None:
    """Put machine code into the first folder that can be written to, in place of an older one."""
    for folder in _folders():
        if not trusted_folder(folder, beside=Path(__file__)):
            continue
        with contextlib.suppress(StorageError, OSError):
            with open_whole(folder / name, binary=True) as file:
                file.write(hashlib.sha256(code).digest() + code)  # type: ignore[arg-type]
            let_only_owner_write(folder / name)
            for older in set(folder.glob(name[: -len(".o") - _HEX_DIGITS] + "*.o")):
                if older.name != name:
                    older.unlink()
            return
