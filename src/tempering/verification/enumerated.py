"""Small models whose every state can be listed, so that laws, transition matrices and log Z are known exactly.

Everything here is NumPy float64 and written independently of the package's own formulas. The tests use it too.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from tempering.ladder import Ladder
from tempering.models import RBM, RBMPath
from tempering.stats import BlockedStats, Recording, Travel

BETAS = np.array([0.0, 0.4, 1.0])
LOG_PRIOR = np.log([0.5, 0.2, 0.3])
LOG_Z_GUESS = np.array([0.0, 0.7, -1.1])  # wrong on purpose: an estimator must not need a good guess
BASE_FREQUENCIES = np.array([0.2, 0.6, 0.7, 0.35, 0.5])


def small_rbm() -> RBM:
    """5 × 3, asymmetric in every respect: a symmetric model cannot see a sign error."""
    rng = np.random.default_rng(20160619)
    weights = rng.normal(0, 1.2, (5, 3))
    return RBM(weights, rng.normal(-0.5, 0.8, 5), rng.normal(0.4, 0.9, 3))


def small_path() -> RBMPath:
    """The path of the small RBM over three rungs."""
    return small_rbm().path(BASE_FREQUENCIES, BETAS)


def small_ladder() -> Ladder:
    """The joint law on it, with uneven rung weights and a wrong guess of log Z."""
    return Ladder.create(small_path(), LOG_PRIOR, LOG_Z_GUESS)


def patterns(num_bits: int) -> np.ndarray:
    """All rows of so many bits."""
    return np.array(list(itertools.product([0.0, 1.0], repeat=num_bits)))


def log_densities(path: RBMPath) -> np.ndarray:
    """log f_k(v) of an RBM path for all v: (state, rung), by summing over every h one by one."""
    weights, vbias, hbias, logits, betas = (
        np.asarray(a, np.float64) for a in (path.weights, path.vbias, path.hbias, path.base_logits, path.betas)
    )
    visible, hidden = patterns(len(vbias)), patterns(len(hbias))
    energy = (visible @ vbias)[:, None] + visible @ weights @ hidden.T + hidden @ hbias  # (v, h)
    joint = (1 - betas) * (visible @ logits)[:, None, None] + betas * energy[:, :, None]
    return np.logaddexp.reduce(joint, axis=1)


def log_z(path: RBMPath) -> np.ndarray:
    """log Z_k."""
    return np.logaddexp.reduce(log_densities(path), axis=0)


def rung_posterior(log_f: np.ndarray, log_prior: np.ndarray, log_z_guess: np.ndarray) -> np.ndarray:
    """q(k | x): (state, rung)."""
    joint = log_f + log_prior - log_z_guess
    return np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))


def joint_law(log_f: np.ndarray, log_prior: np.ndarray, log_z_guess: np.ndarray) -> np.ndarray:
    """q(x, k): (state, rung), adds up to 1."""
    joint = log_f + log_prior - log_z_guess
    return np.exp(joint - np.logaddexp.reduce(joint, axis=None))


def gibbs_matrix(path: RBMPath, rung: int) -> np.ndarray:
    """The transition matrix of one block Gibbs sweep, over all v."""
    weights, vbias, hbias, logits, betas = (
        np.asarray(a, np.float64) for a in (path.weights, path.vbias, path.hbias, path.base_logits, path.betas)
    )
    beta = betas[rung]
    visible, hidden = patterns(len(vbias)), patterns(len(hbias))
    to_hidden = _bits_law(expit(beta * (visible @ weights + hbias)), hidden)
    to_visible = _bits_law(expit((1 - beta) * logits + beta * (hidden @ weights.T + vbias)), visible)
    return to_hidden @ to_visible


def _bits_law(probabilities: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """(row, outcome): the probability of each outcome when bits are independent."""
    chosen = np.where(outcomes[None] == 1, probabilities[:, None], 1 - probabilities[:, None])
    return chosen.prod(axis=2)


def states_of(path: RBMPath, visible: np.ndarray) -> Any:
    """RBM states for rows of v."""
    return jax.vmap(path.state_of)(jnp.asarray(visible, jnp.float32))


def stats_from_law(
    log_f: np.ndarray, log_prior: np.ndarray = LOG_PRIOR, log_z_guess: np.ndarray = LOG_Z_GUESS
) -> BlockedStats:
    """The statistics of an infinitely long run: ĉ_k is exactly q(k), and so are the visits (to 1e-15)."""
    marginal = joint_law(log_f, log_prior, log_z_guess).sum(axis=0)
    count = 10**15
    none = np.zeros(1, np.int64)
    return BlockedStats(
        betas=BETAS,
        log_prior=np.asarray(log_prior),
        log_z_guess=np.asarray(log_z_guess),
        log_sums=(np.log(marginal) + np.log(count))[None, None],
        visits=np.rint(marginal * count).astype(np.int64)[None, None],
        num_draws=np.array([[count]]),
        num_nonfinite=np.array([[0]]),
        travel=Travel(none, none, none),
        block_size=count,
    )


def recording_from_law(path: RBMPath) -> Recording:
    """The same with exact transitions between rungs when x is redrawn exactly: P_jk = Σ_x p(x | j) q(k | x)."""
    log_f = log_densities(path)
    law = np.exp(log_f - np.logaddexp.reduce(log_f, axis=0))
    transitions = law.T @ rung_posterior(log_f, LOG_PRIOR, LOG_Z_GUESS)
    stats = stats_from_law(log_f)
    weighted = transitions * stats.visits[0, 0][:, None]
    return Recording(stats, np.rint(weighted)[None].astype(np.int64), weighted[None])


def slope_laws(path: RBMPath) -> tuple[np.ndarray, np.ndarray]:
    """s = d log f_k(v)/dβ and ds/dβ of an RBM path: (state, rung) each, by listing every h.

    s is the mean of the joint energy's slope given v, and ds/dβ its variance.
    """
    weights, vbias, hbias, logits, betas = (
        np.asarray(a, np.float64) for a in (path.weights, path.vbias, path.hbias, path.base_logits, path.betas)
    )
    visible, hidden = patterns(len(vbias)), patterns(len(hbias))
    rise = (visible @ (vbias - logits))[:, None] + visible @ weights @ hidden.T + hidden @ hbias  # (v, h)
    joint = betas * (rise - rise.min())[:, :, None]
    given_v = np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))
    mean = np.einsum("vhk,vh->vk", given_v, rise)
    return mean, np.einsum("vhk,vhk->vk", given_v, (rise[:, :, None] - mean[:, None, :]) ** 2)


def stats_with_slopes_and_steps(path: RBMPath, log_prior: np.ndarray, log_z_guess: np.ndarray) -> BlockedStats:
    """An infinitely long run on any RBM path, with what thermodynamic integration, stepping stones and bridges keep."""
    log_f, (slopes, curvatures) = log_densities(path), slope_laws(path)
    count = 10**15
    law = joint_law(log_f, log_prior, log_z_guess) * count
    reference = np.linspace(-1.0, 2.0, log_f.shape[1])  # any will do
    off = slopes - reference
    sums = np.einsum("vk,vkm->km", law, np.stack([off, off**2, curvatures], axis=2))[None, None]
    up = np.append(np.log((law[:, :-1] * np.exp(np.diff(log_f))).sum(axis=0)), -np.inf)
    down = np.append(-np.inf, np.log((law[:, 1:] * np.exp(-np.diff(log_f))).sum(axis=0)))
    log_ratios = np.diff(log_f - log_z_guess)
    bridge_up = np.append(np.log((law[:, :-1] * expit(log_ratios)).sum(axis=0)), -np.inf)
    bridge_down = np.append(-np.inf, np.log((law[:, 1:] * expit(-log_ratios)).sum(axis=0)))
    none = np.zeros(1, np.int64)
    return BlockedStats(
        betas=np.asarray(path.betas, np.float64),
        log_prior=np.asarray(log_prior),
        log_z_guess=np.asarray(log_z_guess),
        log_sums=np.log(law.sum(axis=0))[None, None],
        visits=np.rint(law.sum(axis=0)).astype(np.int64)[None, None],
        num_draws=np.array([[count]]),
        num_nonfinite=np.array([[0]]),
        travel=Travel(none, none, none),
        block_size=count,
        slope_reference=reference,
        counted_slopes=sums,
        weighted_slopes=sums.copy(),
        log_steps=np.stack([up, down], axis=1)[None, None],
        log_bridges=np.stack([bridge_up, bridge_down], axis=1)[None, None],
    )
