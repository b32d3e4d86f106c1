"""How many independent draws weighted and autocorrelated draws are worth."""

import numpy as np
from jaxtyping import Float

_MIN_UNITS = 20  # independent parts whose scatter shows an error; with fewer chains, each is cut into parts
_MIN_DRAWS = 4  # an error is not estimated from fewer draws


def independent_size(weights: Float[np.ndarray, "chain draw"], values: Float[np.ndarray, "chain draw number"]) -> float:
    """The number of independent draws of the target whose mean would have the error that these draws have.

    For each number, Var(x) / Var(x̄), where x̄ is the weighted mean over all draws, and its variance is seen from the
    scatter of chains, so that autocorrelation counts. The answer is the harmonic mean over all numbers that vary.

    Args:
        weights: of each draw, not negative.
        values: the numbers of each draw.

    Returns:
        The size: at most (Σw)² / Σw², and that where nothing varies or there are too few draws for an error.

    Caveats: a mode that no chain has found is missing here as everywhere. With few chains the parts of one chain are
    taken as independent, which is too optimistic where chains move slowly.
    """
    by_weight = float(weights.sum() ** 2 / (weights**2).sum())
    parts = -(-_MIN_UNITS // len(weights))
    length = weights.shape[1] // parts
    if weights.size < _MIN_DRAWS or length == 0 or len(weights) * parts < 2:
        return by_weight
    weights = weights[:, : length * parts].reshape(-1, length) / weights.max()
    errors = []
    for number in range(values.shape[2]):  # one by one, since all at once would take as much memory again
        value = np.where(weights > 0, values[:, : length * parts, number].reshape(-1, length), 0.0)
        errors.append(_relative_variance(weights, value.astype(np.float64)))
    known = [error for error in errors if np.isfinite(error)]
    if not known or np.mean(known) <= 0:
        return by_weight
    return float(min(by_weight, 1 / np.mean(known)))


def _relative_variance(weights: Float[np.ndarray, "unit draw"], value: Float[np.ndarray, "unit draw"]) -> float:
    """Var(x̄) / Var(x) by the delta method for a ratio of sums over units; NaN for a constant."""
    total = weights.sum()
    mean = float((weights * value).sum() / total)
    variance = float((weights * (value - mean) ** 2).sum() / total)
    if variance <= 1e-12 * max(mean**2, 1e-300):
        return np.nan
    residuals = (weights * (value - mean)).sum(axis=1) / total
    num_units = len(residuals)
    return float((residuals**2).sum() * num_units / (num_units - 1) / variance)
