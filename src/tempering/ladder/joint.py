"""The joint law q(x, k) over states and rungs."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._errors import InputError
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.ladder.path import AbstractPath
from tempering.ladder.rung_weights import _END_MASS, BOTTOM, TOP, _ends, uniform_log_prior


class Ladder(eqx.Module):
    """The joint law q(x, k) ∝ r_k f_k(x) / Ẑ_k (eq. 6 of the paper): all there is to know of what is sampled.

    `log_z_guess` is log(Ẑ_k / Ẑ_0): q does not change when all Ẑ_k share a factor, and differences keep more
    digits in float32. Its entry 0 is therefore exactly 0.

    With `is_continuous` β is any number in [0, 1] and the rungs are knots: log q(x, β) is taken as linear between them,
    r_k and q(k | x) are densities in β (Section 5, Appendix C). On a geometric path that is exact, because log f is
    linear in β and log Ẑ(β) may be any function.
    """

    path: AbstractPath
    log_prior: PerRung  # log r_k
    log_z_guess: PerRung  # log Ẑ_k − log Ẑ_0
    ends: Int[Array, " rung"]  # BOTTOM, TOP or 0: which rungs count as an end of the ladder, see `_ends`
    is_continuous: bool = eqx.field(static=True, default=False)

    @classmethod
    def create(
        cls, path: AbstractPath, log_prior: HostPerRung | None = None, log_z_guess: HostPerRung | None = None
    ) -> "Ladder":
        """A ladder over `path`; uniform r_k and Ẑ_k = Ẑ_0 unless given. `log_z_guess` may have any offset."""
        num_rungs = path.num_rungs
        prior = uniform_log_prior(num_rungs) if log_prior is None else _checked_prior(log_prior, num_rungs)
        guess = np.zeros(num_rungs) if log_z_guess is None else _checked_guess(log_z_guess, num_rungs)
        relative = jnp.asarray(guess - guess[0], jnp.float32)
        return cls(path, jnp.asarray(prior, jnp.float32), relative, jnp.asarray(_ends(prior)))

    def with_log_z(self, log_z_guess: HostPerRung) -> "Ladder":
        """The same path and prior around another guess of log Z."""
        guess = _checked_guess(log_z_guess, self.path.num_rungs)
        return dataclasses.replace(self, log_z_guess=jnp.asarray(guess - guess[0], jnp.float32))

    def with_guess(self, log_z_guess: PerRung) -> "Ladder":
        """The same inside jit, unchecked."""
        return dataclasses.replace(self, log_z_guess=log_z_guess - log_z_guess[0])

    def with_betas(self, betas: HostPerRung, log_prior: HostPerRung | None = None) -> "Ladder":
        """Rungs elsewhere on the same path; what was guessed of log Z is forgotten. Without a prior, as many as before.

        The path is made from betas as the device has them, so that a run which is taken up again makes the same one.
        """
        rounded = np.asarray(betas).astype(self.path.betas.dtype).astype(np.float64)
        is_same = np.array_equal(rounded, np.asarray(self.path.betas, np.float64))
        path = self.path if is_same else self.path.with_betas(rounded)
        if log_prior is not None:
            return Ladder.create(path, log_prior)
        return dataclasses.replace(self, path=path, log_z_guess=jnp.zeros_like(self.log_z_guess))

    def continuous(self) -> "Ladder":
        """The same rungs as knots of a continuous β, with a density r(β) that is uniform."""
        betas = np.asarray(self.path.betas, np.float64)
        ends = np.where(betas <= _END_MASS, BOTTOM, np.where(betas >= 1 - _END_MASS, TOP, 0)).astype(np.int32)
        none = jnp.zeros_like(self.log_prior)
        return dataclasses.replace(self, log_prior=none, ends=jnp.asarray(ends), is_continuous=True)

    def log_joint(self, log_f: PerRung) -> PerRung:
        """log q(x, k) up to a constant, from log f_k(x)."""
        return log_f + (self.log_prior - self.log_z_guess)

    def rung_posterior(self, log_f: PerRung) -> PerRung:
        """q(k | x) of eq. 7; NaN at every rung where log f is NaN, +inf, or −inf at all rungs."""
        if self.is_continuous:
            return jnp.exp(self.log_rung_posterior(log_f))
        table = self._table(self.log_joint(log_f))
        return (table / jnp.sum(jnp.sum(table, axis=0))).ravel()[: self.path.num_rungs]

    def log_rung_posterior(self, log_f: PerRung) -> PerRung:
        """log q(k | x), which does not underflow."""
        log_joint = self.log_joint(log_f)
        if self.is_continuous:
            return log_joint - jax.nn.logsumexp(self._log_masses(log_joint))
        total = jnp.sum(jnp.sum(self._table(log_joint), axis=0))
        return log_joint - (jnp.max(log_joint) + jnp.log(total))

    def sample_rung(self, key: Key, log_f: PerRung) -> Rung:
        """A draw of k from q(k | x), by inverting the distribution function with one uniform number.

        The rungs are laid out in a table and first a column, then a row is drawn: column sums vectorise, so this
        costs one exponential per rung where Gumbel noise would cost a random number and two logarithms.
        """
        table = self._table(self.log_joint(log_f))
        until_column = jnp.cumsum(jnp.sum(table, axis=0))
        level = jax.random.uniform(key) * until_column[-1]
        column = _first_above(until_column, level)
        before = jnp.where(column > 0, until_column[column - 1], 0.0)
        row = _first_above(jnp.cumsum(table[:, column]), level - before)
        return jnp.minimum(row * table.shape[1] + column, self.path.num_rungs - 1).astype(jnp.int32)

    def sample_beta(self, key: Key, log_f: PerRung) -> Scalar:
        """A draw of a continuous β from q(β | x): a stretch between knots, then a place on it."""
        key_stretch, key_place = jax.random.split(key)
        log_joint = self.log_joint(log_f)
        stretch = jax.random.categorical(key_stretch, self._log_masses(log_joint)).astype(jnp.int32)
        place = _place_on_exponential(log_joint[stretch + 1] - log_joint[stretch], jax.random.uniform(key_place))
        low, high = self.path.betas[stretch], self.path.betas[stretch + 1]
        return jnp.clip(low + place * (high - low), low, high)

    def _log_masses(self, log_joint: PerRung) -> Float[Array, " stretch"]:
        """log ∫ q(x, β) dβ between neighbouring knots, log q being linear there: h (e^b − e^a)/(b − a)."""
        drop = jnp.abs(jnp.diff(log_joint))
        highest = jnp.maximum(log_joint[1:], log_joint[:-1])
        safe = jnp.where(drop < 1e-3, 1.0, drop)
        shape = jnp.where(drop < 1e-3, 1 - drop / 2 + drop**2 / 6, -jnp.expm1(-safe) / safe)
        return highest + jnp.log(shape) + jnp.log(jnp.diff(self.path.betas))

    def _table(self, log_joint: PerRung) -> Float[Array, "row column"]:
        """q(x, k) with its largest entry scaled to 1, about √K by √K; made in one way so that it is made once."""
        weights = jnp.exp(log_joint - jnp.max(log_joint))
        num_columns = _num_columns(self.path.num_rungs)
        return jnp.pad(weights, (0, -self.path.num_rungs % num_columns)).reshape(-1, num_columns)


def _place_on_exponential(rise: Scalar, level: Scalar) -> Scalar:
    """A draw from the density ∝ exp(rise · u) on [0, 1] by a uniform `level`; from its higher end, to keep digits."""
    steep = jnp.maximum(jnp.abs(rise), 1e-3)
    from_high = -jnp.log(level + (1 - level) * jnp.exp(-steep)) / steep
    from_high = jnp.where(jnp.abs(rise) < 1e-3, 1 - level, from_high)
    return jnp.where(rise > 0, 1 - from_high, from_high)


def _first_above(cumulative: PerRung, level: Scalar) -> Rung:
    return jnp.minimum(jnp.sum(cumulative <= level), cumulative.shape[0] - 1)


def _num_columns(num_rungs: int) -> int:
    """About √K; a divisor of K where one is near, so that the table needs no padding."""
    root = int(np.ceil(np.sqrt(num_rungs)))
    divisors = [d for d in range(root, 2 * root) if num_rungs % d == 0]
    return divisors[0] if divisors else root


def _checked_prior(log_prior: HostPerRung, num_rungs: int) -> HostPerRung:
    log_prior = np.asarray(log_prior, np.float64)
    if log_prior.shape != (num_rungs,) or not np.all(np.isfinite(log_prior)):
        raise InputError(
            f"`log_prior` must hold one finite number per rung: expected shape ({num_rungs},), got {log_prior.shape}."
        )
    total = np.exp(log_prior).sum()
    if abs(total - 1) > 1e-4:
        raise InputError(
            f"`log_prior` must be normalised: expected sum(exp(log_prior)) == 1, got {total:.6g}. "
            "Pass `jax.nn.log_softmax(log_prior)`, or omit it for uniform rungs."
        )
    return log_prior


def _checked_guess(log_z_guess: HostPerRung, num_rungs: int) -> HostPerRung:
    guess = np.asarray(log_z_guess, np.float64)
    if guess.shape != (num_rungs,) or not np.all(np.isfinite(guess)):
        raise InputError(
            f"`log_z_guess` must hold one finite number per rung: expected shape ({num_rungs},), got {guess.shape}."
        )
    return guess
