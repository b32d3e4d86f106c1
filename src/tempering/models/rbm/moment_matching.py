"""RBMs with given moments: how the knots of a moment-averaged path are found."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._precision import product
from tempering._types import Key, Scalar
from tempering.models.rbm.arrays import random_bits
from tempering.models.rbm.batch import Chains, Moments, Parameters, gibbs, moments_of

_FIRST_STEP = 0.3  # stable for 784 × 500 units, where 1 is not
_BADLY_MATCHED = 0.2  # relative mismatch above which a knot is trained again, with shorter steps
_MAX_TRIALS = 3


def fit_knots(
    key: Key,
    base_logits: Float[Array, " visible"],
    target: Moments,
    knot_betas: Float[np.ndarray, " knot"],
    *,
    num_chains: int,
    num_steps: int,
) -> tuple[list[Parameters], Float[np.ndarray, " knot"]]:
    """The inner knots, each trained from the one before it, and the relative error of the moments of each.

    A knot at β should have (1 − β) times the base's moments plus β times the target's (Grosse, Maddison and
    Salakhutdinov 2013). log f(v, h) is linear in the parameters, so the RBM with given moments maximises a concave
    likelihood. Where the steps were too long to reach the maximum, training is repeated with shorter steps.
    """
    h = jnp.full_like(target.h, 0.5)
    base = Moments(jax.nn.sigmoid(base_logits), h, jnp.outer(jax.nn.sigmoid(base_logits), h))
    knot = Parameters(jnp.zeros_like(target.vh), base_logits, jnp.zeros_like(target.h))
    v = random_bits(jax.random.fold_in(key, 0), jnp.broadcast_to(base_logits, (num_chains, len(base_logits))))
    knots, mismatches = [], []
    for number, beta in enumerate(knot_betas.tolist(), start=1):
        wanted = Moments(*((1 - beta) * low + beta * high for low, high in zip(base, target, strict=True)))
        trials = []
        while len(trials) < _MAX_TRIALS and not (trials and trials[-1][2] < _BADLY_MATCHED):
            key_trial = jax.random.fold_in(key, _MAX_TRIALS * number + len(trials))
            first_step = jnp.asarray(_FIRST_STEP / 4 ** len(trials), jnp.float32)
            trials.append(_matched(key_trial, knot, wanted, v, first_step, num_steps))
        knot, v, mismatch = min(trials, key=lambda trial: np.nan_to_num(trial[2], nan=np.inf))
        knots.append(knot)
        mismatches.append(float(mismatch))
    return knots, np.asarray(mismatches, np.float64)


@eqx.filter_jit
def target_moments(key: Key, start: Parameters, target: Parameters, v: Chains, num_steps: int) -> Moments:
    """Moments of chains that are annealed from one RBM to another in 2/3 of all steps, averaged over the rest."""
    num_annealing = 2 * num_steps // 3

    def anneal(i, v):
        share = ((i + 1) / num_annealing).astype(v.dtype)
        between = Parameters(*((1 - share) * a + share * b for a, b in zip(start, target, strict=True)))
        return gibbs(jax.random.fold_in(key, i), between, v)

    v = jax.lax.fori_loop(0, num_annealing, anneal, v)
    return _mean_moments(jax.random.fold_in(key, num_annealing), target, v, num_steps - num_annealing)[0]


@eqx.filter_jit
def _matched(
    key: Key, start: Parameters, wanted: Moments, v: Chains, first_step: Scalar, num_steps: int
) -> tuple[Parameters, Chains, Scalar]:
    """The RBM with given moments, its chains, and its relative error, by gradient ascent with persistent chains.

    The parameters are averaged over the second half of the steps. Gradients are those of the centred RBM, with v − E[v]
    and h − E[h] in place of v and h (Montavon and Müller 2012): otherwise biases and weights compete for the same
    moments. Steps fall as 1/t (Robbins and Monro 1951).
    """
    num_late = num_steps // 2

    def update(i, carry):
        now, v, mean = carry
        v = gibbs(jax.random.fold_in(key, i), now, v)
        off_v, off_h, off_vh = (want - have for want, have in zip(wanted, moments_of(now, v), strict=True))
        step = (first_step / (1 + i / (num_steps / 3))).astype(first_step.dtype)
        weights = off_vh - jnp.outer(wanted.v, off_h) - jnp.outer(off_v, wanted.h)
        vbias, hbias = off_v - product(weights, wanted.h), off_h - product(wanted.v, weights)
        now = Parameters(*(a + step * b for a, b in zip(now, (weights, vbias, hbias), strict=True)))
        share = jnp.where(i < num_steps - num_late, 0.0, 1 / num_late)
        return now, v, Parameters(*(a + share * b for a, b in zip(mean, now, strict=True)))

    nothing = Parameters(*(jnp.zeros_like(a) for a in start))
    _, v, knot = jax.lax.fori_loop(0, num_steps, update, (start, v, nothing))
    moments, v = _mean_moments(jax.random.fold_in(key, num_steps), knot, v, num_late)
    off = [jnp.linalg.norm(have - want) / jnp.linalg.norm(want) for have, want in zip(moments, wanted, strict=True)]
    return knot, v, jnp.max(jnp.stack(off))


def _mean_moments(key: Key, rbm: Parameters, v: Chains, num_steps: int) -> tuple[Moments, Chains]:
    """Moments averaged over chains and sweeps, and the chains."""

    def add(i, carry):
        v, sums = carry
        v = gibbs(jax.random.fold_in(key, i), rbm, v)
        return v, Moments(*(a + b / num_steps for a, b in zip(sums, moments_of(rbm, v), strict=True)))

    nothing = Moments(jnp.zeros_like(rbm.vbias), jnp.zeros_like(rbm.hbias), jnp.zeros_like(rbm.weights))
    v, moments = jax.lax.fori_loop(0, num_steps, add, (v, nothing))
    return moments, v
