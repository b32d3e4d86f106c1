"""Kept draws as one flat sample of finite draws, divided into chunks for work and into units for errors."""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.estimators.uncertainty import num_stretches
from tempering.findings import nonfinite
from tempering.stats import ReducedDraws
from tempering.verdicts import Finding

_CHUNK_NUMBERS = 2**18  # of a chunk's draws × rungs: 2 MB, so that it stays in the cache between exp and product
_MAX_UNITS = 1024  # more chains are joined in groups; an error from so many is known to 2 %


@dataclasses.dataclass(frozen=True)
class Pool:
    """The finite draws of all chains, one after the other."""

    features: Float[np.ndarray, "draw feature"]
    matrix: Float[np.ndarray, "rung feature"]  # log f_k(x) = matrix[k] @ features(x)
    rungs: Int[np.ndarray, " draw"]
    weights: Float[np.ndarray, " draw"]  # how often each draw counts
    units: Int[np.ndarray, " draw"]  # in rising order: chains, stretches of few chains, or groups of many
    num_units: int
    num_left_out: int  # draws that were not finite
    is_independent: bool  # every chain has one draw

    @classmethod
    def from_draws(cls, draws: ReducedDraws) -> "Pool":
        """All draws whose features are finite."""
        num_chains, num_draws, num_features = draws.features.shape
        if draws.rungs.size == 0:
            raise InputError(f"`draws` must hold at least one draw; got {num_chains} chains of {num_draws} draws.")
        units, weights = _units(num_chains, num_draws).reshape(-1), _valid_weights(draws).reshape(-1)
        features, rungs = draws.features.reshape(-1, num_features), draws.rungs.reshape(-1)
        num_units, is_finite = int(units[-1]) + 1, np.isfinite(features).all(axis=1)
        num_left_out = int(np.sum(~is_finite))
        if num_left_out:
            features, rungs, weights, units = (part[is_finite] for part in (features, rungs, weights, units))
        return cls(features, draws.matrix, rungs, weights, units, num_units, num_left_out, num_draws == 1)

    @property
    def total(self) -> float:
        """N, the total weight of all draws."""
        return float(self.weights.sum())

    @property
    def counts(self) -> HostPerRung:
        """n_k, the weight of the draws at each rung."""
        return np.bincount(self.rungs, self.weights, minlength=len(self.matrix)).astype(np.float64)

    def restricted_to(self, rungs: Int[np.ndarray, " part"]) -> "Pool":
        """The draws at these rungs, in rising order, with log f there alone; units are those of the whole pool."""
        where = np.isin(self.rungs, rungs)
        new_rung = np.searchsorted(rungs, self.rungs[where])
        kept = {name: getattr(self, name)[where] for name in ("features", "weights", "units")}
        return dataclasses.replace(self, matrix=self.matrix[rungs], rungs=new_rung, **kept)

    def chunks(self) -> Iterator[tuple[slice, Float[np.ndarray, "draw rung"]]]:
        """Consecutive draws with their log f_k(x_i) in float64; the caller may overwrite the array."""
        step = max(_CHUNK_NUMBERS // len(self.matrix), 1)
        for start in range(0, len(self.rungs), step):
            part = slice(start, start + step)
            yield part, self.features[part].astype(np.float64) @ self.matrix.T


def add_by_unit(sums: Float[np.ndarray, "unit rung"], units: Int[np.ndarray, " draw"], rows: np.ndarray) -> None:
    """Add each row to its unit's sum, in place. Units are in rising order, so each is one stretch of rows."""
    if len(units):
        starts = np.flatnonzero(np.diff(units, prepend=-1))
        sums[units[starts]] += np.add.reduceat(rows, starts, axis=0)


def nonfinite_in_pool(pool: Pool) -> Finding | None:
    """The finding for draws that were left out of the pool."""
    return nonfinite(pool.num_left_out, pool.num_left_out + len(pool.rungs))


def _units(num_chains: int, num_draws: int) -> Int[np.ndarray, "chain draw"]:
    stretches = num_stretches(num_chains, num_draws)
    total = num_chains * stretches
    units = np.arange(num_chains)[:, None] * stretches + np.arange(num_draws) * stretches // num_draws
    return units * min(total, _MAX_UNITS) // total


def _valid_weights(draws: ReducedDraws) -> np.ndarray:
    if draws.weights is None:
        return np.ones(draws.rungs.shape)
    weights = np.asarray(draws.weights, np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise InputError(
            "`draws.weights` must be finite, not negative and not all 0. Leave them out to count each once."
        )
    return weights
