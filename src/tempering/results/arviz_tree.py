"""Draws as the installed ArviZ takes them: a DataTree of xarray, or for ArviZ 0.x its InferenceData."""

import importlib
import importlib.metadata
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._errors import InputError
from tempering._types import State
from tempering._version import __version__
from tempering.stats import WeightedDraws, systematic_picks

_NUM_GROUPS = 4  # of chains, each resampled by itself, so that ArviZ can compare them


def to_arviz(
    draws: WeightedDraws,
    named: Callable[[State], dict[str, Array]],
    attributes: Mapping[str, Any],
    *,
    betas: np.ndarray | None = None,
    weights: bool = False,
    seed: int = 0,
) -> Any:
    """Draws with groups `posterior` and `sample_stats`, as `arviz.summary` and `arviz.plot_*` take them.

    This is an `xarray.DataTree`, or an `arviz.InferenceData` where ArviZ 0.x is installed, which reads no trees.
    Chains are pooled in up to four groups, the `chain` axis of the answer, and each group's draws are resampled by
    their weights, in order, to as many draws as they are worth; so means, quantiles and R̂ are those of the posterior.
    With `weights=True` all draws of all chains come instead, with `log_weight` in `sample_stats`: a mean without the
    weights is then that of the whole ladder. `named` turns one state into named parameters.
    """
    log_weights, rungs = np.asarray(draws.log_weights, np.float64), np.asarray(draws.rungs)
    if log_weights.ndim != 2 or not np.isfinite(log_weights.max(initial=-np.inf)) or np.isnan(log_weights).any():
        raise InputError(
            "No draw carries any weight at the target, so there is no posterior: see the verdict of the run."
        )
    chain, draw = np.indices(log_weights.shape) if weights else _resampled(log_weights, np.random.default_rng(seed))
    stats: dict[str, Any] = {"rung": rungs[chain, draw]}
    if betas is not None:
        stats["beta"] = np.asarray(betas, np.float64)[stats["rung"]]
    if weights:
        stats["log_weight"] = log_weights - np.logaddexp.reduce(log_weights, axis=None)
    else:
        stats["source_chain"], stats["source_draw"] = chain, draw  # which draw of the run it is
    picked = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[chain, draw]), draws.x)
    parameters = {name: np.asarray(value) for name, value in jax.jit(jax.vmap(jax.vmap(named)))(picked).items()}
    return _for_arviz({"posterior": parameters, "sample_stats": stats}, attributes)


def _resampled(
    log_weights: Float[np.ndarray, "chain draw"], rng: np.random.Generator
) -> tuple[Int[np.ndarray, "group pick"], Int[np.ndarray, "group pick"]]:
    """Chain and draw of each pick: systematic resampling within groups of chains, in the order of the run."""
    num_chains, num_draws = log_weights.shape
    groups = [part for part in np.array_split(np.arange(num_chains), _NUM_GROUPS) if part.size]
    shares = []
    for members in groups:
        weight = np.exp(log_weights[members] - log_weights[members].max()).ravel()
        shares.append(weight / weight.sum())
    num_picks = max(1, int(min(1 / np.sum(share**2) for share in shares)))  # Kish's effective number
    rows = []
    for members, share in zip(groups, shares, strict=True):
        flat = systematic_picks(share, num_picks, rng.uniform())
        rows.append((members[flat // num_draws], flat % num_draws))
    chain, draw = (np.stack(part) for part in zip(*rows, strict=True))
    return chain, draw


def _for_arviz(groups: Mapping[str, Mapping[str, np.ndarray]], attributes: Mapping[str, Any]) -> Any:
    """Groups of arrays (chain, draw, …) in the class that the installed ArviZ reads."""
    try:
        xarray: Any = importlib.import_module("xarray")
    except ImportError as error:
        raise InputError(f"Draws for ArviZ need xarray ({error}): pip install 'tempering[arviz]'.") from error
    attributes = {name: _plain(value) for name, value in attributes.items() if value is not None}
    attributes |= {"inference_library": "tempering", "inference_library_version": __version__}
    datasets = {group: _dataset(xarray, arrays, attributes) for group, arrays in groups.items()}
    if _reads_trees():
        tree = xarray.DataTree.from_dict(datasets)
        tree.attrs.update(attributes)
        return tree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ 0.x announces version 1 when it is imported
        arviz: Any = importlib.import_module("arviz")
    return arviz.InferenceData(attrs=attributes, **datasets)


def _reads_trees() -> bool:
    """Whether ArviZ is 1.0 or later, or not installed here; told without importing it, which takes a second."""
    try:
        return int(importlib.metadata.version("arviz").partition(".")[0]) >= 1
    except importlib.metadata.PackageNotFoundError:
        return True


def _dataset(xarray: Any, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> Any:
    """Arrays (chain, draw, …) with the names of axes that ArviZ gives them."""
    variables = {
        name: (("chain", "draw", *(f"{name}_dim_{i}" for i in range(value.ndim - 2))), value)
        for name, value in arrays.items()
    }
    shape = next(iter(arrays.values())).shape
    coordinates = {axis: np.arange(size) for axis, size in zip(("chain", "draw"), shape[:2], strict=True)}
    coordinates |= {
        axis: np.arange(size)
        for dims, value in variables.values()
        for axis, size in zip(dims[2:], value.shape[2:], strict=True)
    }
    return xarray.Dataset(variables, coords=coordinates, attrs=attributes)


def _plain(value: Any) -> Any:
    """What a file of xarray can hold: a number, a text, or a list of numbers."""
    if isinstance(value, (str, int, float)):
        return value
    array = np.asarray(value)
    return array.tolist() if array.dtype.kind in "biuf" else str(value)
