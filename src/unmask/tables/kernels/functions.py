"""Logarithm and exponential for kernels: plain arithmetic that compilers vectorise.

The library's own are called once per number, ten times slower. Polynomials are interpolated where
they are used, at Chebyshev points, so no coefficient is written down; `tests/tables/test_fused`
says how far they are off.
"""

import math
from typing import no_type_check

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from unmask.tables.kernels.compiler import bits, compiled, from_bits

_LN2 = math.log(2)
_LOG2_E = 1 / _LN2
# the mantissa of a logarithm's argument is taken between the root of a half and the root of two
_ROOT_HALF_BITS = int(np.float64(math.sqrt(0.5)).view(np.int64))
_MANTISSA_BITS = 52
_ONE_EXPONENT = 1023


def _interpolated(function, low: float, high: float, degree: int) -> tuple[float, ...]:  # type: ignore[no-untyped-def]
    fitted = Chebyshev.interpolate(function, degree, domain=[low, high])
    return tuple(fitted.convert(kind=Polynomial).coef.tolist())


def _log1p_ratio(x):  # type: ignore[no-untyped-def]
    small = np.abs(x) < 1e-12
    safe = np.where(small, 1.0, x)
    return np.where(small, 1.0, np.log1p(safe) / safe)


_LOG = _interpolated(_log1p_ratio, math.sqrt(0.5) - 1, math.sqrt(2) - 1, 16)
_EXP = _interpolated(np.exp, -_LN2 / 2, _LN2 / 2, 10)


@compiled
@no_type_check
def _polynomial(coefficients, f):
    # two halves side by side: a single chain of seventeen would wait for itself
    g = f * f
    last = len(coefficients) - 1
    even, odd = coefficients[last], coefficients[last - 1]
    for k in range(2, last, 2):
        even = even * g + coefficients[last - k]
        odd = odd * g + coefficients[last - k - 1]
    return even * g + coefficients[0] + odd * f


@compiled
@no_type_check
def log(x):
    """The natural logarithm of a positive normal number, to 1e-12."""
    shifted = bits(x) - _ROOT_HALF_BITS
    exponent = shifted >> _MANTISSA_BITS
    f = from_bits(bits(x) - (exponent << _MANTISSA_BITS)) - 1.0
    return exponent * _LN2 + f * _polynomial(_LOG, f)


@compiled
@no_type_check
def exp(x):
    """The exponential of a number between -700 and 700, to a relative 1e-12."""
    times = np.int64(x * _LOG2_E + (0.5 if x >= 0 else -0.5))
    f = x - times * _LN2
    return _polynomial(_EXP, f) * from_bits((times + _ONE_EXPONENT) << _MANTISSA_BITS)
