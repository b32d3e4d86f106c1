"""RTS from the part of a run after equilibration, with an error that is checked in several ways."""

import dataclasses

import numpy as np

from tempering._logspace import rounding_of
from tempering.estimators.equilibration import Equilibration, find_equilibration
from tempering.estimators.log_z import LogZ
from tempering.estimators.tempered import rts
from tempering.estimators.uncertainty import Errors, error_by_groups, error_by_tours, widening_by_skewness
from tempering.findings import twice_as_many
from tempering.stats import Recording
from tempering.verdicts import Finding, Verdict, without_none

MAX_SHARE = 0.25  # of the variance from a single chain; among 20 normal ones more happens once in 10,000 times
_FEW = 20  # chains; with fewer, one often has as large a share


def equilibrated_rts(recording: Recording, *, log_z_base: float = 0.0) -> LogZ:
    """RTS (eq. 12) after equilibration, as `tempering.estimate` reports it.

    The standard error adds up the scatter of chains, the drift that remains and the bias of a log ratio, and counts
    the skewness of what chains contribute: it is half the width of the 95 % interval in Student's quantiles. It is also
    estimated from groups of chains and from tours. If one of these is much larger, all errors are widened to it and
    UNSURE is reported; so it is if a single chain makes much of the error.

    ```python
    answer = equilibrated_rts(result.recording, log_z_base=path.log_z_base())
    answer.log_z, answer.errors
    ```

    Args:
        recording: What a tempered run kept.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung, with `errors` and `num_cut`.

    Caveats: A mode that no chain has found is missing from the estimate and from its error.
    """
    return rts_after(find_equilibration(recording.stats), recording, log_z_base)


def rts_after(start: Equilibration, recording: Recording, log_z_base: float) -> LogZ:
    """The same where it is known already when the run had equilibrated."""
    stats = recording.stats.without_first(start.first_block)
    answer = rts(stats, log_z_base=log_z_base)
    groups, num_groups = error_by_groups(stats)
    tours, drift, bias = error_by_tours(recording.tours), float(start.drift[-1]), float(abs(answer.biases[-1]))
    skewing = widening_by_skewness(float(answer.skewness[-1]), answer.dof)
    errors = Errors(answer.std_error, groups, tours, drift, bias, num_groups, skewing)
    widened = errors.total(answer.std_errors, start.drift, answer.biases)
    num_sweeps = recording.stats.num_sweeps
    doubt = unsure(errors, answer.dof + 1, float(answer.skewness[-1]), num_sweeps)
    findings = (*answer.findings, *without_none(doubt))
    num_cut = int(recording.stats.sweeps_by_block[: start.first_block].sum())
    return dataclasses.replace(answer, std_errors=widened, findings=findings, errors=errors, num_cut=num_cut)


def unsure(errors: Errors, num_units: int, skewness: float, num_sweeps: int) -> Finding | None:
    """The finding for an error that groups or tours dispute, or that a single unit decides."""
    if np.nanmax([errors.chains, errors.groups, errors.tours, 0.0]) <= rounding_of(0.0):
        return None
    seen = _dispute(errors) if errors.is_disputed else _decided_by_one(num_units, skewness)
    return None if seen is None else Finding(Verdict.UNSURE, seen, twice_as_many(num_sweeps))


def _dispute(errors: Errors) -> str:
    by_tours = errors.tours_ratio > errors.groups_ratio
    name, other = ("tours", errors.tours) if by_tours else ("groups of chains", errors.groups)
    return f"the error is {errors.chains:.2g} by chains and {other:.2g} by {name}"


def _decided_by_one(num_chains: int, skewness: float) -> str | None:
    """Skewness s of n parts is at most their largest in standard deviations, so that one has s²/n of the variance."""
    share = skewness**2 / num_chains
    if num_chains < _FEW or share <= MAX_SHARE:
        return None
    return f"one chain of {num_chains} makes at least {share:.0%} of the error"
