"""The error of chains whose starts descend from the same particles, and so err together."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from tempering._types import HostPerRung
from tempering.estimators.log_z import LogZ


def with_shared_starts(answer: LogZ, families: Sequence[int] | None) -> LogZ:
    """The answer with the error that chains share because their starts descend from the same particles.

    Particles that happened to multiply bring all their descendants to the same mode. Until chains have forgotten
    that, their estimates err together, and their scatter does not show it. The scatter of families does. Its excess
    is added to the variance.

    ```python
    answer = with_shared_starts(auto(recording), stage.families)
    ```

    Args:
        answer: An estimate, with what each chain contributes to its error.
        families: The particle that the start of each chain descends from; None where starts are independent.

    Returns:
        The same estimate. Nothing is added where families scatter as single chains do, where it is not known what
        chains contribute, and where there is only one family.
    """
    parts = answer.influences
    if families is None or parts is None or len(parts) != len(families) or len(set(families)) < 2:
        return answer
    by_families = variance_by_families(parts, np.asarray(families))
    excess = by_families - variance_by_families(parts, np.arange(len(parts)))
    errors, skewing = answer.errors, 1.0
    if errors is not None:
        errors, skewing = dataclasses.replace(errors, families=float(np.sqrt(by_families[-1]))), errors.skewing
    widened = np.sqrt(answer.std_errors**2 + skewing**2 * np.maximum(excess, 0.0))
    return dataclasses.replace(answer, std_errors=np.where(excess > 0, widened, answer.std_errors), errors=errors)


def variance_by_families(parts: Float[np.ndarray, "chain rung"], families: Int[np.ndarray, " chain"]) -> HostPerRung:
    """The variance of the mean of what chains contribute, where those of one family may be correlated.

    It is G/(G − 1) Σ_f (Σ_{c in f} (x_c − x̄))²/n² with G = n²/Σ_f n_f² for families of n_f chains, the sandwich
    estimator for clusters (Liang and Zeger 1986). For independent chains the factor makes it unbiased. If every chain
    is a family of its own, it is their variance over n.

    Args:
        parts: What each chain contributes.
        families: The family of each.
    """
    num_chains, (_, members) = len(parts), np.unique(families, return_inverse=True)
    sizes = np.bincount(members)
    sums = np.zeros((len(sizes), parts.shape[1]))
    np.add.at(sums, members, parts - parts.mean(axis=0))
    effective = num_chains**2 / np.sum(sizes**2)
    return effective / (effective - 1) * np.sum(sums**2, axis=0) / num_chains**2
