"""The restricted Boltzmann machine whose visible units are categories: ratings, letters, amino acids."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._errors import InputError
from tempering._softplus import SoftplusSums, fit_softplus_sums
from tempering._types import HostPerRung, Key, Numbers, PerRung, Scalar
from tempering.ladder import checked_betas
from tempering.models.pairwise.sites import draw_categories
from tempering.models.rbm.hidden_bits import (
    HIGHEST,
    AbstractHiddenBitsModel,
    AbstractHiddenBitsPath,
    HiddenBitsState,
    checked_parameters,
    softplus,
)

_SMOOTHING = 0.02  # of the base comes from equal odds: a category that never occurs must not freeze the ladder
_ROWS_AT_ONCE = 1024


class CategoricalRBM(AbstractHiddenBitsModel):
    """log f(v, h) = Σ_i c_i(v_i) + Σ_ij W_ij(v_i) h_j + h·b over categories v_i = 0 … q − 1 and bits h.

    The softmax units of Salakhutdinov, Mnih and Hinton (2007).

    ```python
    CategoricalRBM(weights, vbias, hbias)   # (visible, category, hidden), (visible, category), (hidden,)
    ```

    `base` may be rows of categories, for their frequencies; "uniform"; or "bias" (the default), for c itself.
    """

    weights: Float[np.ndarray, "visible category hidden"]
    vbias: Float[np.ndarray, "visible category"]  # c
    hbias: Float[np.ndarray, " hidden"]  # b

    def __init__(self, weights: Numbers, vbias: Numbers, hbias: Numbers):
        """Arrays of any kind, kept in float64 so that exact answers are exact."""
        shape = np.shape(weights)
        if len(shape) != 3:
            raise InputError(f"CategoricalRBM(weights=...) must have shape (visible, category, hidden), got {shape}.")
        shapes = {"weights": shape, "vbias": shape[:2], "hbias": shape[2:]}
        arrays = {"weights": weights, "vbias": vbias, "hbias": hbias}
        self.weights, self.vbias, self.hbias = checked_parameters("CategoricalRBM", shapes, arrays)

    @property
    def num_visible(self) -> int:
        """Units, each with q categories."""
        return self.weights.shape[0]

    @property
    def num_categories(self) -> int:
        """q."""
        return self.weights.shape[1]

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        """log Σ_h f(v, h) of each row."""
        data, units = self.checked_data(data), np.arange(self.num_visible)
        parts = []
        for start in range(0, len(data), _ROWS_AT_ONCE):
            rows = data[start : start + _ROWS_AT_ONCE]
            one_hot = np.eye(self.num_categories)[rows].reshape(len(rows), -1)
            field = one_hot @ self.weights.reshape(-1, self.num_hidden) + self.hbias
            parts.append(self.vbias[units, rows].sum(axis=1) + softplus(field).sum(axis=1))
        return np.concatenate(parts)

    def log_visible_z(self, h: Float[np.ndarray, "pattern hidden"]) -> Float[np.ndarray, " pattern"]:
        """Σ_i log Σ_k exp(c_ik + (Wh)_ik)."""
        logits = h @ self.weights.reshape(-1, self.num_hidden).T + self.vbias.ravel()
        logits = logits.reshape(len(h), self.num_visible, self.num_categories)
        peak = logits.max(axis=2)
        return (peak + np.log(np.exp(logits - peak[:, :, None]).sum(axis=2))).sum(axis=1)

    def num_visible_numbers(self) -> int:
        """One a category."""
        return self.vbias.size

    def path(self, base: Any, betas: HostPerRung) -> "CategoricalRBMPath":
        """From independent categories to this model."""
        return CategoricalRBMPath.create(self, self.base_logits("bias" if base is None else base), betas)

    def base_logits(self, base: Any) -> Float[np.ndarray, "visible category"]:
        """Log weights of each category under p_1; frequencies are mixed with equal odds."""
        if isinstance(base, str):
            if base not in ("uniform", "bias"):
                raise InputError(f'`base` must be "uniform", "bias" or rows of categories, got "{base}".')
            return np.zeros_like(self.vbias) if base == "uniform" else self.vbias
        rows = self.checked_data(base)
        counted = np.stack([(rows == k).mean(axis=0) for k in range(self.num_categories)], axis=1)
        return np.log((1 - _SMOOTHING) * counted + _SMOOTHING / self.num_categories)

    def largest_field(self) -> float:
        """The largest |a_j| that any row can reach."""
        highest = self.weights.max(axis=1).sum(axis=0) + self.hbias
        lowest = self.weights.min(axis=1).sum(axis=0) + self.hbias
        return float(max(highest.max(), -lowest.min()))

    def checked_data(self, data: Any) -> Int[np.ndarray, "row visible"]:
        """Rows of categories."""
        data = np.asarray(data)
        if data.ndim != 2 or data.shape[1] != self.num_visible or len(data) == 0:
            raise InputError(
                f"Data must have shape (rows, {self.num_visible}) for this CategoricalRBM, got {data.shape}."
            )
        if not np.isin(data, np.arange(self.num_categories)).all():
            raise InputError(f"Data for this CategoricalRBM must be categories 0 to {self.num_categories - 1}.")
        return data.astype(np.int32)


class CategoricalRBMPath(AbstractHiddenBitsPath):
    """From independent categories with log weights c_A to a categorical RBM."""

    weights: Float[Array, "visible category hidden"]
    vbias: Float[Array, "visible category"]  # c
    hbias: Float[Array, " hidden"]  # b
    base_logits: Float[Array, "visible category"]  # c_A
    betas: PerRung
    sums: SoftplusSums | None

    @classmethod
    def create(cls, rbm: CategoricalRBM, base_logits: np.ndarray, betas: HostPerRung) -> "CategoricalRBMPath":
        """Prepare the sums over hidden units that give all rungs at once."""
        betas = checked_betas(betas)
        names = ("weights", "vbias", "hbias", "base_logits", "betas")
        values = (rbm.weights, rbm.vbias, rbm.hbias, base_logits, betas)
        arrays = {name: jnp.asarray(value, jnp.float32) for name, value in zip(names, values, strict=True)}
        return cls(**arrays, sums=fit_softplus_sums(betas, rbm.largest_field()))

    def log_z_base(self) -> float:
        """Σ_i log Σ_k exp(c_A,ik) + J log 2: at β = 0 the hidden units are fair coins."""
        logits = np.asarray(self.base_logits, np.float64)
        return float(np.logaddexp.reduce(logits, axis=1).sum() + self.hbias.shape[0] * np.log(2))

    def sample_base(self, key: Key) -> HiddenBitsState:
        """Independent categories."""
        return self.state_of(draw_categories(jax.random.uniform(key, self.vbias.shape[:1]), self.base_logits))

    def log_ends(self, v: Int[Array, " visible"]) -> tuple[Scalar, Scalar]:
        """The log weights of the categories that are there, under both ends."""
        one_hot = self._one_hot(v)
        return jnp.sum(one_hot * self.base_logits), jnp.sum(one_hot * self.vbias)

    def hidden_field(self, v: Int[Array, " visible"]) -> Float[Array, " hidden"]:
        """b_j + Σ_i W_ij(v_i), as a product with the one-hot form of v."""
        return jnp.dot(self._one_hot(v).ravel(), self._flat_weights(), precision=HIGHEST) + self.hbias

    def draw_visible(self, key: Key, beta: Scalar, h: Float[Array, " hidden"]) -> Int[Array, " visible"]:
        """Each unit by its softmax."""
        logits = jnp.dot(h, self._flat_weights().T, precision=HIGHEST).reshape(self.vbias.shape) + self.vbias
        mixed = (1 - beta) * self.base_logits + beta * logits
        return draw_categories(jax.random.uniform(key, self.vbias.shape[:1]), mixed)

    def with_betas(self, betas: HostPerRung) -> "CategoricalRBMPath":
        """The same ends, other rungs."""
        rbm = CategoricalRBM(*(np.asarray(a) for a in (self.weights, self.vbias, self.hbias)))
        return CategoricalRBMPath.create(rbm, np.asarray(self.base_logits), betas)

    def _one_hot(self, v: Int[Array, " visible"]) -> Float[Array, "visible category"]:
        return jax.nn.one_hot(v, self.vbias.shape[1], dtype=jnp.float32)

    def _flat_weights(self) -> Float[Array, "number hidden"]:
        return self.weights.reshape(-1, self.weights.shape[2])
