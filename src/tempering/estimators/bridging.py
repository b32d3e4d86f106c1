"""Bridge sampling: log Z as a sum of small steps, each from the draws at both of its ends."""

import dataclasses

import numpy as np

from tempering.estimators.inputs import check_base, not_kept
from tempering.estimators.log_z import LogZ
from tempering.estimators.stepping import Side
from tempering.stats import BlockedStats, TemperingStats


def bridge_sampling(stats: TemperingStats | BlockedStats, *, log_z_base: float = 0.0) -> LogZ:
    """Bridge sampling: log Z_{k+1}/Z_k from the draws at rungs k and k + 1, added up from the base.

    With a = f_k/Ẑ_k and b = f_{k+1}/Ẑ_{k+1},

        log Z_{k+1}/Z_k = log Ẑ_{k+1}/Ẑ_k + log mean of b/(a + b) at rung k − log mean of a/(a + b) at rung k + 1.

    This holds whatever Ẑ is (Meng and Wong 1996). With the right Ẑ and as many draws at both rungs it is Bennett's
    acceptance ratio, whose variance is the least (Bennett 1976), and the Ẑ of a run is near enough. What is averaged
    lies between 0 and 1. So no rare draw decides a step, as it may in stepping stones where one density has a part that
    the other hardly sees.

    ```python
    answer = bridge_sampling(result.recording.stats, log_z_base=path.log_z_base())
    ```

    Args:
        stats: The statistics of a tempered run, with `tp.stats.Keep(bridges=True)`.
        log_z_base: log Z of rung 0; 0 gives the ratio to it.

    Returns:
        log Z at every rung.

    Caveats: Neighbours that hardly overlap leave few draws for a step. NO_OVERLAP is reported if one part of the run
    decides it.
    """
    check_base(log_z_base, "bridge sampling")
    stats = stats.on_host()
    if stats.log_bridges is None:
        raise not_kept("bridge", "bridges", "shares of neighbouring densities")
    up, down = (Side.from_sums(stats, stats.log_bridges, direction) for direction in ("up", "down"))
    steps = up - down
    steps = dataclasses.replace(steps, log_means=steps.log_means + np.diff(stats.log_z_guess)).added_up()
    findings = {found.verdict: found for found in (*up.findings, *down.findings) if found is not None}
    return LogZ.from_uncertainty(
        "bridge", log_z_base + steps.values, steps.uncertainty, tuple(findings.values()), keep_influences=True
    )
