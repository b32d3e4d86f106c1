"""What probabilistic programs have in common, whatever library they are written in."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tempering._errors import InputError
from tempering.frontends._prior_checks import DrawnPrior, check_prior
from tempering.models import Posterior

IMPROPER = "The prior of `{name}` is improper and cannot be sampled. Give it a proper one, however wide."


def import_or_refuse(module: str, title: str) -> Any:
    """The library in which a program is written; an `InputError` says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(f"from_{module}(...) needs {title} ({error}): pip install 'tempering[{module}]'.") from error


def posterior_of(program: Any, measure: str) -> Posterior:
    """The posterior of a program whose prior was checked.

    Args:
        program: with the methods `log_prior`, `draw`, `log_likelihood` and `constrain`, and `unconstrain` where it has
            the way back.
        measure: what its log Z is, in words.
    """
    prior = DrawnPrior(program.log_prior, program.draw)
    check_prior(prior)
    back = getattr(program, "unconstrain", None)
    return Posterior(program.log_likelihood, prior, constrain=program.constrain, unconstrain=back, measure=measure)


def evidence_in_words(data: Sequence[tuple[str, bool]], kind: str, factors: Sequence[str]) -> str:
    """What log Z refers to: the density of some data, the probability of others, and factors.

    Args:
        data: names of observed data, and whether they are discrete.
        kind: what the factors are called.
        factors: their names.
    """
    densities, probabilities = (", ".join(name for name, d in data if d == discrete) for discrete in (False, True))
    parts = [f"the density of {densities} (Lebesgue measure)"] if densities else []
    parts += [f"the probability of {probabilities} (counting measure)"] if probabilities else []
    parts += [f"the {kind} {', '.join(factors)} as they are, normalised or not"] if factors else []
    return " times ".join(parts)
