"""Programs that are compiled quickly rather than well, since most of their time would go into compiling."""

import importlib.metadata
from collections.abc import Callable
from typing import Any

import equinox as eqx

_KNOWN_IN = "0.10."  # of jaxlib; 0.11 has no older code any more, and refuses the option


def compiled_quickly(function: Callable[..., Any]) -> Any:
    """As `eqx.filter_jit`, compiled in two thirds of the time on a CPU; not for use inside another such program.

    XLA's older code for loops over arrays is made faster than its newer one. With few variables it runs as fast; with
    hundreds it is slower by a fifth.

    Args:
        function: Of arrays and other things, as `eqx.filter_jit` takes it.
    """
    is_known = importlib.metadata.version("jaxlib").startswith(_KNOWN_IN)
    options = {"xla_cpu_use_fusion_emitters": False} if is_known else None
    how: dict[str, Any] = {"compiler_options": options}
    return eqx.filter_jit(function, **how)
