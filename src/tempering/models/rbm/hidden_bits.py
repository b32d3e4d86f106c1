"""Models of data with a layer of hidden bits that is summed out: what all RBMs share."""

import abc
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from tempering._device_arrays import device_array
from tempering._errors import InputError
from tempering._precision import product
from tempering._softplus import SoftplusSums, fit_softplus_sums
from tempering._threefry import straight_key
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar, State
from tempering.kernels import AbstractGibbsPath, AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath, checked_betas
from tempering.models.model import AbstractModel
from tempering.models.rbm.arrays import float32_arrays, largest_field_of, random_bits
from tempering.models.rbm.enumeration import bit_patterns

P = TypeVar("P", bound="AbstractHiddenBitsPath")

_PATTERNS_AT_ONCE = 1024
_QUICK_TERMS = 10**8  # (pattern, visible number) pairs: about two seconds


class HiddenBitsState(eqx.Module):
    """Visible units with their hidden fields. A sweep then costs two matrix products, and log f at all rungs none.

    Attributes:
        v: the visible units.
        field: a(v), for a binary RBM vW + b.
    """

    v: Num[Array, " visible"]
    field: Float[Array, " hidden"]


class AbstractHiddenBitsPath(AbstractGibbsPath):
    """Tempered models f_β(v, h) = p_1(v)^(1 − β) (g(v) exp(h·a(v)))^β, whose hidden bits h are summed out:

        log f_β(v) = (1 − β) log p_1(v) + β log g(v) + Σ_j softplus(β a_j(v)).

    Attributes:
        hbias: b, the part of a(v) that does not depend on v.
        betas: inverse temperatures, from 0 to 1.
        sums: what gives Σ_j softplus(β a_j) at all rungs at once, see `_softplus`. None where the fields are so large
            that no short basis serves; every rung is then computed on its own.
        matrices: from features to log f, its slope and its curvature at every rung; empty where `sums` is None.
    """

    weights: eqx.AbstractVar[Float[Array, "visible *category hidden"]]
    hbias: Float[Array, " hidden"]
    betas: PerRung
    sums: SoftplusSums | None
    matrices: tuple[Float[Array, "rung feature"], ...]

    @classmethod
    def for_model(
        cls: type[P], model: Any, betas: HostPerRung, fit: Callable[[HostPerRung], SoftplusSums | None], **arrays: Any
    ) -> P:
        """The path with the parameters of a model and other arrays; `fit` gives `sums`."""
        betas = checked_betas(betas)
        arrays |= {"weights": model.weights, "vbias": model.vbias, "hbias": model.hbias}
        return cls(**float32_arrays(**arrays), **rung_fields(betas, fit(betas)))

    def fit_sums(self, betas: HostPerRung) -> SoftplusSums | None:
        """`sums` for other inverse temperatures and the present parameters."""
        weights, hbias = (np.asarray(a, np.float64) for a in (self.weights, self.hbias))
        return fit_softplus_sums(betas, largest_field_of(weights, hbias))

    @abc.abstractmethod
    def log_z_visible(self) -> float:
        """log Z of p_1."""

    @abc.abstractmethod
    def draw_base_visible(self, key: Key) -> Num[Array, " visible"]:
        """v ~ p_1."""

    @abc.abstractmethod
    def log_ends(self, v: Num[Array, " visible"]) -> tuple[Scalar, Scalar]:
        """log p_1(v), unnormalised, and log g(v)."""

    @abc.abstractmethod
    def hidden_field(self, v: Num[Array, " visible"]) -> Float[Array, " hidden"]:
        """The field a(v)."""

    @abc.abstractmethod
    def draw_visible(self, key: Key, beta: Scalar, h: Float[Array, " hidden"]) -> Num[Array, " visible"]:
        """v ~ p(v | h, β)."""

    def log_visible(self, v: Num[Array, " visible"], beta: Scalar) -> Scalar:
        """(1 − β) log p_1(v) + β log g(v)."""
        at_base, at_target = self.log_ends(v)
        return (1 - beta) * at_base + beta * at_target

    def log_z_base(self) -> float:
        return self.log_z_visible() + self.hbias.shape[0] * float(np.log(2))  # hidden bits are fair coins at β = 0

    def sample_base(self, key: Key) -> HiddenBitsState:
        return self.state_of(self.draw_base_visible(key))

    def state_of(self, v: Num[Array, " visible"]) -> HiddenBitsState:
        """The state with these visible units."""
        return HiddenBitsState(v, self.hidden_field(v))

    def log_density(self, x: HiddenBitsState, rung: Rung) -> Scalar:
        beta = self.betas[rung]
        return self.log_visible(x.v, beta) + jnp.sum(jax.nn.softplus(beta * x.field))

    def log_densities(self, x: HiddenBitsState) -> PerRung:
        return super().log_densities(x) if self.sums is None else self._expanded(x, self.matrices[0])

    def slopes(self, x: HiddenBitsState) -> PerRung:
        """log g(v) − log p_1(v) + Σ_j a_j σ(β_k a_j)."""
        return super().slopes(x) if self.sums is None else self._expanded(x, self.matrices[1])

    def curvatures(self, x: HiddenBitsState) -> PerRung:
        """Σ_j a_j² σ(β_k a_j) σ(−β_k a_j)."""
        return super().curvatures(x) if self.sums is None else self._expanded(x, self.matrices[2])

    def features(self, x: HiddenBitsState) -> Float[Array, " feature"]:
        """log p_1(v), log g(v) + Σ_j max(a_j, 0), and the modes of `_softplus`: log f is linear in them."""
        if self.sums is None:
            return super().features(x)
        at_base, at_target = self.log_ends(x.v)
        at_target = at_target + jnp.sum(jnp.maximum(x.field, 0))
        return jnp.concatenate([jnp.stack([at_base, at_target]), self.sums.modes(x.field)])

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        return super().feature_matrix() if self.sums is None else np.asarray(self.matrices[0], np.float64)

    def with_betas(self, betas: HostPerRung) -> "AbstractHiddenBitsPath":
        """The same model and base at other inverse temperatures; `sums` are fitted again."""
        betas = checked_betas(betas)
        return dataclasses.replace(self, **rung_fields(betas, self.fit_sums(betas)))

    def gibbs_sweep(self, key: Key, rung: Rung, x: HiddenBitsState) -> HiddenBitsState:
        """h ~ p(h | v, β), then v ~ p(v | h, β): reversible in v."""
        key_hidden, key_visible = jax.random.split(straight_key(key))
        beta = self.betas[rung]
        return self.state_of(self.draw_visible(key_visible, beta, random_bits(key_hidden, beta * x.field)))

    def _expanded(self, x: HiddenBitsState, matrix: Float[Array, "rung feature"]) -> PerRung:
        return product(self.features(x), matrix.T)  # chains stay the leading axis


class AbstractHiddenBitsModel(AbstractModel):
    """A model of rows of data with a layer of hidden bits.

    Attributes:
        weights: W, with the visible units first and the hidden units last.
        vbias, hbias: c and b.
    """

    weights: Any
    vbias: Any
    hbias: Any
    reads_rows: ClassVar[bool] = True
    counts_states: ClassVar[bool] = True
    row_dtype: ClassVar[Any] = jnp.float32  # of visible units on the device
    stuck_advice: ClassVar[str | None] = "start from the training data, `base=data`"

    @property
    def num_visible(self) -> int:
        """The number of visible units."""
        return self.weights.shape[0]

    @property
    def num_hidden(self) -> int:
        """The number of hidden units."""
        return self.weights.shape[-1]

    @abc.abstractmethod
    def checked_data(self, data: Any) -> np.ndarray:
        """Rows of data of this model's kind, refused otherwise."""

    def move(self) -> AbstractMove:
        return BlockGibbs()

    def named(self, x: State) -> dict[str, Array]:
        """The visible units, `v`: hidden fields follow from them."""
        return {"v": x.v}

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> HiddenBitsState:
        assert isinstance(path, AbstractHiddenBitsPath)
        return jax.vmap(path.state_of)(jnp.asarray(self.checked_data(rows), self.row_dtype))


class AbstractListedBitsModel(AbstractHiddenBitsModel):
    """A model whose log Z is exact where its hidden bits can be enumerated."""

    @abc.abstractmethod
    def log_visible_z(self, h: Float[np.ndarray, "pattern hidden"]) -> Float[np.ndarray, " pattern"]:
        """log Σ_v (or ∫ dv) f(v, h) without h·b, for patterns of the hidden bits."""

    def exact_log_z(self, max_hidden: int = 20) -> float:
        """The exact log Z, by enumeration of the hidden bits.

        Args:
            max_hidden: the largest number of hidden bits; more are refused, since time doubles with each.

        Returns:
            log Z.
        """
        if self.num_hidden > max_hidden:
            cure = "Estimate log Z by sampling, or raise max_hidden (each doubles time)."
            raise InputError(f"exact_log_z needs at most {max_hidden=} hidden bits, got {self.num_hidden}. {cure}")
        log_z = -np.inf
        for h in _pattern_tables(self.num_hidden):
            log_f = h @ self.hbias + self.log_visible_z(h)
            log_z = np.logaddexp(log_z, np.logaddexp.reduce(log_f))
        return float(log_z)

    def quick_log_z(self) -> float | None:
        if self.num_hidden > 20 or 2**self.num_hidden * self.vbias.size > _QUICK_TERMS:
            return None
        return self.exact_log_z()


def rung_fields(betas: HostPerRung, sums: SoftplusSums | None) -> dict[str, Any]:
    """The fields of a path that depend on its inverse temperatures."""
    fields = {"betas": device_array(betas), "sums": sums}
    if sums is None:
        return {**fields, "matrices": ()}
    zeros, ones = np.zeros_like(betas), np.ones_like(betas)
    columns = [(1 - betas, betas, sums.expand)]
    columns += [(-ones, ones, sums.expand_slopes), (zeros, zeros, sums.expand_curvatures)]
    return {**fields, "matrices": tuple(device_array(np.column_stack(parts)) for parts in columns)}


def _pattern_tables(num_bits: int) -> Iterator[Float[np.ndarray, "pattern bit"]]:
    """All patterns of bits, one table at a time. The low bits vary within a table, the high ones between tables."""
    num_low = min(num_bits, _PATTERNS_AT_ONCE.bit_length() - 1)
    low = bit_patterns(num_low).astype(np.float64)
    for high in bit_patterns(num_bits - num_low):
        yield np.hstack([low, np.broadcast_to(high, (len(low), len(high)))])
