"""How programs are compiled: with wide vectors, or quickly, where most of their time would go into compiling."""

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

_KNOWN_IN = "0.10."  # of jaxlib, where these options were tried; 0.11 has no older code, and refuses that option
_WIDE: dict[str, Any] = {"xla_cpu_prefer_vector_width": 512}  # bits; CPUs with less use what they have
_QUICK: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}


def compiled_widely(function: Callable[..., Any]) -> Any:
    """As `eqx.filter_jit`, with vectors as wide as the CPU has: XLA takes half of them where they have 512 bits.

    Args:
        function: Of arrays and other things, as `eqx.filter_jit` takes it.
    """
    return eqx.filter_jit(function, **_options(_WIDE))


def compiled_quickly(function: Callable[..., Any]) -> Any:
    """As `eqx.filter_jit`, compiled in two thirds of the time on a CPU; not for use inside another such program.

    XLA's older code for loops over arrays is made faster than its newer one. With few variables it runs as fast; with
    hundreds it is slower by a fifth. It writes a value that is used twice two times, and so on: gradients of users'
    densities can take all memory to compile. So it is for models that have Gibbs sweeps, and what they compute is
    known; others are compiled as usual.

    Args:
        function: Of arrays and other things, as `eqx.filter_jit` takes it.
    """
    usual = compiled_widely(function)
    quick = eqx.filter_jit(function, **_options(_WIDE | _QUICK))

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        is_known = any(map(_has_gibbs_sweeps, jax.tree.leaves(args, is_leaf=_has_gibbs_sweeps)))
        return quick(*args) if is_known else usual(*args)

    return call


def compiled_hastily(function: Callable[..., Any]) -> Any:
    """As `eqx.filter_jit`, compiled in half of the time on a CPU, to a slow program: for what runs once, in haste.

    Numbers may round in another way than in a program that is compiled as usual.

    Args:
        function: Of arrays and other things, as `eqx.filter_jit` takes it.
    """
    how: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 0}}
    usual, hasty = eqx.filter_jit(function), eqx.filter_jit(function, **how)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return hasty(*args) if jax.default_backend() == "cpu" else usual(*args)

    return call


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """None for a version of JAX that may refuse them."""
    is_known = importlib.metadata.version("jaxlib").startswith(_KNOWN_IN)
    return {"compiler_options": options} if is_known else {}


def _has_gibbs_sweeps(part: Any) -> bool:
    return hasattr(part, "gibbs_sweep")
