"""Rows of data: their shape is checked, their values are counted, and bases are made of them."""

from typing import Any

import numpy as np
from jaxtyping import Float

from tempering._errors import InputError

SMOOTHING = 0.02  # share of equal odds in a base made of data: a value that never occurs must not freeze the ladder


def checked_rows(data: Any, num_columns: int, model: str) -> np.ndarray:
    """Data as an array, refused unless its shape is (rows, num_columns) with a row or more."""
    rows = np.asarray(data)
    if rows.ndim != 2 or rows.shape[1] != num_columns or len(rows) == 0:
        raise InputError(f"Data must have shape (rows, {num_columns}) for this {model}, got {rows.shape}.")
    return rows


def smoothed_frequencies(rows: np.ndarray, values: np.ndarray) -> Float[np.ndarray, "column value"]:
    """How often each value occurs in each column, mixed with equal odds."""
    counted = np.stack([(rows == value).mean(axis=0) for value in values], axis=1)
    return (1 - SMOOTHING) * counted + SMOOTHING / len(values)


def log_odds_of_base(base: Any, biases: np.ndarray, model: str) -> Float[np.ndarray, " bit"]:
    """Log-odds of the independent bits that a user chose as a base.

    Frequencies are mixed with a fair coin. Without that, bits that are never 1 make a ladder whose lower rungs hardly
    overlap.

    Args:
        base: "uniform", "bias", rows of 0 and 1, or frequencies (bit,).
        biases: what "bias" means.
        model: the model's name, for errors.
    """
    if isinstance(base, str) and base in ("uniform", "bias"):
        return np.zeros(len(biases)) if base == "uniform" else biases
    if isinstance(base, str) or np.ndim(base) not in (1, 2):
        raise wrong_base('"uniform", "bias", frequencies of ones, or rows of 0 and 1', base)
    frequencies = np.asarray(base, np.float64) if np.ndim(base) == 1 else checked_bits(base, len(biases), model).mean(0)
    if frequencies.shape != biases.shape or not np.all((frequencies >= 0) & (frequencies <= 1)):
        raise InputError(f"`base` frequencies must be {len(biases)} numbers in [0, 1], got shape {frequencies.shape}.")
    on = (1 - SMOOTHING) * frequencies + SMOOTHING / 2
    return np.log(on) - np.log1p(-on)


def checked_bits(data: Any, num_columns: int, model: str) -> np.ndarray:
    """Rows of 0 and 1, refused otherwise."""
    rows = checked_rows(data, num_columns, model)
    if not np.all((rows == 0) | (rows == 1)):
        raise InputError(f"Data must hold only 0 and 1 for this {model}; binarize grey values first.")
    return rows


def wrong_base(expected: str, base: Any) -> InputError:
    """The error for a base that the model does not know."""
    got = f'"{base}"' if isinstance(base, str) else f"an array of shape {np.shape(base)}"
    return InputError(f"`base` must be {expected}; got {got}.")
