"""Programs that are compiled quickly rather than well, since most of their time would go into compiling."""

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

_KNOWN_IN = "0.10."  # of jaxlib; 0.11 has no older code any more, and refuses the option


def compiled_quickly(function: Callable[..., Any]) -> Any:
    """As `eqx.filter_jit`, compiled in two thirds of the time on a CPU; not for use inside another such program.

    XLA's older code for loops over arrays is made faster than its newer one. With few variables it runs as fast; with
    hundreds it is slower by a fifth. It writes a value that is used twice two times, and so on: gradients of users'
    densities can take all memory to compile. So it is for models that have Gibbs sweeps, and what they compute is
    known; others are compiled as usual.

    Args:
        function: Of arrays and other things, as `eqx.filter_jit` takes it.
    """
    usual = eqx.filter_jit(function)
    if not importlib.metadata.version("jaxlib").startswith(_KNOWN_IN):
        return usual
    how: dict[str, Any] = {"compiler_options": {"xla_cpu_use_fusion_emitters": False}}
    quick = eqx.filter_jit(function, **how)

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


def _has_gibbs_sweeps(part: Any) -> bool:
    return hasattr(part, "gibbs_sweep")
