"""Heavy tails of what chains contribute to log Z, such as those under a base with lighter tails than the target's.

From a light base chains come to the far tails of the target only near β = 1. They do so rarely, and stay there for
long. Until enough of them have been there the answer is too low, and its error too small. Three things show it: the
skewness of what the chains contribute, the right tail of log f over the base at the target, which chains see that walk
there, and that these get farther into the tails than the draws of the run from which they began.
"""

import numpy as np
from jaxtyping import Float

from tempering._logspace import log_or_minus_inf
from tempering.diagnosis.time_reversal import most_one_sided
from tempering.estimators import LogZ, pareto_k
from tempering.findings import twice_as_many
from tempering.verdicts import Finding, Verdict

MAX_SKEWNESS = 2.0  # of exponential variables: m of them for each chain have 2/√m, so beyond it a chain has had none
MAX_TAIL = 0.5  # Pareto k of log f over the base at the target: beyond it even its logarithm has no variance
_CHANCE = 15.1  # times the variance 6/n of the skewness of n normal variables; its square exceeds that once in 10,000


def heavy_contributions(answer: LogZ, num_sweeps: int) -> Finding | None:
    """The finding for a run to which few chains contribute much, where states are unbounded.

    Args:
        answer: log Z by RTS.
        num_sweeps: The sweeps of the run.

    Returns:
        The finding; None if contributions are not more skewed than exponential ones, or than chance allows.
    """
    skewness, most = float(answer.skewness[-1]), max(MAX_SKEWNESS, np.sqrt(6 / (answer.dof + 1) * _CHANCE))
    if not skewness > most:
        return None
    seen = f"what {answer.dof + 1} chains contribute has skewness {skewness:.1f}, more than {most:.2g}"
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
    return _light_base(
        f"the right tail of log f over the base has Pareto k {k:.2g} at the target, more than {MAX_TAIL:g}"
    )


def beyond_the_run(first: Float[np.ndarray, " walk"], last: Float[np.ndarray, " walk"]) -> Finding | None:
    """The finding for chains that walk at the target, from draws of the run, and get farther into its tails.

    If the run is right, its draws have the law of the target, which walks keep. As many of them then come back from the
    tails as get there. Of walks whose log f over the base changed most, it rose in half, as coins fall.

    Args:
        first: log f at the target less log f at the base where each walk began.
        last: The same where it ended.

    Returns:
        The finding; None if luck may be why.
    """
    known = np.isfinite(first) & np.isfinite(last)
    found = most_one_sided(last[known] - first[known])
    if found is None:
        return None
    seen = f"of the {found.number} walks at the target on which log f over the base changed most"
    return _light_base(f"{seen}, it rose on {found.num_positive}, and not on half of them")


def _light_base(seen: str) -> Finding:
    return Finding(
        Verdict.HEAVY_TAILS, f"{seen}: the target has heavier tails than the base, and chains from there miss a part",
        "take a base with heavier tails than the target's, such as `tp.Student`",
    )  # fmt: skip
