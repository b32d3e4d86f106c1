"""Discrete parameters of NumPyro models: which can be summed out, and their sum, by NumPyro and funsor."""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from tempering._errors import InputError
from tempering._types import Scalar

Sites = Mapping[str, Any]


def check_enumerable(site: Any) -> None:
    """Refuse a discrete site whose values NumPyro cannot sum over, or would not sum over correctly.

    Args:
        site: a sample site that is discrete and not observed.
    """
    name, law = site["name"], site["fn"]
    kind = f"`{name}` is discrete"
    if not law.has_enumerate_support:
        raise InputError(
            f"{kind}, and {type(law).__name__} has too many values to sum over. Choose a law with finitely many, such "
            "as dist.Categorical, or sum it out in the model."
        )
    if law.event_shape:
        raise InputError(f"{kind} and a vector, which is not summed over. Put its parts in a numpyro.plate.")
    if site["infer"].get("enumerate", "parallel") != "parallel":
        raise InputError(f"{kind} and marked otherwise than infer={{'enumerate': 'parallel'}}. Leave `infer` out.")
    values = np.asarray(law.enumerate_support(expand=False)).ravel()
    if not np.array_equal(values, np.arange(len(values))):  # NumPyro would take them for 0, 1, 2 …
        raise InputError(f"{kind} with values from {values[0]} on. Let it begin at 0, and add {values[0]} to it.")


def check_plates(sites: Sites) -> None:
    """Refuse independent values outside of plates: the axes of a sum over discrete values would meet theirs.

    Args:
        sites: a trace of the model.
    """
    for site in sites.values():
        if site["type"] != "sample":
            continue
        law = site["fn"]
        shape = np.broadcast_shapes(law.batch_shape, np.shape(site["value"])[: np.ndim(site["value"]) - law.event_dim])
        plates = {frame.dim for frame in site["cond_indep_stack"]}
        if any(size > 1 and axis - len(shape) not in plates for axis, size in enumerate(shape)):
            raise InputError(
                f"`{site['name']}` has independent values of shape {shape} outside of plates, so that discrete "
                "parameters cannot be summed out. Put it in a numpyro.plate, or make it one event by .to_event()."
            )


def plate_depth(sites: Sites) -> int:
    """How many axes the plates of a model take.

    Args:
        sites: a trace of the model.
    """
    stacks = (site["cond_indep_stack"] for site in sites.values() if site["type"] == "sample")
    return max((-frame.dim for stack in stacks for frame in stack), default=0)


def summed_log_density(model: Callable[..., Any], args: Any, kwargs: Any, depth: int) -> Scalar:
    """log of the density of all sites, summed over the values of the discrete ones.

    Args:
        model: a NumPyro model whose other sites have values.
        args: its positional arguments.
        kwargs: its keyword arguments.
        depth: `plate_depth` of it.
    """
    funsor = funsor_of_numpyro()
    counted = funsor.enum(funsor.config_enumerate(model), first_available_dim=-depth - 1)
    log_density, _ = funsor.log_density(counted, args, kwargs, {})
    return jnp.asarray(log_density)


def funsor_of_numpyro() -> Any:
    """NumPyro's bridge to funsor; an `InputError` says how to install it."""
    try:
        import numpyro.contrib.funsor
    except ImportError as error:
        raise InputError(
            f"Discrete parameters are summed out by funsor ({error}): pip install 'tempering[funsor]'."
        ) from error
    return numpyro.contrib.funsor
