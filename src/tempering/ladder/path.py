"""The contract of a path: K unnormalised densities on one state space."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._logspace import finite_zeros, power
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar, State


class AbstractPath(eqx.Module):
    """K unnormalised densities f_0 … f_{K−1} on one state space, from the base (rung 0) to the target (rung K−1).

    A path of your own has a field `betas` and four methods: `log_z_base`, `sample_base`, `log_density` and
    `with_betas`. Everything else has a default. Functions take ONE state and one key; chains are added by `jax.vmap`.

    ```python
    class WideningPath(AbstractPath):
        # f_k(x) = exp(−x² / (2 s_k²)), with s_k from 1 to 3.
        betas: jax.Array

        def log_z_base(self):
            return 0.5 * math.log(2 * math.pi)          # ∫ f_0(x) dx

        def sample_base(self, key):
            return jax.random.normal(key)               # an exact draw of f_0

        def log_density(self, x, rung):
            return -0.5 * (x / (1 + 2 * self.betas[rung])) ** 2

        def with_betas(self, betas):
            return WideningPath(jnp.asarray(betas, jnp.float32))

    ladder = Ladder.create(WideningPath(jnp.linspace(0, 1, 10)))
    ```

    A path is a pytree and is passed as an argument, so that new parameters of the same shapes recompile nothing. Read β
    from `self.betas[rung]`: derivatives in β and `ContinuousTempering` replace that field.

    Attributes:
        betas: the inverse temperatures, 0 at the base and 1 at the target.
    """

    betas: eqx.AbstractVar[PerRung]

    @abc.abstractmethod
    def log_z_base(self) -> float:
        """log Z_0 = log ∫ f_0(x) dx, exact.

        Returns 0 where the base is unnormalised; the answer is then the ratio log(Z_{K−1} / Z_0).
        """

    @abc.abstractmethod
    def sample_base(self, key: Key) -> State:
        """An exact, independent draw of x at rung 0.

        Args:
            key: a JAX random key.
        """

    @abc.abstractmethod
    def log_density(self, x: State, rung: Rung) -> Scalar:
        """log f_k(x) at one rung.

        Args:
            x: one state.
            rung: k, an integer array without axes.
        """

    @abc.abstractmethod
    def with_betas(self, betas: HostPerRung) -> "AbstractPath":
        """The same path at other inverse temperatures, of which there may be more or fewer.

        Args:
            betas: the new inverse temperatures, which rise from 0 to 1.
        """

    @property
    def num_rungs(self) -> int:
        """The number of rungs K."""
        return self.betas.shape[0]

    @property
    def num_dims(self) -> int:
        """How many numbers a state consists of."""
        one = eqx.filter_eval_shape(self.sample_base, jax.random.key(0))
        return sum(leaf.size for leaf in jax.tree.leaves(one))

    def log_densities(self, x: State) -> PerRung:
        """log f_k(x) at every rung. Override it where a model has a faster way than one rung at a time.

        Args:
            x: one state.
        """
        return jax.vmap(self.log_density, in_axes=(None, 0))(x, jnp.arange(self.num_rungs))

    @property
    def is_same_in_any_batch(self) -> bool:
        """Whether the bits of a chain are the same on a GPU however many chains are computed together.

        Matrix products in floating point round differently for other shapes, so by default chains pass through the
        model in groups of a fixed size.
        """
        return False

    def on_cpu(self) -> "AbstractPath":
        """The same densities in the form that is fastest on a CPU, for use inside jit; by default the path itself."""
        return self

    def on_gpu(self) -> "AbstractPath":
        """The same densities in the form that is fastest on a GPU, for use inside jit; by default the path itself."""
        return self

    def draw_rung(
        self, key: Key, x: State, log_prior: PerRung, log_z_guess: PerRung
    ) -> tuple[PerRung, PerRung, Rung] | None:
        """log f_k(x) and q(k | x) at every rung, and a rung drawn from q; None where a path has no way of its own.

        Args:
            key: a JAX random key.
            x: one state.
            log_prior: log r_k.
            log_z_guess: log Ẑ_k.
        """
        return None

    def slopes(self, x: State) -> PerRung:
        """d log f / dβ at every rung, for thermodynamic integration; by default `log_density` is differentiated.

        Args:
            x: one state.
        """
        return _derivative(lambda betas: self._log_densities_at(x, betas))(self.betas)

    def curvatures(self, x: State) -> PerRung:
        """d² log f / dβ² at every rung; 0 on a geometric path.

        Args:
            x: one state.
        """
        return _derivative(_derivative(lambda betas: self._log_densities_at(x, betas)))(self.betas)

    def features(self, x: State) -> Float[Array, " feature"]:
        """A few numbers from which log f_k(x) follows at every rung: `feature_matrix() @ features(x)`.

        The product may lack a function of x that is the same at every rung. MBAR and BAR keep these numbers for each
        draw: one on a geometric path, by default one per rung. Where f_k is 0 or NaN they are such that
        the product is about −1e30, which is as good as −inf.

        Args:
            x: one state.
        """
        return finite_zeros(self.log_densities(x))

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """The matrix that turns features into log f_k(x), up to a function of x alone."""
        return np.eye(self.num_rungs)

    def _log_densities_at(self, x: State, betas: PerRung) -> PerRung:
        moved = eqx.tree_at(lambda path: path.betas, self, betas)
        return jax.vmap(moved.log_density, in_axes=(None, 0))(x, jnp.arange(self.num_rungs))


class AbstractTwoEndedPath(AbstractPath):
    """A path on which two numbers per state give log f at every rung: log f_β(x) = u(β) a(x) + v(β) b(x).

    Their gradients give that of every rung. So a move can pass on what it has evaluated last, and the next move at any
    rung starts from there.
    """

    @abc.abstractmethod
    def log_ends(self, x: State) -> tuple[Scalar, Scalar]:
        """a(x) and b(x), such as the log of a base and that of a target.

        Args:
            x: one state.
        """

    @abc.abstractmethod
    def shares(self, beta: Float[Array, "*rung"]) -> tuple[Float[Array, "*rung"], Float[Array, "*rung"]]:
        """u(β) and v(β), both linear in β.

        Args:
            beta: inverse temperatures.
        """

    def log_density_from(self, beta: Float[Array, "*rung"], log_ends: Float[Array, "2"]) -> Float[Array, "*rung"]:
        """log f at any β from the two numbers of a state.

        Args:
            beta: inverse temperatures.
            log_ends: a(x) and b(x).
        """
        first, second = self.shares(beta)
        return power(first, log_ends[0]) + power(second, log_ends[1])

    def slope_from(self, log_ends: Float[Array, "2"]) -> Scalar:
        """d log f/dβ, the same at every rung, from the two numbers of a state.

        Args:
            log_ends: a(x) and b(x).
        """
        first, second = (late - early for early, late in zip(*map(self.shares, jnp.array([0.0, 1.0])), strict=True))
        return power(first, log_ends[0]) + power(second, log_ends[1])


def _derivative(of_betas: Callable[[PerRung], PerRung]) -> Callable[[PerRung], PerRung]:
    """The derivative of a function whose entry k depends on β_k alone."""
    return lambda betas: jax.jvp(of_betas, (betas,), (jnp.ones_like(betas),))[1]
