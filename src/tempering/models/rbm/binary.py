"""The binary–binary restricted Boltzmann machine."""

import dataclasses
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._precision import product
from tempering._softplus import fit_softplus_sums
from tempering._threefry import key_words, straight_key, uniform_at
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar, State
from tempering.bases.densities import log_z_of_bits
from tempering.kernels import AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath
from tempering.models.model import AbstractModel
from tempering.models.rbm.arrays import checked_parameters, in_blocks, largest_field_of, random_bits, softplus
from tempering.models.rbm.cpu_products import InBytes, InFloats, fastest
from tempering.models.rbm.enumeration import enumeration_cost, log_z_by_enumeration
from tempering.models.rbm.gpu_products import drawn_bits, padded_bits, summed_field
from tempering.models.rbm.gpu_programs import HIDDEN_STREAM, is_one
from tempering.models.rbm.gpu_rungs import RungTables, drawn_rung
from tempering.models.rbm.hidden_bits import AbstractHiddenBitsModel, AbstractHiddenBitsPath, HiddenBitsState
from tempering.models.rbm.limbs import MAX_UNITS, Limbs
from tempering.models.rows import checked_bits, log_odds_of_base

Base = Literal["uniform", "bias"] | Any  # or an array: 0/1 data (row, visible), or frequencies (visible,)

_ROWS_AT_ONCE = 4096
_QUICK_TERMS = 2 * 10**9  # enumerated without being asked below this, which is about two seconds
_AXES = {"weights": "visible hidden", "vbias": "visible", "hbias": "hidden"}


class RBM(AbstractHiddenBitsModel):
    """A binary RBM: log f(v, h) = v·c + vᵀWh + h·b over bits v and h (Section 4.2 of the paper).

    ```python
    rbm = RBM(weights, vbias, hbias)         # (visible, hidden), (visible,), (hidden,)
    rbm.log_density(data)                    # log Σ_h f(v, h), a number per row
    ```

    `base` of `tp.estimate` may be "uniform", "bias" (the default), rows of 0/1 data, or frequencies (visible,).
    """

    stuck_advice: ClassVar[str | None] = (
        "start from the training data, `base=data`, or take a path of averaged moments, "
        "`tp.MomentAveragedRBM.fitted(rbm, base)`"
    )

    def __init__(self, weights: Any, vbias: Any, hbias: Any):
        """Check the parameters. JAX arrays stay as they are; others are kept in float64, for exact answers.

        Args:
            weights: W (visible, hidden).
            vbias: c (visible,).
            hbias: b (hidden,).
        """
        self.weights, self.vbias, self.hbias = checked_parameters("RBM", _AXES, weights, vbias, hbias, on_device=True)

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        """log f(v) = v·c + Σ_j softplus(b_j + (vW)_j) of each row, which is minus its free energy.

        Args:
            data: rows of 0 and 1 (row, visible).

        Returns:
            One number per row, in float64.
        """
        weights, vbias, hbias = self.on_host()

        def log_density(rows):
            rows = rows.astype(np.float64)
            return rows @ vbias + softplus(rows @ weights + hbias).sum(axis=1)

        return in_blocks(log_density, self.checked_data(data), _ROWS_AT_ONCE)

    def exact_log_z(self, max_units: int = 25) -> float:
        """The exact log Z, by enumeration of the smaller side.

        Args:
            max_units: the largest number of units there; more are refused, since time doubles with each.

        Returns:
            log Z.
        """
        return log_z_by_enumeration(*self.on_host(), max_units=max_units)

    def enumeration_cost(self) -> int:
        """The number of (pattern, unit) pairs that `exact_log_z` visits; 10⁹ of them take about a second."""
        return enumeration_cost(np.asarray(self.weights))

    def quick_log_z(self) -> float | None:
        return self.exact_log_z() if self.enumeration_cost() <= _QUICK_TERMS else None

    def path(self, base: Base, betas: HostPerRung) -> "RBMPath":
        return RBMPath.create(self, self.base_logits("bias" if base is None else base), betas)

    def base_logits(self, base: Base) -> Float[np.ndarray, " visible"]:
        """Log-odds of the independent bits that a base stands for.

        Args:
            base: "uniform", "bias" for c itself, rows of 0/1 data, or frequencies in [0, 1]. Frequencies, also those
                of data, are mixed with a fair coin: 2 % of it.

        Returns:
            c_A, one number per visible unit.
        """
        return log_odds_of_base(base, np.asarray(self.vbias, np.float64), "RBM")

    def on_host(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W, c and b as NumPy float64 arrays."""
        weights, vbias, hbias = (np.asarray(a, np.float64) for a in (self.weights, self.vbias, self.hbias))
        return weights, vbias, hbias

    def checked_data(self, data) -> np.ndarray:
        return checked_bits(data, self.num_visible, "RBM")


class RBMLimbs(NamedTuple):
    """The matrices of an RBM for tensor cores.

    Attributes:
        from_visible: W.
        from_hidden: Wᵀ.
    """

    from_visible: Limbs
    from_hidden: Limbs


class RBMProducts(NamedTuple):
    """The matrices of an RBM as a CPU multiplies bits with them.

    Attributes:
        from_visible: W.
        from_hidden: Wᵀ.
    """

    from_visible: InFloats | InBytes
    from_hidden: InFloats | InBytes


class RBMPath(AbstractHiddenBitsPath):
    """Tempered RBMs with h summed out.

    f_β(v, h) = exp((1 − β) v·c_A + β (v·c + vᵀWh + h·b)) has exact Gibbs sweeps at every β, and

        log f_β(v) = v·((1 − β) c_A + β c) + Σ_j softplus(β (b_j + (vW)_j)).

    Chains that also carry h, and draw rungs from q(k | v, h), mix far more slowly over the rungs.

    Attributes:
        weights, vbias, hbias: W, c and b.
        base_logits: c_A, the log-odds of the base.
        products: on a CPU, within a run; None elsewhere.
        limbs: the same on a GPU; None elsewhere.
        betas, sums, matrices: see `AbstractHiddenBitsPath`.
    """

    weights: Float[Array, "visible hidden"]
    vbias: Float[Array, " visible"]
    base_logits: Float[Array, " visible"]
    products: RBMProducts | None = None
    limbs: RBMLimbs | None = None

    @classmethod
    def create(cls, rbm: RBM, base_logits: np.ndarray, betas: HostPerRung, *, largest_field: float = 0.0) -> "RBMPath":
        """Fit what gives all rungs at once, and make the path.

        Args:
            rbm: the target.
            base_logits: c_A, see `RBM.base_logits`.
            betas: inverse temperatures that rise from 0 to 1.
            largest_field: a hidden field |b_j + (vW)_j| for which all rungs at once must hold, if it is larger than
                those of `rbm`. Training leaves room for weights that grow.
        """
        weights, _, hbias = rbm.on_host()
        bound = max(largest_field_of(weights, hbias), largest_field)
        return cls.for_model(rbm, betas, lambda b: fit_softplus_sums(b, bound), base_logits=base_logits)

    def with_parameters(
        self, weights: Float[Array, "visible hidden"], vbias: Float[Array, " visible"], hbias: Float[Array, " hidden"]
    ) -> "RBMPath":
        """The same base and rungs for other parameters, also inside jit: nothing is fitted or compiled again.

        Args:
            weights: W.
            vbias: c.
            hbias: b.

        Returns:
            The path. All rungs at once hold for fields up to the largest that the path was made for.
        """
        return dataclasses.replace(self, weights=weights, vbias=vbias, hbias=hbias)

    @property
    def is_same_in_any_batch(self) -> bool:
        return self.sums is not None and max(self.weights.shape) <= MAX_UNITS

    def on_cpu(self) -> "RBMPath":
        return dataclasses.replace(self, products=RBMProducts(fastest(self.weights), fastest(self.weights.T)))

    def on_gpu(self) -> "RBMPath":
        if not self.is_same_in_any_batch:
            return self
        return dataclasses.replace(self, limbs=RBMLimbs(Limbs.of(self.weights), Limbs.of(self.weights.T)))

    def log_z_visible(self) -> float:
        return log_z_of_bits(self.base_logits)

    def draw_base_visible(self, key: Key) -> Float[Array, " visible"]:
        return jax.random.bernoulli(straight_key(key), jax.nn.sigmoid(self.base_logits)).astype(jnp.float32)

    def log_ends(self, v: Float[Array, " visible"]) -> tuple[Scalar, Scalar]:
        at_base, at_target = product(v, jnp.stack([self.base_logits, self.vbias], axis=1))  # one product, not two
        return at_base, at_target

    def log_visible(self, v: Float[Array, " visible"], beta: Scalar) -> Scalar:
        return product(v, (1 - beta) * self.base_logits + beta * self.vbias)  # one product in place of two

    def log_densities(self, x: HiddenBitsState) -> PerRung:
        none = jnp.zeros_like(self.betas)
        at_once = self.draw_rung(jax.random.key(0), x, none, none)
        return super().log_densities(x) if at_once is None else at_once[0]

    def draw_rung(
        self, key: Key, x: HiddenBitsState, log_prior: PerRung, log_z_guess: PerRung
    ) -> tuple[PerRung, PerRung, Rung] | None:
        if self.limbs is None or self.sums is None:
            return None
        sums = (self.sums.series, self.sums.scale, self.sums.bound)
        tables = RungTables(self.base_logits, self.vbias, self.betas, *sums, log_prior, log_z_guess)
        return drawn_rung(key_words(key), x.v, x.field, tables)

    def gibbs_sweep(self, key: Key, rung: Rung, x: HiddenBitsState) -> HiddenBitsState:
        if self.limbs is None:
            return super().gibbs_sweep(key, rung, x)
        words, beta = key_words(key), self.betas[rung]
        index = jnp.arange(len(x.field), dtype=jnp.uint32)
        h = is_one(uniform_at(words, HIDDEN_STREAM, index), beta * x.field)
        given = (self.limbs.from_hidden, self.betas, self.base_logits, self.vbias)
        v, padded = drawn_bits(words, rung, padded_bits(h), *given)
        return HiddenBitsState(v, summed_field(padded, self.limbs.from_visible, self.hbias))

    def hidden_field(self, v: Float[Array, " visible"]) -> Float[Array, " hidden"]:
        if self.limbs is not None:
            return summed_field(v, self.limbs.from_visible, self.hbias)
        products = product(v, self.weights) if self.products is None else self.products.from_visible.times(v)
        return products + self.hbias

    def draw_visible(self, key: Key, beta: Scalar, h: Float[Array, " hidden"]) -> Float[Array, " visible"]:
        products = product(h, self.weights.T) if self.products is None else self.products.from_hidden.times(h)
        return random_bits(key, (1 - beta) * self.base_logits + beta * (products + self.vbias))


class AbstractRBMVariant(AbstractModel):
    """A binary RBM that is tempered along another path than `RBMPath`. Its log Z is the RBM's.

    Attributes:
        rbm: the RBM.
    """

    rbm: RBM
    reads_rows: ClassVar[bool] = True
    counts_states: ClassVar[bool] = True

    def named(self, x: State) -> dict[str, Array]:
        """The visible units, `v`."""
        return {"v": x.v}

    def move(self) -> AbstractMove:
        return BlockGibbs()

    def quick_log_z(self) -> float | None:
        return self.rbm.quick_log_z()

    def exact_log_z(self, max_units: int = 25) -> float:
        """See `RBM.exact_log_z`."""
        return self.rbm.exact_log_z(max_units)

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        return self.rbm.log_density(data)

    def based_at(self, path: AbstractPath, rows: np.ndarray, others: np.ndarray) -> tuple[AbstractModel, Any]:
        return self.rbm, rows
