"""Mass of the target where no draw of a run is, as rays through the draws find it."""

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from tempering.diagnosis.divergence import MAX_BIAS
from tempering.diagnosis.tails import LUCK, light_base
from tempering.stats import mean_of_chains
from tempering.verdicts import Finding, Verdict

_MOST_TOLD = 4  # coordinates of a place, in a message
_TOLD_AS_0 = 1e-3  # of the largest coordinate


def beyond_all_draws(ratios: Float[np.ndarray, " ray"], by_chance: float, std_error: float) -> Finding | None:
    """The finding for a target with mass much farther out than any draw of the run.

    The mean of the ratios is the mass that was missed, over that which was not. Its lower bound by Student's law
    counts, so that a few rays alone are no evidence. Where ratios are of very different sizes that bound says nothing:
    so the mean of what they are up to 1 is bounded too.

    Args:
        ratios: The mass of each ray beyond what draws have reached, over that where draws are.
        by_chance: What a right run may miss.
        std_error: The standard error of log Z.

    Returns:
        The finding; None if the answer can bear what was missed, or a right run may miss as much.
    """
    missed = _log_missed(ratios)
    if not missed > np.fmax(MAX_BIAS * std_error, by_chance):
        return None
    return light_base(
        f"rays through draws find mass that adds {missed:.2g} to log Z or more, at least twice as far out as any draw"
    )


def narrow_peak(
    ratios: Float[np.ndarray, "center ray"],
    centers: Float[np.ndarray, "center dim"],
    by_chance: float,
    std_error: float,
) -> Finding | None:
    """The finding for a peak with much mass, so narrow that no draw of the run is in it.

    Chains that come from above do not find it, as a supercooled liquid does not freeze.

    Args:
        ratios: The mass of each ray nearer to its centre than all draws, over that where draws are.
        centers: Where the rays begin.
        by_chance: What a right run may miss.
        std_error: The standard error of log Z.

    Returns:
        The finding; None as for `beyond_all_draws`.
    """
    missed = [_log_missed(of_center) for of_center in ratios]
    best = int(np.argmax(missed))
    if not missed[best] > np.fmax(MAX_BIAS * std_error, by_chance):
        return None
    center = centers[best]
    center = np.where(np.abs(center) < _TOLD_AS_0 * np.abs(center).max(), 0.0, center)
    told = [f"{number:.3g}" for number in center[:_MOST_TOLD]] + ["…"] * (len(center) > _MOST_TOLD)
    return Finding(
        Verdict.MISSED,
        f"rays through draws find a narrow peak in which no draw is, about ({', '.join(told)}), with mass that adds "
        f"{missed[best]:.2g} to log Z or more",
        "pass that place as one of the `witnesses`, which says what log Z is in all",
    )


def _log_missed(ratios: Float[np.ndarray, " ray"]) -> float:
    """By how much log Z is too low, at least."""
    found = (mean_of_chains(some[:, None]) for some in (ratios, np.minimum(ratios, 1.0)))
    luck = stdtrit(len(ratios) - 1, 1 - LUCK)
    return float(np.log1p(max(0.0, *(mean.value - luck * mean.std_error for mean in found))))
