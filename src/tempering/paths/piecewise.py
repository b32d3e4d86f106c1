"""Paths through given densities, at equal distances in β, with geometric mixtures of neighbours between them."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._errors import InputError
from tempering._types import HostPerRung, Key, LogF, PerRung, Rung, Scalar, State
from tempering.bases import AbstractBase
from tempering.ladder import AbstractPath, checked_betas
from tempering.paths.linear import check_proper, mix, power

IndexedLogF: TypeAlias = Callable[[Any, Any], Scalar]  # log f_m(x) as a function of x and m = 1 … M
LogFs: TypeAlias = tuple[LogF, ...] | IndexedLogF

_ROUNDING = 2.0**-22  # of β, in float32: a rung this near to a knot stands on it
_NOTHING = -1e30  # the log of a density that vanishes, as a finite feature; e to the least share of it is still 0


class AbstractPiecewisePath(AbstractPath):
    """A path on which log f is linear in β between knots at 0, 1/M, …, 1, and bends at them."""

    base: eqx.AbstractVar[AbstractBase]

    def log_z_base(self) -> float:
        """The base's own log Z."""
        return self.base.log_z()

    def sample_base(self, key: Key) -> State:
        """An exact draw of the base."""
        return self.base.sample(key)

    def slopes(self, x: State) -> PerRung:
        """(log f_{k+1} − log f_{k−1}) / (β_{k+1} − β_{k−1}), one-sided at the two ends of the ladder.

        Where the path bends there is no derivative, and one side of it would be the wrong one for half of the
        integral. These are the slopes of the straight lines from rung to rung, weighted by their lengths where two
        of them meet. The trapezoidal rule is then Σ_k ½ (E_k + E_{k+1})[log f_{k+1} − log f_k], right to second
        order whatever the path does between rungs. Rules of higher order assume that it does not bend much.
        """
        rises, steps = (jnp.pad(jnp.diff(a), 1) for a in (self.log_densities(x), self.betas))
        return (rises[:-1] + rises[1:]) / (steps[:-1] + steps[1:])

    def curvatures(self, x: State) -> PerRung:
        """0: the lines are straight."""
        return jnp.zeros_like(self.betas)


class SequencePath(AbstractPiecewisePath):
    """Through any densities: f_0 is the base, f_m the m-th that was given, and f_m^(1 − s) f_{m+1}^s between them.

    ```python
    SequencePath.create([log_f1, log_f2, log_f3], base)          # rungs at the base and at each of the three
    SequencePath.create(lambda x, m: …, base, num_densities=50)  # m = 1 … 50
    ```

    f_m stands at β = m/M. A move evaluates all functions of a list, but only two values of a function of (x, m).
    """

    log_fs: LogFs
    base: AbstractBase
    betas: PerRung
    num_densities: int = eqx.field(static=True)  # M

    @classmethod
    def create(
        cls,
        log_fs: Sequence[LogF] | IndexedLogF,
        base: AbstractBase,
        betas: HostPerRung | None = None,
        *,
        num_densities: int | None = None,
    ) -> "SequencePath":
        """A path at the given β, or with a rung at the base and at every density."""
        check_proper(base)
        functions, number = checked_sequence(log_fs, num_densities)
        betas = np.linspace(0.0, 1.0, number + 1) if betas is None else checked_betas(betas)
        return cls(log_fs=functions, base=base, betas=jnp.asarray(betas, jnp.float32), num_densities=number)

    def log_density(self, x: State, rung: Rung) -> Scalar:
        """(1 − s) log f_m + s log f_{m+1}, where β = (m + s)/M."""
        left, share = _place(self.betas[rung], self.num_densities)
        if isinstance(self.log_fs, tuple):
            known = self.log_densities_at_knots(x)
            return mix(share, known[left], known[left + 1])
        low = jnp.where(left == 0, self.base.log_density(x), self.log_fs(x, jnp.maximum(left, 1)))
        return mix(share, low, self.log_fs(x, left + 1))

    def log_densities(self, x: State) -> PerRung:
        """All rungs from one evaluation of each density."""
        left, share = _place(self.betas, self.num_densities)
        known = self.log_densities_at_knots(x)
        return mix(share, known[left], known[left + 1])

    def log_densities_at_knots(self, x: State) -> Float[Array, " knot"]:
        """log f_0 … log f_M."""
        return jnp.concatenate([self.base.log_density(x)[None], all_log_fs(self.log_fs, self.num_densities, x)])

    def features(self, x: State) -> Float[Array, " feature"]:
        """log f at the knots; a density that vanishes counts as a very small one, so that 0 times it is 0."""
        return jnp.maximum(self.log_densities_at_knots(x), _NOTHING)

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        """Hat functions: 1 − s and s for the two knots around each rung."""
        left, share = (np.asarray(a) for a in _place(self.betas, self.num_densities))
        matrix, rungs = np.zeros((self.num_rungs, self.num_densities + 1)), np.arange(self.num_rungs)
        matrix[rungs, left], matrix[rungs, left + 1] = 1 - share, share
        return matrix

    def with_betas(self, betas: HostPerRung) -> "SequencePath":
        """The same densities, seen at other places between them."""
        return SequencePath.create(self.log_fs, self.base, betas, num_densities=self.num_densities)


class SubsampledPath(AbstractPiecewisePath):
    """f_β(x) = prior(x) · Π_{i ≤ βN} likelihood_i(x): data come in one by one (van de Meent, Paige and Wood 2014).

    Of the datum that β falls on, its likelihood is raised to the fraction that is in:

        log f_β = log prior + Σ_i clip(βN − i, 0, 1) ℓ_i,    i = 0 … N − 1 in the given order.
    """

    log_likelihoods: Callable[[Any], Float[Array, " datum"]]
    base: AbstractBase  # the prior
    order: Int[Array, " datum"]  # which datum comes first, second, …
    betas: PerRung

    @classmethod
    def create(
        cls,
        log_likelihoods: Callable[[Any], Float[Array, " datum"]],
        prior: AbstractBase,
        order: Int[np.ndarray, " datum"],
        betas: HostPerRung,
    ) -> "SubsampledPath":
        """A path at the given shares of the data, which rise from 0 to 1."""
        check_proper(prior)
        order = np.asarray(order)
        if order.size == 0 or not np.array_equal(np.sort(order), np.arange(len(order))):
            raise InputError("`order` must name every datum once, as numpy.random.default_rng(0).permutation(N) does.")
        arrays = {"order": jnp.asarray(order, jnp.int32), "betas": jnp.asarray(checked_betas(betas), jnp.float32)}
        return cls(log_likelihoods=log_likelihoods, base=prior, **arrays)

    def log_density(self, x: State, rung: Rung) -> Scalar:
        """The formula above, at one β."""
        left, share = _place(self.betas[rung], self.order.size)
        weights = jnp.clip(left - jnp.arange(self.order.size) + share, 0.0, 1.0)
        return self.base.log_density(x) + jnp.sum(power(weights, self.log_likelihoods(x)[self.order]))

    def log_densities(self, x: State) -> PerRung:
        """All rungs from one cumulative sum."""
        return self.base.log_density(x) + self._log_likelihoods_so_far(x)

    def _log_likelihoods_so_far(self, x: State) -> PerRung:
        left, share = _place(self.betas, self.order.size)
        each = self.log_likelihoods(x)[self.order]
        before = jnp.concatenate([jnp.zeros_like(each[:1]), jnp.cumsum(each)])
        return before[left] + power(share, each[left])

    def features(self, x: State) -> Float[Array, " feature"]:
        """The log-likelihood of the data so far at every rung, without the prior, which all share."""
        return jnp.maximum(self._log_likelihoods_so_far(x), _NOTHING)

    def with_betas(self, betas: HostPerRung) -> "SubsampledPath":
        """The same data in the same order, other shares of them."""
        return SubsampledPath.create(self.log_likelihoods, self.base, np.asarray(self.order), betas)


def checked_sequence(log_fs: Any, num_densities: Any) -> tuple[Any, int]:
    """Functions as a path keeps them, and how many densities they are."""
    if isinstance(log_fs, list | tuple):
        wrong = [m for m, log_f in enumerate(log_fs) if not callable(log_f)]
        if not log_fs or wrong:
            came = f"a {type(log_fs[wrong[0]]).__name__} at place {wrong[0]}" if wrong else "none"
            raise InputError(f"`log_fs` must be functions of one state, one or more; got {came}.")
        if num_densities not in (None, len(log_fs)):
            raise InputError(f"`num_densities` is {num_densities}, but `log_fs` has {len(log_fs)}. Leave it out.")
        return tuple(log_fs), len(log_fs)
    if not callable(log_fs):
        raise InputError(f"`log_fs` must be a list of functions of x, or one of (x, m); got a {type(log_fs).__name__}.")
    is_count = isinstance(num_densities, int | np.integer) and not isinstance(num_densities, bool)
    if num_densities is None or not is_count or num_densities < 1:
        raise InputError(
            "One function of (x, m) also needs `num_densities`, a whole number, 1 or more: m goes from 1 to it; "
            f"got {num_densities!r}."
        )
    return log_fs, int(num_densities)


def all_log_fs(log_fs: LogFs, num_densities: int, x: State) -> Float[Array, " density"]:
    """log f_1 … log f_M of one x."""
    if isinstance(log_fs, tuple):
        return jnp.stack([log_f(x) for log_f in log_fs])
    return jax.vmap(log_fs, in_axes=(None, 0))(x, jnp.arange(1, num_densities + 1))


def _place(betas: Float[Array, "*rung"], num_steps: int) -> tuple[Int[Array, "*rung"], Float[Array, "*rung"]]:
    """The knot at or before each β, though never the last, and the share of the way from it to the next.

    Rungs that were meant to stand on a knot do, though M · float32(m/M) is not m: the least share of a neighbour that
    vanishes would make the density vanish.
    """
    position = betas * num_steps
    nearest = jnp.round(position)
    position = jnp.where(jnp.abs(position - nearest) <= _ROUNDING * num_steps, nearest, position)
    left = jnp.clip(jnp.floor(position), 0, num_steps - 1)
    return left.astype(jnp.int32), position - left
