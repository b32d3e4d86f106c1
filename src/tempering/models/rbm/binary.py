"""The binary–binary restricted Boltzmann machine: all that knows W, b and c."""

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._softplus import SoftplusSums, fit_softplus_sums
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.kernels import AbstractGibbsPath, AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath, checked_betas
from tempering.models.model import AbstractModel
from tempering.models.rbm.enumeration import enumeration_cost, log_z_by_enumeration

Base = Literal["uniform", "bias"] | Any  # or an array: 0/1 data (row, visible), or frequencies (visible,)

_SMOOTHING = 0.02  # of the base comes from a fair coin: a pixel that is never on must not freeze the ladder
_ROWS_AT_ONCE = 4096
_QUICK_TERMS = 2 * 10**9  # enumerated unasked below this, which is about two seconds
_HIGHEST = jax.lax.Precision.HIGHEST  # a GPU would otherwise round the weights to ten bits


class RBM(AbstractModel):
    """log f(v, h) = v·c + vᵀWh + h·b over bits v, h, with c = `vbias` and b = `hbias` (Section 4.2).

    ```python
    rbm = RBM(weights, vbias, hbias)         # (visible, hidden), (visible,), (hidden,)
    rbm.log_density(data)                    # log Σ_h f(v, h), a number per row
    ```
    """

    weights: Any  # (visible, hidden)
    vbias: Any
    hbias: Any

    def __init__(self, weights, vbias, hbias):
        """Arrays of any kind; NumPy's are kept in float64 so that exact answers are exact."""
        self.weights, self.vbias, self.hbias = (_as_floats(a) for a in (weights, vbias, hbias))
        _check_parameters(self.weights, self.vbias, self.hbias)

    @property
    def num_visible(self) -> int:
        """Rows of W."""
        return self.weights.shape[0]

    @property
    def num_hidden(self) -> int:
        """Columns of W."""
        return self.weights.shape[1]

    def log_density(self, data) -> Float[np.ndarray, " row"]:
        """log f(v) = v·c + Σ_j softplus(b_j + (vW)_j) of each row of 0/1 data: minus its free energy."""
        data = self._checked_data(data)
        weights, vbias, hbias = self.on_host()
        parts = []
        for start in range(0, len(data), _ROWS_AT_ONCE):
            rows = data[start : start + _ROWS_AT_ONCE].astype(np.float64)
            field = rows @ weights + hbias
            softplus = np.maximum(field, 0) + np.log1p(np.exp(-np.abs(field)))
            parts.append(rows @ vbias + softplus.sum(axis=1))
        return np.concatenate(parts)

    def exact_log_z(self, max_units: int = 25) -> float:
        """log Z by enumerating the smaller side; costs 2^units, so it is refused above `max_units`."""
        return log_z_by_enumeration(*self.on_host(), max_units=max_units)

    def enumeration_cost(self) -> int:
        """How many terms `exact_log_z` would visit: 10⁹ of them take about a second."""
        return enumeration_cost(np.asarray(self.weights))

    def quick_log_z(self) -> float | None:
        """By enumeration, where that is quick."""
        return self.exact_log_z() if self.enumeration_cost() <= _QUICK_TERMS else None

    def path(self, base: Base, betas: HostPerRung) -> "RBMPath":
        """The tempered path from a product of Bernoullis to this RBM; see `base_logits` for what `base` may be."""
        return RBMPath.create(self, self.base_logits("bias" if base is None else base), betas)

    def move(self) -> AbstractMove:
        """A sweep of block Gibbs."""
        return BlockGibbs()

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> "RBMState":
        """Rows of 0/1 data with their hidden fields."""
        assert isinstance(path, RBMPath)
        return jax.vmap(path.state_of)(jnp.asarray(rows, jnp.float32))

    def base_logits(self, base: Base) -> Float[np.ndarray, " visible"]:
        """Log-odds of p_1: "uniform", "bias" (the RBM's own c), 0/1 data, or frequencies in [0, 1].

        Frequencies are mixed with a fair coin first: without that, pixels that are never on make a ladder whose
        lower rungs hardly overlap.
        """
        if isinstance(base, str):
            if base not in ("uniform", "bias"):
                raise InputError(f'`base` must be "uniform", "bias" or an array of data or frequencies, got "{base}".')
            return np.zeros(self.num_visible) if base == "uniform" else np.asarray(self.vbias, np.float64)
        array = np.asarray(base)
        frequencies = array.astype(np.float64) if array.ndim == 1 else self._checked_data(array).mean(axis=0)
        if frequencies.shape != (self.num_visible,) or not np.all((frequencies >= 0) & (frequencies <= 1)):
            raise InputError(
                f"`base` frequencies must be {self.num_visible} numbers in [0, 1], got shape {frequencies.shape}."
            )
        smoothed = (1 - _SMOOTHING) * frequencies + _SMOOTHING / 2
        return np.log(smoothed) - np.log1p(-smoothed)

    def on_host(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W, c and b as NumPy float64."""
        weights, vbias, hbias = (np.asarray(a, np.float64) for a in (self.weights, self.vbias, self.hbias))
        return weights, vbias, hbias

    def _checked_data(self, data) -> np.ndarray:
        data = np.asarray(data)
        if data.ndim != 2 or data.shape[1] != self.num_visible or len(data) == 0:
            raise InputError(f"Data must have shape (rows, {self.num_visible}) for this RBM, got {data.shape}.")
        if not np.all((data == 0) | (data == 1)):
            raise InputError("Data must hold only 0 and 1 for a binary RBM; binarize grey values first.")
        return data


class RBMState(eqx.Module):
    """A visible pattern with its hidden field vW + b, so that a sweep costs two matrix products and no third."""

    v: Float[Array, " visible"]
    field: Float[Array, " hidden"]


class RBMPath(AbstractGibbsPath):
    """Tempered RBMs with h summed out.

    f_β(v, h) = exp((1 − β) v·c_A + β (v·c + vᵀWh + h·b)) can be swept by block Gibbs at every β, and

        log f_β(v) = v·((1 − β) c_A + β c) + Σ_j softplus(β (b_j + (vW)_j)).

    Chains that carry h as well and use q(k | v, h) mix far more slowly over the rungs.
    """

    weights: Float[Array, "visible hidden"]
    vbias: Float[Array, " visible"]  # c
    hbias: Float[Array, " hidden"]  # b
    base_logits: Float[Array, " visible"]  # c_A
    betas: PerRung
    sums: SoftplusSums | None  # None: fields so large that no short basis serves, and the plain way is taken
    matrices: tuple[Float[Array, "rung feature"], ...]  # features to log f, its slope and its curvature; empty likewise

    @classmethod
    def create(cls, rbm: RBM, base_logits: np.ndarray, betas: HostPerRung, *, largest_field: float = 0.0) -> "RBMPath":
        """Prepare the matrices that give all rungs at once, for fields at least as large as the RBM's own."""
        betas = checked_betas(betas)
        sums = fit_softplus_sums(betas, max(_largest_field(rbm), largest_field))
        names = ("weights", "vbias", "hbias", "base_logits", "betas")
        values = (rbm.weights, rbm.vbias, rbm.hbias, base_logits, betas)
        arrays = {name: jnp.asarray(value, jnp.float32) for name, value in zip(names, values, strict=True)}
        return cls(**arrays, sums=sums, matrices=_matrices(betas, sums))

    def with_parameters(
        self, weights: Float[Array, "visible hidden"], vbias: Float[Array, " visible"], hbias: Float[Array, " hidden"]
    ) -> "RBMPath":
        """The same base and rungs for other parameters, also inside jit: nothing is fitted or compiled anew.

        All rungs at once hold for fields up to the largest that the path was made for.
        """
        return dataclasses.replace(self, weights=weights, vbias=vbias, hbias=hbias)

    def log_z_base(self) -> float:
        """Σ_i softplus(c_A,i) + J log 2: at β = 0 the hidden units are fair coins."""
        logits = np.asarray(self.base_logits, np.float64)
        return float(np.logaddexp(0, logits).sum() + self.hbias.shape[0] * np.log(2))

    def sample_base(self, key: Key) -> RBMState:
        """Independent bits with log-odds c_A."""
        return self.state_of(jax.random.bernoulli(key, jax.nn.sigmoid(self.base_logits)).astype(jnp.float32))

    def state_of(self, v: Float[Array, " visible"]) -> RBMState:
        """A pattern with its hidden field."""
        return RBMState(v, jnp.dot(v, self.weights, precision=_HIGHEST) + self.hbias)

    def log_density(self, x: RBMState, rung: Rung) -> Scalar:
        """The formula above, at one β."""
        beta = self.betas[rung]
        linear = jnp.dot(x.v, (1 - beta) * self.base_logits + beta * self.vbias, precision=_HIGHEST)
        return linear + jnp.sum(jax.nn.softplus(beta * x.field))

    def log_densities(self, x: RBMState) -> PerRung:
        """All rungs from a few sums over the units, see `_softplus`."""
        return super().log_densities(x) if self.sums is None else self._expanded(x, self.matrices[0])

    def slopes(self, x: RBMState) -> PerRung:
        """v·(c − c_A) + Σ_j a_j σ(β_k a_j), a = vW + b, from the same sums."""
        return super().slopes(x) if self.sums is None else self._expanded(x, self.matrices[1])

    def curvatures(self, x: RBMState) -> PerRung:
        """Σ_j a_j² σ(β_k a_j) σ(−β_k a_j), from the same sums."""
        return super().curvatures(x) if self.sums is None else self._expanded(x, self.matrices[2])

    def features(self, x: RBMState) -> Float[Array, " feature"]:
        """v·c_A, v·c + Σ_j max(a_j, 0), and the modes of `_softplus`: log f at every rung is linear in them."""
        if self.sums is None:
            return super().features(x)
        at_base = jnp.dot(x.v, self.base_logits, precision=_HIGHEST)
        at_target = jnp.dot(x.v, self.vbias, precision=_HIGHEST) + jnp.sum(jnp.maximum(x.field, 0))
        return jnp.concatenate([jnp.stack([at_base, at_target]), self.sums.modes(x.field)])

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """What turns features into log f."""
        return super().feature_matrix() if self.sums is None else np.asarray(self.matrices[0], np.float64)

    def _expanded(self, x: RBMState, matrix: Float[Array, "rung feature"]) -> PerRung:
        return jnp.dot(self.features(x), matrix.T, precision=_HIGHEST)  # chains stay the leading axis

    def with_betas(self, betas: HostPerRung) -> "RBMPath":
        """The same RBM and base, other rungs."""
        rbm = RBM(*(np.asarray(a) for a in (self.weights, self.vbias, self.hbias)))
        return RBMPath.create(rbm, np.asarray(self.base_logits), betas)

    def gibbs_sweep(self, key: Key, rung: Rung, x: RBMState) -> RBMState:
        """h ~ p(h | v, β), then v ~ p(v | h, β)."""
        key_hidden, key_visible = jax.random.split(key)
        beta = self.betas[rung]
        h = random_bits(key_hidden, beta * x.field)
        visible_field = jnp.dot(h, self.weights.T, precision=_HIGHEST) + self.vbias
        return self.state_of(random_bits(key_visible, (1 - beta) * self.base_logits + beta * visible_field))


def random_bits(key: Key, logits: Float[Array, "*unit"]) -> Float[Array, "*unit"]:
    """1.0 with these log-odds, else 0.0."""
    return (jax.random.uniform(key, logits.shape) < jax.nn.sigmoid(logits)).astype(jnp.float32)


def _matrices(betas: HostPerRung, sums: SoftplusSums | None) -> tuple[Float[Array, "rung feature"], ...]:
    if sums is None:
        return ()
    zeros, ones = np.zeros_like(betas), np.ones_like(betas)
    columns = (
        (1 - betas, betas, sums.expand),
        (-ones, ones, sums.expand_slopes),
        (zeros, zeros, sums.expand_curvatures),
    )
    return tuple(jnp.column_stack(parts).astype(jnp.float32) for parts in columns)


def _largest_field(rbm: RBM) -> float:
    """The largest |(vW)_j + b_j| that any pattern can reach."""
    weights, _, hbias = rbm.on_host()
    highest = np.maximum(weights, 0).sum(axis=0) + hbias
    lowest = np.minimum(weights, 0).sum(axis=0) + hbias
    return float(max(highest.max(), -lowest.min()))


def _as_floats(array):
    return array if isinstance(array, jax.Array) else np.asarray(array, np.float64)


def _check_parameters(weights, vbias, hbias) -> None:
    if weights.ndim != 2 or vbias.shape != (weights.shape[0],) or hbias.shape != (weights.shape[1],):
        raise InputError(
            "RBM(weights, vbias, hbias) must have shapes (visible, hidden), (visible,), (hidden,); "
            f"got {weights.shape}, {vbias.shape}, {hbias.shape}."
        )
    for name, array in (("weights", weights), ("vbias", vbias), ("hbias", hbias)):
        if isinstance(array, np.ndarray) and not np.all(np.isfinite(array)):
            raise InputError(f"RBM `{name}` must be finite, got {np.sum(~np.isfinite(array))} NaN or infinite values.")
