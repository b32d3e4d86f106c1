"""RTS from the part of a run that has settled, with an error that more than one way of looking agrees on."""

import dataclasses

import numpy as np

from tempering.estimators.equilibration import find_equilibration
from tempering.estimators.log_z import LogZ
from tempering.estimators.tempered import rts
from tempering.estimators.uncertainty import Errors, error_by_groups, error_by_tours
from tempering.stats import Recording
from tempering.verdicts import Finding, Verdict

MAX_SHARE = 0.25  # of the variance that may be a single chain's; among 20 normal ones more is a matter of 1 in 10,000
_FEW = 20  # chains; with fewer, one often has as much


def equilibrated_rts(recording: Recording, *, log_z_base: float = 0.0) -> LogZ:
    """RTS without the transient; its error counts chains, what still drifts, and the bias of a log ratio.

    The same error is also found from groups of chains and from tours. Where one of them is much larger than that from
    chains, the error is widened to it at every rung, and the answer says so; as it does where one chain alone decides,
    which has been somewhere that matters and that the others hardly ever find.
    """
    start = find_equilibration(recording.stats)
    stats = recording.stats.without_first(start.first_block)
    answer = rts(stats, log_z_base=log_z_base)
    groups, num_groups = error_by_groups(stats)
    errors = Errors(
        answer.std_error, groups, error_by_tours(recording.tours), float(start.drift[-1]),
        float(abs(answer.biases[-1])), num_groups,
    )  # fmt: skip
    widened = np.sqrt((answer.std_errors * errors.widening) ** 2 + start.drift**2 + answer.biases**2)
    unsure = _disputed(errors) if errors.is_disputed else _decided_by_one(answer)
    findings = answer.findings if unsure is None else (*answer.findings, unsure)
    num_cut = int(recording.stats.num_draws[0, : start.first_block].sum())
    return dataclasses.replace(answer, std_errors=widened, findings=findings, errors=errors, num_cut=num_cut)


def _disputed(errors: Errors) -> Finding:
    by_tours = errors.tours_ratio > errors.groups_ratio
    name, other = ("tours", errors.tours) if by_tours else ("groups of chains", errors.groups)
    return Finding(
        Verdict.UNSURE,
        f"the error is {errors.chains:.2g} by chains and {other:.2g} by {name}",
        "run more sweeps until they agree; few trips to the target decide the answer so far",
    )


def _decided_by_one(answer: LogZ) -> Finding | None:
    """Skewness s of n parts is at most their largest in standard deviations, so that one has s²/n of the variance."""
    num_chains, skewness = answer.dof + 1, float(answer.skewness[-1])
    share = skewness**2 / num_chains
    if num_chains < _FEW or share <= MAX_SHARE:
        return None
    return Finding(
        Verdict.UNSURE,
        f"one chain of {num_chains} makes at least {share:.0%} of the error",
        "run several times as many sweeps: that chain has been where the others hardly ever come",
    )
