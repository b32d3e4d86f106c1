"""Draws kept one by one, by a few numbers each, for estimators that need more than sums: MBAR and BAR."""

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from tempering._errors import InputError
from tempering._logspace import LOG_ZERO
from tempering._types import HostPerRung
from tempering.ladder import AbstractPath
from tempering.stats.statistic import AbstractHostStatistic
from tempering.stats.steps import append_thinned

MAX_KEPT_DRAWS = 2**18  # of all chains together; beyond it every second draw is dropped, as often as needed


class ReducedDraws(eqx.Module):
    """Draws x_i with their rungs k_i, reduced to features: log f_k(x_i) = (matrix @ features_i)_k.

    The equality may lack a function of x_i that is the same at every rung: estimators do not need it. On a geometric
    path the only feature is Δ = log f − log p_1.

    ```python
    draws = ReducedDraws.on_geometric_path(delta, betas, rungs)  # Δ_i and k_i, of shape (draw,) or (chain, draw)
    draws = ReducedDraws.from_log_densities(log_f, rungs)  # log f_k(x_i), of shape (draw, rung) or (chain, draw, rung)
    mbar(draws)
    ```

    Attributes:
        features: the features of each draw.
        matrix: what turns features into log f_k(x_i).
        rungs: the rung at which each draw was made.
        weights: how often each draw counts; None if each counts once.
    """

    features: Float[np.ndarray, "chain draw feature"]
    matrix: Float[np.ndarray, "rung feature"]
    rungs: Int[np.ndarray, "chain draw"]
    weights: Float[np.ndarray, "chain draw"] | None = None

    @classmethod
    def on_geometric_path(cls, slopes: np.ndarray, betas: HostPerRung, rungs: np.ndarray) -> "ReducedDraws":
        """Draws of a geometric path, from Δ = log f − log p_1 of each; −inf where f is 0.

        Args:
            slopes: Δ_i, of shape (draw,) or (chain, draw).
            betas: the inverse temperatures.
            rungs: the rung of each draw, of the same shape as `slopes`.

        Returns:
            The draws. Without a chain axis, each draw is taken as independent.
        """
        slopes, rungs = np.asarray(slopes, np.float64), np.asarray(rungs)
        slopes = np.where(np.isneginf(slopes), LOG_ZERO, slopes)
        return _reduced_draws(slopes[..., None], np.asarray(betas, np.float64)[:, None], rungs)

    @classmethod
    def from_log_densities(cls, log_f: np.ndarray, rungs: np.ndarray) -> "ReducedDraws":
        """Draws from log f_k(x_i) at every rung; −inf where f_k is 0.

        Args:
            log_f: of shape (draw, rung) or (chain, draw, rung): minus the reduced potentials, with the rung axis last.
            rungs: the rung of each draw, of shape (draw,) or (chain, draw).

        Returns:
            The draws. Without a chain axis, each draw is taken as independent.
        """
        log_f = np.asarray(log_f)
        is_zero = np.isneginf(log_f)
        log_f = np.where(is_zero & ~is_zero.all(axis=-1, keepdims=True), LOG_ZERO, log_f)
        return _reduced_draws(log_f, np.eye(log_f.shape[-1]), np.asarray(rungs))

    @property
    def num_rungs(self) -> int:
        """The number of rungs K."""
        return self.matrix.shape[0]

    def __repr__(self) -> str:
        num_chains, num_draws = np.shape(self.rungs)
        return f"ReducedDraws({num_chains} chains × {num_draws} draws, {len(self.matrix)} rungs)"


class KeptFeatures(AbstractHostStatistic):
    """The features that a run has kept so far: of every `stride`-th step of each chain, so that memory stays bounded.

    Attributes:
        features: the features of each draw.
        rungs: the rung of each draw.
        num_steps: steps of a chain so far, kept or not.
        stride: every how many-th step is kept.
    """

    features: Float[np.ndarray, "chain draw feature"]
    rungs: Int[np.ndarray, "chain draw"]
    num_steps: int
    stride: int = 1

    def then(self, later: "KeptFeatures", /) -> "KeptFeatures":
        return append_thinned(self, later, max_draws=MAX_KEPT_DRAWS // len(self.rungs))

    def reduced_draws(self, path: AbstractPath) -> ReducedDraws:
        """The draws in the form that estimators take.

        Args:
            path: the path on which they were made.
        """
        return ReducedDraws(self.features, path.feature_matrix(), self.rungs)


def _reduced_draws(features: np.ndarray, matrix: np.ndarray, rungs: np.ndarray) -> ReducedDraws:
    if rungs.ndim == 1:  # each draw becomes a chain of its own
        features, rungs = features[:, None], rungs[:, None]
    if features.shape[:-1] != rungs.shape or not np.issubdtype(rungs.dtype, np.integer):
        raise InputError(
            f"`rungs` must hold one integer per draw: expected shape {features.shape[:-1]}, got {rungs.shape} of "
            f"{rungs.dtype}."
        )
    if rungs.size and not (rungs.min() >= 0 and rungs.max() < len(matrix)):
        raise InputError(f"`rungs` must lie between 0 and {len(matrix) - 1}, got {rungs.min()} to {rungs.max()}.")
    return ReducedDraws(features, matrix, rungs)
