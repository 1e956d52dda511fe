"""Machine instructions that Numba has no name for."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# The functions below generate code. Their arguments are types and builders of Numba, which has no type hints.


@intrinsic
def _trailing_zeros(typing_context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        signature_of_prefetch = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        declare: Any = cgutils.get_or_insert_function
        instruction = declare(builder.module, signature_of_prefetch, "llvm.prefetch.p0")
        builder.call(instruction, [address, number(0), number(3), number(1)])  # to read, keep in all caches, data
        return context.get_dummy_value()

    return types.void(array, index), generate


trailing_zeros: Callable[[np.uint64], int] = cast(Any, _trailing_zeros)
"""Return the position of the lowest bit that is set; undefined for 0. 0b1100 has 2."""

prefetch: Callable[[npt.NDArray[np.generic], np.int64], None] = cast(Any, _prefetch)
"""Start to load array[index] of a contiguous array, without waiting for it."""
