"""A guess of log Z at every rung from annealing passes up and down together."""

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering._logspace import log_sum_exp
from tempering._types import HostPerRung


def log_z_from_both_ways(
    up: Float[np.ndarray, "chain rung"], down: Float[np.ndarray, "other_chain rung"]
) -> HostPerRung:
    """log Z_k − log Z_0 from passes up and passes down, as if all were drawn from one mixture of both kinds.

    A pass with log weight W from the base to the target is exp(W − D) times as likely downwards as upwards, where
    D = log Z_{K−1} − log Z_0 (Crooks 1999). With N passes up and M passes down

        Z_k / Z_0 = Σ w_k / (N + M exp(W − D)),

    over all passes, where w_k is the weight from the base to rung k. At the target this is Bennett's equation for D
    (Minh and Adib 2008). Passes up are too low beyond a place where they lag behind, and passes down too high; where
    both lag by about as much, the two errors cancel.

    Args:
        up: Log weights of passes up, 0 at rung 0, as `AnnealWeights.log_weights()` gives them.
        down: Log weights of passes down, 0 at the target, as `AnnealWeights.log_weights_down()` gives them.

    Returns:
        One number per rung, 0 at rung 0. NaN where a weight is NaN or infinite.

    Caveats: The passes down must begin with draws of the target. It is a guess to begin with, without an error bar.
    """
    from scipy.optimize import root_scalar  # takes long to import

    if np.any(up[:, 0] != 0) or np.any(down[:, -1] != 0):
        raise InputError(
            "`log_z_from_both_ways` needs passes up with 0 at rung 0, and passes down with 0 at the target."
        )
    weights = np.concatenate([up, down - down[:, :1]])  # each from the base upwards
    if not np.all(np.isfinite(weights)):
        return np.full(weights.shape[1], np.nan)
    whole, log_up, log_down = weights[:, -1], np.log(len(up)), np.log(len(down))

    def log_shares(log_ratio: float) -> Float[np.ndarray, " chain"]:
        """Minus log(N + M exp(W − D))."""
        return -np.logaddexp(log_up, log_down + whole - log_ratio)

    def excess(log_ratio: float) -> float:
        return float(log_sum_exp(whole + log_shares(log_ratio), axis=0)) - log_ratio

    log_ratio = root_scalar(excess, bracket=(whole.min() - 1, whole.max() + 1), xtol=1e-12).root
    return log_sum_exp(weights + log_shares(log_ratio)[:, None], axis=0)
