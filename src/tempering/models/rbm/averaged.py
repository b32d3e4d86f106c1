"""A path of RBMs whose moments, not whose log densities, are averages of the two ends' (Grosse et al. 2013)."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.kernels import AbstractGibbsPath, AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath, checked_betas
from tempering.models.model import AbstractModel
from tempering.models.rbm.batch import Parameters, product
from tempering.models.rbm.binary import RBM, Base, random_bits
from tempering.models.rbm.moment_matching import fit_knots, target_moments

_FACTORS_AT_ONCE = 100  # of at most 2 each: their product, 2¹⁰⁰ at most, is far from float32's end at 2¹²⁸


class MomentState(eqx.Module):
    """A visible pattern with its hidden fields vW + b at every knot but the base, where they are 0."""

    v: Float[Array, " visible"]
    fields: Float[Array, "knot hidden"]


class MomentAveragedPath(AbstractGibbsPath):
    """RBMs whose parameters go in straight lines from knot to knot, with h summed out.

    With θ(β) = (1 − u) θ_m + u θ_{m+1} between knots m and m + 1, at the share u of the way between them,

        log f_β(v) = v·c(β) + Σ_j softplus(b_j(β) + (vW(β))_j).

    The first knot is the base, W = 0 and b = 0, and is not stored. A sweep costs two matrix products, each as large as
    (visible × knots · hidden): as many times an RBM's own sweep as there are knots above the base. Chains at different
    rungs then need no weights of their own.
    """

    base_logits: Float[Array, " visible"]  # c of knot 0
    weights: Float[Array, "visible knot hidden"]  # knots side by side, so that all of them are one matrix
    vbias: Float[Array, "knot visible"]
    hbias: Float[Array, "knot hidden"]
    knot_betas: Float[Array, " knot"]  # rising from above 0 to 1
    betas: PerRung

    @property
    def num_dims(self) -> int:
        """Bits in v: the fields follow from them."""
        return self.base_logits.shape[0]

    def log_z_base(self) -> float:
        """Σ_i softplus(c_A,i) + J log 2: at β = 0 the hidden units are fair coins."""
        logits = np.asarray(self.base_logits, np.float64)
        return float(np.logaddexp(0, logits).sum() + self.hbias.shape[1] * np.log(2))

    def sample_base(self, key: Key) -> MomentState:
        """Independent bits with log-odds c_A."""
        return self.state_of(random_bits(key, self.base_logits))

    def state_of(self, v: Float[Array, " visible"]) -> MomentState:
        """A pattern with its hidden fields at all knots, by one matrix product."""
        return MomentState(v, product(v, self._matrix()).reshape(self.hbias.shape) + self.hbias)

    def log_density(self, x: MomentState, rung: Rung) -> Scalar:
        """The formula above, at one β."""
        shares = self.shares(self.betas[rung])
        return _mix(shares, *self._linear(x)) + jnp.sum(jax.nn.softplus(product(shares, x.fields)))

    def log_densities(self, x: MomentState) -> PerRung:
        """All rungs: Σ_j softplus(t_j) as Σ_j max(t_j, 0) + log Π_j (1 + exp(−|t_j|)), with few logarithms."""
        shares = self.shares(self.betas)
        return _mix(shares, *self._linear(x)) + _sum_softplus(product(shares, x.fields))

    def slopes(self, x: MomentState) -> PerRung:
        """v·c′ + Σ_j σ(t_j) t_j′; at a knot, where it jumps, the mean of both sides, as the trapezoid rule needs it."""
        at_base, at_knots = self._linear(x)
        probabilities = jax.nn.sigmoid(self._fields(x))
        sides = []
        for rates in self._share_rates():
            linear = product(rates, at_knots - at_base)
            sides.append(linear + jnp.sum(probabilities * product(rates, x.fields), axis=1))
        return (sides[0] + sides[1]) / 2

    def curvatures(self, x: MomentState) -> PerRung:
        """Σ_j σ(t_j) σ(−t_j) t_j′², t being linear in β between knots; at a knot the mean of both sides."""
        fields = self._fields(x)
        variances = jax.nn.sigmoid(fields) * jax.nn.sigmoid(-fields)
        sides = [product(rates, x.fields) ** 2 for rates in self._share_rates()]
        return jnp.sum(variances * (sides[0] + sides[1]) / 2, axis=1)

    def with_betas(self, betas: HostPerRung) -> "MomentAveragedPath":
        """The same knots, other rungs."""
        return dataclasses.replace(self, betas=jnp.asarray(checked_betas(betas), jnp.float32))

    def gibbs_sweep(self, key: Key, rung: Rung, x: MomentState) -> MomentState:
        """h ~ p(h | v, β), then v ~ p(v | h, β)."""
        key_hidden, key_visible = jax.random.split(key)
        shares = self.shares(self.betas[rung])
        h = random_bits(key_hidden, product(shares, x.fields))
        # Σ_m share_m W_m h = (W_1 … W_M) (share_1 h … share_M h): one product, in which knots far away count 0.
        from_hidden = product((shares[:, None] * h).ravel(), self._matrix().T)
        return self.state_of(random_bits(key_visible, _mix(shares, self.base_logits, self.vbias) + from_hidden))

    def shares(self, betas: Float[Array, "*beta"]) -> Float[Array, "*beta knot"]:
        """How much of each knot is in θ(β): hats, 1 at their own knot and 0 at its neighbours. The base has the rest.

        As differences of ramps that rise from 0 to 1 within their stretch.
        """
        places = self._places()
        ramps = jnp.clip((betas[..., None] - places[:-1]) / jnp.diff(places), 0, 1)
        return ramps - jnp.concatenate([ramps[..., 1:], jnp.zeros_like(ramps[..., :1])], axis=-1)

    def _share_rates(self) -> tuple[Float[Array, "rung knot"], Float[Array, "rung knot"]]:
        """d shares / dβ at every rung, coming from the left and from the right."""
        places = self._places()
        num_stretches = len(places) - 1
        rates = []
        for side in ("left", "right"):
            stretch = jnp.clip(jnp.searchsorted(places, self.betas, side=side) - 1, 0, num_stretches - 1)
            ramps = jax.nn.one_hot(stretch, num_stretches, dtype=places.dtype) / jnp.diff(places)
            rates.append(ramps - jnp.pad(ramps[:, 1:], ((0, 0), (0, 1))))
        return rates[0], rates[1]

    def _places(self) -> Float[Array, " place"]:
        return jnp.concatenate([jnp.zeros_like(self.knot_betas[:1]), self.knot_betas])

    def _matrix(self) -> Float[Array, "visible column"]:
        return self.weights.reshape(self.weights.shape[0], -1)

    def _linear(self, x: MomentState) -> tuple[Scalar, Float[Array, " knot"]]:
        """v·c at the base and at the knots."""
        at_base = product(x.v, self.base_logits)
        return at_base, product(x.v, self.vbias.T)

    def _fields(self, x: MomentState) -> Float[Array, "rung hidden"]:
        return product(self.shares(self.betas), x.fields)


class MomentAveragedRBM(AbstractModel):
    """An RBM with a path through knots: RBMs whose E[v], E[h] and E[vhᵀ] are averages of the base's and the target's.

    ```python
    model = MomentAveragedRBM.fitted(rbm, "uniform")
    estimate(model).log_z
    ```

    For bases far from the target, such as "uniform", where the RBM's own path has a rung that chains hardly pass. Its
    ends are the base and the RBM exactly, so the answer is right however badly the knots were matched; badly matched
    ones only take longer.
    """

    rbm: RBM
    base_logits: Float[np.ndarray, " visible"]
    knots: tuple[RBM, ...]  # between the base and the target
    knot_betas: Float[np.ndarray, " knot"]  # where they are
    mismatches: Float[np.ndarray, " knot"]  # by how much they miss their moments, see `fitted`; NaN where not known

    def __init__(
        self,
        rbm: RBM,
        base: Base = None,
        knots: Sequence[RBM] = (),
        knot_betas: Sequence[float] | Float[np.ndarray, " knot"] | None = None,
        mismatches: Float[np.ndarray, " knot"] | None = None,
    ):
        """Any RBMs of the target's shape may be inner knots, at equal distances in β unless `knot_betas` are given."""
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
        """Find the knots: both ends count, so that `num_knots` − 2 are trained, each for `num_steps` updates.

        The target's moments come from chains annealed from the base, or started at rows of `data`, which are the base
        too where none is given. `mismatches` says for each inner knot by how much its moments miss what was wanted,
        relative to it, the worst of the three kinds.
        """
        base = data if base is None else base
        _check_counts(num_knots=(num_knots, 2), num_chains=(num_chains, 2), num_steps=(num_steps, 4))
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
        """From the base that the knots were made for, always: rows of data, which `estimate` offers, change nothing."""
        if base is not None and np.ndim(base) != 2:
            raise InputError("A MomentAveragedRBM has its base already; give none here, but to `fitted`.")
        weights, vbias, hbias = (np.stack(a) for a in zip(*(k.on_host() for k in (*self.knots, self.rbm)), strict=True))
        arrays = {
            "base_logits": self.base_logits,
            "weights": np.swapaxes(weights, 0, 1),
            "vbias": vbias,
            "hbias": hbias,
            "knot_betas": np.append(self.knot_betas, 1.0),
            "betas": checked_betas(betas),
        }
        return MomentAveragedPath(**{name: jnp.asarray(array, jnp.float32) for name, array in arrays.items()})

    def move(self) -> AbstractMove:
        """A sweep of block Gibbs."""
        return BlockGibbs()

    def spacing(self) -> str:
        """Equal steps: between knots at equal distances, β is about as difficult everywhere.

        Rungs spaced anew by what a short annealing pass saw did worse on an RBM of 784 × 500 units.
        """
        return "uniform"

    def quick_log_z(self) -> float | None:
        """The RBM's."""
        return self.rbm.quick_log_z()

    def exact_log_z(self, max_units: int = 25) -> float:
        """The RBM's, by enumeration."""
        return self.rbm.exact_log_z(max_units)

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        """The RBM's."""
        return self.rbm.log_density(data)

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> MomentState:
        """Rows of 0/1 data with their hidden fields."""
        assert isinstance(path, MomentAveragedPath)
        return jax.vmap(path.state_of)(jnp.asarray(rows, jnp.float32))


def _mix(shares, at_base, at_knots):
    """Σ_m share_m · knot_m, and what is left of 1 from the base."""
    return (1 - jnp.sum(shares, axis=-1)) * at_base + product(shares, at_knots)


def _sum_softplus(t: Float[Array, "row unit"]) -> Float[Array, " row"]:
    """Σ_j log(1 + exp(t_j)) = Σ_j max(t_j, 0) + log Π_j (1 + exp(−|t_j|)), a logarithm for `_FACTORS_AT_ONCE` units.

    One exponential a unit and next to no logarithm: a third of the time of the plain sum.
    """
    num_rows, num_units = t.shape
    num_groups = -(-num_units // _FACTORS_AT_ONCE)
    factors = jnp.pad(1 + jnp.exp(-jnp.abs(t)), ((0, 0), (0, -num_units % num_groups)), constant_values=1)
    products = jnp.prod(factors.reshape(num_rows, num_groups, -1), axis=2)
    return jnp.sum(jnp.maximum(t, 0), axis=1) + jnp.sum(jnp.log(products), axis=1)


def _picked_rows(rbm: RBM, data: Any, num_rows: int, seed: int) -> np.ndarray:
    """Rows of data, each as often as any other but for one time."""
    data = np.asarray(data)
    rbm.log_density(data[:1] if data.ndim else data)  # refuses what are no rows of this RBM
    order = np.random.default_rng(seed).permutation(len(data))
    rows = data[np.resize(order, num_rows)]
    rbm.log_density(rows)
    return rows


def _check_knots(rbm: RBM, knots: tuple[RBM, ...], knot_betas: np.ndarray) -> None:
    for knot in knots:
        if knot.weights.shape != rbm.weights.shape:
            raise InputError(
                f"Every knot must be an RBM of the target's shape {rbm.weights.shape}, got {knot.weights.shape}."
            )
    if knot_betas.shape != (len(knots),) or not np.all(np.diff(np.concatenate([[0.0], knot_betas, [1.0]])) > 0):
        raise InputError(f"`knot_betas` must be {len(knots)} numbers, one a knot, rising strictly between 0 and 1.")


def _check_counts(**counts: tuple[int, int]) -> None:
    for name, (count, least) in counts.items():
        if not isinstance(count, int) or count < least:
            raise InputError(f"`{name}` must be a whole number, {least} or more; got {count!r}.")
