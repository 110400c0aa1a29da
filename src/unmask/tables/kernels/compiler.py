"""How kernels are compiled, and the few machine operations that they share."""

from typing import Any, no_type_check

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

# sums may be reassociated to vectorise; nothing is assumed about NaN or infinity
compiled: Any = numba.njit(nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
# cells of a row that are worked on at once: fewer, and starting costs more than working
CHUNK = 4096


@intrinsic
@no_type_check
def bits(_, number):
    """The bits of a float64 as an integer; positive numbers keep their order."""

    def generate(_context, builder, _signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
@no_type_check
def from_bits(_, integer):
    """The float64 that has these bits."""

    def generate(_context, builder, _signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
@no_type_check
def largest(_, one, other):
    """The larger of two numbers that are no NaN; unlike a comparison, it may be reordered."""

    def generate(_context, builder, _signature, arguments):
        real = ir.DoubleType()
        signature = ir.FunctionType(real, [real, real])
        maximum = builder.module.declare_intrinsic("llvm.maxnum", [real], signature)
        return builder.call(maximum, arguments, fastmath=("nnan", "nsz"))

    return types.float64(types.float64, types.float64), generate


@intrinsic
@no_type_check
def wide(_):
    """Let the calling kernel use the widest registers: by default LLVM stays at half of them."""

    def generate(context, builder, _signature, _arguments):
        # a set of known names, to which this one does not belong yet
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.none(), generate


@intrinsic
@no_type_check
def number(_, cell):
    """A cell of a table as float64; tables are float32, or bfloat16 seen as unsigned integers."""

    def of_float(_context, builder, _signature, arguments):
        return builder.fpext(arguments[0], ir.DoubleType())

    def of_half(_context, builder, _signature, arguments):
        # bfloat16 is the upper half of a float32
        upper = builder.shl(builder.zext(arguments[0], ir.IntType(32)), ir.IntType(32)(16))
        return builder.fpext(builder.bitcast(upper, ir.FloatType()), ir.DoubleType())

    if cell == types.float32:
        return types.float64(types.float32), of_float
    return types.float64(types.uint16), of_half


@no_type_check
def by_fours(kernel):
    """A compiled sweep of a band: the kernel gets four rows and a chunk of columns at a time."""

    @compiled
    def band(a_given_b, b_given_a, start, stop, *rest):
        columns = a_given_b.shape[1]
        for group in range((stop - start + 3) // 4):
            for chunk in range((columns + CHUNK - 1) // CHUNK):
                left, right = chunk * CHUNK, min(columns, chunk * CHUNK + CHUNK)
                kernel(a_given_b, b_given_a, start + 4 * group, stop, left, right, *rest)

    return band


@compiled
@no_type_check
def four_rows(table, row, stop, left, right, nothing):
    """Some cells of four rows; as many zeros for those beyond the end of the band."""
    zeros = nothing[: right - left]
    return (
        table[row, left:right],
        table[row + 1, left:right] if row + 1 < stop else zeros,
        table[row + 2, left:right] if row + 2 < stop else zeros,
        table[row + 3, left:right] if row + 3 < stop else zeros,
    )


@compiled
@no_type_check
def four_entries(vector, row, stop, otherwise):
    """Four entries of a vector by rows; something harmless beyond the end of the band."""
    return (
        vector[row],
        vector[row + 1] if row + 1 < stop else otherwise,
        vector[row + 2] if row + 2 < stop else otherwise,
        vector[row + 3] if row + 3 < stop else otherwise,
    )


@compiled
@no_type_check
def four_inverses(one, two, three, four):
    """1 / x of four numbers by a single division, the slowest operation there is."""
    low, high = one * two, three * four
    inverse = 1.0 / (low * high)
    of_low, of_high = inverse * high, inverse * low
    return of_low * two, of_low * one, of_high * four, of_high * three


def key_bits(size: int) -> np.int64:
    """The low bits of a key that hold a place among so many."""
    return np.int64((1 << max(1, (size - 1).bit_length())) - 1)
