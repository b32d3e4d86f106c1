"""A path of RBMs whose moments, in place of log densities, are averages of the two ends' (Grosse et al. 2013)."""

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError, check_count
from tempering._precision import product
from tempering._threefry import straight_key
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.bases.densities import log_z_of_bits
from tempering.kernels import AbstractGibbsPath
from tempering.ladder import AbstractPath, checked_betas
from tempering.models.rbm.arrays import float32_arrays, random_bits
from tempering.models.rbm.batch import Parameters
from tempering.models.rbm.binary import RBM, AbstractRBMVariant, Base
from tempering.models.rbm.moment_matching import fit_knots, target_moments
from tempering.paths.linear import AbstractRespacedPath

_FACTORS_AT_ONCE = 100  # of at most 2 each: their product, 2¹⁰⁰ at most, is far below float32's largest number, 2¹²⁸


class MomentState(eqx.Module):
    """A visible pattern with its hidden fields.

    Attributes:
        v: the visible units.
        fields: vW + b at every knot but the base, where they are 0.
    """

    v: Float[Array, " visible"]
    fields: Float[Array, "knot hidden"]


class MomentAveragedPath(AbstractRespacedPath, AbstractGibbsPath):
    """RBMs whose parameters are piecewise linear in β, with h summed out.

    With θ(β) = (1 − u) θ_m + u θ_{m+1} between knots m and m + 1, at the share u of the way between them,

        log f_β(v) = v·c(β) + Σ_j softplus(b_j(β) + (vW(β))_j).

    The first knot is the base, W = 0 and b = 0, and is not stored. A sweep costs two matrix products of size
    visible × (knots · hidden): as many times an RBM's own sweep as there are knots above the base. In return chains at
    different rungs need no weights of their own.

    Attributes:
        base_logits: c of the base.
        weights, vbias, hbias: W, c and b of every knot; the W are side by side, as one matrix.
        knot_betas: the β of every knot, rising from above 0 to 1.
        betas: inverse temperatures, from 0 to 1.
    """

    weights: Float[Array, "visible knot hidden"]
    betas: PerRung
    vbias: Float[Array, "knot visible"]
    hbias: Float[Array, "knot hidden"]
    knot_betas: Float[Array, " knot"]
    base_logits: Float[Array, " visible"]

    @property
    def num_dims(self) -> int:
        """The number of bits in v: the fields follow from them."""
        return self.base_logits.shape[0]

    def log_z_base(self) -> float:
        return log_z_of_bits(self.base_logits) + self.hbias.shape[1] * float(np.log(2))  # hidden bits are fair coins

    def sample_base(self, key: Key) -> MomentState:
        return self.state_of(random_bits(key, self.base_logits))

    def state_of(self, v: Float[Array, " visible"]) -> MomentState:
        """The state with these visible units."""
        return MomentState(v, product(v, self._matrix()).reshape(self.hbias.shape) + self.hbias)

    def log_density(self, x: MomentState, rung: Rung) -> Scalar:
        shares = self.shares(self.betas[rung])
        return _mix(shares, *self._linear(x)) + jnp.sum(jax.nn.softplus(product(shares, x.fields)))

    def log_densities(self, x: MomentState) -> PerRung:
        shares = self.shares(self.betas)
        return _mix(shares, *self._linear(x)) + _sum_softplus(product(shares, x.fields))

    def slopes(self, x: MomentState) -> PerRung:
        """v·c′ + Σ_j σ(t_j) t_j′; at a knot, where it jumps, the mean of both sides, as the trapezoidal rule needs."""
        at_base, at_knots = self._linear(x)
        probabilities = jax.nn.sigmoid(self._fields(x))

        def side(rates):
            return product(rates, at_knots - at_base) + jnp.sum(probabilities * product(rates, x.fields), axis=1)

        left, right = self._share_rates()
        return (side(left) + side(right)) / 2

    def curvatures(self, x: MomentState) -> PerRung:
        """Σ_j σ(t_j) σ(−t_j) t_j′², t being linear in β between knots; at a knot the mean of both sides."""
        fields = self._fields(x)
        variances = jax.nn.sigmoid(fields) * jax.nn.sigmoid(-fields)
        left, right = (product(rates, x.fields) ** 2 for rates in self._share_rates())
        return jnp.sum(variances * (left + right) / 2, axis=1)

    def gibbs_sweep(self, key: Key, rung: Rung, x: MomentState) -> MomentState:
        """h ~ p(h | v, β), then v ~ p(v | h, β)."""
        key_hidden, key_visible = jax.random.split(straight_key(key))
        shares = self.shares(self.betas[rung])
        h = random_bits(key_hidden, product(shares, x.fields))
        # Σ_m share_m W_m h = (W_1 … W_M) (share_1 h … share_M h): one product, in which distant knots have share 0.
        from_hidden = product((shares[:, None] * h).ravel(), self._matrix().T)
        return self.state_of(random_bits(key_visible, _mix(shares, self.base_logits, self.vbias) + from_hidden))

    def shares(self, betas: Float[Array, "*beta"]) -> Float[Array, "*beta knot"]:
        """The weight of each knot in θ(β): a hat function, 1 at its knot and 0 at the others. The base has the rest."""
        # A hat is the difference of two ramps, each of which rises from 0 to 1 between two knots.
        places = self._places()
        ramps = jnp.clip((betas[..., None] - places[:-1]) / jnp.diff(places), 0, 1)
        return ramps - jnp.concatenate([ramps[..., 1:], jnp.zeros_like(ramps[..., :1])], axis=-1)

    def _share_rates(self) -> tuple[Float[Array, "rung knot"], Float[Array, "rung knot"]]:
        """d shares / dβ at every rung, from the left and from the right."""
        places = self._places()
        num_stretches = len(places) - 1

        def rates(side):
            stretch = jnp.clip(jnp.searchsorted(places, self.betas, side=side) - 1, 0, num_stretches - 1)
            ramps = jax.nn.one_hot(stretch, num_stretches, dtype=places.dtype) / jnp.diff(places)
            return ramps - jnp.pad(ramps[:, 1:], ((0, 0), (0, 1)))

        return rates("left"), rates("right")

    def _places(self) -> Float[Array, " place"]:
        return jnp.concatenate([jnp.zeros_like(self.knot_betas[:1]), self.knot_betas])

    def _matrix(self) -> Float[Array, "visible column"]:
        return self.weights.reshape(self.weights.shape[0], -1)

    def _linear(self, x: MomentState) -> tuple[Scalar, Float[Array, " knot"]]:
        """v·c at the base and at the knots."""
        return product(x.v, self.base_logits), product(x.v, self.vbias.T)

    def _fields(self, x: MomentState) -> Float[Array, "rung hidden"]:
        return product(self.shares(self.betas), x.fields)


class MomentAveragedRBM(AbstractRBMVariant):
    """An RBM with a path of averaged moments: RBMs whose E[v], E[h] and E[vhᵀ] are averages of the two ends'.

    ```python
    model = MomentAveragedRBM.fitted(rbm, "uniform")
    estimate(model).log_z
    ```

    It helps for bases far from the target, such as "uniform", where chains hardly pass some rung of the RBM's own path.
    Its ends are exactly the base and the RBM, so log Z is right however badly the knots match their moments; badly
    matched knots only make chains slower. Rungs are uniform: respacing them after a short annealing pass did worse on
    an RBM of 784 × 500 units.

    Attributes:
        rbm, knots, knot_betas: the RBM, and the inner knots with the β of each.
        base_logits: c_A, the log-odds of the base.
        mismatches: the relative error of the moments of each knot, the largest of the three kinds; NaN where unknown.
    """

    base_logits: Float[np.ndarray, " visible"]
    knots: tuple[RBM, ...]
    knot_betas: Float[np.ndarray, " knot"]
    mismatches: Float[np.ndarray, " knot"]
    stuck_advice: ClassVar[str | None] = (
        "fit again with more knots or from data, `tp.MomentAveragedRBM.fitted(rbm, data=data)`"
    )

    def __init__(
        self,
        rbm: RBM,
        base: Base = None,
        knots: Sequence[RBM] = (),
        knot_betas: Sequence[float] | Float[np.ndarray, " knot"] | None = None,
        mismatches: Float[np.ndarray, " knot"] | None = None,
    ):
        """Check the knots.

        Args:
            rbm: the target.
            base: a base of `RBM`; by default "bias".
            knots: RBMs of the target's shape.
            knot_betas: the β of each knot; by default at equal distances.
            mismatches: see the attribute.
        """
        self.rbm, self.knots = rbm, tuple(knots)
        self.base_logits = rbm.base_logits("bias" if base is None else base)
        places = np.linspace(0, 1, len(knots) + 2)[1:-1] if knot_betas is None else knot_betas
        self.knot_betas = np.asarray(places, np.float64)
        self.mismatches = np.full(len(knots), np.nan) if mismatches is None else mismatches
        _check_knots(rbm, self.knots, self.knot_betas)

    @classmethod
    def fitted(
        cls,
        rbm: RBM,
        base: Base = None,
        *,
        data: Any = None,
        num_knots: int = 9,
        num_chains: int = 500,
        num_steps: int = 300,
        seed: int = 0,
    ) -> "MomentAveragedRBM":
        """Find the knots by training RBMs with averaged moments.

        Args:
            rbm: the target.
            base: a base of `RBM`; by default `data` or, without data, "bias".
            data: rows of 0/1 data. Chains for the target's moments start there, otherwise they are annealed from the
                base.
            num_knots: the number of knots, with both ends, so that `num_knots` − 2 RBMs are trained.
            num_chains: chains for the moments.
            num_steps: training updates per knot.
            seed: the random seed.
        """
        base = data if base is None else base
        check_count("`num_knots`", num_knots, 2)
        check_count("`num_chains`", num_chains, 2)
        check_count("`num_steps`", num_steps, 4)
        key_start, key_target, key_knots = jax.random.split(jax.random.key(seed), 3)
        target = Parameters(*(jnp.asarray(a, jnp.float32) for a in (rbm.weights, rbm.vbias, rbm.hbias)))
        logits = jnp.asarray(rbm.base_logits("bias" if base is None else base), jnp.float32)
        if data is None:
            start = Parameters(jnp.zeros_like(target.weights), logits, jnp.zeros_like(target.hbias))
            v = random_bits(key_start, jnp.broadcast_to(logits, (num_chains, len(logits))))
        else:
            start, v = target, jnp.asarray(_picked_rows(rbm, data, num_chains, seed), jnp.float32)
        moments = target_moments(key_target, start, target, v, 3 * num_steps)
        places = np.linspace(0, 1, num_knots)[1:-1]
        knots, mismatches = fit_knots(key_knots, logits, moments, places, num_chains=num_chains, num_steps=num_steps)
        return cls(rbm, base, [RBM(*(np.asarray(a) for a in knot)) for knot in knots], places, mismatches)

    def path(self, base: Any, betas: HostPerRung) -> MomentAveragedPath:
        # `estimate` offers rows of data as a base; they change nothing here.
        if base is not None and np.ndim(base) != 2:
            raise InputError("A MomentAveragedRBM has its base already; give none here, but to `fitted`.")
        weights, vbias, hbias = (np.stack(a) for a in zip(*(k.on_host() for k in (*self.knots, self.rbm)), strict=True))
        arrays = {"weights": np.swapaxes(weights, 0, 1), "vbias": vbias, "hbias": hbias}
        places = {"knot_betas": np.append(self.knot_betas, 1.0), "betas": checked_betas(betas)}
        return MomentAveragedPath(**float32_arrays(**arrays, **places, base_logits=self.base_logits))

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> MomentState:
        assert isinstance(path, MomentAveragedPath)
        return jax.vmap(path.state_of)(jnp.asarray(self.rbm.checked_data(rows), jnp.float32))


def _mix(shares, at_base, at_knots):
    """Σ_m share_m · knot_m, plus the rest of 1 times the base."""
    return (1 - jnp.sum(shares, axis=-1)) * at_base + product(shares, at_knots)


def _sum_softplus(t: Float[Array, "row unit"]) -> Float[Array, " row"]:
    """Σ_j softplus(t_j) = Σ_j max(t_j, 0) + log Π_j (1 + exp(−|t_j|)), with one logarithm per `_FACTORS_AT_ONCE` units.

    It takes a third of the time of the plain sum.
    """
    num_rows, num_units = t.shape
    num_groups = -(-num_units // _FACTORS_AT_ONCE)
    factors = jnp.pad(1 + jnp.exp(-jnp.abs(t)), ((0, 0), (0, -num_units % num_groups)), constant_values=1)
    products = jnp.prod(factors.reshape(num_rows, num_groups, -1), axis=2)
    return jnp.sum(jnp.maximum(t, 0), axis=1) + jnp.sum(jnp.log(products), axis=1)


def _picked_rows(rbm: RBM, data: Any, num_rows: int, seed: int) -> np.ndarray:
    """Random rows of data, each equally often up to one."""
    rows = rbm.checked_data(data)
    return rows[np.resize(np.random.default_rng(seed).permutation(len(rows)), num_rows)]


def _check_knots(rbm: RBM, knots: tuple[RBM, ...], knot_betas: np.ndarray) -> None:
    shape = rbm.weights.shape
    for knot in knots:
        if knot.weights.shape != shape:
            raise InputError(f"Every knot must be an RBM of the target's shape {shape}, got {knot.weights.shape}.")
    if knot_betas.shape != (len(knots),) or not np.all(np.diff(np.concatenate([[0.0], knot_betas, [1.0]])) > 0):
        raise InputError(f"`knot_betas` must be {len(knots)} numbers, one a knot, rising strictly between 0 and 1.")
