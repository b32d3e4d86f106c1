"""Heavy tails of what chains contribute to log Z, such as those under a base with lighter tails than the target's.

From a light base chains come to the far tails of the target only near β = 1. They do so rarely, and stay there for
long. Until enough of them have been there the answer is too low, and its error too small. Three things show it: the
skewness of what the chains contribute, the right tail of log f over the base at the target, which chains see that walk
there, and that these are farther in the tails than the run was. The walks show a narrow part of the target as well,
such as the neck of a funnel, for which the steps of the run are too long. `rays` shows what no chain has come to.
"""

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from tempering._logspace import log_or_minus_inf
from tempering.diagnosis.divergence import MAX_BIAS
from tempering.estimators import LogZ, pareto_k
from tempering.findings import twice_as_many
from tempering.stats import WeightedDraws, mean_of_chains
from tempering.verdicts import Finding, Verdict

MAX_SKEWNESS = 2.0  # of exponential variables: m of them for each chain have 2/√m, so beyond it a chain has had none
MIN_RARE_EVENTS = 10.0  # behind what is seen of a rare mode, as many as round trips: fewer say little about the error
MAX_TAIL = 0.5  # Pareto k of log f over the base at the target: beyond it even its logarithm has no variance
FARTHEST = 0.01  # of the target: the share of a run's draws that is held against walks
LUCK = 0.02  # the probability that walks or rays see so much more where the run is right, by Student's law
_CHANCE = 15.1  # times the variance 6/n of the skewness of n normal variables; its square exceeds that once in 10,000


def heavy_contributions(answer: LogZ, num_sweeps: int, draws: WeightedDraws | None = None) -> Finding | None:
    """The finding for a run to which few chains contribute much, where states are unbounded.

    Under a light base the skewness of what was seen is no measure of what was not. Under a base that is not light, as
    draws of the target show, contributions are bounded, and skewed because some modes are rare on the hot rungs. N rare
    events make the sum of m chains as skewed as 1/√N, and each chain as skewed as √(m/N); ten of them are enough.

    Args:
        answer: log Z by RTS.
        num_sweeps: The sweeps of the run.
        draws: The states of the run, where they were kept.

    Returns:
        The finding; None if contributions are not more skewed than that, than exponential ones, or than chance allows.
    """
    skewness, num_chains = float(answer.skewness[-1]), answer.dof + 1
    most = max(MAX_SKEWNESS, np.sqrt(6 / num_chains * _CHANCE))
    if draws is not None and draws.skewness_of_rises <= 0:
        most = max(most, np.sqrt(num_chains / MIN_RARE_EVENTS))
    if not skewness > most:
        return None
    seen = f"what {num_chains} chains contribute has skewness {skewness:.1f}, more than {most:.2g}"
    return Finding(
        Verdict.HEAVY_TAILS, f"{seen}: few of them have been where much of the target is",
        twice_as_many(num_sweeps),
    )  # fmt: skip


def heavy_target(log_rises: Float[np.ndarray, "chain draw"]) -> Finding | None:
    """The finding for a target with much heavier tails than its base, where states are unbounded.

    Args:
        log_rises: log f at the target less log f at the base, at draws of the target.

    Returns:
        The finding; None if their right tail is no heavier than that of a generalised Pareto law with k = 1/2. An
        exponential tail has k = 0.
    """
    rises = log_rises[np.isfinite(log_rises)]
    k = pareto_k(log_or_minus_inf(rises - rises.min())) if rises.size else np.nan
    if not k > MAX_TAIL:
        return None
    return light_base(
        f"the right tail of log f over the base has Pareto k {k:.2g} at the target, more than {MAX_TAIL:g}"
    )


def beyond_the_run(walks: Float[np.ndarray, "chain step"], draws: WeightedDraws, std_error: float) -> Finding | None:
    """The finding for chains that walk at the target, and are where the run hardly was.

    A level is chosen that log f over the base exceeds for a small share of the run's draws of the target: in its tails,
    or in a part that is much narrower than the rest. If the run is right, walks exceed it for the same share of their
    time. The errors of both shares are the scatter of chains. So it does not matter how fast either kind forgets where
    it was. What walks exceed it more often, the run has missed, and log Z is too low by as much. That must be less than
    half of its standard error.

    Args:
        walks: log f at the target less log f at the base, at every step of chains that walk at the target.
        draws: The states of the run.
        std_error: The standard error of log Z.

    Returns:
        The finding; None if walks exceed the level no more often than the run, if luck may be why, or if it is so
        little that the answer can bear it.
    """
    level = draws.exceeded_by(FARTHEST)
    of_run, of_walks = draws.time_beyond(level), mean_of_chains(walks > level)
    missed = of_walks.value - of_run.value
    error, dof = np.hypot(of_run.std_error, of_walks.std_error), min(len(walks), draws.num_chains) - 1
    if dof < 1 or not missed > max(stdtrit(dof, 1 - LUCK) * error, MAX_BIAS * std_error):
        return None
    seen = f"chains that walk at the target alone are for {of_walks.value:.2g} of their time in tails where the run had"
    return light_base(f"{seen} {of_run.value:.2g} of its draws")


def light_base(seen: str) -> Finding:
    """The finding for a base with lighter tails than the target's.

    Args:
        seen: What shows it.
    """
    return Finding(
        Verdict.HEAVY_TAILS, f"{seen}: the target has heavier tails than the base, and chains from there miss a part",
        "take a base with heavier tails than the target's, such as `tp.Student`",
    )  # fmt: skip
