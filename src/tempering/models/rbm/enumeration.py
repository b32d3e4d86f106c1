"""Exact log Z of a small binary RBM: one side is enumerated, the other is summed in closed form.

With log f(v, h) = v·c + vᵀWh + h·b, enumerating h gives log Z = log Σ_h exp(h·b) Π_i (1 + exp(c_i + (Wh)_i)).
The enumerated bits are split in rows and columns of a tile, h = (r, s), so that exp(c_i + (Wh)_i) is
exp(c_i + (Wr)_i) · exp((Ws)_i): two short tables of exponentials serve all 2ⁿ patterns, and what is left for
each pattern and unit i is a multiply, an add and a multiply.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempering._errors import InputError

Floats = NDArray[np.float64]

_LOG_HUGE = 700.0  # exp(±700) are both normal float64 numbers; the largest is about exp(709.78)
_TILE_PATTERNS = 2**15  # two float64 buffers of 256 KiB each: they stay in a core's own cache
_MAX_COLUMN_BITS = 10
_MAX_TABLE_ENTRIES = 2**22  # a table of exponentials, unit × pattern, stays below 32 MiB


def enumeration_cost(weights: ArrayLike) -> int:
    """How many (pattern, unit) pairs `log_z_by_enumeration` visits; 10⁹ of them take about a second."""
    num_visible, num_hidden = np.shape(weights)
    return 2 ** min(num_visible, num_hidden) * max(num_visible, num_hidden)


def bit_patterns(num_bits: int) -> NDArray[np.uint8]:
    """All 0/1 vectors of a length, (2**num_bits, num_bits); row k holds the bits of k, the lowest first."""
    return _bits(0, 2**num_bits, num_bits)


def log_z_by_enumeration(weights: ArrayLike, vbias: ArrayLike, hbias: ArrayLike, *, max_units: int = 25) -> float:
    """Exact log Z of the binary RBM with W (visible × hidden), c = vbias and b = hbias, in float64.

    Time doubles with each unit of the smaller side, so more than `max_units` there is an error.
    """
    coupling, summed_bias, enumerated_bias = _checked(weights, vbias, hbias)
    if coupling.shape[1] > max_units:
        need = f"needs at most {max_units=} units on one side, got weights of shape {np.shape(weights)}"
        cure = "Estimate log Z by sampling, or raise max_units (each doubles time)."
        raise InputError(f"log_z_by_enumeration {need}. {cure}")
    log_z = -np.inf
    with np.errstate(under="ignore"):  # exp(−1000) may be 0 here, whatever the caller wants elsewhere
        for log_f in _tiles(coupling, summed_bias, enumerated_bias):
            peak = log_f.max()
            log_z = np.logaddexp(log_z, peak + np.log(np.sum(np.exp(log_f - peak))))
    return float(log_z)


def _checked(weights: ArrayLike, vbias: ArrayLike, hbias: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """(W, c, b) in float64, turned so that W is (summed, enumerated) with the smaller side enumerated."""
    coupling, summed_bias, enumerated_bias = (np.asarray(a, np.float64) for a in (weights, vbias, hbias))
    if coupling.ndim != 2 or coupling.shape != summed_bias.shape + enumerated_bias.shape:
        need = "expects weights (visible, hidden), vbias (visible,) and hbias (hidden,)"
        came = f"got {coupling.shape}, {summed_bias.shape} and {enumerated_bias.shape}"
        raise InputError(f"log_z_by_enumeration {need}, {came}. Are weights transposed?")
    if not all(np.isfinite(a).all() for a in (coupling, summed_bias, enumerated_bias)):
        raise InputError("log_z_by_enumeration expects finite weights and biases. Check that training did not diverge.")
    if coupling.shape[0] < coupling.shape[1]:
        return coupling.T, enumerated_bias, summed_bias
    return coupling, summed_bias, enumerated_bias


def _tiles(coupling: Floats, summed_bias: Floats, enumerated_bias: Floats) -> Iterator[Floats]:
    """log f of every enumerated pattern, other side summed out, a tile (row, column) at a time."""
    order, groups = _overflow_free_groups(coupling, summed_bias)
    coupling, summed_bias = coupling[order], summed_bias[order]
    num_summed, num_enumerated = coupling.shape
    # Tables for very many units would not fit: smaller tiles then, but columns too short would run slowly.
    max_patterns = max(32, _MAX_TABLE_ENTRIES // max(num_summed, 1))
    column_bits = min(num_enumerated, _MAX_COLUMN_BITS, max_patterns.bit_length() - 1)
    row_bits = num_enumerated - column_bits
    num_fast = groups[-1].stop if groups else 0

    columns = _bits(0, 2**column_bits, column_bits)
    column_table = _exp_of_first(coupling[:, row_bits:] @ columns.T, num_fast)
    column_log_f = columns @ enumerated_bias[row_bits:]
    num_rows = min(_TILE_PATTERNS >> column_bits, max_patterns)
    for start in range(0, 2**row_bits, num_rows):
        rows = _bits(start, min(start + num_rows, 2**row_bits), row_bits)
        row_fields = summed_bias[:, None] + coupling[:, :row_bits] @ rows.T
        row_log_f = rows @ enumerated_bias[:row_bits]
        log_f = row_log_f[:, None] + column_log_f
        _add_summed_units(log_f, _exp_of_first(row_fields, num_fast), column_table, groups)
        yield log_f


def _overflow_free_groups(coupling: Floats, summed_bias: Floats) -> tuple[NDArray[np.intp], list[slice]]:
    """An order of the summed units, and slices of it whose product Π_i (1 + exp(field_i)) cannot overflow.

    Units after the last slice have fields too large for a table of exponentials.
    """
    # Bounds either half of the field from both sides: a half must neither overflow nor vanish, even where the
    # other half would bring the whole field back in range.
    fits = np.abs(summed_bias) + np.abs(coupling).sum(axis=1) <= _LOG_HUGE
    order = np.argsort(~fits, kind="stable")
    log_factor_bound = np.logaddexp(0.0, summed_bias + np.maximum(coupling, 0.0).sum(axis=1))
    groups, start, log_product = [], 0, 0.0
    num_fast = int(fits.sum())
    for i, bound in enumerate(log_factor_bound[order[:num_fast]]):
        if log_product + bound > _LOG_HUGE and i > start:
            groups.append(slice(start, i))
            start, log_product = i, 0.0
        log_product += bound
    if num_fast:
        groups.append(slice(start, num_fast))
    return order, groups


def _add_summed_units(log_f: Floats, row_table: Floats, column_table: Floats, groups: list[slice]) -> None:
    """Add Σ_i log(1 + exp(field_i)) to `log_f` in place, with one log per group of units."""
    factor, product = np.empty_like(log_f), np.empty_like(log_f)
    for group in groups:
        product.fill(1.0)
        for row, column in zip(row_table[group], column_table[group], strict=True):
            np.multiply(row[:, None], column, out=factor)
            factor += 1.0
            product *= factor
        log_f += np.log(product, out=product)
    num_fast = groups[-1].stop if groups else 0
    for row, column in zip(row_table[num_fast:], column_table[num_fast:], strict=True):
        log_f += np.logaddexp(0.0, row[:, None] + column)


def _exp_of_first(fields: Floats, num_fast: int) -> Floats:
    """`fields` (unit, pattern), exponentiated in place for units that go by products; others stay logs."""
    np.exp(fields[:num_fast], out=fields[:num_fast])
    return fields


def _bits(start: int, stop: int, num_bits: int) -> NDArray[np.uint8]:
    """The bits of start, …, stop − 1, one integer per row, the lowest bit first."""
    codes = np.arange(start, stop, dtype=np.int64)[:, None]
    return (codes >> np.arange(num_bits) & 1).astype(np.uint8)
