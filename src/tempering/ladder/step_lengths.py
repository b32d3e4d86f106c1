"""How far apart neighbouring densities of a path are, measured by an annealing pass.

A pass takes many small steps in β. The scatter of log f_{k+1}(x) − log f_k(x) over its chains says how far apart the
two densities are. Rungs in equal steps of that distance are equally hard to pass.
"""

import dataclasses
from collections.abc import Callable
from math import erf, exp, pi, sqrt

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.ladder.betas import respaced_betas

MEASURES = ("kl", "rejection")


RUNG_NUMBERS = (25, 50, 100, 200, 400, 800, 1600)  # a few sizes, so that what was compiled for one run serves others


LONGEST_STEP = 1.0  # in √KL: beyond about 2 the error of RTS grows, see docs/ladders.md


_UNSEEN = 100  # rungs where a pass says nothing


_SIGMA, _AT_SIGMA = 0.16, 0.994457883209753  # a share of a normal law, and how many σ from the middle the rest begins


_TAIL, _AT_TAIL = 0.02, 2.053748910631823


@dataclasses.dataclass(frozen=True)
class PathLength:
    """How far it is from the base to the target, and the longest step of the ladder between them."""

    barrier: float  # Λ: rejections added up along the path
    root_kl: float  # √(symmetrised KL), added up along the path
    longest_step: float  # from a rung to the next, in √KL


@dataclasses.dataclass(frozen=True)
class StepLengths:
    """The distance from each β of an annealing pass to the next, by both measures; one of them spaces the rungs."""

    fine_betas: Float[np.ndarray, " place"]
    root_kl: Float[np.ndarray, " step"]
    rejection: Float[np.ndarray, " step"]
    measure: str = "kl"

    @classmethod
    def from_increments(
        cls, fine_betas: Float[np.ndarray, " place"], log_increments: Float[np.ndarray, "chain step"], measure: str
    ) -> "StepLengths":
        """From what each step of a pass added to the log weight of each chain."""
        return cls(
            fine_betas, root_kl_lengths(log_increments), rejection_lengths(log_increments), check_measure(measure)
        )

    def betas(self, num_rungs: int) -> HostPerRung:
        """So many rungs in equal steps."""
        lengths = self.root_kl if self.measure == "kl" else self.rejection
        return respaced_betas(self.fine_betas, lengths, num_rungs)

    def longest_step(self, betas: HostPerRung) -> float:
        """From a rung to the next, in √KL."""
        until = np.concatenate([[0.0], np.cumsum(self.root_kl)])
        return float(np.diff(np.interp(betas, self.fine_betas, until)).max())

    def num_rungs(self, betas_of: Callable[[int], HostPerRung]) -> int:
        """The least of `RUNG_NUMBERS` whose steps are all at most `LONGEST_STEP`; the largest of them if none is."""
        if not self.root_kl.any():
            return _UNSEEN
        fitting = (number for number in RUNG_NUMBERS if self.longest_step(betas_of(number)) <= LONGEST_STEP)
        return next(fitting, RUNG_NUMBERS[-1])

    def length(self, betas: HostPerRung) -> PathLength:
        """Of the path, and of the steps of a ladder on it."""
        return PathLength(float(self.rejection.sum()), float(self.root_kl.sum()), self.longest_step(betas))


def root_kl_lengths(log_increments: Float[np.ndarray, "chain step"]) -> Float[np.ndarray, " step"]:
    """√(KL(k, k+1) + KL(k+1, k)) of each step of a pass, which is the standard deviation σ of its increments.

    To first order in the step, and exactly so where increments are normal. By the quantiles at ±σ, since a few chains
    far out must not draw all rungs to where they are. 0 where fewer than two chains have a finite increment.
    """
    increments = _sorted(log_increments)
    return (_quantile(increments, 1 - _SIGMA) - _quantile(increments, _SIGMA)) / (2 * _AT_SIGMA)


def rejection_lengths(log_increments: Float[np.ndarray, "chain step"]) -> Float[np.ndarray, " step"]:
    """½ E|Δ − Δ′| over pairs of chains: how often an exchange between the two ends of a short step is rejected.

    Its sum is the communication barrier Λ = ½ ∫ E|V − V′| dβ of Syed, Bouchard-Côté, Deligiannidis and Doucet (2022),
    V being d log f/dβ at two independent draws. Normal increments have σ/√π. The outermost 2 % on either side are
    pulled in to where they begin, and what a normal law loses by that is added again.
    """
    increments = _sorted(log_increments)
    drawn_in = np.clip(increments, _quantile(increments, _TAIL), _quantile(increments, 1 - _TAIL))
    return _half_mean_difference(drawn_in) / (sqrt(pi) * _half_mean_difference_of_normal())


def check_measure(measure: str) -> str:
    """The name of a measure, refused if it is none."""
    if measure not in MEASURES:
        raise InputError(f"The measure of a ladder's steps must be one of {', '.join(MEASURES)}; got {measure!r}.")
    return measure


def _sorted(increments: Float[np.ndarray, "chain step"]) -> Float[np.ndarray, "chain step"]:
    """Each step's increments in their order, NaN last where a chain was lost; zeros where hardly a chain was left."""
    known = np.sort(np.where(np.isfinite(increments), increments, np.nan), axis=0)
    return np.where(np.isfinite(known).sum(axis=0) > 1, known, 0.0)


def _quantile(increments: Float[np.ndarray, "chain step"], share: float) -> Float[np.ndarray, " step"]:
    """Of sorted numbers, linear between neighbours; `numpy.nanquantile` goes through the steps one by one."""
    place = share * (np.isfinite(increments).sum(axis=0) - 1)
    below = np.floor(place).astype(int)
    low, high = (np.take_along_axis(increments, at[None], axis=0)[0] for at in (below, np.ceil(place).astype(int)))
    return low + (place - below) * (high - low)


def _half_mean_difference(increments: Float[np.ndarray, "chain step"]) -> Float[np.ndarray, " step"]:
    """½ E|Δ − Δ′| over all pairs: of n sorted numbers, the gap above the i-th lies between i · (n − i) pairs."""
    num_known = np.isfinite(increments).sum(axis=0)
    below = np.arange(1, len(increments))[:, None]
    share = below * (num_known - below) / (num_known * (num_known - 1.0))
    return np.nansum(np.diff(increments, axis=0) * share, axis=0)


def _half_mean_difference_of_normal() -> float:
    """∫ Φ(1 − Φ) from −z to z, z being where the tail begins: 1/√π less what the tails have of it."""
    z, tail = _AT_TAIL, _TAIL
    density = exp(-0.5 * z**2) / sqrt(2 * pi)
    return erf(z) / sqrt(pi) + 2 * z * tail * (1 - tail) - 2 * density * (1 - 2 * tail)
