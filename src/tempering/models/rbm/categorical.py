"""The restricted Boltzmann machine whose visible units are categories: ratings, letters, amino acids."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._errors import InputError
from tempering._precision import product
from tempering._softplus import fit_softplus_sums
from tempering._types import HostPerRung, Key, Numbers, Scalar
from tempering.models.pairwise.sites import Colours, draw_categories
from tempering.models.rbm.arrays import checked_parameters, in_blocks, largest_field_of, softplus
from tempering.models.rbm.hidden_bits import AbstractHiddenBitsPath, AbstractListedBitsModel
from tempering.models.rows import checked_rows, smoothed_frequencies, wrong_base

_ROWS_AT_ONCE = 1024
_AXES = {"weights": "visible category hidden", "vbias": "visible category", "hbias": "hidden"}


class CategoricalRBM(AbstractListedBitsModel):
    """An RBM of categories: log f(v, h) = Σ_i c_i(v_i) + Σ_ij W_ij(v_i) h_j + h·b.

    v_i is a category 0 … q − 1 and h are bits: the softmax units of Salakhutdinov, Mnih and Hinton (2007).

    ```python
    CategoricalRBM(weights, vbias, hbias)   # (visible, category, hidden), (visible, category), (hidden,)
    ```

    `base` of `tp.estimate` may be rows of categories, for their frequencies; "uniform"; or "bias" (the default), for c
    itself.
    """

    weights: Float[np.ndarray, "visible category hidden"]
    vbias: Float[np.ndarray, "visible category"]
    hbias: Float[np.ndarray, " hidden"]
    row_dtype: ClassVar[Any] = jnp.int32

    def __init__(self, weights: Numbers, vbias: Numbers, hbias: Numbers):
        """Check the parameters, which are kept in float64, for exact answers.

        Args:
            weights: W (visible, category, hidden).
            vbias: c (visible, category).
            hbias: b (hidden,).
        """
        self.weights, self.vbias, self.hbias = checked_parameters("CategoricalRBM", _AXES, weights, vbias, hbias)

    @property
    def num_categories(self) -> int:
        """q, the number of categories of a visible unit."""
        return self.weights.shape[1]

    def log_density(self, data: Any) -> Float[np.ndarray, " row"]:
        units = np.arange(self.num_visible)

        def log_density(rows):
            one_hot = np.eye(self.num_categories)[rows].reshape(len(rows), -1)
            field = one_hot @ self.weights.reshape(-1, self.num_hidden) + self.hbias
            return self.vbias[units, rows].sum(axis=1) + softplus(field).sum(axis=1)

        return in_blocks(log_density, self.checked_data(data), _ROWS_AT_ONCE)

    def log_visible_z(self, h: Float[np.ndarray, "pattern hidden"]) -> Float[np.ndarray, " pattern"]:
        logits = h @ self.weights.reshape(-1, self.num_hidden).T + self.vbias.ravel()
        logits = logits.reshape(len(h), self.num_visible, self.num_categories)
        peak = logits.max(axis=2)
        return (peak + np.log(np.exp(logits - peak[:, :, None]).sum(axis=2))).sum(axis=1)

    def path(self, base: Any, betas: HostPerRung) -> "CategoricalRBMPath":
        return CategoricalRBMPath.create(self, self.base_logits("bias" if base is None else base), betas)

    def base_logits(self, base: Any) -> Float[np.ndarray, "visible category"]:
        """Log weights of the independent categories that a base stands for.

        Args:
            base: "uniform", "bias" for c itself, or rows of categories, whose frequencies are mixed with 2 % of equal
                odds.

        Returns:
            c_A (visible, category).
        """
        if not isinstance(base, str):
            return np.log(smoothed_frequencies(self.checked_data(base), np.arange(self.num_categories)))
        if base not in ("uniform", "bias"):
            raise wrong_base('"uniform", "bias" or rows of categories', base)
        return np.zeros_like(self.vbias) if base == "uniform" else self.vbias

    def largest_field(self) -> float:
        """The largest hidden field |a_j| of any row, up to which all rungs at once must hold."""
        return largest_field_of(self.weights, self.hbias)

    def checked_data(self, data: Any) -> Int[np.ndarray, "row visible"]:
        data = checked_rows(data, self.num_visible, "CategoricalRBM")
        if not np.isin(data, np.arange(self.num_categories)).all():
            raise InputError(f"Data for this CategoricalRBM must be categories 0 to {self.num_categories - 1}.")
        return data.astype(np.int32)


class CategoricalRBMPath(AbstractHiddenBitsPath):
    """A path from independent categories with log weights c_A to a categorical RBM.

    Attributes:
        weights, vbias, hbias: W, c and b.
        base_logits: c_A.
        betas, sums, matrices: see `AbstractHiddenBitsPath`.
    """

    weights: Float[Array, "visible category hidden"]
    vbias: Float[Array, "visible category"]
    base_logits: Float[Array, "visible category"]

    @classmethod
    def create(cls, rbm: CategoricalRBM, base_logits: np.ndarray, betas: HostPerRung) -> "CategoricalRBMPath":
        """Fit what gives all rungs at once, and make the path.

        Args:
            rbm: the target.
            base_logits: c_A, see `CategoricalRBM.base_logits`.
            betas: inverse temperatures that rise from 0 to 1.
        """
        bound = rbm.largest_field()
        return cls.for_model(rbm, betas, lambda b: fit_softplus_sums(b, bound), base_logits=base_logits)

    def log_z_visible(self) -> float:
        return Colours(self.base_logits).log_z()

    def draw_base_visible(self, key: Key) -> Int[Array, " visible"]:
        return Colours(self.base_logits).sample(key)

    def log_ends(self, v: Int[Array, " visible"]) -> tuple[Scalar, Scalar]:
        one_hot = self._one_hot(v)
        return jnp.sum(one_hot * self.base_logits), jnp.sum(one_hot * self.vbias)

    def hidden_field(self, v: Int[Array, " visible"]) -> Float[Array, " hidden"]:
        return product(self._one_hot(v).ravel(), self._flat_weights()) + self.hbias

    def draw_visible(self, key: Key, beta: Scalar, h: Float[Array, " hidden"]) -> Int[Array, " visible"]:
        logits = product(h, self._flat_weights().T).reshape(self.vbias.shape) + self.vbias
        mixed = (1 - beta) * self.base_logits + beta * logits
        return draw_categories(jax.random.uniform(key, self.vbias.shape[:1]), mixed)

    def _one_hot(self, v: Int[Array, " visible"]) -> Float[Array, "visible category"]:
        return jax.nn.one_hot(v, self.vbias.shape[1], dtype=jnp.float32)

    def _flat_weights(self) -> Float[Array, "number hidden"]:
        return self.weights.reshape(-1, self.weights.shape[2])
