"""Draws kept one by one, for the estimators that cannot do with sums; few numbers each, and never too many."""

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.ladder import AbstractPath

MAX_KEPT_DRAWS = 2**18  # of all chains together; beyond it every second draw is let go, as often as needed


class ReducedDraws(eqx.Module):
    """x_i of each chain by its features, and the rung k_i where it stood: log f_k(x_i) = (matrix @ features_i)_k.

    The equality may lack a function of x_i alone, the same at every rung. On a geometric path the one feature is Δ.

    ```python
    ReducedDraws.on_geometric_path(delta, betas, rungs)  # Δ_i and k_i, of shape (draw,) or (chain, draw)
    ReducedDraws.from_log_densities(log_f, rungs)  # log f_k(x_i), of shape (draw, rung) or (chain, draw, rung)
    ```
    """

    features: Float[np.ndarray, "chain draw feature"]
    matrix: Float[np.ndarray, "rung feature"]
    rungs: Int[np.ndarray, "chain draw"]
    weights: Float[np.ndarray, "chain draw"] | None = None  # how often each counts; None: once

    @classmethod
    def on_geometric_path(cls, slopes: np.ndarray, betas: HostPerRung, rungs: np.ndarray) -> "ReducedDraws":
        """Draws known by Δ = log f − log p_1 alone."""
        slopes, rungs = np.asarray(slopes, np.float64), np.asarray(rungs)
        return _checked(slopes[..., None], np.asarray(betas, np.float64)[:, None], rungs)

    @classmethod
    def from_log_densities(cls, log_f: np.ndarray, rungs: np.ndarray) -> "ReducedDraws":
        """Draws known by log f at every rung; minus reduced potentials, with rungs last."""
        log_f = np.asarray(log_f)
        return _checked(log_f, np.eye(log_f.shape[-1]), np.asarray(rungs))

    @property
    def num_rungs(self) -> int:
        """K."""
        return self.matrix.shape[0]


class KeptFeatures(eqx.Module):
    """The draws that a run has kept so far: every `stride`-th step of each chain, so that memory stays bounded."""

    features: Float[np.ndarray, "chain draw feature"]
    rungs: Int[np.ndarray, "chain draw"]
    num_steps: int  # steps of a chain so far
    stride: int = 1

    def then(self, later: "KeptFeatures") -> "KeptFeatures":
        """These draws followed by a later block of the same chains, thinned where there are too many."""
        keep = slice(-self.num_steps % self.stride, None, self.stride)
        features = np.concatenate([self.features, later.features[:, keep]], axis=1)
        rungs = np.concatenate([self.rungs, later.rungs[:, keep]], axis=1)
        stride = self.stride
        while rungs.size > MAX_KEPT_DRAWS and rungs.shape[1] > 1:
            features, rungs, stride = features[:, ::2], rungs[:, ::2], 2 * stride
        return KeptFeatures(features, rungs, self.num_steps + later.num_steps, stride)

    def reduced_draws(self, path: AbstractPath) -> ReducedDraws:
        """The draws as estimators take them; `path` is the one they were made on."""
        return ReducedDraws(self.features, path.feature_matrix(), self.rungs)


def _checked(features: np.ndarray, matrix: np.ndarray, rungs: np.ndarray) -> ReducedDraws:
    """With a chain axis, which is added where there is none: each draw is then a chain of its own."""
    if rungs.ndim == 1:
        features, rungs = features[:, None], rungs[:, None]
    if features.shape[:-1] != rungs.shape or not np.issubdtype(rungs.dtype, np.integer):
        raise InputError(f"`rungs` must hold a whole number per draw, {features.shape[:-1]}; got {rungs.shape}.")
    if rungs.size and not (rungs.min() >= 0 and rungs.max() < len(matrix)):
        raise InputError(f"`rungs` must lie between 0 and {len(matrix) - 1}, got {rungs.min()} to {rungs.max()}.")
    return ReducedDraws(features, matrix, rungs)
