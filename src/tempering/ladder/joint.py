"""The joint law q(x, k) over states and rungs."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from tempering._device_arrays import device_array, device_zeros
from tempering._errors import InputError
from tempering._types import HostPerRung, Key, PerRung, Rung, Scalar
from tempering.ladder.draw import Draw
from tempering.ladder.path import AbstractPath
from tempering.ladder.rung_weights import BOTTOM, END_MASS, TOP, rung_ends, uniform_log_prior


class Ladder(eqx.Module):
    """The joint law q(x, k) ∝ r_k f_k(x) / Ẑ_k over states and rungs (eq. 6 of the paper): what is sampled.

    ```python
    ladder = Ladder.create(path)                    # uniform rung weights, no guess of log Z yet
    better = ladder.with_log_z(log_z)               # the same rungs with an estimate of log Z_k
    ladder.log_rung_posterior(path.log_densities(x))  # log q(k | x)
    ```

    With `is_continuous`, β is any number in [0, 1] and the rungs are knots. log q(x, β) is linear between them, and r_k
    and q(k | x) are densities in β (Section 5, Appendix C). On a geometric path that is exact, because log f is linear
    in β and log Ẑ(β) may be any function.

    Attributes:
        path: the densities f_k.
        log_prior: log r_k, the rung weights.
        log_z_guess: log(Ẑ_k / Ẑ_0), so that entry 0 is exactly 0. A common factor of all Ẑ_k does not change q, and
            differences keep more digits in float32.
        ends: BOTTOM, TOP or 0: the rungs that count as an end of the ladder when crossings are counted.
        is_continuous: whether β is continuous.
        writes_rows: whether statistics write all rungs of a chain where one changes. With few chains on a GPU that is
            faster, since all of them are then written by one program.
    """

    path: AbstractPath
    log_prior: PerRung
    log_z_guess: PerRung
    ends: Int[Array, " rung"]
    is_continuous: bool = eqx.field(static=True, default=False)
    writes_rows: bool = eqx.field(static=True, default=False)

    @classmethod
    def create(
        cls, path: AbstractPath, log_prior: HostPerRung | None = None, log_z_guess: HostPerRung | None = None
    ) -> "Ladder":
        """A ladder over a path.

        Args:
            path: the densities f_k.
            log_prior: log r_k, normalised; by default uniform.
            log_z_guess: log Ẑ_k with any offset; by default all equal. Sampling is correct for every guess, but chains
                visit all rungs only if it is good: a warm-up finds one.
        """
        num_rungs = path.num_rungs
        prior = uniform_log_prior(num_rungs) if log_prior is None else _checked_prior(log_prior, num_rungs)
        guess = np.zeros(num_rungs) if log_z_guess is None else _checked_per_rung("log_z_guess", log_z_guess, num_rungs)
        relative = device_array(guess - guess[0])
        return cls(path, device_array(prior), relative, device_array(rung_ends(prior), np.int32))

    def with_log_z(self, log_z_guess: HostPerRung) -> "Ladder":
        """The same path and rung weights with another guess of log Z.

        Args:
            log_z_guess: log Ẑ_k on the host, with any offset.
        """
        guess = _checked_per_rung("log_z_guess", log_z_guess, self.path.num_rungs)
        return dataclasses.replace(self, log_z_guess=device_array(guess - guess[0]))

    def with_weights(self, log_prior: HostPerRung) -> "Ladder":
        """The same path and guess of log Z with other rung weights.

        Args:
            log_prior: log r_k on the host, normalised.
        """
        prior = _checked_prior(log_prior, self.path.num_rungs)
        ends = device_array(rung_ends(prior), np.int32)
        return dataclasses.replace(self, log_prior=device_array(prior), ends=ends)

    def with_guess(self, log_z_guess: PerRung) -> "Ladder":
        """The same as `with_log_z`, without checks, for use inside jit.

        Args:
            log_z_guess: log Ẑ_k on the device, with any offset.
        """
        return dataclasses.replace(self, log_z_guess=log_z_guess - log_z_guess[0])

    def with_betas(self, betas: HostPerRung, log_prior: HostPerRung | None = None) -> "Ladder":
        """The same path with its rungs at other places; the guess of log Z becomes 0.

        Args:
            betas: the new inverse temperatures.
            log_prior: their log r_k; if omitted, the number of rungs and their weights stay the same.
        """
        # The path is made from betas as the device has them, so that a resumed run makes the same one.
        rounded = np.asarray(betas).astype(self.path.betas.dtype).astype(np.float64)
        is_same = np.array_equal(rounded, np.asarray(self.path.betas, np.float64))
        path = self.path if is_same else self.path.with_betas(rounded)
        if log_prior is not None:
            return Ladder.create(path, log_prior)
        return dataclasses.replace(self, path=path, log_z_guess=device_zeros(self.log_z_guess.shape, np.float32))

    def continuous(self) -> "Ladder":
        """The same rungs as knots of a continuous β with a uniform density r(β)."""
        betas = np.asarray(self.path.betas, np.float64)
        ends = np.where(betas <= END_MASS, BOTTOM, np.where(betas >= 1 - END_MASS, TOP, 0)).astype(np.int32)
        none = jnp.zeros_like(self.log_prior)
        return dataclasses.replace(self, log_prior=none, ends=device_array(ends, np.int32), is_continuous=True)

    def log_joint(self, log_f: PerRung) -> PerRung:
        """log q(x, k) up to a constant. Where log f_k is NaN, f_k counts as 0, as where it is −inf.

        Args:
            log_f: log f_k(x) at every rung.
        """
        return jnp.where(jnp.isnan(log_f), -jnp.inf, log_f) + (self.log_prior - self.log_z_guess)

    def rung_posterior(self, log_f: PerRung) -> PerRung:
        """q(k | x), eq. 7.

        Args:
            log_f: log f_k(x) at every rung.

        Returns:
            One probability per rung. All are NaN if any log f is +inf, or if f is 0 at every rung.
        """
        if self.is_continuous:
            return jnp.exp(self.log_rung_posterior(log_f))
        return self._posterior_from(self._table(self.log_joint(log_f)))

    def posterior_of(self, draw: Draw) -> PerRung:
        """q(k | x) of a draw, as for `rung_posterior`.

        Args:
            draw: what a kernel returned.
        """
        return self.rung_posterior(draw.log_f) if draw.posterior is None else draw.posterior

    def log_target_posterior_of(self, draw: Draw) -> Scalar:
        """log q(K−1 | x) of a draw, which does not underflow; NaN as for `rung_posterior`.

        Args:
            draw: what a kernel returned.
        """
        if draw.posterior is None:
            return self.log_rung_posterior(draw.log_f)[-1]
        log_joint = self.log_joint(draw.log_f)
        return log_joint[-1] - log_joint[draw.rung] + jnp.log(draw.posterior[draw.rung])  # the rung has a share

    def added_at(self, sums: Shaped[Array, "rung ..."], rung: Rung, term: Shaped[Array, "..."]) -> Array:
        """Sums per rung with a term added at one of them.

        Args:
            sums: leading axis: rung.
            rung: where to add.
            term: what to add.
        """
        if not self.writes_rows:
            return sums.at[rung].add(term)
        is_there = (jnp.arange(self.path.num_rungs) == rung).reshape(-1, *[1] * (sums.ndim - 1))
        return sums + jnp.where(is_there, term, jnp.zeros_like(term)).astype(sums.dtype)

    def log_rung_posterior(self, log_f: PerRung) -> PerRung:
        """log q(k | x), which does not underflow; NaN as for `rung_posterior`.

        Args:
            log_f: log f_k(x) at every rung.
        """
        log_joint = self.log_joint(log_f)
        if self.is_continuous:
            return log_joint - jax.nn.logsumexp(self._log_masses(log_joint))
        total = jnp.sum(jnp.sum(self._table(log_joint), axis=0))
        return log_joint - (jnp.max(log_joint) + jnp.log(total))

    def sample_rung(self, key: Key, log_f: PerRung) -> Rung:
        """A draw of k from q(k | x).

        Args:
            key: a JAX random key.
            log_f: log f_k(x) at every rung.
        """
        return self._rung_from(key, self._table(self.log_joint(log_f)))

    def draw_rung(self, key: Key, log_f: PerRung) -> tuple[PerRung, Rung]:
        """q(k | x) at every rung, and a draw of k from it, as for `rung_posterior` and `sample_rung`.

        Args:
            key: a JAX random key.
            log_f: log f_k(x) at every rung.
        """
        table = self._table(self.log_joint(log_f))
        return self._posterior_from(table), self._rung_from(key, table)

    def _posterior_from(self, table: Float[Array, "row column"]) -> PerRung:
        return (table / jnp.sum(jnp.sum(table, axis=0))).ravel()[: self.path.num_rungs]

    def _rung_from(self, key: Key, table: Float[Array, "row column"]) -> Rung:
        # The rungs are laid out in a table; one uniform number picks a column, then a row. Column sums vectorise, so
        # this costs one exponential per rung, where Gumbel noise would cost a random number and two logarithms.
        until_column = jnp.cumsum(jnp.sum(table, axis=0))
        level = jax.random.uniform(key) * until_column[-1]
        column = _first_above(until_column, level)
        before = jnp.where(column > 0, until_column[column - 1], 0.0)
        row = _first_above(jnp.cumsum(table[:, column]), level - before)
        return jnp.minimum(row * table.shape[1] + column, self.path.num_rungs - 1).astype(jnp.int32)

    def sample_beta(self, key: Key, log_f: PerRung) -> Scalar:
        """A draw of a continuous β from q(β | x): first an interval between knots, then a place in it.

        Args:
            key: a JAX random key.
            log_f: log f_k(x) at every knot.
        """
        key_interval, key_place = jax.random.split(key)
        log_joint = self.log_joint(log_f)
        interval = jax.random.categorical(key_interval, self._log_masses(log_joint)).astype(jnp.int32)
        place = _draw_from_exponential(log_joint[interval + 1] - log_joint[interval], jax.random.uniform(key_place))
        low, high = self.path.betas[interval], self.path.betas[interval + 1]
        return jnp.clip(low + place * (high - low), low, high)

    def _log_masses(self, log_joint: PerRung) -> Float[Array, " interval"]:
        """log ∫ q(x, β) dβ between neighbouring knots, where log q is linear: h (e^b − e^a)/(b − a)."""
        drop = jnp.abs(jnp.diff(log_joint))
        highest = jnp.maximum(log_joint[1:], log_joint[:-1])
        safe = jnp.where(drop < 1e-3, 1.0, drop)
        shape = jnp.where(drop < 1e-3, 1 - drop / 2 + drop**2 / 6, -jnp.expm1(-safe) / safe)
        return highest + jnp.log(shape) + jnp.log(jnp.diff(self.path.betas))

    def _table(self, log_joint: PerRung) -> Float[Array, "row column"]:
        """q(x, k) with its largest entry scaled to 1, about √K by √K; one formula, so that XLA computes it once."""
        weights = jnp.exp(log_joint - jnp.max(log_joint))
        num_columns = _num_columns(self.path.num_rungs)
        return jnp.pad(weights, (0, -self.path.num_rungs % num_columns)).reshape(-1, num_columns)


def _draw_from_exponential(rise: Scalar, level: Scalar) -> Scalar:
    """A draw from the density ∝ exp(rise · u) on [0, 1], made from a uniform `level`.

    The distance from the higher end is computed first: it keeps more digits.
    """
    steep = jnp.maximum(jnp.abs(rise), 1e-3)
    from_high = -jnp.log(level + (1 - level) * jnp.exp(-steep)) / steep
    from_high = jnp.where(jnp.abs(rise) < 1e-3, 1 - level, from_high)
    return jnp.where(rise > 0, 1 - from_high, from_high)


def _first_above(cumulative: PerRung, level: Scalar) -> Rung:
    return jnp.minimum(jnp.sum(cumulative <= level), cumulative.shape[0] - 1)


def _num_columns(num_rungs: int) -> int:
    """About √K; a divisor of K where one is near, so that the table needs no padding."""
    root = int(np.ceil(np.sqrt(num_rungs)))
    return next((d for d in range(root, 2 * root) if num_rungs % d == 0), root)


def _checked_prior(log_prior: HostPerRung, num_rungs: int) -> HostPerRung:
    log_prior = _checked_per_rung("log_prior", log_prior, num_rungs)
    total = np.exp(log_prior).sum()
    if abs(total - 1) > 1e-4:
        raise InputError(
            f"`log_prior` must be normalised: expected sum(exp(log_prior)) == 1, got {total:.6g}. "
            "Pass `jax.nn.log_softmax(log_prior)`, or omit it for uniform rungs."
        )
    return log_prior


def _checked_per_rung(name: str, values: HostPerRung, num_rungs: int) -> HostPerRung:
    values = np.asarray(values, np.float64)
    if values.shape != (num_rungs,):
        raise InputError(f"`{name}` must hold one number per rung: expected shape ({num_rungs},), got {values.shape}.")
    if not np.all(np.isfinite(values)):
        seen = f"`{name}` must be finite: {np.sum(~np.isfinite(values))} of {num_rungs} numbers are not."
        raise InputError(f"{seen} Look for a log density that overflows, or whose integral is infinite.")
    return values
