"""Heavy tails of what chains contribute to log Z, such as those under a base with lighter tails than the target's.

From a light base chains come to the far tails of the target only near β = 1. They do so rarely, and stay there for
long. Until enough of them have been there the answer is too low, and its error too small. What shows it is the skewness
of what the chains contribute.
"""

import numpy as np

from tempering.estimators import LogZ
from tempering.findings import twice_as_many
from tempering.verdicts import Finding, Verdict

MAX_SKEWNESS = 2.0  # of exponential variables: m of them for each chain have 2/√m, so beyond it a chain has had none
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
        f"{twice_as_many(num_sweeps)}, and take a base with heavier tails than the target's, such as `tp.Student`",
    )  # fmt: skip
