"""Exact log Z, against sums that share none of the code; each test names the mutants it kills."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logsumexp

from tempering.models.rbm import enumeration
from tempering.models.rbm.enumeration import bit_patterns, enumeration_cost, log_z_by_enumeration

SMALL_RBMS = Path(__file__).resolve().parents[3] / "shared" / "data" / "rbm_mnist_small.npz"


def random_rbm(num_visible, num_hidden, scale=1.0, seed=0):
    """(W, c, b) without symmetry: all means differ from zero, and visible from hidden."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0.2, 1.0, (num_visible, num_hidden)) * scale
    vbias, hbias = rng.normal(-0.7, 1.0, num_visible), rng.normal(0.4, 1.0, num_hidden)
    return weights, vbias * scale, hbias * scale


def all_bits(n):
    return np.array(list(product([0.0, 1.0], repeat=n))).reshape(2**n, n)


def log_z_over_both(weights, vbias, hbias):
    """log Σ_{v,h} f(v, h), every joint state visited."""
    v, h = all_bits(len(vbias)), all_bits(len(hbias))
    return logsumexp((v @ vbias)[:, None] + v @ weights @ h.T + h @ hbias)


def log_z_in_logs(weights, vbias, hbias):
    """Visible units summed unit by unit in log space, so that no field is too large."""
    h = all_bits(len(hbias))
    return logsumexp(h @ hbias + np.logaddexp(0.0, vbias + h @ weights.T).sum(axis=1))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (7, 4), (4, 4), (1, 1), (1, 6)])
def test_equals_the_sum_over_all_joint_states(shape):
    """Kills: biases swapped, either bias dropped, weights not transposed with the sides, bits off by one."""
    rbm = random_rbm(*shape)
    assert log_z_by_enumeration(*rbm) == pytest.approx(log_z_over_both(*rbm), rel=1e-12)


@pytest.mark.parametrize("shape", [(13, 12), (12, 14), (18, 17)])
def test_rows_columns_and_tiles_cover_every_pattern(shape):
    """Kills: row bits' weights or biases dropped, row and column bits swapped, first or last tile skipped."""
    rbm = random_rbm(*shape)
    assert log_z_by_enumeration(*rbm) == pytest.approx(log_z_in_logs(*rbm), rel=1e-12)


def test_small_tiles_for_very_many_units(monkeypatch):
    """Kills: the last, incomplete tile skipped or read past its end."""
    monkeypatch.setattr(enumeration, "_MAX_TABLE_ENTRIES", 13 * 40)  # the 128 rows go by tiles of 40
    rbm = random_rbm(13, 12)
    assert log_z_by_enumeration(*rbm) == pytest.approx(log_z_in_logs(*rbm), rel=1e-12)


@pytest.mark.parametrize("shape", [(9, 6), (13, 12)])
@pytest.mark.parametrize("largest_field", [40.0, 400.0, 2000.0])
@pytest.mark.filterwarnings("error")
def test_large_fields_neither_overflow_nor_vanish(largest_field, shape):
    """Kills: a group bound of 7000, groups never closed, the log-space path left out."""
    weights, vbias, hbias = random_rbm(*shape)
    scale = largest_field / np.max(np.abs(vbias) + np.abs(weights).sum(axis=1))
    rbm = weights * scale, vbias * scale, hbias * scale
    assert log_z_by_enumeration(*rbm) == pytest.approx(log_z_in_logs(*rbm), rel=1e-12)


@pytest.mark.filterwarnings("error")
def test_halves_of_a_field_that_cancel():
    """Kills: a path chosen by the upper bound alone or without the bias: exp(−800) · exp(799) is 0 · inf."""
    weights, vbias, hbias = random_rbm(13, 12)
    vbias[4], weights[4], weights[4, 3] = -800.0, 0.0, 799.0
    vbias[7], weights[7], weights[7, 5], weights[7, 0] = 2.0, 0.0, -760.0, 759.0
    vbias[9], weights[9], weights[9, 6] = 760.0, 0.0, -690.0
    rbm = weights, vbias, hbias
    assert log_z_by_enumeration(*rbm) == pytest.approx(log_z_in_logs(*rbm), rel=1e-12)


def test_either_side_may_be_enumerated():
    """Kills: a bias or row weights left out. Square weights are not turned, so .T sums the other side."""
    weights, vbias, hbias = random_rbm(11, 11)
    assert log_z_by_enumeration(weights, vbias, hbias) == pytest.approx(
        log_z_by_enumeration(weights.T, hbias, vbias), rel=1e-12
    )


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (1500, 3), (3, 1500), (5, 0)])
@pytest.mark.filterwarnings("error")
def test_zero_weights_give_the_closed_form(shape):
    """Kills: a group bound that counts fields only, so that 1500 factors near 2 overflow; a bias dropped."""
    _, vbias, hbias = random_rbm(*shape)
    expected = np.logaddexp(0.0, vbias).sum() + np.logaddexp(0.0, hbias).sum()
    assert log_z_by_enumeration(np.zeros(shape), vbias, hbias) == pytest.approx(expected, rel=1e-12)


def test_float32_parameters_are_summed_in_float64():
    """Kills: tables kept in the dtype of the weights."""
    rbm32 = [a.astype(np.float32) for a in random_rbm(9, 7)]
    rbm64 = [a.astype(np.float64) for a in rbm32]
    assert log_z_by_enumeration(*rbm32) == log_z_by_enumeration(*rbm64)


def test_arguments_are_left_as_they_were():
    """Kills: a table of exponentials written over the caller's arrays."""
    rbm = random_rbm(6, 5)
    copies = [a.copy() for a in rbm]
    log_z_by_enumeration(*rbm)
    assert all(np.array_equal(a, b) for a, b in zip(rbm, copies, strict=True))


def test_numpy_error_state_is_neither_obeyed_nor_changed():
    """Kills: no local errstate, where a caller who raises on underflow gets an exception from exp(−1000)."""
    weights, vbias, hbias = random_rbm(9, 6, scale=80.0)
    with np.errstate(all="raise"):
        before = np.geterr()
        assert np.isfinite(log_z_by_enumeration(weights, vbias, hbias))
        assert np.geterr() == before


def test_too_many_units_raise():
    """Kills: a limit on the larger side, a limit that is off by one, and one that is not checked at all."""
    with pytest.raises(ValueError, match=r"at most max_units=4 units .* got weights of shape \(9, 5\)"):
        log_z_by_enumeration(*random_rbm(9, 5), max_units=4)
    assert np.isfinite(log_z_by_enumeration(*random_rbm(9, 4), max_units=4))
    with pytest.raises(ValueError, match="max_units=25"):
        log_z_by_enumeration(*random_rbm(30, 26))


def test_wrong_shapes_and_values_raise():
    """Kills: no check at the door; a square or a (1, n) bias would broadcast to a wrong number."""
    weights, vbias, hbias = random_rbm(5, 3)
    with pytest.raises(ValueError, match="Are weights transposed"):
        log_z_by_enumeration(weights.T, vbias, hbias)
    with pytest.raises(ValueError, match=r"vbias \(visible,\)"):
        log_z_by_enumeration(weights, vbias[:1], hbias)
    with pytest.raises(ValueError, match="finite"):
        log_z_by_enumeration(weights, vbias * np.nan, hbias)


def test_cost_is_an_exact_integer():
    """Kills: the exponent from the larger side, and a cost in floats or int64, which 2**500 overflows."""
    assert enumeration_cost(np.zeros((784, 20))) == enumeration_cost(np.zeros((20, 784))) == 2**20 * 784
    assert enumeration_cost(np.zeros((784, 500))) == 2**500 * 784
    assert isinstance(enumeration_cost(np.zeros((3, 2))), int)


def test_bit_patterns_are_the_bits_of_the_row_number():
    """Kills: the highest bit first, a row missing, a wider dtype."""
    assert bit_patterns(2).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert bit_patterns(0).shape == (1, 0)
    patterns = bit_patterns(11)
    assert patterns.dtype == np.uint8
    assert (patterns @ 2 ** np.arange(11) == np.arange(2**11)).all()


@pytest.mark.parametrize(("n", "log_z"), [(10, 226.113154853), (15, 216.061544066), (20, 221.066789611)])
def test_trained_mnist_rbms(n, log_z):
    """Kills: groups that overflow on real fields. Values from an independent enumeration, given to 1e-9."""
    if not SMALL_RBMS.exists():
        pytest.skip(f"needs the trained RBMs in {SMALL_RBMS}")
    rbms = np.load(SMALL_RBMS)
    got = log_z_by_enumeration(rbms[f"W_{n}"], rbms[f"vbias_{n}"], rbms[f"hbias_{n}"])
    assert got == pytest.approx(log_z, abs=1e-8)
