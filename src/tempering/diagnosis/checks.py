"""From statistics to a verdict: may the number be believed, and if not, why, and what to do."""

import dataclasses
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from tempering._types import HostPerRung
from tempering.diagnosis.knots import Knot, RungChain, rung_chain
from tempering.diagnosis.rung_flow import merge_rungs
from tempering.estimators import Annealed, LogZ, equilibrated_rts
from tempering.estimators.equilibration import drift_between_halves, equilibrated
from tempering.estimators.tempered import log_occupancy
from tempering.stats import BlockedStats, MoveCounts, Recording
from tempering.verdicts import Finding, Verdict, gravest, left_out

MIN_ROUND_TRIPS = 1.0  # per chain; fewer, and a chain has not yet forgotten the rung where it began
MIN_TOTAL_ROUND_TRIPS = 10.0  # over all chains; fewer, and their spread says little
MAX_DRIFT = 3.0  # standard errors between the two halves of the run
MAX_DISAGREEMENT = 4.0  # standard errors between the run and its annealing pass
MIN_OCCUPANCY = 0.2  # of a rung's prior probability
MIN_ACCEPTANCE = 0.05  # of the moves at any rung
_FEW_MOVES = 100  # a rung with fewer says little of its moves


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """All findings about one run, and the numbers behind them."""

    findings: tuple[Finding, ...]
    round_trips_per_chain: float
    drift: float  # in standard errors
    rung_chain: RungChain | None = None  # what the transitions between rungs say, where chains are stuck

    @property
    def verdict(self) -> Verdict:
        """The gravest finding, or good."""
        return gravest(self.findings)

    def with_findings(self, findings: Iterable[Finding]) -> "Diagnosis":
        """The same with what others noticed, each verdict once."""
        known = {finding.verdict: finding for finding in (*findings, *self.findings)}
        return dataclasses.replace(self, findings=tuple(known.values()))


def diagnose(recording: Recording, annealed: Annealed | None = None, *, log_z_base: float = 0.0) -> Diagnosis:
    """Everything that can be said of a tempered run from its statistics."""
    stats = recording.stats
    answer = equilibrated_rts(recording, log_z_base=log_z_base)
    trips = round_trips(stats)
    drift = drift_between_halves(equilibrated(stats))
    stuck = _stuck(trips)
    rungs = None if stuck is None else _rung_chain(recording)
    checks = (
        left_out(int(stats.num_nonfinite.sum()), int(stats.num_draws.sum())), *answer.findings,
        _unreached(stats), stuck, None if stuck is None or rungs is None else _knot(rungs.knots), _uneven(stats),
        None if annealed is None else _disagrees(answer, annealed), _relaxing(drift),
        None if recording.moves is None else _frozen(recording.moves),
    )  # fmt: skip
    return Diagnosis(tuple(c for c in checks if c is not None), float(trips.mean()), drift, rungs)


def _rung_chain(recording: Recording) -> RungChain | None:
    stats, counts = recording.stats, recording.transition_counts.sum(axis=0)
    return rung_chain(*merge_rungs(counts, stats.betas, stats.log_prior)) if counts.sum() > 0 else None


def round_trips(stats: BlockedStats) -> Float[np.ndarray, " chain"]:
    """How often each chain went from one end of the ladder to the other and back."""
    return stats.travel.num_crossings / 2


def occupancy(stats: BlockedStats) -> HostPerRung:
    """ĉ_k / r_k: 1 at every rung where Ẑ_k is right."""
    return np.exp(log_occupancy(stats) - stats.log_prior)


def transition_matrix(recording: Recording) -> Float[np.ndarray, "rung rung"]:
    """How chains went from rung to rung, row-normalised; a row never left from is zero."""
    counts = recording.transition_counts.sum(axis=0).astype(np.float64)
    totals = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)


def unequilibrated() -> Finding:
    """The warm-up ran out of iterations."""
    return Finding(
        Verdict.UNEQUILIBRATED,
        "the warm-up ran out of sweeps before it met its own rule for even rungs",
        "use the annealed warm-up, or a longer one",
    )


def _unreached(stats: BlockedStats) -> Finding | None:
    visits = stats.visits.sum(axis=(0, 1))
    expected = np.exp(stats.log_prior) * visits.sum()
    empty = np.flatnonzero((visits == 0) & (expected >= 20))  # by chance once in e^20
    if len(empty) == 0:
        return None
    return Finding(
        Verdict.UNREACHED,
        f"{len(empty)} of {len(visits)} rungs were never visited, the first of them rung {empty[0]}",
        "use the annealed warm-up, more sweeps, or more rungs where densities do not overlap",
    )


def _stuck(trips: Float[np.ndarray, " chain"]) -> Finding | None:
    if trips.mean() >= MIN_ROUND_TRIPS and trips.sum() >= MIN_TOTAL_ROUND_TRIPS:
        return None
    return Finding(
        Verdict.STUCK,
        f"{trips.mean():.2g} round trips per chain, {trips.sum():.3g} in all; "
        f"at least {MIN_ROUND_TRIPS:g} and {MIN_TOTAL_ROUND_TRIPS:g} are needed",
        "run more sweeps; if that does not help, choose a base closer to the model",
    )


def _knot(knots: tuple[Knot, ...]) -> Finding | None:
    """Where chains that are stuck are held up; a knot that they pass often enough is none of a reader's concern."""
    if not knots:
        return None
    worst = knots[0]
    passage = f"{worst.sweeps:.3g} sweeps to pass it" if np.isfinite(worst.sweeps) else "no chain passed it"
    others = "" if len(knots) == 1 else f"; others at β = {', '.join(f'{knot.beta:.2f}' for knot in knots[1:])}"
    return Finding(
        Verdict.KNOT,
        f"a knot at β = {worst.beta:.2f} (between {worst.low:.2f} and {worst.high:.2f}) holds {worst.share:.0%} of the "
        f"ladder's resistance, {passage}{others}",
        "choose a base closer to the model, a path of averaged moments (tp.MomentAveragedRBM), or --ladder adaptive "
        "with many more sweeps",
    )


def _uneven(stats: BlockedStats) -> Finding | None:
    share = occupancy(stats)
    rung = int(share.argmin())
    if share[rung] >= MIN_OCCUPANCY:
        return None
    return Finding(
        Verdict.UNEVEN,
        f"rung {rung} of {len(share) - 1} has {share[rung]:.2g} of the probability it should have",
        "run a longer warm-up, so that the guess of log Z is closer",
    )


def _disagrees(answer: LogZ, annealed: Annealed) -> Finding | None:
    disagreement = annealed.disagreement(answer)
    if disagreement <= MAX_DISAGREEMENT:
        return None
    return Finding(
        Verdict.DISAGREES,
        f"log Z is {answer.log_z:.2f} ± {answer.std_error:.2f} by tempering and {annealed.log_z:.2f} ± "
        f"{annealed.std_error:.2f} by annealing, {disagreement:.1f} standard errors apart",
        "run more sweeps and compare again; trust neither until they agree",
    )


def _frozen(moves: MoveCounts) -> Finding | None:
    acceptance = np.where(moves.num_moves >= _FEW_MOVES, moves.acceptance, np.inf)
    acceptance[0] = np.inf  # moves with a size draw the base exactly there
    rung = int(acceptance.argmin())
    if acceptance[rung] >= MIN_ACCEPTANCE:
        return None
    return Finding(
        Verdict.FROZEN,
        f"{acceptance[rung]:.2g} of the moves at rung {rung} of {len(acceptance) - 1} were accepted",
        "look for NaN gradients or a density that is −inf nearly everywhere; else give a smaller step, tp.HMC(0.01)",
    )


def _relaxing(drift: float) -> Finding | None:
    if abs(drift) <= MAX_DRIFT:
        return None
    return Finding(
        Verdict.RELAXING,
        f"the second half differs from the first by {drift:+.1f} standard errors",
        "run more sweeps",
    )
