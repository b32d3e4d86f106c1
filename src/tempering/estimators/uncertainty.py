"""Standard errors, intervals and the bias of a log ratio, from the scatter of independent chains (Section 2.5)."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.special import chdtri, ndtri, stdtr, stdtrit

from tempering._types import HostPerRung
from tempering.stats import BlockedStats, Tours, chain_groups, group_sums

MIN_UNITS = 16  # with fewer chains, each is cut into stretches so that a variance can be estimated
MAX_ERROR_RATIO = 2.0  # of the error by tours to that by chains; beyond it they disagree
_MIN_GROUPED = 20  # chains; groups of so many are small replicates of the run
_BY_CHANCE = 1e-4  # the rate at which the error by groups exceeds that by chains so much, if both are right


@dataclasses.dataclass(frozen=True)
class Uncertainty:
    """The error of log ĉ_k − log ĉ_0 at every rung (Section 2.5).

    Attributes:
        std_error: Its standard error by the scatter of units; infinite where it could not be estimated.
        bias: E[log Ẑ_k] − log Z_k to second order.
        skewness: The skewness of what the independent units contribute.
        dof: The number of independent units less 1.
        influences: What each unit contributes, to first order, so that their mean is the error; None where not given.
    """

    std_error: HostPerRung
    bias: HostPerRung
    skewness: HostPerRung
    dof: int
    influences: Float[np.ndarray, "unit rung"] | None = None

    @classmethod
    def unknown(cls, num_rungs: int) -> "Uncertainty":
        """The uncertainty of an estimate that no error can be given for.

        Args:
            num_rungs: The number of rungs.
        """
        return cls(np.full(num_rungs, np.inf), np.zeros(num_rungs), np.zeros(num_rungs), 0)

    def placed(self, where: np.ndarray, num_rungs: int) -> "Uncertainty":
        """The uncertainty on more rungs, unknown at those that are new.

        Args:
            where: The rungs that these are among all, by number or as a mask.
            num_rungs: The number of all rungs.
        """
        whole = Uncertainty.unknown(num_rungs)
        whole.std_error[where], whole.bias[where], whole.skewness[where] = self.std_error, self.bias, self.skewness
        return dataclasses.replace(whole, dof=self.dof)

    def __repr__(self) -> str:
        return f"Uncertainty(std_error={self.std_error[-1]:.2g} at the target, dof={self.dof})"


def interval_around(values, std_error, skewness, dof: int, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """The ends of a two-sided Student interval, which skewness makes longer on one side; infinite without an error.

    If a few units contribute much, the estimate is usually too low, and its error is then too small. With
    λ = skewness/√n, Hall's transformation g(T) = T + λT²/3 + λ²T³/27 + λ/6 of the Studentised error T is
    symmetric to second order (Hall 1992), so its inverse at the Student quantiles gives the ends. It would also make
    the other side shorter. That is left out: of heavy tails the skewness is known too badly.
    """
    values, std_error = np.asarray(values), np.asarray(std_error)
    if dof < 1:
        return np.full(values.shape, -np.inf), np.full(values.shape, np.inf)
    down, up = _ends(skewness, dof, level)
    is_known, finite = np.isfinite(std_error), np.where(np.isfinite(std_error), std_error, 0.0)
    return np.where(is_known, values - finite * down, -np.inf), np.where(is_known, values + finite * up, np.inf)


def widening_by_skewness(skewness: float, dof: int) -> float:
    """How many times as wide a 95 % interval is with skewness as without."""
    return float(np.mean(_ends(skewness, dof, 0.95)) / stdtrit(dof, 0.975)) if dof > 0 else 1.0


def _ends(skewness, dof: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """How many standard errors an interval reaches down and up."""
    quantile = stdtrit(dof, 0.5 + level / 2)
    per_root = np.asarray(skewness / np.sqrt(dof + 1))
    ends = _unskewed(quantile, per_root), -_unskewed(-quantile, per_root)
    down, up = (np.asarray(np.fmax(end, quantile)) for end in ends)  # the quantile where the skewness is NaN
    return down, up


def _unskewed(x: float, per_root: np.ndarray) -> np.ndarray:
    """The inverse of Hall's g; x itself where there is no skewness."""
    safe = np.where(np.abs(per_root) < 1e-9, 1.0, per_root)
    return np.where(safe == per_root, 3 / safe * (np.cbrt(1 + safe * (x - safe / 6)) - 1), x)


def as_normal(student: float, dof: int) -> float:
    """The normal variable that is exceeded as rarely as this one of Student's law: in its own standard errors.

    So a threshold in standard errors has the same rate of false alarms for few units as for many.
    """
    tail = max(float(stdtr(dof, -abs(student))), 1e-300)  # a smaller number has no normal quantile
    return float(-np.sign(student) * ndtri(tail))


def uncertainty_of_log_ratio(log_parts: Float[np.ndarray, "unit rung"]) -> Uncertainty:
    """Delta method for log ĉ_k − log ĉ_0, where ĉ is the mean of exp(log_parts) over independent units.

    bias = ½ (σ²_0/ĉ²_0 − σ²_k/ĉ²_k) and Var = σ²_0/ĉ²_0 + σ²_k/ĉ²_k − 2σ_{0k}/(ĉ_0 ĉ_k), eqs. 15 and 16, with σ the
    covariance of the mean over units. Both are far too small while the units remember their start.
    """
    num_units = len(log_parts)
    if num_units < 2:
        return Uncertainty.unknown(log_parts.shape[1])
    log_sum, relative = relative_parts(log_parts)
    uncertainty = uncertainty_of_mean(relative - relative[:, :1])  # the influence of each unit on log ĉ_k − log ĉ_0
    own_variance = ((relative - 1) ** 2).sum(axis=0) / (num_units * (num_units - 1))
    is_known = np.isfinite(log_sum) & np.isfinite(log_sum[0])  # false where no draw was finite
    std_error = np.where(is_known, uncertainty.std_error, np.inf)
    return dataclasses.replace(uncertainty, std_error=std_error, bias=(own_variance[0] - own_variance) / 2)


def uncertainty_of_mean(influence: Float[np.ndarray, "unit rung"], bias: HostPerRung | None = None) -> Uncertainty:
    """The uncertainty of an estimate whose error is, to first order, the mean of the units' contributions."""
    num_units, num_rungs = influence.shape
    bias = np.zeros(num_rungs) if bias is None else bias
    if num_units < 2:
        return Uncertainty(np.full(num_rungs, np.inf), bias, np.zeros(num_rungs), 0)
    centred = influence - influence.mean(axis=0)
    variance = (centred**2).sum(axis=0) / (num_units * (num_units - 1))
    second, third = (centred**2).mean(axis=0), (centred**3).mean(axis=0)
    skewness = np.divide(third, second**1.5, out=np.zeros_like(third), where=second > 0)
    return Uncertainty(np.sqrt(variance), bias, skewness, num_units - 1, influence)


def relative_parts(log_parts: Float[np.ndarray, "unit rung"]) -> tuple[HostPerRung, Float[np.ndarray, "unit rung"]]:
    """log of the sum over units, and each unit's part over the mean of all; 0 where all parts are 0."""
    log_sum = np.logaddexp.reduce(log_parts, axis=0)
    return log_sum, len(log_parts) * np.exp(log_parts - np.where(np.isfinite(log_sum), log_sum, 0.0))


def uncertainty_by_jackknife(whole: HostPerRung, left_out: Float[np.ndarray, "unit rung"]) -> Uncertainty:
    """The uncertainty of an estimate from its values `left_out`, each without one of the independent units."""
    num_units = len(left_out)
    is_known = np.isfinite(whole) & np.isfinite(left_out).all(axis=0) & (num_units > 1)
    left_out = np.where(is_known, left_out, 0.0)
    scatter = (left_out - left_out.mean(axis=0)) ** 2
    std_error = np.sqrt((num_units - 1) / num_units * scatter.sum(axis=0))
    bias = (num_units - 1) * (left_out.mean(axis=0) - np.where(is_known, whole, 0.0))
    std_error, bias = np.where(is_known, std_error, np.inf), np.where(is_known, bias, 0.0)
    return Uncertainty(std_error, bias, np.zeros_like(bias), num_units - 1)


def independent_parts(stats: BlockedStats) -> Float[np.ndarray, "unit rung"]:
    """log ĉ_k of each independent unit of a run; units of unequal length weigh by their draws."""
    return summed_by_unit(stats.log_sums, np.logaddexp) - np.log(summed_by_unit(stats.num_draws).mean())


def summed_by_unit(
    array: Shaped[np.ndarray, "chain block *rest"], add: np.ufunc = np.add
) -> Shaped[np.ndarray, "unit *rest"]:
    """Sums over each independent unit of a run: a chain, or a stretch of one where chains are few.

    `add` is `np.logaddexp` for sums that are kept as logarithms.
    """
    num_chains, num_blocks = array.shape[:2]
    stretches = num_stretches(num_chains, num_blocks)
    if stretches == 1:
        return add.reduce(array, axis=1)  # the same, twice as fast
    starts = np.arange(stretches) * num_blocks // stretches
    return add.reduceat(array, starts, axis=1).reshape(-1, *array.shape[2:])


def num_stretches(num_chains: int, most: int) -> int:
    """How many stretches each chain is cut into, so that there are `MIN_UNITS` units if possible."""
    return 1 if num_chains >= MIN_UNITS else min(-(-MIN_UNITS // num_chains), most)


@dataclasses.dataclass(frozen=True)
class Errors:
    """The parts of the error of log Z of the target; NaN where one could not be estimated.

    Attributes:
        chains: The error from the scatter of independent chains.
        groups: The error from the scatter of log Z over groups of chains, each taken as a run of its own.
        tours: The error from tours between exact draws of the base, which are independent of where chains began.
        drift: The drift that remains after the transient was cut.
        bias: The bias of the logarithm of a ratio (Section 2.5).
        num_groups: The number of groups of chains.
        skewing: The factor by which the standard error counts the skewness of chains: as much wider is the interval.
        families: The error from the scatter of families of chains, whose starts descend from one particle each; None
            where starts are independent.
    """

    chains: float
    groups: float
    tours: float
    drift: float
    bias: float
    num_groups: int = 0
    skewing: float = 1.0
    families: float | None = None

    def total(self, of_chains: HostPerRung, drift: HostPerRung, bias: HostPerRung) -> HostPerRung:
        """The standard error at every rung, all parts together; it is widened if it is disputed."""
        return self.skewing * np.sqrt((of_chains * self.widening) ** 2 + drift**2 + bias**2)

    @property
    def is_disputed(self) -> bool:
        """Whether groups or tours give a much larger error than chains do."""
        dof = max(self.num_groups - 1, 1)
        chance_ratio = float(np.sqrt(chdtri(dof, _BY_CHANCE) / dof))
        return max(self.groups_ratio / chance_ratio, self.tours_ratio / MAX_ERROR_RATIO) > 1

    @property
    def groups_ratio(self) -> float:
        """The error by groups over that by chains; 0 where unknown."""
        return _ratio(self.groups, self.chains)

    @property
    def tours_ratio(self) -> float:
        """The error by tours over that by chains; 0 where unknown."""
        return _ratio(self.tours, self.chains)

    @property
    def widening(self) -> float:
        """The factor by which the error by chains is too small if it is disputed, else 1."""
        return max(self.groups_ratio, self.tours_ratio, 1.0) if self.is_disputed else 1.0


def error_by_groups(stats: BlockedStats) -> tuple[float, int]:
    """The error of log Z of the target from the scatter of its estimates over groups of chains, and their number."""
    groups = _groups(stats.num_chains)
    if groups is None:
        return np.nan, 0
    sums = group_sums(np.logaddexp.reduce(stats.log_sums[:, :, [0, -1]], axis=1), groups, np.logaddexp)
    if not np.isfinite(sums).all():
        return np.nan, 0  # a group never saw an end of the ladder: STUCK reports that
    return float(np.std(sums[:, 1] - sums[:, 0], ddof=1) / np.sqrt(len(sums))), len(sums)


def scatter_of_groups(stats: BlockedStats, log_z_of: Callable[[BlockedStats], float]) -> tuple[float, int]:
    """The same for any estimate of log Z of the target from the statistics of a group."""
    groups = _groups(stats.num_chains)
    if groups is None:
        return np.nan, 0
    values = np.array([log_z_of(stats.of_chains(groups == group)) for group in range(groups[-1] + 1)])
    if not np.isfinite(values).all():
        return np.nan, 0
    return float(np.std(values, ddof=1) / np.sqrt(len(values))), len(values)


def _groups(num_chains: int) -> Int[np.ndarray, " chain"] | None:
    """The group of each chain; None where there are too few chains to compare groups of them."""
    if num_chains < 3 or MIN_UNITS <= num_chains < _MIN_GROUPED:
        return None
    return chain_groups(num_chains) if num_chains >= _MIN_GROUPED else np.arange(num_chains)


def error_by_tours(tours: Tours | None) -> float:
    """The error of log Z of the target from complete tours, √Σ (S_K/N_K − S_0/N_0)² over tours.

    With N = ΣS this is the error of complete tours alone. Unfinished ones hold draws too: with A the sum over all draws
    and N = √(A ΣS) it would be the error of all, were complete tours like the others. But the end of a run cuts long
    ones more often. The truth lies between; their geometric mean, N = (ΣS)^¾ A^¼, is right within 10 % for chains of
    two states, down to runs whose complete tours hold a tenth of the draws at the target. For the same reason the ratio
    of the sums is not used as an estimate.
    """
    if tours is None or tours.count.sum() < 2:
        return np.nan
    complete, pairs = tours.total.sum(axis=0), tours.products.sum(axis=0)
    if complete.min() <= 0:
        return np.nan
    of_all = (tours.head + tours.total + tours.tail).sum(axis=0)
    base, target = complete**0.75 * of_all**0.25
    variance = pairs[0] / base**2 - 2 * pairs[1] / (base * target) + pairs[2] / target**2
    return float(np.sqrt(max(variance, 0.0)))  # of sums in float32, which may round to a difference below 0


def _ratio(other: float, chains: float) -> float:
    return other / chains if np.isfinite(other) and 0 < chains < np.inf else 0.0
