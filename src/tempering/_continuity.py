"""Whether a function is continuous with the gradient that JAX gives it, as far as its operations show."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core

# Compositions of these have no jump where they are finite. Comparisons, choices by a condition, roundings and indices
# that depend on x may make one. So may loops of unknown length. `stop_gradient` makes the gradient another function's.
_CONTINUOUS = frozenset({
    "abs", "acosh", "add", "add_any", "asinh", "atan", "broadcast_in_dim", "cbrt", "cholesky", "clamp",
    "concatenate", "convert_element_type", "copy", "cos", "cosh", "cumlogsumexp", "cummax", "cummin",
    "cumprod", "cumsum", "digamma", "div", "dot_general", "dynamic_slice", "erf", "erf_inv", "erfc", "exp",
    "exp2", "expand_dims", "expm1", "gather", "integer_pow", "iota", "lgamma", "log", "log1p", "logistic",
    "max", "min", "mul", "neg", "pad", "polygamma", "pow", "reduce_max", "reduce_min", "reduce_prod",
    "reduce_sum", "reshape", "rev", "rsqrt", "sin", "sinh", "slice", "sort", "split", "sqrt", "square",
    "squeeze", "sub", "tanh", "transpose", "triangular_solve",
})  # fmt: skip
_CALLS = frozenset({"checkpoint", "closed_call", "core_call", "jit", "pjit", "remat", "scan"})
# Functions of JAX that choose between two formulas of the same number, with a derivative of their own.
_KNOWN = frozenset({"logaddexp", "relu", "xlog1py", "xlogy"})


def is_continuous(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether all operations of a function of arrays are known to be continuous; False where that is not known.

    Args:
        function: the function, which JAX can trace.
        arguments: arrays of the right shapes, or their shapes alone.

    Returns:
        True for compositions of continuous operations. A quotient whose denominator passes 0 counts as continuous.
    """
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    return _is_continuous(program, set(program.invars))


def _is_continuous(program: core.Jaxpr, varying: set[Any]) -> bool:
    """Whether no operation on what varies with the arguments can jump; `varying` grows by what depends on it."""
    for equation in program.eqns:
        varies = [isinstance(var, core.Var) and var in varying for var in equation.invars]
        if not any(varies):
            continue
        if not _has_no_jump(equation, varies):
            return False
        varying.update(equation.outvars)
    return True


def _has_no_jump(equation: core.JaxprEqn, varies: list[bool]) -> bool:
    name = equation.primitive.name
    if name == "select_n":  # by a condition that does not vary
        return not varies[0]
    if name == "custom_jvp_call":
        return _is_known(equation.params["call_jaxpr"].jaxpr)
    if name in _CALLS:
        # A loop may hand on from round to round what varies; else arguments are those of the inner program.
        entering = [True] * len(varies) if name == "scan" else varies
        return all(
            _is_continuous(inner, set(itertools.compress(inner.invars, entering)))
            for inner in core.jaxprs_in_params(equation.params)
        )
    return name in _CONTINUOUS and not _makes_integers(equation)


def _makes_integers(equation: core.JaxprEqn) -> bool:
    """Whether real numbers become integers or truth values, which cannot change without a jump."""
    parts: tuple[list[Any], list[Any]] = (equation.invars, equation.outvars)
    taken, made = ({var.aval.dtype.kind for var in part} for part in parts)
    return "f" in taken and made != {"f"}


def _is_known(program: core.Jaxpr) -> bool:
    """Whether this is one of the functions of JAX itself that are known to be continuous."""
    name, _, file = str(program.debug_info.func_src_info).partition(" at ")
    return name in _KNOWN and "/jax/_src/" in file.replace("\\", "/")
