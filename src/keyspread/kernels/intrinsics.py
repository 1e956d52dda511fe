"""Single machine instructions that Numba has no name for."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def _count_trailing_zeros(typing_context: Any, x: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), code


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        signature_of_prefetch = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        declare: Any = cgutils.get_or_insert_function
        prefetch_it = declare(builder.module, signature_of_prefetch, "llvm.prefetch.p0")
        builder.call(prefetch_it, [address, number(0), number(3), number(1)])  # to read, keep, data
        return context.get_dummy_value()

    return types.void(array, index), code


trailing_zeros: Any = _count_trailing_zeros
"""Of a uint64 that is not 0: the number of its lowest set bit."""

prefetch: Any = _prefetch
"""Start to load array[index], a contiguous array and an int64, without waiting for it."""
