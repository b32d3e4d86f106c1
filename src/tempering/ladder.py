"""What is sampled: a path of densities, and the ladder that turns it into one joint law over (x, rung)."""

import dataclasses
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from tempering._errors import InputError
from tempering._types import HostPerRung, Key, PerRung, Rung, Rungs, Scalar, State

BOTTOM, TOP = 1, 2  # which end of the ladder a rung belongs to
_END_MASS = 0.05


class AbstractPath(eqx.Module):
    """K unnormalised densities f_0 … f_{K-1} on one state space; rung 0 is the base.

    A path is a pytree and travels as an argument: new weights of the same shapes never recompile anything.
    """

    betas: eqx.AbstractVar[PerRung]  # the path's coordinate, 0 at the base and 1 at the target

    @property
    def num_rungs(self) -> int:
        """K."""
        return self.betas.shape[0]

    @property
    def num_dims(self) -> int:
        """Numbers in a state."""
        one = eqx.filter_eval_shape(self.sample_base, jax.random.key(0))
        return sum(leaf.size for leaf in jax.tree.leaves(one))

    def log_z_base(self) -> float:
        """log Z_0, exact; or 0 where the base is unnormalised and the answer is the ratio Z_{K-1} / Z_0."""
        raise NotImplementedError

    def sample_base(self, key: Key) -> State:
        """An exact draw of x at rung 0."""
        raise NotImplementedError

    def log_density(self, x: State, rung: Rung) -> Scalar:
        """log f_k(x) at one rung."""
        raise NotImplementedError

    def log_densities(self, x: State) -> PerRung:
        """log f_k(x) at every rung; override where a model has a faster way than one rung at a time."""
        return jax.vmap(self.log_density, in_axes=(None, 0))(x, jnp.arange(self.num_rungs))

    def slopes(self, x: State) -> PerRung:
        """d log f / dβ at every rung, as thermodynamic integration needs it; here by differentiating `log_density`."""
        return _derivative(lambda betas: self._log_density_at(x, betas))(self.betas)

    def curvatures(self, x: State) -> PerRung:
        """d² log f / dβ² at every rung; 0 on a geometric path."""
        return _derivative(_derivative(lambda betas: self._log_density_at(x, betas)))(self.betas)

    def features(self, x: State) -> Float[Array, " feature"]:
        """A few numbers from which log f follows at every rung: `feature_matrix` @ features, up to a function of x.

        What is kept of a draw that must be kept: one number on a geometric path, here one per rung.
        """
        return self.log_densities(x)

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """What turns features into log f_k(x), up to a function of x alone."""
        return np.eye(self.num_rungs)

    def _log_density_at(self, x: State, betas: PerRung) -> PerRung:
        """log f at other inverse temperatures, one per rung."""
        moved = eqx.tree_at(lambda path: path.betas, self, betas)
        return jax.vmap(moved.log_density, in_axes=(None, 0))(x, jnp.arange(self.num_rungs))

    def at(self, betas: HostPerRung) -> "AbstractPath":
        """The same path seen at other inverse temperatures."""
        raise NotImplementedError


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

    def at(self, betas: HostPerRung, log_prior: HostPerRung | None = None) -> "Ladder":
        """Rungs elsewhere on the same path; what was guessed of log Z is forgotten. Without a prior, as many as before.

        The path is made from betas as the device has them, so that a run which is taken up again makes the same one.
        """
        rounded = np.asarray(betas).astype(self.path.betas.dtype).astype(np.float64)
        is_same = np.array_equal(rounded, np.asarray(self.path.betas, np.float64))
        path = self.path if is_same else self.path.at(rounded)
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


class MoveInfo(eqx.Module):
    """What a move has to say of itself. Nothing of it is ever read back by a later step."""

    accept_prob: Float[Array, "*chain"]
    scale: Float[Array, "*chain"]  # of the proposal: a step size, a width, a number of flips; 1 where there is none
    is_divergent: Bool[Array, "*chain"]  # the proposal was so bad that its energy error says the integrator failed

    @classmethod
    def accepted(cls) -> "MoveInfo":
        """Of a move that is always accepted, such as a Gibbs sweep."""
        return cls(jnp.ones(()), jnp.ones(()), jnp.zeros((), bool))


class Draw(eqx.Module):
    """One step of a chain: x was drawn at rung `origin`, then `rung` was drawn given x.

    The only thing that kernels and statistics share.
    """

    x: State
    origin: Rungs
    rung: Rungs
    log_f: Float[Array, "*chain rung"]  # log f_k(x)
    info: MoveInfo | None = None  # how x was moved, where that is known


def uniform_betas(num_rungs: int) -> HostPerRung:
    """0, 1/(K−1), …, 1."""
    _check_num_rungs(num_rungs)
    return np.linspace(0.0, 1.0, num_rungs)


def geometric_betas(num_rungs: int, smallest: float = 0.01) -> HostPerRung:
    """0, then a geometric sequence from `smallest` to 1: dense near the base."""
    _check_num_rungs(num_rungs)
    if not 0 < smallest < 1:
        raise InputError(f"geometric_betas(smallest=...) must lie between 0 and 1, got {smallest}.")
    return np.concatenate([[0.0], np.geomspace(smallest, 1.0, num_rungs - 1)])


def power_betas(num_rungs: int, power: float = 4.0) -> HostPerRung:
    """(k/(K−1))^power: dense near the base, as prior → posterior paths need it (Calderhead and Girolami 2009)."""
    _check_num_rungs(num_rungs)
    if not power > 0:
        raise InputError(f"power_betas(power=...) must be positive, got {power}.")
    return np.linspace(0.0, 1.0, num_rungs) ** power


def respaced_betas(
    fine_betas: Float[np.ndarray, " place"], lengths: Float[np.ndarray, " step"], num_rungs: int, share: float = 0.9
) -> HostPerRung:
    """Betas between which `lengths`, known from each of `fine_betas` to the next, add up to equal steps.

    A `share` of the spacing follows the lengths, the rest the old spacing: a length that was underestimated must not
    leave a gap.
    """
    own = np.clip(np.nan_to_num(lengths), 0.0, None)
    even = np.full(len(own), 1 / len(own))
    density = even if own.sum() == 0 else share * own / own.sum() + (1 - share) * even
    until = np.concatenate([[0.0], np.cumsum(density)])
    betas = np.interp(np.linspace(0, until[-1], num_rungs), until, fine_betas)
    betas[0], betas[-1] = 0.0, 1.0
    return betas


def checked_betas(betas: ArrayLike) -> HostPerRung:
    """Betas as given by a person: refused unless they rise strictly from 0 to 1."""
    betas = np.asarray(betas, np.float64)
    _check_num_rungs(betas.size)
    if betas.ndim != 1 or betas[0] != 0 or betas[-1] != 1 or not np.all(np.diff(betas) > 0):
        raise InputError("`betas` must rise strictly from exactly 0 to exactly 1, e.g. numpy.linspace(0, 1, 100).")
    return betas


def uniform_log_prior(num_rungs: int) -> HostPerRung:
    """r_k = 1/K, the paper's choice."""
    return np.full(num_rungs, -np.log(num_rungs))


def ends_log_prior(num_rungs: int, share: float = 0.1) -> HostPerRung:
    """A `share` of r on the first twentieth of the rungs and another on the last, even within and between them.

    log Z is a ratio of how often chains are at the two ends, so that draws there say most. Larger shares have less
    noise still, but chains then forget their start more slowly.
    """
    if not 0 < share < 0.5:
        raise InputError(f"ends_log_prior(share=...) must lie between 0 and 0.5, got {share}.")
    num_outer = -(-num_rungs // 20)  # rounded up: a rung far heavier than its neighbour is slow to leave
    num_inner = num_rungs - 2 * num_outer
    if num_inner <= 0 or share * num_rungs <= num_outer:  # a short ladder's ends have as much already
        return uniform_log_prior(num_rungs)
    outer, inner = np.full(num_outer, share / num_outer), np.full(num_inner, (1 - 2 * share) / num_inner)
    return np.log(np.concatenate([outer, inner, outer]))


def exponential_log_prior(betas: HostPerRung, rate: float) -> HostPerRung:
    """r_k ∝ exp(rate · β_k): more time near the target, as in the paper's training runs."""
    log_prior = rate * np.asarray(betas, np.float64)
    return log_prior - np.logaddexp.reduce(log_prior)


def _ends(log_prior: HostPerRung) -> Int[np.ndarray, " rung"]:
    """The first and the last rungs that hold `_END_MASS` of the prior: round trips then do not depend on K."""
    below = np.cumsum(np.exp(log_prior))
    above = np.cumsum(np.exp(log_prior)[::-1])[::-1]
    ends = np.where(below <= _END_MASS + 1e-9, BOTTOM, np.where(above <= _END_MASS + 1e-9, TOP, 0))
    ends[0], ends[-1] = BOTTOM, TOP
    return ends.astype(np.int32)


def _derivative(of_betas: Callable[[PerRung], PerRung]) -> Callable[[PerRung], PerRung]:
    """Of a function whose entry k depends on β_k alone."""
    return lambda betas: jax.jvp(of_betas, (betas,), (jnp.ones_like(betas),))[1]


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


def _check_num_rungs(num_rungs: int) -> None:
    if num_rungs < 2:
        raise InputError(f"A ladder needs at least 2 rungs, the base and the target; got {num_rungs}.")


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
