"""All checks of an installation, the cheap and exact ones first."""

from collections.abc import Iterator

from tempering.verification.check import Check
from tempering.verification.identities import identities
from tempering.verification.invariance import kernel_checks
from tempering.verification.short_runs import short_runs


def verify() -> Iterator[Check]:
    """Check every estimator and move of this installation on problems whose answers are known exactly.

    First each estimator is given the exact statistics of an infinitely long run, from which it must give the exact
    log Z. Then each move is tried for one step from exact draws. Last come short runs of every method. The last two are
    of random numbers: a right program fails one of them with probability 1e-6.

    ```python
    assert all(check.is_passed for check in tempering.verification.verify())
    ```

    Returns:
        An iterator over the outcomes. The whole takes about a minute.
    """
    for name, part in (("estimators", identities), ("moves", kernel_checks), ("short runs", short_runs)):
        try:
            yield from part()
        except Exception as error:  # noqa: BLE001  a wrong program may fail in any way; what was seen before counts
            yield Check(name, "all are made", False, f"{type(error).__name__}: {error}")
