"""The contract of a path: K unnormalised densities on one state space."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar, State


class AbstractPath(eqx.Module):
    """K unnormalised densities f_0 … f_{K-1} on one state space; rung 0 is the base.

    A path is a pytree and travels as an argument: new weights of the same shapes never recompile anything.
    """

    betas: eqx.AbstractVar[PerRung]  # the path's coordinate, 0 at the base and 1 at the target

    @property
    def num_rungs(self) -> int:
        """K."""
        return self.betas.shape[0]

    @property
    def num_dims(self) -> int:
        """Numbers in a state."""
        one = eqx.filter_eval_shape(self.sample_base, jax.random.key(0))
        return sum(leaf.size for leaf in jax.tree.leaves(one))

    def log_z_base(self) -> float:
        """log Z_0, exact; or 0 where the base is unnormalised and the answer is the ratio Z_{K-1} / Z_0."""
        raise NotImplementedError

    def sample_base(self, key: Key) -> State:
        """An exact draw of x at rung 0."""
        raise NotImplementedError

    def log_density(self, x: State, rung: Rung) -> Scalar:
        """log f_k(x) at one rung."""
        raise NotImplementedError

    def log_densities(self, x: State) -> PerRung:
        """log f_k(x) at every rung; override where a model has a faster way than one rung at a time."""
        return jax.vmap(self.log_density, in_axes=(None, 0))(x, jnp.arange(self.num_rungs))

    def slopes(self, x: State) -> PerRung:
        """d log f / dβ at every rung, as thermodynamic integration needs it; here by differentiating `log_density`."""
        return _derivative(lambda betas: self._log_density_at(x, betas))(self.betas)

    def curvatures(self, x: State) -> PerRung:
        """d² log f / dβ² at every rung; 0 on a geometric path."""
        return _derivative(_derivative(lambda betas: self._log_density_at(x, betas)))(self.betas)

    def features(self, x: State) -> Float[Array, " feature"]:
        """A few numbers from which log f follows at every rung: `feature_matrix` @ features, up to a function of x.

        What is kept of a draw that must be kept: one number on a geometric path, here one per rung.
        """
        return self.log_densities(x)

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """What turns features into log f_k(x), up to a function of x alone."""
        return np.eye(self.num_rungs)

    def _log_density_at(self, x: State, betas: PerRung) -> PerRung:
        """log f at other inverse temperatures, one per rung."""
        moved = eqx.tree_at(lambda path: path.betas, self, betas)
        return jax.vmap(moved.log_density, in_axes=(None, 0))(x, jnp.arange(self.num_rungs))

    def with_betas(self, betas: HostPerRung) -> "AbstractPath":
        """The same path seen at other inverse temperatures."""
        raise NotImplementedError


def _derivative(of_betas: Callable[[PerRung], PerRung]) -> Callable[[PerRung], PerRung]:
    """Of a function whose entry k depends on β_k alone."""
    return lambda betas: jax.jvp(of_betas, (betas,), (jnp.ones_like(betas),))[1]
