"""Two answers side by side: how many times more probable the data are under one model than under another."""

import dataclasses

import numpy as np

from tempering._errors import InputError
from tempering._signatures import suggests
from tempering.estimators import LogZ
from tempering.models import AbstractModel
from tempering.results import LogRatio, Result
from tempering.verdicts import Finding


@suggests()
def log_ratio(a: Result | LogZ, b: Result | LogZ) -> LogRatio:
    """log Z_a − log Z_b with its error: the log Bayes factor, where both are evidences of the same data.

    ```python
    print(tp.log_ratio(tp.estimate(model_a), tp.estimate(model_b, seed=1)))
    ```

    Errors add in quadrature, and so do the distances to each end of the two intervals, which need not be symmetric
    (MOVER: Zou and Donner 2008).

    Args:
        a: The first answer.
        b: The second, from a run of its own with another seed.

    Returns:
        The log ratio with its standard error, its 95 % interval and the graver of the two verdicts.

    Caveats: this is for independent runs. Runs with one seed share random numbers, and the error is then not theirs.
    """
    for name, answer in (("a", a), ("b", b)):
        if not isinstance(answer, Result | LogZ):
            what = "a model" if isinstance(answer, AbstractModel) else f"a {type(answer).__name__}"
            raise InputError(f"`{name}` must be a result, got {what}. Estimate both: log_ratio(tp.estimate(model), …).")
    if a is b or _is_same_run(a, b):
        raise InputError(
            "log_ratio(a, b) needs two runs, and these are one: their ratio is 1 whatever the model. Estimate both "
            "models, with different seeds."
        )
    (low_a, high_a), (low_b, high_b) = a.interval, b.interval
    value = a.log_z - b.log_z
    below, above = np.hypot(a.log_z - low_a, high_b - b.log_z), np.hypot(high_a - a.log_z, b.log_z - low_b)
    findings = (*_findings(a, "the first"), *_findings(b, "the second"))
    return LogRatio(
        value, float(np.hypot(a.std_error, b.std_error)), (float(value - below), float(value + above)), findings
    )


def _is_same_run(a: Result | LogZ, b: Result | LogZ) -> bool:
    """Two runs never agree in every digit of the estimate and of its error, unless they are the same run."""
    return (a.log_z, a.std_error) == (b.log_z, b.std_error) and a.std_error > 0


def _findings(answer: Result | LogZ, which: str) -> tuple[Finding, ...]:
    found = answer.diagnosis.findings if isinstance(answer, Result) else answer.findings
    return tuple(dataclasses.replace(finding, seen=f"in {which} run, {finding.seen}") for finding in found)
