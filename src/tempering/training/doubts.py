"""How far tracked chains can be believed: the error of what they say, and why they may have lost track."""

from typing import Any

import numpy as np

from tempering.estimators.uncertainty import uncertainty_by_jackknife
from tempering.training.tempered import Reading
from tempering.training.travelled import MIN_OVERLAP
from tempering.verdicts import Finding, Verdict

MIN_OCCUPANCY = 0.05  # of a rung's prior probability
MAX_FIELD = 1e6  # at a hidden unit: parameters that large have diverged, though they may be finite
MAX_LAG = 1.0  # nats by which log Z lags behind the chains, beyond noise


def jackknife_error(left_out: Any) -> float:
    """The standard error of an estimate from its values with one group of chains left out at a time."""
    column = np.asarray(left_out, np.float64)[:, None]
    return float(uncertainty_by_jackknife(column.mean(axis=0), column).std_error[0])


def lag_of(reading: Reading) -> float:
    """√(innovation² − its variance): how far log Ẑ lags behind the chains, beyond noise; 0 where noise explains it."""
    excess = float(reading.innovation) ** 2 - jackknife_error(reading.innovation_without) ** 2
    return float(np.sqrt(max(excess, 0.0)))


def doubts_of(reading: Reading) -> tuple[Finding, ...]:
    """Why the chains may have lost track; empty where they follow."""
    is_sound = np.all(np.isfinite(reading.log_z)) and reading.largest_field < MAX_FIELD  # False where it is NaN
    if reading.num_nonfinite > 0 or not is_sound:
        return (diverged(),)
    rung, lag = int(np.argmin(reading.occupancy)), lag_of(reading)
    share = reading.occupancy[rung]
    reasons = [
        (reading.overlap < MIN_OVERLAP, f"an update left {float(reading.overlap):.1%} of the chains effective"),
        (share < MIN_OCCUPANCY, f"rung {rung} has {share:.2g} of what it should have"),
        (lag > MAX_LAG, f"log Z runs {lag:.1f} nats behind"),
    ]
    seen = "; ".join(text for holds, text in reasons if holds)
    cure = "lower the learning rate, or give the tracker more sweeps or chains"
    return (Finding(Verdict.LOST, seen, cure),) if seen else ()


def diverged() -> Finding:
    """What is said of parameters from which no gradient leads back."""
    seen = "parameters, or densities under them, are NaN, infinite or absurdly large"
    return Finding(Verdict.NONFINITE, seen, "lower the learning rate: training has diverged")
