"""log Z from several runs with different Ẑ, such as the stages of a warm-up (Appendix A)."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from tempering._errors import InputError
from tempering._logspace import log_sum_exp, rounding_of
from tempering._types import HostPerRung
from tempering.estimators.equilibration import drift_between_halves
from tempering.estimators.inputs import nonfinite_draws
from tempering.estimators.log_z import LogZ
from tempering.estimators.uncertainty import Uncertainty, summed_by_unit, uncertainty_of_mean
from tempering.findings import FALSE_ALARM, relaxing, unconverged, uneven, unreached
from tempering.stats import BlockedStats, TemperingStats
from tempering.verdicts import Finding, Verdict

_MIN_SHARED = 1.0  # draws in common; with fewer, two sets of runs are not connected
_TOLERANCE = 1e-12  # of the gradient at a rung, relative to the posterior mass there
_MAX_ITERATIONS = 200
_ROUNDING = 1e-13  # in the likelihood per draw
_FAR = 50.0  # nats; from further away Newton's step does not help, and its exponential overflows
_SHORTER = 0.5 ** np.arange(6)  # of Newton's step


def mixed(runs: Sequence[TemperingStats | BlockedStats], *, log_z_base: float = 0.0) -> LogZ:
    """log Z_k from several runs with different Ẑ; with one run it is RTS, with more each counts where its Ẑ was good.

    It maximises the likelihood of Appendix A, which is concave in log Z. Run t has N_t draws, occupancy ĉ^t, prior r^t
    and guess Ẑ^t:

        L[Z] = Σ_t N_t Σ_k ĉ^t_k log Z_k − Σ_t N_t log Σ_k r^t_k Z_k / Ẑ^t_k.

    ```python
    answer = mixed([first.stats, second.stats], log_z_base=path.log_z_base())
    ```

    Args:
        runs: The statistics of each run, over the same inverse temperatures.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung; −inf where no run had any posterior mass.

    Caveats: All runs count as equilibrated. An early run whose chains remember their start drifts, or pulls log Z away
    from the others, which is reported if it exceeds the noise. Leave such a run out.
    """
    given = [run.on_host() for run in runs]
    _check_same_betas(given)
    used = [run for run in given if np.isfinite(run.log_sums).any()]  # without a finite draw a run has no information
    reached = np.asarray(np.any([np.isfinite(run.log_sums).any(axis=(0, 1)) for run in given], axis=0))
    findings = [nonfinite_draws(*given), _unreached(reached)]
    if not reached[0]:
        return LogZ.unknown("mixed", len(reached), findings)
    likelihood = _Likelihood.from_runs(used, reached)
    log_z = _maximum(likelihood)
    shares = likelihood.shares_at(log_z)
    scores = _Scores.from_runs(used, shares, reached)
    occupancy = _placed(np.exp(shares.log_total - likelihood.log_prior), reached, elsewhere=1.0)
    findings += [
        _unconverged(likelihood, shares), _no_overlap(shares, used),
        uneven(occupancy, "add a longer run with a better guess of log Z", " in all runs together"),
        _disagreement(scores, rounding_of(log_z_base + log_z[-1] - log_z[0])), _relaxing(used),
    ]  # fmt: skip
    values = _placed(log_z - log_z[0], reached, elsewhere=-np.inf)  # without posterior mass the maximum is at Z = 0
    return LogZ.from_uncertainty("mixed", log_z_base + values, scores.spread().placed(reached, len(reached)), findings)


@dataclasses.dataclass(frozen=True)
class _Likelihood:
    """L[Z] per draw, over the rungs that were reached."""

    log_law: Float[np.ndarray, "run rung"]  # log r^t_k − log Ẑ^t_k, up to a constant per run
    weights: Float[np.ndarray, " run"]  # N_t / N
    log_prior: HostPerRung  # log Σ_t N_t r^t_k / N
    log_counts: HostPerRung  # log Σ_t N_t ĉ^t_k / N
    start: HostPerRung  # log Z to begin from

    @classmethod
    def from_runs(cls, runs: Sequence[BlockedStats], reached: np.ndarray) -> "_Likelihood":
        """N_t is the sum of posteriors, which were added in float32 and differ from integers in the seventh digit."""
        log_sums = np.array([log_sum_exp(run.log_sums, axis=(0, 1)) for run in runs])[:, reached]
        log_draws = log_sum_exp(log_sums, axis=1)
        weights = np.exp(log_draws - log_sum_exp(log_draws))
        log_priors = np.array([run.log_prior for run in runs])[:, reached]
        log_guesses = np.array([run.log_z_guess for run in runs])[:, reached]
        log_counts = log_sum_exp(log_sums, axis=0) - log_sum_exp(log_draws)
        log_prior = np.log(weights @ np.exp(log_priors))
        return cls(log_priors - log_guesses, weights, log_prior, log_counts, weights @ log_guesses)

    def shares_at(self, log_z: HostPerRung) -> "_Shares":
        """The occupancy that each run should have if this were log Z."""
        log_joint = self.log_law + log_z
        log_shares = log_joint - log_sum_exp(log_joint, axis=1, keepdims=True)
        return _Shares(log_shares, self.weights, log_sum_exp(np.log(self.weights)[:, None] + log_shares, axis=0))

    def rise(self, log_z: HostPerRung, step: HostPerRung) -> float:
        """The increase of L by a step, without the cancellation of a difference of two L."""
        log_growth = log_sum_exp(self.shares_at(log_z).log_shares + step, axis=1)
        return float(np.exp(self.log_counts) @ step - self.weights @ log_growth)


@dataclasses.dataclass(frozen=True)
class _Shares:
    """s^t_k = r^t_k Z_k/Ẑ^t_k, normalised over rungs: the occupancy that log Z predicts for each run.

    Minus the second derivative of L is diag(S) − Σ_t w_t s^t s^tᵀ with S_k = Σ_t w_t s^t_k. Divided by S it is 1 minus
    the matrix of a walk from a rung to a run and on to a rung, so T × T equations solve it.
    """

    log_shares: Float[np.ndarray, "run rung"]  # log s^t_k
    weights: Float[np.ndarray, " run"]  # w_t = N_t / N
    log_total: HostPerRung  # log S_k

    @property
    def run_given_rung(self) -> Float[np.ndarray, "run rung"]:
        """P(t | k) = w_t s^t_k / S_k."""
        return self.weights[:, None] * np.exp(self.log_shares - self.log_total)

    def overlap(self) -> float:
        """The spectral gap of the walk from run to run: 0 if two sets of runs share no rung, at most 1."""
        if min(self.log_shares.shape) == 1:  # one run, or one rung
            return 1.0
        symmetric = np.sqrt(self.run_given_rung * np.exp(self.log_shares))  # times its transpose: A in symmetric form
        return float(1 - np.linalg.svd(symmetric, compute_uv=False)[1] ** 2)

    def solved(self, scores: Float[np.ndarray, "*unit rung"]) -> Float[np.ndarray, "*unit rung"]:
        """x of (diag(S) − Σ_t w_t s^t s^tᵀ) x = S · scores, up to a constant: at a cost of K T² + T³.

        x_k = scores_k + Σ_t P(t | k) y_t with y_t = Σ_k s^t_k x_k, hence y_t = Σ_k s^t_k scores_k + Σ_u A_tu y_u with
        A_tu = Σ_k s^t_k P(u | k). A is stochastic with stationary distribution w, so 1 − A + 1 wᵀ is regular.
        """
        shares, owners = np.exp(self.log_shares), self.run_given_rung
        system = np.eye(len(shares)) - shares @ owners.T + self.weights
        by_run = np.linalg.lstsq(system, shares @ np.atleast_2d(scores).T, rcond=None)[0]
        return scores + (by_run.T @ owners).reshape(scores.shape)


def _maximum(likelihood: _Likelihood) -> HostPerRung:
    """log Z where L is largest.

    A step of Z_k ← Z_k Σ_t N_t ĉ^t_k / Σ_t N_t s^t_k never lowers L, because log lies below its tangents; with one run
    it ends at the maximum. Newton's step, shortened if necessary, is taken instead wherever it raises L as much.
    """
    log_z = likelihood.start
    for _ in range(_MAX_ITERATIONS):
        shares = likelihood.shares_at(log_z)
        step = likelihood.log_counts - shares.log_total
        if np.abs(step).max() <= _TOLERANCE:
            break
        newton = shares.solved(np.expm1(np.minimum(step, _FAR)))
        enough = likelihood.rise(log_z, step) - _ROUNDING
        shortened = (newton * factor for factor in _SHORTER)
        step = next((shorter for shorter in shortened if likelihood.rise(log_z, shorter) >= enough), step)
        log_z = log_z + step - step[0]
    return log_z


@dataclasses.dataclass(frozen=True)
class _Scores:
    """The contribution of each independent unit to the gradient of L in each run, relative to S_k."""

    by_run: Float[np.ndarray, "run unit rung"]
    shares: _Shares

    @classmethod
    def from_runs(cls, runs: Sequence[BlockedStats], shares: _Shares, reached: np.ndarray) -> "_Scores":
        """A chain that continues from run to run is one unit.

        If runs have different numbers of chains, or so few that they were cut into stretches, each run has its own.
        """
        by_unit = [summed_by_unit(run.log_sums, np.logaddexp)[:, reached] for run in runs]
        log_scale = log_sum_exp(np.concatenate(by_unit)) + shares.log_total
        scores = []
        for log_sums, log_shares in zip(by_unit, shares.log_shares, strict=True):
            log_draws = log_sum_exp(log_sums, axis=1, keepdims=True)
            scores.append(np.exp(log_sums - log_scale) - np.exp(log_draws + log_shares - log_scale))
        numbers = {run.num_chains for run in runs} | {len(log_sums) for log_sums in by_unit}
        return cls(np.array(scores) if len(numbers) == 1 else _side_by_side(scores), shares)

    @property
    def num_units(self) -> int:
        return self.by_run.shape[1]

    def spread(self) -> Uncertainty:
        """The sandwich estimator, contributions times the inverse of the curvature; eqs. 15 and 16 for one run.

        The bias is −½ I⁻¹ Σ_t w_t Σ_ij κ^t_kij V_ij, with κ^t the third cumulants of the shares and V the covariance.
        """
        # The contribution of each unit to log Z_k − log Z_0; their mean is the error to first order.
        influence = self.num_units * _from_rung_0(self.shares.solved(self.by_run.sum(axis=0)))
        if self.num_units < 2:
            return uncertainty_of_mean(influence)
        third = np.zeros(influence.shape[1])
        for share, owner in zip(np.exp(self.shares.log_shares), self.shares.run_given_rung, strict=True):
            squares = ((influence - influence @ share[:, None]) ** 2).sum(axis=0)
            third += owner * (squares - share @ squares)
        scale = self.num_units * (self.num_units - 1)
        return uncertainty_of_mean(influence, _from_rung_0(self.shares.solved(-third / (2 * scale))))

    def pulls(self) -> tuple[Float[np.ndarray, " run"], Float[np.ndarray, " run"]]:
        """How far each run pulls log Z of the target away from the answer, and its standard error."""
        moved = self.shares.solved(self.by_run.sum(axis=0))
        triples = zip(self.by_run, np.exp(self.shares.log_shares), self.shares.run_given_rung, strict=True)
        # A unit also moves the answer, and with it the occupancy that the run should have.
        scores = [of_run - owner * (moved - moved @ share[:, None]) for of_run, share, owner in triples]
        left = [_from_rung_0(self.shares.solved(of_run))[:, -1:] for of_run in scores]
        std_errors = [uncertainty_of_mean(self.num_units * of_run).std_error[0] for of_run in left]
        return np.array([of_run.sum() for of_run in left]), np.array(std_errors)


def _side_by_side(scores: list[np.ndarray]) -> Float[np.ndarray, "run unit rung"]:
    """The units of all runs one after the other; each adds to its own run only."""
    runs = np.arange(len(scores))
    owners = np.repeat(runs, [len(of_run) for of_run in scores])
    return np.where((owners == runs[:, None])[..., None], np.concatenate(scores), 0.0)


def _from_rung_0(log_z: Float[np.ndarray, "*unit rung"]) -> Float[np.ndarray, "*unit rung"]:
    return log_z - log_z[..., :1]


def _placed(values: Float[np.ndarray, " reached"], reached: np.ndarray, elsewhere: float) -> HostPerRung:
    """The values of the reached rungs, and a constant at all others."""
    everywhere = np.full(len(reached), elsewhere)
    everywhere[reached] = values
    return everywhere


def _check_same_betas(runs: list[BlockedStats]) -> None:
    if not runs:
        raise InputError("`mixed` needs the statistics of at least one run, got none.")
    for number, run in enumerate(runs):
        if not np.array_equal(run.betas, runs[0].betas):
            raise InputError(
                f"`mixed` needs runs over the same inverse temperatures: those of run {number} are not those of run 0. "
                "Runs over different ladders share no Z_k; estimate from each."
            )


def _unreached(reached: np.ndarray) -> Finding | None:
    cure = "add a run with a better guess of log Z, or more rungs where densities do not overlap"
    return unreached(np.flatnonzero(~reached), len(reached), "had no posterior mass in any run", cure)


def _unconverged(likelihood: _Likelihood, shares: _Shares) -> Finding | None:
    gradient = np.abs(likelihood.log_counts - shares.log_total).max()
    if gradient <= _TOLERANCE:
        return None
    what = f"after {_MAX_ITERATIONS} iterations the relative gradient of the likelihood"
    return unconverged(what, gradient, _TOLERANCE, "leave out the runs whose guesses of log Z are the poorest")


def _no_overlap(shares: _Shares, runs: list[BlockedStats]) -> Finding | None:
    """With less than one draw in common, the rungs of two sets of runs are not connected."""
    overlap, num_draws = shares.overlap(), sum(int(run.num_draws.sum()) for run in runs)
    if overlap * num_draws >= _MIN_SHARED:
        return None
    seen = f"some runs have only {overlap:.1e} of their rungs in common with the others"
    return Finding(Verdict.NO_OVERLAP, seen, "add a run with a guess of log Z between theirs, or leave the poorest out")


def _relaxing(runs: list[BlockedStats]) -> Finding | None:
    drifts = np.array([drift_between_halves(run) for run in runs])
    worst = int(np.abs(drifts).argmax())
    cure = "leave that run out if it is an early one, or run more sweeps"
    return relaxing(drifts[worst], cure, f" of run {worst} of {len(runs)}")


def _disagreement(scores: _Scores, rounding: float) -> Finding | None:
    """Runs of the same truth pull by no more than their noise: a Student test for each, Bonferroni over runs.

    Where the base is the target there is no noise, and a pull below `rounding` means nothing.
    """
    num_runs = len(scores.by_run)
    if num_runs < 2 or scores.num_units < 2:
        return None
    pulls, std_errors = scores.pulls()
    counts = (std_errors > 0) & (np.abs(pulls) > rounding)
    off = np.abs(np.divide(pulls, std_errors, out=np.zeros(num_runs), where=counts))
    worst = int(off.argmax())
    if off[worst] <= stdtrit(scores.num_units - 1, 1 - FALSE_ALARM / (2 * num_runs)):
        return None
    seen = f"run {worst} of {num_runs} pulls log Z by {pulls[worst]:+.2g}, {off[worst]:.1f} of its standard errors"
    cure = "leave out runs whose chains had not yet forgotten their start, usually the first ones"
    return Finding(Verdict.DISAGREES, seen, cure)
