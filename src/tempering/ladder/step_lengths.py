"""How far apart neighbouring densities of a path are, measured by an annealing pass.

A pass takes many small steps in β. The spread of log f_{k+1}(x) − log f_k(x) over its chains measures the distance
between the two densities. Rungs in equal steps of that distance are equally hard to pass.
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
RUNG_NUMBERS = (25, 50, 100, 200, 400, 800, 1600)  # few sizes, so that programs compiled for one run serve others
LONGEST_STEP = 1.0  # in √KL: beyond about 2 the error of RTS grows, see docs/guides/ladders.md
_DEFAULT_RUNGS = 100  # where a pass measured no distance at all
# A share of a normal law in one tail, and how many σ from the mean that tail begins.
_SIGMA, _AT_SIGMA = 0.16, 0.994457883209753
_TAIL, _AT_TAIL = 0.02, 2.053748910631823
_MOST_SORTED = 20_000  # chains whose increments are sorted, where there are more


@dataclasses.dataclass(frozen=True)
class PathLength:
    """The distance from the base to the target, and the longest step of the ladder between them.

    Attributes:
        barrier: Λ, the communication barrier: rejection rates summed along the path.
        root_kl: √(symmetrised KL), summed along the path.
        longest_step: the largest distance between neighbouring rungs, in √KL.
    """

    barrier: float
    root_kl: float
    longest_step: float


@dataclasses.dataclass(frozen=True)
class StepLengths:
    """The distance from each β of an annealing pass to the next, by two measures; one of them spaces the rungs.

    ```python
    lengths = StepLengths.from_increments(betas, log_increments, "kl")
    lengths.betas(50)                               # 50 rungs in equal steps
    ```

    Attributes:
        fine_betas: the inverse temperatures of the pass.
        root_kl: √(symmetrised KL) of each step.
        rejection: the rejection rate of an exchange across each step.
        measure: which of the two spaces the rungs, "kl" or "rejection".
        share: the part of the rungs that it spaces; the others are spaced as the pass itself was.
    """

    fine_betas: Float[np.ndarray, " place"]
    root_kl: Float[np.ndarray, " step"]
    rejection: Float[np.ndarray, " step"]
    measure: str = "kl"
    share: float = 0.9

    @classmethod
    def from_increments(
        cls, fine_betas: Float[np.ndarray, " place"], log_increments: Float[np.ndarray, "chain step"], measure: str
    ) -> "StepLengths":
        """Distances measured by an annealing pass.

        Args:
            fine_betas: the inverse temperatures of the pass.
            log_increments: log f_{k+1}(x) − log f_k(x) of each chain at each step.
            measure: "kl" or "rejection".
        """
        return cls(
            fine_betas, root_kl_lengths(log_increments), rejection_lengths(log_increments), check_measure(measure)
        )

    def betas(self, num_rungs: int) -> HostPerRung:
        """Inverse temperatures in equal steps of the chosen measure.

        Args:
            num_rungs: how many.
        """
        lengths = self.root_kl if self.measure == "kl" else self.rejection
        return respaced_betas(self.fine_betas, lengths, num_rungs, self.share)

    def seen_at(self, fine_betas: Float[np.ndarray, " new_place"], share: float) -> "StepLengths":
        """The same distances along other inverse temperatures.

        Args:
            fine_betas: those of a pass with another pace, from 0 to 1.
            share: the part of the rungs that is spaced by distance.
        """

        def between(lengths: Float[np.ndarray, " step"]) -> Float[np.ndarray, " new_step"]:
            until = np.concatenate([[0.0], np.cumsum(lengths)])
            return np.diff(np.interp(fine_betas, self.fine_betas, until))

        return StepLengths(fine_betas, between(self.root_kl), between(self.rejection), self.measure, share)

    def longest_step(self, betas: HostPerRung) -> float:
        """The largest distance between neighbouring rungs, in √KL.

        Args:
            betas: the inverse temperatures of the rungs.
        """
        until = np.concatenate([[0.0], np.cumsum(self.root_kl)])
        return float(np.diff(np.interp(betas, self.fine_betas, until)).max())

    def num_rungs(self, betas_of: Callable[[int], HostPerRung]) -> int:
        """The least of `RUNG_NUMBERS` for which every step is at most `LONGEST_STEP`; the largest if none is enough.

        Args:
            betas_of: gives the betas for a number of rungs.
        """
        if not self.root_kl.any():
            return _DEFAULT_RUNGS
        fitting = (number for number in RUNG_NUMBERS if self.longest_step(betas_of(number)) <= LONGEST_STEP)
        return next(fitting, RUNG_NUMBERS[-1])

    def length(self, betas: HostPerRung) -> PathLength:
        """The length of the path, and of the longest step of a ladder on it.

        Args:
            betas: the inverse temperatures of the ladder.
        """
        return PathLength(float(self.rejection.sum()), float(self.root_kl.sum()), self.longest_step(betas))


def check_measure(measure: str) -> str:
    """The name of a measure, unchanged; an unknown one is refused with an `InputError`.

    Args:
        measure: "kl" or "rejection".

    Returns:
        The measure itself.
    """
    if measure not in MEASURES:
        raise InputError(f"The measure of a ladder's steps must be one of {', '.join(MEASURES)}; got {measure!r}.")
    return measure


def root_kl_lengths(log_increments: Float[np.ndarray, "chain step"]) -> Float[np.ndarray, " step"]:
    """√(KL(k, k+1) + KL(k+1, k)) of each step of a pass: the standard deviation σ of its increments.

    The equality holds to first order in the step, and exactly for normal increments. σ is taken from the quantiles at
    ±σ: a few outlying chains must not attract all rungs. 0 where fewer than two chains have a finite increment.
    """
    increments = _sorted_increments(log_increments)
    return (_sorted_quantile(increments, 1 - _SIGMA) - _sorted_quantile(increments, _SIGMA)) / (2 * _AT_SIGMA)


def rejection_lengths(log_increments: Float[np.ndarray, "chain step"]) -> Float[np.ndarray, " step"]:
    """½ E|Δ − Δ′| over pairs of chains: the rejection rate of an exchange across a short step.

    Its sum is the communication barrier Λ = ½ ∫ E|V − V′| dβ of Syed, Bouchard-Côté, Deligiannidis and Doucet (2022),
    where V is d log f/dβ at two independent draws. Normal increments have σ/√π. The outermost 2 % on either side are
    clipped, and the result is corrected by the factor that clipping costs a normal law.
    """
    increments = _sorted_increments(log_increments)
    clipped = np.clip(increments, _sorted_quantile(increments, _TAIL), _sorted_quantile(increments, 1 - _TAIL))
    return _half_mean_difference(clipped) / (sqrt(pi) * _half_mean_difference_of_normal())


def _sorted_increments(increments: Float[np.ndarray, "chain step"]) -> Float[np.ndarray, "some step"]:
    """Each step's increments in ascending order, NaN last for those not finite; 0 where fewer than two are finite.

    Of very many chains some are enough.
    """
    some = increments[:: max(1, -(-len(increments) // _MOST_SORTED))]
    known = np.sort(np.where(np.isfinite(some), some, np.nan), axis=0)
    return np.where(np.isfinite(known).sum(axis=0) > 1, known, 0.0)


def _sorted_quantile(increments: Float[np.ndarray, "chain step"], share: float) -> Float[np.ndarray, " step"]:
    """The quantile of sorted numbers, linear between neighbours. `numpy.nanquantile` would loop over the steps."""
    place = share * (np.isfinite(increments).sum(axis=0) - 1)
    below = np.floor(place).astype(int)
    low, high = np.take_along_axis(increments, np.stack([below, np.ceil(place).astype(int)]), axis=0)
    return low + (place - below) * (high - low)


def _half_mean_difference(increments: Float[np.ndarray, "chain step"]) -> Float[np.ndarray, " step"]:
    """½ E|Δ − Δ′| over all pairs of n sorted numbers: the gap above the i-th separates i · (n − i) of them."""
    num_known = np.isfinite(increments).sum(axis=0)
    below = np.arange(1, len(increments))[:, None]
    share = below * (num_known - below) / (num_known * (num_known - 1.0))
    return np.nansum(np.diff(increments, axis=0) * share, axis=0)


def _half_mean_difference_of_normal() -> float:
    """½ E|Δ − Δ′| of a normal law that is clipped at ±z, where the tails begin: ∫ Φ(1 − Φ) from −z to z."""
    z, tail = _AT_TAIL, _TAIL
    density = exp(-0.5 * z**2) / sqrt(2 * pi)
    return erf(z) / sqrt(pi) + 2 * z * tail * (1 - tail) - 2 * density * (1 - 2 * tail)
