"""Simulated tempering with a continuous β (Section 5 of the paper)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._types import Key, PerRung, Scalar, State
from tempering.kernels.moves import AbstractMove
from tempering.kernels.tempering import AbstractKernel
from tempering.ladder import AbstractPath, Draw, Ladder


class ContinuousPosition(eqx.Module):
    """Where a chain with a continuous β stands."""

    x: State
    beta: Float[Array, "*chain"]


class ContinuousTempering(AbstractKernel):
    """x ~ T(· | x, β), then β ~ q(β | x), for a ladder made by `Ladder.continuous`.

    Draws of β come from log q that is linear between knots. Where log f is not linear in β, as for an RBM with h summed
    out, a Metropolis step corrects them, so that the law is exact on every path. A draw's rung is its nearest knot.
    Paths must read β from `betas[rung]` in `log_density` and in their Gibbs sweeps, as those of this library do.
    """

    move: AbstractMove

    def __call__(self, key: Key, ladder: Ladder, state: ContinuousPosition) -> tuple[ContinuousPosition, Draw]:
        """Move x at the β where the chain stands, then draw where it goes next."""
        key_move, key_beta, key_accept = jax.random.split(key, 3)
        x, info = self.move(key_move, _at(ladder.path, state.beta), jnp.int32(0), state.x)
        log_f = ladder.path.log_densities(x)
        proposal = ladder.sample_beta(key_beta, log_f)
        log_ratio = _excess(ladder.path, x, log_f, proposal) - _excess(ladder.path, x, log_f, state.beta)
        accepted = jnp.log(jax.random.uniform(key_accept)) < log_ratio
        beta = jnp.where(accepted, proposal, state.beta)
        draw = Draw(x, _nearest(ladder.path, state.beta), _nearest(ladder.path, beta), log_f, info)
        return ContinuousPosition(x, beta), draw


def _at(path: AbstractPath, beta: Scalar) -> AbstractPath:
    """The same path with one rung, at β."""
    return eqx.tree_at(lambda p: p.betas, path, beta[None])


def _excess(path: AbstractPath, x: State, log_f: PerRung, beta: Scalar) -> Scalar:
    """log f_β(x) less what the straight line between its neighbouring knots says."""
    return _at(path, beta).log_density(x, jnp.int32(0)) - jnp.interp(beta, path.betas, log_f)


def _nearest(path: AbstractPath, beta: Scalar) -> Array:
    return jnp.argmin(jnp.abs(path.betas - beta)).astype(jnp.int32)
