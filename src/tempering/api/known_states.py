"""Rows that a caller gave, whose densities bound log Z from below."""

from typing import Any

import numpy as np

from tempering._errors import InputError
from tempering.diagnosis.known_states import below_known_mass, log_known_mass
from tempering.models import AbstractModel
from tempering.results import Result
from tempering.verdicts import without_none

_MOST_ROWS = 10_000  # that are looked at, from all over: more would take longer than they are worth


def held_to_known_states(result: Result, model: AbstractModel, *given: Any) -> Result:
    """The same result, with the finding if its interval ends below what the rows alone add up to.

    Args:
        result: A result for the model.
        model: The model.
        given: Rows of data, witnesses or a base, in any form that `estimate` takes; what is not rows does not count.
    """
    masses = [mass for rows in given if (mass := _log_mass(model, rows)) is not None]
    if not masses:
        return result
    return result.with_findings(without_none(below_known_mass(max(masses), result.interval[1])))


def _log_mass(model: AbstractModel, rows: Any) -> float | None:
    if not model.counts_states or rows is None or isinstance(rows, str) or np.ndim(rows) != 2:
        return None
    rows = np.asarray(rows)
    rows = rows[:: -(-len(rows) // _MOST_ROWS) or 1]
    try:
        return log_known_mass(rows, model.log_density(rows))
    except InputError:  # a matrix that is not rows, such as the frequencies of categories
        return None
