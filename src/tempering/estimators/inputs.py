"""What several estimators ask of their statistics."""

import dataclasses

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError
from tempering.findings import NAN_IS_ZERO, nonfinite
from tempering.stats import BlockedStats
from tempering.verdicts import Finding


def not_kept(method: str, keep: str, what: str) -> InputError:
    """The error for statistics that lack what an estimator reads."""
    return InputError(
        f"`{method}` needs {what}, which this run did not keep: make its record with "
        f"`tp.stats.TemperingRecord.empty(ladder, keep=tp.stats.Keep({keep}=True))`, or call "
        f'`tp.estimate(model, method="{method}")`, which keeps them.'
    )


def check_base(log_z_base: float, method: str) -> None:
    """Refuse a base without a normaliser."""
    if not np.isfinite(log_z_base):
        raise InputError(
            f"The base is improper: `log_z_base` is {log_z_base}, and {method} needs a normalisable base. "
            "Choose one that integrates to a finite number; 0 gives the ratio to it."
        )


def draws_made(stats: BlockedStats) -> Float[np.ndarray, "chain block rung"]:
    """Draws of x made at each rung, without those that were left out: they are in no sum.

    Where only visits were counted, these stand for them. `Ladder.sample_rung` leaves a chain at rung 0 when q(k | x) is
    NaN, so draws that were left out are among the visits there.
    """
    if stats.origins is not None:
        return stats.origins.astype(np.float64)
    visits = stats.visits.astype(np.float64)
    visits[..., 0] = np.maximum(visits[..., 0] - stats.num_unused, 0)
    return visits


def nonfinite_draws(*runs: BlockedStats) -> Finding | None:
    """The finding for draws of any of the runs whose density was NaN or infinite."""
    names = ("num_nonfinite", "num_unused", "num_draws")
    num_bad, num_unused, num_draws = (int(sum(getattr(run, name).sum() for run in runs)) for name in names)
    if num_bad == 0:
        return None
    num_nan = num_bad - num_unused
    found = nonfinite(num_unused, num_draws) if num_unused else nonfinite(num_bad, num_draws, NAN_IS_ZERO)
    also = f"; {num_nan} {NAN_IS_ZERO}" if num_unused and num_nan else ""
    fault = next((run.first_fault for run in runs if run.first_fault.step >= 0), None)
    where = "" if fault is None else f"; the first in chain {fault.chain} at rung {fault.rung}, step {fault.step}"
    return found and dataclasses.replace(found, seen=f"{found.seen}{also}{where}")
