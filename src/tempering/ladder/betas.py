"""Inverse temperatures: where the rungs of a ladder are placed between the base (β = 0) and the target (β = 1)."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from tempering._errors import InputError
from tempering._types import HostPerRung


def uniform_betas(num_rungs: int) -> HostPerRung:
    """Evenly spaced inverse temperatures: 0, 1/(K−1), …, 1.

    Args:
        num_rungs: K, at least 2.

    Returns:
        The inverse temperatures, in rising order.
    """
    _check_num_rungs(num_rungs)
    return np.linspace(0.0, 1.0, num_rungs)


def geometric_betas(num_rungs: int, smallest: float = 0.01) -> HostPerRung:
    """0, followed by a geometric sequence from `smallest` to 1: dense near the base.

    Args:
        num_rungs: K, at least 2.
        smallest: the first β above 0; between 0 and 1.

    Returns:
        The inverse temperatures, in rising order.
    """
    _check_num_rungs(num_rungs)
    if not 0 < smallest < 1:
        raise InputError(f"geometric_betas(smallest=...) must lie between 0 and 1, got {smallest}.")
    return np.concatenate([[0.0], np.geomspace(smallest, 1.0, num_rungs - 1)])


def power_betas(num_rungs: int, power: float = 4.0) -> HostPerRung:
    """β_k = (k/(K−1))^power: dense near the base, as paths from prior to posterior need it.

    The form of Calderhead and Girolami (2009).

    Args:
        num_rungs: K, at least 2.
        power: any positive number; 1 gives uniform betas.

    Returns:
        The inverse temperatures, in rising order.
    """
    if not power > 0:
        raise InputError(f"power_betas(power=...) must be positive, got {power}.")
    return uniform_betas(num_rungs) ** power


def respaced_betas(
    fine_betas: Float[np.ndarray, " place"], lengths: Float[np.ndarray, " step"], num_rungs: int, share: float = 0.9
) -> HostPerRung:
    """Betas whose steps all have about the same length.

    Args:
        fine_betas: a fine grid from 0 to 1.
        lengths: the distance from each fine β to the next; NaN and negative values count as 0.
        num_rungs: how many betas to return.
        share: the part of the spacing that follows `lengths`. The rest follows the fine grid, so that a length that
            was underestimated does not leave a gap.

    Returns:
        The betas, of shape (rung,), from exactly 0 to exactly 1.
    """
    known = np.clip(np.nan_to_num(lengths), 0.0, None)
    even = np.full(len(known), 1 / len(known))
    density = even if known.sum() == 0 else share * known / known.sum() + (1 - share) * even
    until = np.concatenate([[0.0], np.cumsum(density)])
    betas = np.interp(np.linspace(0, until[-1], num_rungs), until, fine_betas)
    betas[0], betas[-1] = 0.0, 1.0
    return betas


def checked_betas(betas: ArrayLike) -> HostPerRung:
    """Inverse temperatures given by a user, checked.

    Args:
        betas: numbers that rise strictly from exactly 0 to exactly 1.

    Returns:
        The same numbers in float64. Anything else is refused with an `InputError`.
    """
    betas = np.asarray(betas, np.float64)
    _check_num_rungs(betas.size)
    if betas.ndim != 1 or betas[0] != 0 or betas[-1] != 1 or not np.all(np.diff(betas) > 0):
        raise InputError("`betas` must rise strictly from exactly 0 to exactly 1, e.g. numpy.linspace(0, 1, 100).")
    return betas


def _check_num_rungs(num_rungs: int) -> None:
    if num_rungs < 2:
        raise InputError(f"A ladder needs at least 2 rungs, the base and the target; got {num_rungs}.")
