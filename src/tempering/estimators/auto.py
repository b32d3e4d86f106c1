"""One answer from several readings of the same tempered run, with weights from the scatter of chains."""

import dataclasses

import numpy as np

from tempering._types import HostPerRung
from tempering.estimators.bridging import bridge_sampling
from tempering.estimators.combining import Combination, combination, disagreement
from tempering.estimators.controlled import controlled_bridge
from tempering.estimators.equilibration import beyond_noise, find_equilibration
from tempering.estimators.inputs import not_kept
from tempering.estimators.log_z import LogZ
from tempering.estimators.rts_after_equilibration import rts_after, unsure
from tempering.estimators.tempered import rts
from tempering.estimators.uncertainty import MIN_UNITS, Errors, scatter_of_groups, widening_by_skewness
from tempering.stats import BlockedStats, Recording
from tempering.verdicts import without_none


def auto(recording: Recording, *, log_z_base: float = 0.0) -> LogZ:
    """RTS and bridge sampling joined with weights of least variance.

    log Z = w log Z_rts + v log Z_bridge + (1 − w − v) log Z_controlled, where the weights, none of them negative,
    minimise the variance at the target, by the scatter of chains. The same weights hold at every rung. RTS sees how
    often chains are at each end of the ladder, bridges see the draws within each rung; which has the smaller error
    depends on the run. `controlled_bridge` is there where moves give control variates; elsewhere v = 1 − w. The
    standard error counts the choice of weights, the drift that remains, the bias and the skewness. As for
    `equilibrated_rts` it is widened, with UNSURE, where groups of chains or tours give a much larger one. Tours are
    those of RTS, in proportion.

    ```python
    answer = auto(result.recording, log_z_base=path.log_z_base())
    answer.log_z, answer.readings, answer.weights
    ```

    Bridges get no weight where a rung has no draws, where they report a finding, or where their bias exceeds their
    error. With fewer than 30 independent units all weigh the same.

    Args:
        recording: What a tempered run kept, with `tp.stats.Keep(bridges=True)`.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung, with `readings` and their `weights`.

    Caveats: A mode that no chain has found is missing from all readings. DISAGREES is reported if two readings differ
    by more than their errors, which are correlated, allow.
    """
    if recording.stats.log_bridges is None:
        raise not_kept("auto", "bridges", "shares of neighbouring densities")
    start = find_equilibration(recording.stats)
    by_rts = rts_after(start, recording, log_z_base)
    stats = _by_unit(recording.stats.without_first(start.first_block))
    readings = _readings(stats, log_z_base)
    if stats.controls is not None and not _is_usable(readings[-1]):
        without = dataclasses.replace(recording, stats=dataclasses.replace(recording.stats, controls=None))
        return auto(without, log_z_base=log_z_base)
    if not all(_is_usable(reading) for reading in readings):
        return dataclasses.replace(
            by_rts, method="auto", readings=readings, weights=(1.0, *[0.0] * (len(readings) - 1))
        )
    joined = combination(list(readings))
    answer = LogZ.from_uncertainty("auto", joined.values, joined.uncertainty, keep_influences=True)
    drift = _drift(recording.stats, joined, start.drift)
    errors = _errors(stats, joined, answer, by_rts, drift)
    widened = errors.total(answer.std_errors, drift, answer.biases)
    num_sweeps = recording.stats.num_sweeps
    found = without_none(
        disagreement(list(readings), float(widened[-1])),
        unsure(errors, len(joined.influences), float(answer.skewness[-1]), num_sweeps),
    )
    return dataclasses.replace(
        answer,
        std_errors=widened,
        findings=(*answer.findings, *found),
        errors=errors,
        num_cut=by_rts.num_cut,
        readings=readings,
        weights=tuple(float(weight) for weight in joined.weights),
    )


def _by_unit(stats: BlockedStats) -> BlockedStats:
    """The run without its blocks where chains are the units, which saves time."""
    return stats if stats.num_chains < MIN_UNITS else stats.in_one_block()


def _readings(stats: BlockedStats, log_z_base: float) -> tuple[LogZ, ...]:
    """RTS, bridge sampling, and that with controls where there are any."""
    methods = (rts, bridge_sampling, *(() if stats.controls is None else (controlled_bridge,)))
    return tuple(method(stats, log_z_base=log_z_base) for method in methods)


def _is_usable(reading: LogZ) -> bool:
    """Whether nothing is wrong with a reading, so that the scatter of its units shows its error."""
    if reading.influences is None or reading.findings:
        return False
    is_known = all(np.isfinite(each).all() for each in (reading.values, reading.std_errors, reading.influences))
    return is_known and bool(abs(reading.biases[-1]) <= reading.std_error)


def _drift(stats: BlockedStats, joined: Combination, drift_of_rts: HostPerRung) -> HostPerRung:
    """How far the answer differs from that of the second half of the run, beyond noise; that of RTS if unknown."""
    middle = stats.num_blocks // 2
    if stats.num_chains < MIN_UNITS or middle == 0 or stats.has_whole_tours:
        return drift_of_rts
    readings = _readings(_by_unit(stats.without_first(middle)), 0.0)
    if not all(np.isfinite(reading.values).all() for reading in readings):
        return drift_of_rts
    later = dataclasses.replace(joined, readings=readings)
    change = joined.values - joined.values[0] - later.values
    return beyond_noise(change, joined.influences - later.influences)


def _errors(stats: BlockedStats, joined: Combination, answer: LogZ, by_rts: LogZ, drift: HostPerRung) -> Errors:
    """The parts of the error of the target. What only RTS knows is scaled by the ratio of the errors by chains."""
    chains, of_rts = answer.std_error, by_rts.errors
    assert of_rts is not None  # `equilibrated_rts` always gives them
    groups, num_groups = scatter_of_groups(
        stats, lambda part: float(dataclasses.replace(joined, readings=_readings(part, 0.0)).values[-1])
    )
    if not np.isfinite(groups):
        groups, num_groups = _scaled(of_rts.groups, chains, of_rts.chains), of_rts.num_groups
    tours = _scaled(of_rts.tours, chains, of_rts.chains)
    skewing = widening_by_skewness(float(answer.skewness[-1]), answer.dof)
    return Errors(chains, groups, tours, float(drift[-1]), float(abs(answer.biases[-1])), num_groups, skewing)


def _scaled(error: float, chains: float, chains_of_rts: float) -> float:
    return error * chains / chains_of_rts if chains_of_rts > 0 else np.nan
