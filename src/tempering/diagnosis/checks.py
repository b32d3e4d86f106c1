"""The checks of a tempered run: from its statistics to findings, and from findings to a verdict."""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Float

from tempering._types import HostPerRung
from tempering.diagnosis.divergence import MAX_BIAS as MAX_BIAS
from tempering.diagnosis.divergence import MIN_DIVERGENT as MIN_DIVERGENT
from tempering.diagnosis.divergence import MIN_RISE as MIN_RISE
from tempering.diagnosis.divergence import divergent
from tempering.diagnosis.knots import Knot, RungChain, rung_chain
from tempering.diagnosis.rung_flow import merge_rungs
from tempering.diagnosis.tails import MAX_SKEWNESS as MAX_SKEWNESS
from tempering.diagnosis.tails import MAX_TAIL as MAX_TAIL
from tempering.diagnosis.tails import MIN_RARE_EVENTS as MIN_RARE_EVENTS
from tempering.diagnosis.tails import heavy_contributions
from tempering.diagnosis.time_reversal import MAX_ODDS as MAX_ODDS
from tempering.diagnosis.time_reversal import captured
from tempering.diagnosis.witnesses import MAX_MISSED as MAX_MISSED
from tempering.estimators import Annealed, LogZ, equilibrated, equilibrated_rts, uncertainty
from tempering.estimators.equilibration import drift_between_halves
from tempering.estimators.inputs import nonfinite_draws
from tempering.estimators.tempered import log_occupancy
from tempering.findings import MAX_DRIFT as MAX_DRIFT
from tempering.findings import MIN_OCCUPANCY as MIN_OCCUPANCY
from tempering.findings import relaxing, twice_as_many, uneven, unvisited, whole_rounded_up
from tempering.stats import BlockedStats, MoveCounts, Recording
from tempering.verdicts import Finding, Verdict, gravest, without_none

MIN_ROUND_TRIPS = 1.0  # per chain; with fewer, a chain still remembers the rung where it began
MIN_TOTAL_ROUND_TRIPS = 10.0  # over all chains; with fewer, their scatter says little about the error
MAX_DISAGREEMENT = 4.0  # standard errors between the run and its annealing pass
MIN_ACCEPTANCE = 0.05  # of the moves at any rung
_FEW_MOVES = 100  # a rung with fewer is not judged by its moves
_UNKNOWN = 10.0  # times as many sweeps, where nothing says how many would do
_MARGIN = 1.0  # standard deviations of a count of round trips, on the sweeps that STUCK asks for


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """All findings about a run, with the numbers behind them.

    Attributes:
        findings: What was found, each verdict at most once.
        round_trips_per_chain: How often a chain went through the ladder and back, on average.
        drift: The change of log Z from the first half of the run to the second, in standard errors.
        rung_chain: What the transitions between rungs say; only where the chains are stuck.
    """

    findings: tuple[Finding, ...]
    round_trips_per_chain: float
    drift: float
    rung_chain: RungChain | None = None

    @property
    def verdict(self) -> Verdict:
        """The gravest finding, or good."""
        return gravest(self.findings)

    def found(self, verdict: Verdict) -> bool:
        """Whether a verdict is among the findings.

        Args:
            verdict: The verdict.
        """
        return any(finding.verdict is verdict for finding in self.findings)

    def with_findings(self, findings: Iterable[Finding]) -> "Diagnosis":
        """The same diagnosis with more findings, each verdict once.

        Args:
            findings: What others found; a finding of this diagnosis replaces one with the same verdict.
        """
        known = {finding.verdict: finding for finding in (*findings, *self.findings)}
        return dataclasses.replace(self, findings=tuple(known.values()))

    def with_advice(self, advice: Callable[[Verdict], str | None]) -> "Diagnosis":
        """The same diagnosis with other cures, such as a model's own.

        Args:
            advice: What to do about a verdict, or None to keep the general cure.
        """
        findings = tuple(finding.with_cure(advice(finding.verdict)) for finding in self.findings)
        return dataclasses.replace(self, findings=findings)

    def __repr__(self) -> str:
        labels = ", ".join(finding.verdict.label for finding in self.findings) or Verdict.GOOD.label
        return f"{labels}; {self.round_trips_per_chain:.3g} round trips per chain, drift {self.drift:+.1f}"


def diagnose(
    recording: Recording, annealed: Annealed | None = None, *, log_z_base: float = 0.0, answer: LogZ | None = None
) -> Diagnosis:
    """Check a tempered run: whether its estimate can be trusted, and if not, why.

    ```python
    diagnosis = tp.diagnosis.diagnose(result.recording, result.annealed)
    diagnosis.verdict, diagnosis.findings
    ```

    Args:
        recording: What the run kept.
        annealed: The estimate of the annealing pass before it, as an independent check.
        log_z_base: log Z of rung 0, which `annealed` counts from.
        answer: `equilibrated_rts(recording, log_z_base=log_z_base)` where it is known already.

    Returns:
        All findings; none if the run is good.

    Caveats: A mode that no chain ever found leaves no trace in any statistic.
    """
    stats = recording.stats
    answer = equilibrated_rts(recording, log_z_base=log_z_base) if answer is None else answer
    num_sweeps, trips = stats.num_sweeps, round_trips(stats)
    drift = drift_between_halves(equilibrated(stats))
    needed = _sweeps_for_round_trips(trips, num_sweeps, needs_each=not stats.has_whole_tours)
    stuck = None if needed is None else _stuck(trips, needed)
    rungs = None if stuck is None else _rung_chain(recording)
    knot = None if rungs is None or needed is None else _knot(rungs.knots, needed)
    found = without_none(
        nonfinite_draws(stats), *(_with_sweeps(finding, stats) for finding in answer.findings),
        _unreached(stats), stuck, knot,
        uneven(occupancy(stats), "use a longer warm-up, which gives a better guess of log Z"),
        None if annealed is None else _disagrees(answer, annealed, num_sweeps),
        relaxing(drift, twice_as_many(num_sweeps)),
        _captured(recording),
        None if recording.moves is None else _frozen(recording.moves),
        None
        if recording.moves is None
        else divergent(recording.moves, stats.log_rung_mass, answer.std_error, float(trips.sum())),
        None if recording.moves is None else heavy_contributions(answer, num_sweeps, recording.states),
    )  # fmt: skip
    return Diagnosis(found, float(trips.mean()), drift, rungs)


def _rung_chain(recording: Recording) -> RungChain | None:
    stats, counts = recording.stats, recording.transition_counts.sum(axis=0)
    return rung_chain(*merge_rungs(counts, stats.betas, stats.log_rung_mass)) if counts.sum() > 0 else None


def round_trips(stats: BlockedStats) -> Float[np.ndarray, " chain"]:
    """How often each chain went from one end of the ladder to the other and back.

    Args:
        stats: The statistics of a run.

    Returns:
        Half the number of crossings of each chain.
    """
    return stats.travel.num_crossings / 2


def missing_length(trips: Float[np.ndarray, " chain"]) -> float:
    """How many times as long a run must be for enough round trips, with a margin.

    Trips are taken to grow with the length. In fact the first ones take longer, since a chain must reach an end of the
    ladder before they count.

    Args:
        trips: The round trips of each chain.

    Returns:
        The factor; 10 if there was no round trip at all.
    """
    each, total = float(trips.mean()), float(trips.sum())
    if total == 0:
        return 10.0
    margin = 1 + _MARGIN / np.sqrt(total)  # counts have a relative error of at most 1/√total or so
    return float(margin * max(MIN_ROUND_TRIPS / each, MIN_TOTAL_ROUND_TRIPS / total))


def occupancy(stats: BlockedStats) -> HostPerRung:
    """ĉ_k / r_k, the mean posterior of each rung over its prior probability: 1 where Ẑ_k is right.

    Args:
        stats: The statistics of a run.

    Returns:
        A number for each rung.
    """
    return np.exp(log_occupancy(stats) - stats.log_prior)


def transition_matrix(recording: Recording) -> Float[np.ndarray, "rung rung"]:
    """The probabilities of going from rung to rung, as counted.

    Args:
        recording: What the run kept.

    Returns:
        A matrix whose rows add up to 1; rows of rungs that were never left are 0.
    """
    counts = recording.transition_counts.sum(axis=0).astype(np.float64)
    totals = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)


def open_tours(num_open: int | None, num_chains: int) -> Finding | None:
    """The finding for a run of whole tours whose last tours were not walked to their end.

    Args:
        num_open: Chains that did not come back to the base within the bound; None where none was walked on.
        num_chains: The number of chains.

    Returns:
        The finding; None if all tours are whole.
    """
    if num_open is None:
        seen = "the chains began at the base, and the run ended in the middle of their tours"
        return Finding(Verdict.RELAXING, seen, "let it run to its end")
    if num_open == 0:
        return None
    seen = f"{num_open} of {num_chains} chains did not come back to the base long after the end of the run"
    return Finding(Verdict.STUCK, seen, "run more sweeps, or use fewer chains")


def unequilibrated() -> Finding:
    """The finding for a warm-up that ended before it met its own stopping rule.

    Returns:
        The finding.
    """
    seen = "the warm-up ran out of sweeps before it met its own rule for even rungs"
    return Finding(Verdict.UNEQUILIBRATED, seen, "leave `warmup` out, or make it longer")


def _unreached(stats: BlockedStats) -> Finding | None:
    num_sweeps = whole_rounded_up(_UNKNOWN * stats.num_sweeps)
    more = f"more sweeps, such as `num_sweeps={num_sweeps}`"
    cure = f'use `warmup="annealed"`, {more}, or more rungs where neighbouring densities do not overlap'
    return unvisited(stats.visits.sum(axis=(0, 1)), stats.log_rung_mass, "were never visited", cure)


def _sweeps_for_round_trips(trips: Float[np.ndarray, " chain"], num_sweeps: int, needs_each: bool) -> int | None:
    """How many sweeps should give enough round trips; None if there are enough.

    In whole tours no chain remembers its start, so that only the number of all round trips counts.
    """
    each, total = float(trips.mean()), float(trips.sum())
    if (each >= MIN_ROUND_TRIPS or not needs_each) and total >= MIN_TOTAL_ROUND_TRIPS:
        return None
    return whole_rounded_up(missing_length(trips) * num_sweeps)


def _stuck(trips: Float[np.ndarray, " chain"], num_needed: int) -> Finding:
    each, total = float(trips.mean()), float(trips.sum())
    how_many = "ten times as many sweeps," if total == 0 else "more sweeps, about"
    needed = f"at least {MIN_ROUND_TRIPS:g} and {MIN_TOTAL_ROUND_TRIPS:g} are needed"
    seen = f"{each:.2g} round trips per chain, {total:.3g} in all; {needed}"
    return Finding(Verdict.STUCK, seen, f"run {how_many} `num_sweeps={num_needed}`")


def _with_sweeps(finding: Finding, stats: BlockedStats) -> Finding:
    """A finding of the estimator, with the sweeps that give a single chain of one block enough parts for an error."""
    if finding.verdict is not Verdict.NO_ERROR or stats.num_chains * stats.num_blocks > 1:
        return finding
    num_sweeps = whole_rounded_up(uncertainty.MIN_UNITS * stats.block_sweeps)
    return dataclasses.replace(finding, cure=f"{finding.cure}, or `num_sweeps={num_sweeps}`")


def _knot(knots: tuple[Knot, ...], num_needed: int) -> Finding | None:
    """Where stuck chains are held up. Knots that chains pass often enough are not reported."""
    if not knots:
        return None
    worst = knots[0]
    passage = f"{worst.sweeps:.3g} sweeps to pass it" if np.isfinite(worst.sweeps) else "no chain passed it"
    others = "" if len(knots) == 1 else f"; others at β = {', '.join(f'{knot.beta:.2f}' for knot in knots[1:])}"
    where = f"a knot at β = {worst.beta:.2f} (between {worst.low:.2f} and {worst.high:.2f})"
    seen = f"{where} holds {worst.share:.0%} of the ladder's resistance, {passage}{others}"
    cure = f'run more sweeps, at least `num_sweeps={num_needed}`, with `betas="adaptive"`'
    return Finding(Verdict.KNOT, seen, cure)


def _disagrees(answer: LogZ, annealed: Annealed, num_sweeps: int) -> Finding | None:
    disagreement = annealed.disagreement(answer)
    if disagreement <= MAX_DISAGREEMENT:
        return None
    tempering, annealing = (f"{found.log_z:.2f} ± {found.std_error:.2f}" for found in (answer, annealed))
    seen = f"log Z is {tempering} by tempering and {annealing} by annealing, {disagreement:.1f} standard errors apart"
    cure = f"{twice_as_many(num_sweeps)}, and compare again; trust neither until they agree"
    return Finding(Verdict.DISAGREES, seen, cure)


def _captured(recording: Recording) -> Finding | None:
    """Not asked of whole tours, which all begin at the base, nor of chains that never draw it."""
    if recording.tours is None or recording.stats.has_whole_tours:
        return None
    return captured(recording.tours, recording.stats.num_sweeps)


def _frozen(moves: MoveCounts) -> Finding | None:
    acceptance = np.where(moves.num_moves >= _FEW_MOVES, moves.acceptance, np.inf)
    acceptance[0] = np.inf  # moves with a step size draw the base exactly there
    rung = int(acceptance.argmin())
    if acceptance[rung] >= MIN_ACCEPTANCE:
        return None
    seen = f"{acceptance[rung]:.2g} of the moves at rung {rung} of {len(acceptance) - 1} were accepted"
    look = "look for NaN gradients or a density that is −inf nearly everywhere"
    return Finding(Verdict.FROZEN, seen, f"{look}; otherwise take a smaller step, `move=tp.HMC(0.01)`")
