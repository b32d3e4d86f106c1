"""What the log Z of a Bayesian model is, in words."""

from collections.abc import Sequence


def evidence_in_words(densities: Sequence[str], probabilities: Sequence[str], factors: str) -> str:
    """What log Z refers to: the density of some data, the probability of others, and factors.

    Args:
        densities: names of continuous data.
        probabilities: names of discrete data.
        factors: such as "the factors a, b"; empty if there are none.
    """
    parts = [f"the density of {', '.join(densities)} (Lebesgue measure)"] if densities else []
    parts += [f"the probability of {', '.join(probabilities)} (counting measure)"] if probabilities else []
    parts += [f"{factors} as they are, normalised or not"] if factors else []
    return " times ".join(parts)
