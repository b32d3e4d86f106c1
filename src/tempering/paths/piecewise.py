"""Paths through given densities, at equal distances in β, with geometric mixtures of neighbours in between."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._errors import InputError
from tempering._logspace import finite_zeros, power
from tempering._precision import InFullPrecision
from tempering._types import HostPerRung, LogF, PerRung, Rung, Scalar, State
from tempering.bases import AbstractBase
from tempering.paths.linear import AbstractBasedPath, checked_base, float32_betas, mix

IndexedLogF: TypeAlias = Callable[[Any, Any], Scalar]  # log f_m(x) as a function of x and m = 1 … M
LogFs: TypeAlias = tuple[LogF, ...] | IndexedLogF
LogLikelihoods: TypeAlias = Callable[[Any], Float[Array, " datum"]]  # of each datum, as a function of a state

_ROUNDING = 2.0**-22  # of β, in float32: a rung this close to a knot is at the knot


class AbstractPiecewisePath(AbstractBasedPath):
    """A path on which log f is piecewise linear in β, with knots at 0, 1/M, …, 1."""

    def slopes(self, x: State) -> PerRung:
        """(log f_{k+1} − log f_{k−1}) / (β_{k+1} − β_{k−1}), one-sided at the two ends of the ladder.

        At a knot there is no derivative, and a one-sided derivative would be wrong for half of the integral. These
        are the slopes of the straight lines from rung to rung, weighted by their lengths where two of them meet. The
        trapezoidal rule is then Σ_k ½ (E_k + E_{k+1})[log f_{k+1} − log f_k], which is of second order whatever the
        path does between rungs. Rules of higher order assume a smooth path.

        Args:
            x: one state.

        Returns:
            One slope per rung.
        """
        rises, steps = (jnp.pad(jnp.diff(a), 1) for a in (self.log_densities(x), self.betas))
        return (rises[:-1] + rises[1:]) / (steps[:-1] + steps[1:])

    def curvatures(self, x: State) -> PerRung:
        return jnp.zeros_like(self.betas)


class SequencePath(AbstractPiecewisePath):
    """A path through any densities: f_0 is the base, f_m the m-th given density, and f_m^(1 − s) f_{m+1}^s in between.

    ```python
    SequencePath.create([log_f1, log_f2, log_f3], base)          # rungs at the base and at each of the three
    SequencePath.create(lambda x, m: …, base, num_densities=50)  # m = 1 … 50
    ```

    f_m is at β = m/M. A move evaluates all functions of a list, but a function of (x, m) only twice.

    Attributes:
        log_fs: functions of x, or one function of (x, m), m = 1 … M.
        base: the distribution at rung 0.
        betas: where the rungs are on the path, from 0 to 1.
        num_densities: M.
    """

    log_fs: LogFs
    base: AbstractBase
    betas: PerRung
    num_densities: int = eqx.field(static=True)

    @classmethod
    def create(
        cls,
        log_fs: Sequence[LogF] | IndexedLogF,
        base: AbstractBase,
        betas: HostPerRung | None = None,
        *,
        num_densities: int | None = None,
    ) -> "SequencePath":
        """Check the densities and make the path.

        Args:
            log_fs: log densities as functions of x, or one function of (x, m), m = 1 … M.
            base: the distribution at rung 0.
            betas: numbers that rise from 0 to 1. By default a rung at the base and one at every density.
            num_densities: M, for a function of (x, m).
        """
        functions, number = checked_sequence(log_fs, num_densities)
        is_list = isinstance(functions, tuple)
        functions = tuple(map(InFullPrecision, functions)) if is_list else InFullPrecision(functions)
        betas = np.linspace(0.0, 1.0, number + 1) if betas is None else betas
        return cls(log_fs=functions, base=checked_base(base), betas=float32_betas(betas), num_densities=number)

    def log_density(self, x: State, rung: Rung) -> Scalar:
        left, share = _place(self.betas[rung], self.num_densities)
        if isinstance(self.log_fs, tuple):
            known = self.log_densities_at_knots(x)
            return mix(share, known[left], known[left + 1])
        low = jnp.where(left == 0, self.base.log_density(x), self.log_fs(x, jnp.maximum(left, 1)))
        return mix(share, low, self.log_fs(x, left + 1))

    def log_densities(self, x: State) -> PerRung:
        left, share = _place(self.betas, self.num_densities)
        known = self.log_densities_at_knots(x)
        return mix(share, known[left], known[left + 1])

    def log_densities_at_knots(self, x: State) -> Float[Array, " knot"]:
        """log f_0(x) … log f_M(x), the base first."""
        return jnp.concatenate([self.base.log_density(x)[None], all_log_fs(self.log_fs, self.num_densities, x)])

    def features(self, x: State) -> Float[Array, " feature"]:
        return finite_zeros(self.log_densities_at_knots(x))  # so that 0 times it is 0

    def feature_matrix(self) -> Float[np.ndarray, "rung feature"]:
        left, share = (np.asarray(a) for a in _place(self.betas, self.num_densities))
        matrix, rungs = np.zeros((self.num_rungs, self.num_densities + 1)), np.arange(self.num_rungs)
        matrix[rungs, left], matrix[rungs, left + 1] = 1 - share, share
        return matrix


class SubsampledPath(AbstractPiecewisePath):
    """A path along which data are added one by one (van de Meent, Paige and Wood 2014).

    f_β is the prior times the likelihood of the first βN data. The likelihood of the last of them is raised to the
    fraction of it that is included:

        log f_β = log prior + Σ_i clip(βN − i, 0, 1) ℓ_i,    i = 0 … N − 1 in the given order.

    Attributes:
        log_likelihoods: the log likelihood of each datum, as a function of one state.
        base: the prior.
        order: the number of the datum that is added first, second, ….
        betas: shares of the data, from 0 to 1.
    """

    log_likelihoods: LogLikelihoods
    base: AbstractBase
    order: Int[Array, " datum"]
    betas: PerRung

    @classmethod
    def create(
        cls, log_likelihoods: LogLikelihoods, prior: AbstractBase, order: Int[np.ndarray, " datum"], betas: HostPerRung
    ) -> "SubsampledPath":
        """Check the order and make the path.

        Args:
            log_likelihoods: the log likelihood of each datum (datum,), as a function of one state.
            prior: the distribution at rung 0.
            order: a permutation of 0 … N − 1.
            betas: shares of the data that rise from 0 to 1.
        """
        order = np.asarray(order)
        if order.size == 0 or not np.array_equal(np.sort(order), np.arange(len(order))):
            raise InputError("`order` must name every datum once, as numpy.random.default_rng(0).permutation(N) does.")
        base, numbers = checked_base(prior), jnp.asarray(order, jnp.int32)
        each = InFullPrecision(log_likelihoods)
        return cls(log_likelihoods=each, base=base, order=numbers, betas=float32_betas(betas))

    def log_density(self, x: State, rung: Rung) -> Scalar:
        left, share = _place(self.betas[rung], self.order.size)
        weights = jnp.clip(left - jnp.arange(self.order.size) + share, 0.0, 1.0)
        return self.base.log_density(x) + jnp.sum(power(weights, self.log_likelihoods(x)[self.order]))

    def log_densities(self, x: State) -> PerRung:
        return self.base.log_density(x) + self._log_likelihoods_so_far(x)

    def _log_likelihoods_so_far(self, x: State) -> PerRung:
        left, share = _place(self.betas, self.order.size)
        each = self.log_likelihoods(x)[self.order]
        before = jnp.concatenate([jnp.zeros_like(each[:1]), jnp.cumsum(each)])
        return before[left] + power(share, each[left])

    def features(self, x: State) -> Float[Array, " feature"]:
        return finite_zeros(self._log_likelihoods_so_far(x))  # without the prior, which all rungs share


def checked_sequence(log_fs: Any, num_densities: Any) -> tuple[Any, int]:
    """Functions as a path keeps them, and the number M of densities."""
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
        need = "also needs `num_densities`, a whole number, 1 or more: m goes from 1 to it"
        raise InputError(f"One function of (x, m) {need}; got {num_densities!r}.")
    return log_fs, int(num_densities)


def all_log_fs(log_fs: LogFs, num_densities: int, x: State) -> Float[Array, " density"]:
    """log f_1(x) … log f_M(x)."""
    if isinstance(log_fs, tuple):
        return jnp.stack([log_f(x) for log_f in log_fs])
    return jax.vmap(log_fs, in_axes=(None, 0))(x, jnp.arange(1, num_densities + 1))


def _place(betas: Float[Array, "*rung"], num_steps: int) -> tuple[Int[Array, "*rung"], Float[Array, "*rung"]]:
    """The knot at or before each β, never the last one, and the share of the way from it to the next knot.

    M · float32(m/M) is not always m, so positions close to a knot are rounded to it: the smallest share of a
    neighbouring density that vanishes would make the density vanish.
    """
    position = betas * num_steps
    nearest = jnp.round(position)
    position = jnp.where(jnp.abs(position - nearest) <= _ROUNDING * num_steps, nearest, position)
    left = jnp.clip(jnp.floor(position), 0, num_steps - 1)
    return left.astype(jnp.int32), position - left
