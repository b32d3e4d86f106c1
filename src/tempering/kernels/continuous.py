"""Simulated tempering with a continuous β (Section 5 of the paper)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tempering._threefry import plain_key
from tempering._types import Key, PerRung, Rung, Scalar, State
from tempering.kernels.tempering import AbstractKernel
from tempering.ladder import AbstractPath, Draw, Ladder


class ContinuousPosition(eqx.Module):
    """The state of a chain with a continuous β.

    Attributes:
        x: a state of the model.
        beta: the inverse temperature at which x moves next.
    """

    x: State
    beta: Float[Array, "*chain"]


class ContinuousTempering(AbstractKernel):
    """x ~ T(· | x, β), then β ~ q(β | x), for a ladder made by `Ladder.continuous`.

    ```python
    kernel = ContinuousTempering(BlockGibbs())
    position, draw = kernel(key, ladder.continuous(), ContinuousPosition(x, jnp.float32(0.5)))
    ```

    β is proposed from a law whose log density is linear between knots. Where log f is not linear in β, as for an RBM
    with h summed out, a Metropolis step corrects the proposal, so that the law is exact on every path. The rung of a
    draw is the knot nearest to β.

    Caveats: a path must read β from `betas[rung]` in `log_density` and in its Gibbs sweeps, as those of this library
    do.

    Attributes:
        move: how x moves at a given β.
    """

    def __call__(self, key: Key, ladder: Ladder, state: ContinuousPosition) -> tuple[ContinuousPosition, Draw]:
        key_move, key_beta, key_accept = jax.random.split(key, 3)
        path = ladder.path
        x, info = self.move(plain_key(key_move), _path_at_beta(path, state.beta), jnp.int32(0), state.x)
        log_f = path.log_densities(x)
        proposal = ladder.sample_beta(key_beta, log_f)
        log_ratio = _excess_over_line(path, x, log_f, proposal) - _excess_over_line(path, x, log_f, state.beta)
        accepted = jnp.log(jax.random.uniform(key_accept)) < log_ratio
        beta = jnp.where(accepted, proposal, state.beta)
        draw = Draw(x, _nearest_rung(path, state.beta), _nearest_rung(path, beta), log_f, info)
        return ContinuousPosition(x, beta), draw


def _path_at_beta(path: AbstractPath, beta: Scalar) -> AbstractPath:
    """The same path with a single rung, at β."""
    return eqx.tree_at(lambda p: p.betas, path, beta[None])


def _excess_over_line(path: AbstractPath, x: State, log_f: PerRung, beta: Scalar) -> Scalar:
    """log f_β(x) minus the straight line between its neighbouring knots."""
    return _path_at_beta(path, beta).log_density(x, jnp.int32(0)) - jnp.interp(beta, path.betas, log_f)


def _nearest_rung(path: AbstractPath, beta: Scalar) -> Rung:
    return jnp.argmin(jnp.abs(path.betas - beta)).astype(jnp.int32)
