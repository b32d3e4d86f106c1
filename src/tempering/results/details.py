"""What pictures and reports are made of: a result's numbers by rung and by sweeps, in memory or from its directory."""

import dataclasses
import io
import json
import os
import platform
import zlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering._errors import InputError
from tempering._version import __version__
from tempering.diagnosis import rung_chain, transition_matrix
from tempering.diagnosis.checks import round_trips
from tempering.diagnosis.rung_flow import merge_rungs
from tempering.estimators import rts
from tempering.estimators.tempered import log_occupancy
from tempering.models import named_leaves
from tempering.sampling.directory import MALFORMED, unpacked, write_atomically

if TYPE_CHECKING:
    from tempering.results.result import Result

_NUM_TRACES, _MOST_TRACED = 6, 1000  # chains, and steps of each
_MOST_DRAWS, _MOST_NUMBERS = 1000, 2**20  # of draws that are saved
_FILE = "details.npz"
_DRAW = "draw_"  # begins the names of saved draws
_PACKAGES = ("jax", "jaxlib", "equinox", "numpy", "scipy")


@dataclasses.dataclass(frozen=True)
class Details:
    """A result as pictures and reports read it. It is made from a `Result`, or from the directory of a run.

    Attributes:
        answer: `Result.to_dict`, which `result.json` holds.
        arrays: `transition_matrix`; `beta_traces` with `trace_stride` where the run kept its rungs step by step.
        find_draws: Gives draws of the target by name, each with a leading axis; empty where none were kept.
    """

    answer: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    find_draws: Callable[[], dict[str, np.ndarray]]

    @classmethod
    def of(cls, result: "Result | Details") -> "Details":
        """The details of a result; those that are given already stay as they are.

        Args:
            result: A `Result`, or its details.
        """
        if isinstance(result, Details):
            return result
        arrays = {"transition_matrix": transition_matrix(result.recording), **_traces(result)}
        return cls(result.to_dict(), arrays, partial(draws_of, result))

    @classmethod
    def read(cls, directory: str | os.PathLike) -> "Details":
        """The details of a run from its directory, without the model.

        Args:
            directory: What `tp.estimate(out=...)` wrote.
        """
        folder = Path(directory)
        try:
            words, archive = (folder / "result.json").read_bytes(), unpacked(folder / "result.npz")
            answer, arrays = json.loads(words), {"transition_matrix": archive["transition_matrix"]}
            is_meant = json.loads(archive["result"].tobytes())["text_crc32"] == zlib.crc32(words)
            kept = unpacked(folder / _FILE) if (folder / _FILE).exists() else {}
            is_whole = {"log_z", "by_rung", "by_sweeps"} <= answer.keys()
        except OSError as error:
            where = f"{directory} has no result that can be read ({error.strerror or error})"
            raise InputError(f"{where}. Finish the run with `resume`, or give the directory of another.") from error
        except MALFORMED as error:
            raise InputError(f"{directory} holds a damaged result ({type(error).__name__}). Run it again.") from error
        if not is_meant:
            raise InputError(f"{folder / 'result.json'} is damaged. Write it again with `resume`.")
        if not is_whole:
            raise InputError(f"{directory} holds a result of another version. Write it again with `resume`.")
        draws = {name.removeprefix(_DRAW): array for name, array in kept.items() if name.startswith(_DRAW)}
        arrays |= {name: array for name, array in kept.items() if not name.startswith(_DRAW)}
        return cls(answer, arrays, lambda: draws)

    @property
    def by_rung(self) -> dict[str, np.ndarray]:
        """beta, log_z, std_error, low, high, share (ĉ_k) and prior (r_k) at every rung."""
        return {name: np.array(values, np.float64) for name, values in self.answer["by_rung"].items()}

    @property
    def by_sweeps(self) -> dict[str, np.ndarray]:
        """log_z, std_error, low and high by RTS from the first `sweeps` of every chain."""
        return {name: np.array(values, np.float64) for name, values in self.answer["by_sweeps"].items()}


def numbers_of(result: "Result") -> dict[str, Any]:
    """The part of `Result.to_dict` that pictures are drawn from.

    Args:
        result: The result.

    Returns:
        Numbers by rung and by sweeps, knots, round trips, what draws are worth, settings, versions and the command.
    """
    return {
        "by_rung": _by_rung(result),
        "by_sweeps": _by_sweeps(result),
        "knot_stretches": _knot_stretches(result),
        "round_trips": _round_trips(result),
        "draws": _about_draws(result),
        "model": None if result.model is None else type(result.model).__name__,
        "settings": dict(result.settings),
        "versions": versions(),
        "command": result.command,
    }


def save_details(result: "Result", directory: str | os.PathLike) -> None:
    """Write `details.npz` with traces and draws, where the run kept any.

    Args:
        result: The result.
        directory: Where to write.
    """
    arrays = _traces(result) | {f"{_DRAW}{name}": values for name, values in draws_of(result).items()}
    if arrays:
        archive = io.BytesIO()
        np.savez_compressed(archive, allow_pickle=False, **arrays)
        write_atomically(Path(directory) / _FILE, archive.getvalue())


def draws_of(result: "Result", num_draws: int | None = None, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Draws of the target by the names of the model's parameters.

    Args:
        result: The result.
        num_draws: How many; by default as many as they are worth, up to 1000 and 2²⁰ numbers.
        seed: Of the resampling.

    Returns:
        Arrays with a leading axis of draws; empty where the run kept none, or none has any weight.
    """
    draws = result.recording.states
    if draws is None or not np.isfinite(draws.log_weights.max(initial=-np.inf)):
        return {}
    if num_draws is None:
        size = sum(leaf[0, :1].size for leaf in jax.tree.leaves(draws.x))
        num_draws = max(1, min(round(draws.independent_size), _MOST_DRAWS, _MOST_NUMBERS // max(size, 1)))
    picked = jax.tree.map(jnp.asarray, draws.resampled(num_draws, seed=seed))
    named = named_leaves if result.model is None else result.model.named
    return {name: np.asarray(values) for name, values in jax.vmap(named)(picked).items()}


@cache
def versions() -> dict[str, str]:
    """The versions of Python, of this package, and of those that numbers depend on."""
    found = {"tempering": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # installed in another way
            continue
    return found


def _traces(result: "Result") -> dict[str, np.ndarray]:
    """β of some chains, step by step, where the run kept it."""
    kept = result.recording.states or result.recording.features
    if kept is None:
        return {}
    thinning = max(1, -(-kept.rungs.shape[1] // _MOST_TRACED))
    betas = result.betas[np.asarray(kept.rungs)[:_NUM_TRACES, ::thinning]]
    return {"beta_traces": betas, "trace_stride": np.array(kept.stride * thinning)}


def _by_rung(result: "Result") -> dict[str, list[float | None]]:
    answer, stats = result.log_z_by_rung, result.recording.stats
    low, high = answer.intervals().T
    arrays = {
        "beta": result.betas, "log_z": answer.values, "std_error": answer.std_errors, "low": low, "high": high,
        "share": np.exp(log_occupancy(stats) - stats.log_prior + stats.log_rung_mass),
        "prior": np.exp(stats.log_rung_mass),
    }  # fmt: skip
    return {name: _listed(array) for name, array in arrays.items()}


def _by_sweeps(result: "Result") -> dict[str, list[Any]]:
    """RTS from the first blocks of every chain, one after another."""
    stats = result.recording.stats
    base = result.log_z_by_rung.values[0]
    answers = [rts(stats.only_first(number), log_z_base=base) for number in range(1, stats.num_blocks + 1)]
    arrays = {
        "sweeps": np.cumsum(stats.num_draws[0]),
        "log_z": np.array([answer.log_z for answer in answers]),
        "std_error": np.array([answer.std_error for answer in answers]),
        "low": np.array([answer.interval[0] for answer in answers]),
        "high": np.array([answer.interval[1] for answer in answers]),
    }
    return {name: _listed(array) for name, array in arrays.items()}


def _knot_stretches(result: "Result") -> list[dict[str, float | None]]:
    """Where chains are held up, also where they pass often enough."""
    stats, counts = result.recording.stats, result.recording.transition_counts.sum(axis=0)
    if counts.sum() == 0:
        return []
    knots = rung_chain(*merge_rungs(counts, stats.betas, stats.log_rung_mass)).knots
    fields = ("beta", "low", "high", "share", "sweeps")
    return [{name: _number(getattr(knot, name)) for name in fields} for knot in knots]


def _round_trips(result: "Result") -> dict[str, float]:
    trips = round_trips(result.recording.stats)
    return {"total": float(trips.sum()), "fewest": float(trips.min()), "most": float(trips.max())}


def _about_draws(result: "Result") -> dict[str, Any] | None:
    draws = result.recording.states
    if draws is None or not np.isfinite(draws.log_weights.max(initial=-np.inf)):
        return None
    sizes = {"effective_size": _number(draws.effective_size), "independent_size": _number(draws.independent_size)}
    return {"num_kept": int(draws.log_weights.size), "stride": draws.stride, **sizes}


def _listed(array: np.ndarray) -> list[Any]:
    return [_number(value) for value in np.asarray(array).tolist()]


def _number(value: float | int) -> float | int | None:
    return value if np.isfinite(value) else None
