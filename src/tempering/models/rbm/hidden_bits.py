"""Models of data with a layer of hidden bits that can be summed out: what other RBMs than the binary one share."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from tempering._errors import InputError
from tempering._softplus import SoftplusSums, fit_softplus_sums
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.kernels import AbstractGibbsPath, AbstractMove, BlockGibbs
from tempering.ladder import AbstractPath
from tempering.models.model import AbstractModel
from tempering.models.rbm.enumeration import bit_patterns

HIGHEST = jax.lax.Precision.HIGHEST  # a GPU would otherwise round the weights to ten bits
_PATTERNS_AT_ONCE = 1024
_QUICK_TERMS = 10**8  # (pattern, visible number) pairs: about two seconds
_NEGLIGIBLE = 17.0  # log1p(exp(−17)) is 4e-8
_WIDEST = 3000.0  # beyond that no basis of `_softplus` is large enough, and it would take a second to find that out


class HiddenBitsState(eqx.Module):
    """Visible units with their hidden field a, so that all rungs are known without a matrix product."""

    v: Num[Array, " visible"]
    field: Float[Array, " hidden"]


class AbstractHiddenBitsPath(AbstractGibbsPath):
    """f_β(v, h) = p_1(v)^(1 − β) (g(v) exp(h·a(v)))^β over hidden bits h, which are summed out:

    log f_β(v) = (1 − β) log p_1(v) + β log g(v) + Σ_j softplus(β a_j(v)).
    """

    betas: eqx.AbstractVar[PerRung]
    sums: eqx.AbstractVar[SoftplusSums | None]  # all rungs at once, see `_softplus`; None: the plain way

    def log_ends(self, v: Num[Array, " visible"]) -> tuple[Scalar, Scalar]:
        """log p_1(v), unnormalised, and log g(v)."""
        raise NotImplementedError

    def hidden_field(self, v: Num[Array, " visible"]) -> Float[Array, " hidden"]:
        """The field a(v)."""
        raise NotImplementedError

    def draw_visible(self, key: Key, beta: Scalar, h: Float[Array, " hidden"]) -> Num[Array, " visible"]:
        """v ~ p(v | h, β)."""
        raise NotImplementedError

    def state_of(self, v: Num[Array, " visible"]) -> HiddenBitsState:
        """Visible units with their hidden field."""
        return HiddenBitsState(v, self.hidden_field(v))

    def log_density(self, x: HiddenBitsState, rung: Rung) -> Scalar:
        """The formula above, at one β."""
        beta = self.betas[rung]
        at_base, at_target = self.log_ends(x.v)
        return (1 - beta) * at_base + beta * at_target + jnp.sum(jax.nn.softplus(beta * x.field))

    def log_densities(self, x: HiddenBitsState) -> PerRung:
        """All rungs from a few sums over the hidden units."""
        if self.sums is None:
            return super().log_densities(x)
        at_base, at_target, modes = self._parts(x)
        rest = jnp.dot(modes, self.sums.expand.T, precision=HIGHEST)
        return (1 - self.betas) * at_base + self.betas * at_target + rest

    def features(self, x: HiddenBitsState) -> Float[Array, " feature"]:
        """log p_1(v), log g(v) + Σ_j max(a_j, 0), and the modes of `_softplus`."""
        if self.sums is None:
            return super().features(x)
        at_base, at_target, modes = self._parts(x)
        return jnp.concatenate([jnp.stack([at_base, at_target]), modes])

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """1 − β, β, and what the modes become at each rung."""
        if self.sums is None:
            return super().feature_matrix()
        betas = np.asarray(self.betas, np.float64)
        return np.column_stack([1 - betas, betas, np.asarray(self.sums.expand, np.float64)])

    def gibbs_sweep(self, key: Key, rung: Rung, x: HiddenBitsState) -> HiddenBitsState:
        """h ~ p(h | v, β), then v ~ p(v | h, β): reversible in v, as any there and back between two blocks."""
        key_hidden, key_visible = jax.random.split(key)
        beta = self.betas[rung]
        is_on = jax.random.uniform(key_hidden, x.field.shape) < jax.nn.sigmoid(beta * x.field)
        return self.state_of(self.draw_visible(key_visible, beta, is_on.astype(jnp.float32)))

    def _parts(self, x: HiddenBitsState) -> tuple[Scalar, Scalar, Float[Array, " mode"]]:
        assert self.sums is not None
        at_base, at_target = self.log_ends(x.v)
        return at_base, at_target + jnp.sum(jnp.maximum(x.field, 0)), self.sums.modes(x.field)


class AbstractHiddenBitsModel(AbstractModel):
    """Data over which a layer of hidden bits stands; its log Z is exact where the hidden bits can be listed."""

    hbias: eqx.AbstractVar[Float[np.ndarray, " hidden"]]  # b

    @property
    def num_hidden(self) -> int:
        """J."""
        return self.hbias.shape[0]

    def log_visible_z(self, h: Float[np.ndarray, "pattern hidden"]) -> Float[np.ndarray, " pattern"]:
        """log Σ_v (or ∫ dv) f(v, h) without h·b, for patterns of the hidden bits."""
        raise NotImplementedError

    def num_visible_numbers(self) -> int:
        """How many numbers `log_visible_z` touches per pattern."""
        raise NotImplementedError

    def checked_data(self, data: Any) -> np.ndarray:
        """Rows that this model is about, or an error."""
        raise NotImplementedError

    def move(self) -> AbstractMove:
        """A sweep of block Gibbs."""
        return BlockGibbs()

    def exact_log_z(self, max_hidden: int = 20) -> float:
        """By listing the hidden bits; costs 2^hidden, so it is refused above `max_hidden`."""
        if self.num_hidden > max_hidden:
            raise InputError(
                f"exact_log_z needs at most max_hidden={max_hidden} hidden bits, got {self.num_hidden}. "
                "Estimate log Z by sampling, or raise max_hidden (each doubles time)."
            )
        log_z = -np.inf
        for h in _patterns(self.num_hidden):
            log_f = h @ self.hbias + self.log_visible_z(h)
            log_z = np.logaddexp(log_z, np.logaddexp.reduce(log_f))
        return float(log_z)

    def quick_log_z(self) -> float | None:
        """The same where it takes about two seconds at most."""
        if self.num_hidden > 20 or 2**self.num_hidden * self.num_visible_numbers() > _QUICK_TERMS:
            return None
        return self.exact_log_z()

    def states_of(self, path: AbstractPath, rows: np.ndarray) -> HiddenBitsState:
        """Rows of data with their hidden fields."""
        assert isinstance(path, AbstractHiddenBitsPath)
        rows = self.checked_data(rows)
        return jax.vmap(path.state_of)(jnp.asarray(rows, jnp.float32 if rows.dtype.kind == "f" else jnp.int32))


def sums_for_any_field(betas: HostPerRung) -> SoftplusSums | None:
    """Sums that hold for fields without a bound.

    Beyond 17/β, β being the smallest above 0, log1p(exp(−β|a|)) is 0 at every rung but the base, and there it is log 2
    for any a; a basis that reaches that far is right everywhere. None where none here does, as on very long ladders.
    """
    largest = _NEGLIGIBLE / betas[1]
    return fit_softplus_sums(betas, largest) if largest <= _WIDEST else None


def softplus(field: np.ndarray) -> np.ndarray:
    """log(1 + e^field) on the host."""
    return np.logaddexp(0.0, field)


def checked_parameters(model: str, shapes: dict[str, tuple[int, ...]], arrays: dict[str, Any]) -> list[np.ndarray]:
    """Arrays in float64, refused where a shape or a value cannot be right."""
    checked = []
    for name, array in arrays.items():
        array = np.asarray(array, np.float64)
        if array.shape != shapes[name]:
            raise InputError(
                f"{model}({name}=...) must have shape {shapes[name]} to fit its weights, got {array.shape}."
            )
        if not np.all(np.isfinite(array)):
            raise InputError(
                f"{model}({name}=...) must be finite, got {np.sum(~np.isfinite(array))} NaN or infinite values."
            )
        checked.append(array)
    return checked


def _patterns(num_bits: int) -> Iterator[Float[np.ndarray, "pattern bit"]]:
    """All patterns of bits, a table at a time: the low bits vary within it, the high ones from one to the next."""
    num_low = min(num_bits, _PATTERNS_AT_ONCE.bit_length() - 1)
    low = bit_patterns(num_low).astype(np.float64)
    for high in bit_patterns(num_bits - num_low):
        yield np.hstack([low, np.broadcast_to(high, (len(low), len(high)))])
