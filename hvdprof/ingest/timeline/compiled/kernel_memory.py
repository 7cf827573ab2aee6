"""Memory by address, for compiled code: what reads an array in a loop counts references to it.

Every address comes from an array that the caller holds, and every index is checked by the code that
uses it: against the length of the text, whose end is followed by zeros, or against the room left.

Tested in ``tests/ingest/timeline/compiled/test_kernel.py``.
"""

from collections.abc import Callable, Sequence
from typing import cast

from llvmlite import ir
from numba import types
from numba.core.base import BaseContext
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

Generator = Callable[[BaseContext, ir.IRBuilder, Signature, Sequence[ir.Value]], ir.Value]
Typed = tuple[Signature, Generator]


def _load(width: int, result: types.Integer, *, signed: bool) -> Callable[..., int]:
    def typed(typing_context: TypingContext, address: types.Type) -> Typed:
        def generate(
            context: BaseContext,
            builder: ir.IRBuilder,
            signature: Signature,
            arguments: Sequence[ir.Value],
        ) -> ir.Value:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            loaded = builder.load(pointer, align=1)
            if width == 64:
                return loaded
            whole = ir.IntType(64)
            return builder.sext(loaded, whole) if signed else builder.zext(loaded, whole)

        return result(types.int64), generate

    return cast(Callable[..., int], intrinsic(typed))


def _store(width: int) -> Callable[..., None]:
    def typed(typing_context: TypingContext, address: types.Type, value: types.Type) -> Typed:
        def generate(
            context: BaseContext,
            builder: ir.IRBuilder,
            signature: Signature,
            arguments: Sequence[ir.Value],
        ) -> ir.Value:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            value = arguments[1]
            if width < 64:
                value = builder.trunc(value, ir.IntType(width))
            builder.store(value, pointer, align=1)
            return context.get_dummy_value()  # type: ignore[no-untyped-call]

        return types.void(types.int64, types.int64), generate

    return cast(Callable[..., None], intrinsic(typed))


byte_at = _load(8, types.int64, signed=False)
word_at = _load(64, types.uint64, signed=False)
long_at = _load(64, types.int64, signed=True)
int_at = _load(32, types.int64, signed=True)
put_long = _store(64)
put_int = _store(32)
