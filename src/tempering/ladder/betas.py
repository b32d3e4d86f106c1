"""Inverse temperatures: where the rungs of a ladder lie."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tempering._errors import InputError
from tempering._types import HostPerRung


def uniform_betas(num_rungs: int) -> HostPerRung:
    """0, 1/(K−1), …, 1."""
    _check_num_rungs(num_rungs)
    return np.linspace(0.0, 1.0, num_rungs)


def geometric_betas(num_rungs: int, smallest: float = 0.01) -> HostPerRung:
    """0, then a geometric sequence from `smallest` to 1: dense near the base."""
    _check_num_rungs(num_rungs)
    if not 0 < smallest < 1:
        raise InputError(f"geometric_betas(smallest=...) must lie between 0 and 1, got {smallest}.")
    return np.concatenate([[0.0], np.geomspace(smallest, 1.0, num_rungs - 1)])


def power_betas(num_rungs: int, power: float = 4.0) -> HostPerRung:
    """(k/(K−1))^power: dense near the base, as prior → posterior paths need it (Calderhead and Girolami 2009)."""
    _check_num_rungs(num_rungs)
    if not power > 0:
        raise InputError(f"power_betas(power=...) must be positive, got {power}.")
    return np.linspace(0.0, 1.0, num_rungs) ** power


def respaced_betas(
    fine_betas: Float[np.ndarray, " place"], lengths: Float[np.ndarray, " step"], num_rungs: int, share: float = 0.9
) -> HostPerRung:
    """Betas between which `lengths`, known from each of `fine_betas` to the next, add up to equal steps.

    A `share` of the spacing follows the lengths, the rest the old spacing: a length that was underestimated must not
    leave a gap.
    """
    own = np.clip(np.nan_to_num(lengths), 0.0, None)
    even = np.full(len(own), 1 / len(own))
    density = even if own.sum() == 0 else share * own / own.sum() + (1 - share) * even
    until = np.concatenate([[0.0], np.cumsum(density)])
    betas = np.interp(np.linspace(0, until[-1], num_rungs), until, fine_betas)
    betas[0], betas[-1] = 0.0, 1.0
    return betas


def checked_betas(betas: ArrayLike) -> HostPerRung:
    """Betas as given by a person: refused unless they rise strictly from 0 to 1."""
    betas = np.asarray(betas, np.float64)
    _check_num_rungs(betas.size)
    if betas.ndim != 1 or betas[0] != 0 or betas[-1] != 1 or not np.all(np.diff(betas) > 0):
        raise InputError("`betas` must rise strictly from exactly 0 to exactly 1, e.g. numpy.linspace(0, 1, 100).")
    return betas


def _check_num_rungs(num_rungs: int) -> None:
    if num_rungs < 2:
        raise InputError(f"A ladder needs at least 2 rungs, the base and the target; got {num_rungs}.")
