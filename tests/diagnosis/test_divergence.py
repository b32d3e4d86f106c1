"""Divergent trajectories: which of them the answer can bear, and what is said of the others."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import tempering as tp
from samples import healthy
from tempering import Verdict
from tempering.diagnosis.divergence import divergences_in_words, divergent
from tempering.stats import MoveCounts

EVEN = np.full(20, -np.log(20))


def _moves(at_middle: float, at_top: float, num_moves: float = 1000.0) -> MoveCounts:
    shares = np.full(20, 0.3)  # at low rungs, where they do not matter
    shares[10:15], shares[15:] = at_middle, at_top
    return MoveCounts(np.full(20, num_moves), np.full(20, 0.6 * num_moves), shares * num_moves)


@pytest.mark.parametrize(
    ("at_middle", "at_top", "std_error", "num_trips", "is_grave"),
    [
        (0.02, 0.1, 0.05, 100.0, True),  # √(0.08/100) is 0.028
        (0.02, 0.1, 0.06, 100.0, False),  # less than half an error
        (0.02, 0.1, 0.05, 200.0, False),  # known better, from more visits
        (0.1, 0.1, 0.001, 1.0, False),  # not more than on the way
        (0.09, 0.1, 0.001, 1.0, False),  # hardly more
        (0.0, 0.1, np.inf, 0.0, False),  # without an error there is another verdict
        (0.0, 0.1, 0.3, 0.0, True),  # without a round trip nothing is known of it
        (0.0, 0.0018, 1e-6, 1.0, False),  # nine are too few
    ],
)
def test_what_an_answer_can_bear(at_middle, at_top, std_error, num_trips, is_grave):
    """Kills: each of the conditions left out, p in place of √(p/n), a division by 0."""
    assert (divergent(_moves(at_middle, at_top), EVEN, std_error, num_trips) is not None) is is_grave


def test_the_finding_and_the_words_say_how_many():
    found = divergent(_moves(0.02, 0.1), EVEN, 0.05, 100.0)
    assert found is not None
    assert found.verdict is Verdict.DIVERGENT
    assert "0.1 of the trajectories at the target diverged, 0.02 at the middle rungs" in found.seen
    assert "after 100 round trips log Z may be off by 0.028 nats, and its error is 0.05" in found.seen
    words = divergences_in_words(_moves(0.0, 0.1))
    assert words.startswith("3500 of 20000 trajectories diverged and were rejected")
    assert divergences_in_words(None) == divergences_in_words(_moves(0.0, 0.0, 0.0)) == ""


def test_a_funnel_under_a_normal_base_is_not_called_good():
    """v ~ N(0, 3²), x_i ~ N(0, e^v), with steps that a quarter of the target is too narrow for. Kills: no finding.

    Runs whose steps were tuned are right now and then, and may be called good.
    """

    def log_f(x):
        return norm.logpdf(x[0], 0, 3.0) + jnp.sum(norm.logpdf(x[1:], 0, jnp.exp(x[0] / 2)))

    how = {"move": tp.HMC(1.0, num_leaps=10), "num_sweeps": 300, "num_rungs": 30}
    result = tp.estimate(tp.LogDensity(log_f, tp.Normal(jnp.zeros(3), 3.0)), **how)
    assert result.diagnosis.found(Verdict.DIVERGENT) or result.diagnosis.found(Verdict.HEAVY_TAILS)


@pytest.mark.slow  # the rule is above, row by row, and so are the words
def test_light_tails_only_cost_time():
    """exp(−x⁴): a fifth of the trajectories fail, at all rungs alike, and the summary says what that means.

    With long trajectories and the steps of the annealed warm-up, which accepts two of three. The default has none.
    """
    model = tp.LogDensity(lambda x: -jnp.sum(x**4), tp.Normal(jnp.zeros(3)))
    how = {"move": tp.HMC(num_leaps=10), "warmup": "annealed", "num_rungs": 20, "num_sweeps": 300}
    result = tp.estimate(model, **how)
    assert result.num_divergent > 1000
    assert not result.diagnosis.found(Verdict.DIVERGENT)
    assert "trajectories diverged and were rejected, which costs time" in result.summary()
    assert healthy().moves is None
    assert dataclasses.replace(result, recording=healthy()).summary().endswith(result.verdict.value)
