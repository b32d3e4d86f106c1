"""Whether a run knows the states that others say matter, and how much of the mass it misses if not.

Chains of the run's own law are started at the target, and it is seen which of them are still away from the base after
H sweeps. S(x) is the probability of that for a chain that starts at x. S is small wherever the run has been, since its
chains come back from there. Its integral

    Φ = ∫ f(x) S(x) dx

is an expectation like any other. The run says that it is Z t, with t the share of its own draws that stay away. A
second run, from a base around the states where chains stayed, says that it is Z' t'. The second run may see less of the
target than there is, and then its Φ is too low. So a Φ that is higher than the run's shows that the run misses mass, at
least the difference. How fast chains come back does not matter for that, only how clearly it is seen.
"""

import dataclasses

import numpy as np
from scipy.special import bdtrc, betaincinv, ndtri

from tempering.findings import FALSE_ALARM
from tempering.verdicts import Finding, Verdict

MAX_MISSED = 0.5  # standard errors by which log Z may be too low: with such a bias an interval of 95 % holds in 92 %


@dataclasses.dataclass(frozen=True)
class Away:
    """How many of some chains that were started at the target were never at the base.

    Attributes:
        num_away: So many, or the expected number of them.
        num_chains: Of so many.
    """

    num_away: float | int
    num_chains: float | int

    @property
    def share(self) -> float:
        """t, the share of them."""
        return self.num_away / self.num_chains

    def limits(self, level: float = FALSE_ALARM) -> tuple[float, float]:
        """The lowest and the highest probability of being away that this allows, each wrong with this probability.

        Args:
            level: Of each of the two (Clopper and Pearson 1934).
        """
        away, home = self.num_away, self.num_chains - self.num_away
        low = 0.0 if away == 0 else float(betaincinv(away, home + 1, level))
        return low, 1.0 if home == 0 else float(betaincinv(away + 1, home, 1 - level))

    def exceeds(self, other: "Away") -> bool:
        """Whether these chains stay away more often than others do, beyond chance at the level of 5 %.

        Args:
            other: The others.
        """
        if self.num_away == 0:
            return False
        return bool(bdtrc(self.num_away - 1, self.num_chains, other.share) < 0.05)

    def __str__(self) -> str:
        return f"{self.num_away} of {self.num_chains}"


@dataclasses.dataclass(frozen=True)
class MissingMass:
    """What a second run, from a base around the witnesses, says that the first one misses.

    Attributes:
        share: Of the whole mass, the mass of the first run included: about so much is missing.
        low: At least so much.
        high: At most so much of what the second run has seen.
        log_z: log Z of the second run.
        std_error: Its standard error.
        away: Of the draws of the second run, in the law of the first.
    """

    share: float
    low: float
    high: float
    log_z: float
    std_error: float
    away: Away

    @classmethod
    def from_runs(
        cls, log_z: float, std_error: float, own: Away, second: tuple[float, float], away: Away
    ) -> "MissingMass":
        """From both runs: M / (Z + M) with M = Z' t' − Z t.

        Args:
            log_z: log Z of the first run.
            std_error: Its standard error.
            own: Of draws of the first run.
            second: log Z and its standard error of the second run.
            away: Of draws of the second run.
        """
        rise, error = second[0] - log_z, float(np.hypot(std_error, second[1]))
        wide = -float(ndtri(FALSE_ALARM)) * error if np.isfinite(error) else np.inf
        (own_low, own_high), (away_low, away_high) = own.limits(), away.limits()
        ratios = (
            np.exp(rise) * away.share - own.share,  # M / Z
            np.exp(rise - wide) * away_low - own_high,
            np.exp(np.minimum(rise + wide, 700.0)) * away_high - own_low,
        )
        share, low, high = (float(max(ratio, 0.0) / (1 + max(ratio, 0.0))) for ratio in ratios)
        return cls(share, low, high, *second, away)


@dataclasses.dataclass(frozen=True)
class WitnessCheck:
    """What chains that started from witnesses found.

    Attributes:
        num_witnesses: Rows that were given.
        num_impossible: Of those, with a density of 0, from which no chain can start.
        num_sweeps: The most sweeps that a chain was given to come to the base.
        away: Of the chains that started from witnesses; None where no witness has a density.
        own_away: Of the run's own draws.
        missing: What a second run around the witnesses says; None where it was not needed, or cannot be made.
    """

    num_witnesses: int
    num_impossible: int
    num_sweeps: int
    away: Away | None
    own_away: Away
    missing: MissingMass | None = None

    @property
    def agrees(self) -> bool:
        """Whether chains from the witnesses come to the base as the run's own draws do."""
        return self.away is None or not self.away.exceeds(self.own_away)

    def __str__(self) -> str:
        impossible = f"{self.num_impossible} of {self.num_witnesses} witnesses have a density of 0"
        if self.away is None:
            return impossible
        found = f"{self.away} chains from witnesses never came to the base, {self.own_away} from the run's own draws"
        if self.missing is not None:
            mass = self.missing
            found += f"; {mass.share:.2g} of the mass is missing ({mass.low:.2g} to {mass.high:.2g})"
        return found + (f"; {impossible}" if self.num_impossible else "")


def missed(check: WitnessCheck, log_z: float, std_error: float) -> Finding | None:
    """The finding for a part of the target that witnesses are in and the run has missed.

    Args:
        check: What chains from witnesses found.
        log_z: log Z of the run.
        std_error: Its standard error.

    Returns:
        The finding; None if the part that is missing for certain makes log Z too low by less than half of its error.
    """
    mass = check.missing
    if mass is None or check.away is None or not -np.log1p(-mass.low) > MAX_MISSED * max(std_error, 0.0):
        return None
    seen = (
        f"about {mass.share:.2g} of the mass is missing, at least {mass.low:.2g}: {check.away} chains from witnesses "
        f"did not come to the base within {check.num_sweeps} sweeps, {check.own_away} from the run's own draws; "
        f"a run from a base around them finds log Z = {mass.log_z:.3f} ± {mass.std_error:.3f}, so that log Z is about "
        f"{log_z - float(np.log1p(-mass.share)):.2f} in all"
    )
    return Finding(Verdict.MISSED, seen, "take a `base` that covers the witnesses too")
