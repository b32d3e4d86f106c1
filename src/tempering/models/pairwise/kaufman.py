"""Kaufman's exact log Z of the Ising model on a torus."""

import numpy as np

_COLD = 100.0  # beyond this coupling all but the two ordered states weigh less than e^−800 each


def kaufman_log_z(rows: int, columns: int, coupling: float) -> float | None:
    """log Σ_s exp(K Σ_bonds s_i s_j) on a periodic rows × columns square lattice, without a field (Kaufman 1949).

    With m rows and n columns, cosh γ_l = cosh 2K coth 2K − cos(πl/n) and γ_0 = 2K + log tanh K, which may be negative,

        Z = ½ (2 sinh 2K)^(mn/2) (Π 2cosh ½mγ_odd + Π 2sinh ½mγ_odd + Π 2cosh ½mγ_even + Π 2sinh ½mγ_even),

    each product over n of the 2n values of l. None for K < 0 and an odd side: only with even sides do the spins of
    every other site flip to turn K into −K.
    """
    if coupling < 0 and (rows % 2 or columns % 2):
        return None
    k, num_sites = abs(coupling), rows * columns
    if k == 0:
        return num_sites * float(np.log(2))
    if k > _COLD:
        return float(np.log(2)) + 2 * num_sites * k
    above_one = np.cosh(2 * k) / np.tanh(2 * k) - 1 - np.cos(np.pi * np.arange(2 * columns) / columns)
    above_one = np.maximum(above_one, 0)  # cosh γ − 1; only l = 0 can come near 0, and has its own formula
    gammas = np.log1p(above_one + np.sqrt(above_one * (above_one + 2)))
    gammas[0] = 2 * k + np.log(np.tanh(k))
    halves = rows * gammas / 2
    odd, even = np.abs(halves[1::2]), np.abs(halves[0::2])
    # 2 sinh at γ_0 = 0, where the lattice is critical, is 0, and its logarithm −inf is meant.
    with np.errstate(divide="ignore"):
        products = [_log_2cosh(odd), _log_2sinh(odd), _log_2cosh(even), _log_2sinh(even)]
    logs = np.array([product.sum() for product in products])
    peak = logs.max()
    total = peak + np.log(np.exp(logs - peak) @ np.array([1, 1, 1, np.sign(gammas[0])]))
    log_2sinh_2k = float(_log_2sinh(np.array([2 * k]))[0])
    return num_sites / 2 * log_2sinh_2k - float(np.log(2)) + float(total)


def _log_2cosh(x: np.ndarray) -> np.ndarray:
    return x + np.log1p(np.exp(-2 * x))


def _log_2sinh(x: np.ndarray) -> np.ndarray:
    return x + np.log(-np.expm1(-2 * x))
