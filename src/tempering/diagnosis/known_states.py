"""What known states say for certain: where Z is a sum over states, it is at least the sum over some of them."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from tempering._logspace import log_sum_exp
from tempering.verdicts import Finding, Verdict

_ROUNDING = 0.01  # nats by which log densities in single precision may be off


def first_occurrences(rows: Any) -> Bool[np.ndarray, " row"]:
    """Which rows are not the same as one before them.

    Args:
        rows: States, one in each row.
    """
    rows = np.ascontiguousarray(rows).reshape(len(rows), -1)
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    is_first = np.zeros(len(rows), bool)
    is_first[np.unique(as_bytes, return_index=True)[1]] = True
    return is_first


def log_known_mass(rows: Any, log_f: Float[np.ndarray, " row"]) -> float:
    """log Σ f(v) over the distinct rows: log Z cannot be smaller.

    Args:
        rows: States, one in each row.
        log_f: The unnormalised log density of each.
    """
    return float(log_sum_exp(np.asarray(log_f, np.float64)[first_occurrences(rows)], axis=0))


def below_known_mass(log_mass: float, high: float) -> Finding | None:
    """The finding for an interval of log Z that ends below what known states add up to.

    Args:
        log_mass: The sum over known states, from `log_known_mass`.
        high: The upper end of the interval.

    Returns:
        The finding; None if the interval reaches that far. It is never a false alarm, up to rounding.
    """
    if not log_mass > high + _ROUNDING:
        return None
    seen = f"the rows that were given add up to more: log Z is at least {log_mass:.2f}, and chains do not find them"
    return Finding(Verdict.MISSED, seen, "take the bound for log Z, or a `base` that is close to these rows")
