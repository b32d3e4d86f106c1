"""Whether a mean of weights can be trusted: their effective sample size, and the weight of their upper tail."""

import numpy as np
from jaxtyping import Float

from tempering._types import HostPerRung
from tempering.findings import MIN_EFFECTIVE
from tempering.verdicts import Finding, Verdict

MAX_PARETO_K = 0.7  # beyond it the mean converges too slowly for any practical number of weights (Vehtari et al. 2024)
_ONE_SIGMA = 0.8413  # the probability of a normal variable to lie below its mean plus σ
_MIN_TAIL = 5  # weights; fewer do not determine a tail


def effective_sample_size(log_weights: Float[np.ndarray, "chain rung"]) -> HostPerRung:
    """The effective sample size (Σw)² / Σw² at each rung: so many equal weights have the same relative error.

    Args:
        log_weights: Log weights of independent passes.

    Returns:
        A number between 0 (no weight at all) and the number of passes, at each rung.

    Caveats: It is too large if the largest weights were not drawn.
    """
    peak = log_weights.max(axis=0)
    weights = np.exp(log_weights - np.where(np.isfinite(peak), peak, 0.0))
    squares = (weights**2).sum(axis=0)
    return np.divide(weights.sum(axis=0) ** 2, squares, out=np.zeros_like(squares), where=squares > 0)


def foreseen_sample_size(log_weights: Float[np.ndarray, " chain"]) -> float:
    """S exp(−σ²), the effective sample size of S weights if their logarithms were normal; NaN if half are −inf.

    σ is the distance from the median to the quantile one σ above it, which are known even if the weights that carry the
    mean were not drawn. Weights below the median are not used, since small weights do no harm.
    """
    num_weights = len(log_weights)
    median, one_above = np.sort(log_weights)[[num_weights // 2, int(_ONE_SIGMA * num_weights)]]
    return float(num_weights * np.exp(-((one_above - median) ** 2))) if np.isfinite(median) else np.nan


def pareto_k(log_weights: Float[np.ndarray, " chain"]) -> float:
    """The shape k̂ of the upper tail: below 1/2 the weights have a variance, below 1 a mean (Vehtari et al. 2024).

    The largest min(S/5, 3√S) of S weights are fitted.

    Args:
        log_weights: Log weights of independent passes at one rung.

    Returns:
        k̂; −inf if the largest weights are all equal, NaN if fewer than 5 exceed the rest.

    Caveats: It does not see a tail from which no weight was drawn.
    """
    num_weights = len(log_weights)
    num_tail = int(np.ceil(min(0.2 * num_weights, 3 * np.sqrt(num_weights))))
    log_top = np.sort(log_weights)[-num_tail - 1 :]
    if num_tail >= num_weights or not np.isfinite(log_top[-1]):
        return np.nan
    top = np.exp(log_top - log_top[-1])
    excesses = (top - top[0])[top > top[0]]
    if len(excesses) == 0:
        return -np.inf
    return fit_pareto_k(excesses) if len(excesses) >= _MIN_TAIL else np.nan


def fit_pareto_k(excesses: Float[np.ndarray, " tail"]) -> float:
    """The shape k of a generalised Pareto law from sorted positive excesses, by Zhang and Stephens (2009).

    With b = −k/σ the likelihood, maximised over k, is a function of b alone: k(b) = mean log(1 − b y) and
    n (log(−b/k) − k − 1). Its mean over a grid of quantiles of a prior for b replaces its maximum, which may not exist.
    """
    num = len(excesses)
    num_grid = 30 + int(np.sqrt(num))
    quartile, largest = excesses[int(num / 4 + 0.5) - 1], excesses[-1]
    b = 1 / largest + (1 - np.sqrt(num_grid / (np.arange(1, num_grid + 1) - 0.5))) / (3 * quartile)
    b = b[b != 0]  # k = 0, the exponential law, is a limit of its neighbours
    k = np.log1p(-b[:, None] * excesses).mean(axis=1)
    log_likelihood = num * (np.log(-b / k) - k - 1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    mean_b = (weights @ b) / weights.sum()
    k_hat = float(np.log1p(-mean_b * excesses).mean())
    # A prior of ten weights at 1/2 stabilises short tails, as in Vehtari et al.
    return (num * k_hat + 10 * 0.5) / (num + 10)


def heavy_tails(log_weights: Float[np.ndarray, " chain"]) -> Finding | None:
    """The finding for weights whose mean cannot be trusted. A NaN, where a tail is unknown, is no evidence."""
    k = pareto_k(log_weights)
    seen, foreseen = float(effective_sample_size(log_weights[:, None])[0]), foreseen_sample_size(log_weights)
    weights = f"{len(log_weights)} weights"
    if k > MAX_PARETO_K:
        why = f"the upper tail of {weights} has Pareto k {k:.2f}, above {MAX_PARETO_K:g}"
    elif seen < MIN_EFFECTIVE:
        why = f"{weights} count as {seen:.3g}; an error bar needs {MIN_EFFECTIVE:g}"
    elif foreseen < MIN_EFFECTIVE:
        why = f"{weights} with such spread count as {foreseen:.2g} if normal; an error bar needs {MIN_EFFECTIVE:g}"
    else:
        return None
    return Finding(Verdict.HEAVY_TAILS, why, "anneal in more steps; then use more chains")
