"""What every model says of itself: whether it reads rows, the names of its parameters, and advice about verdicts."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import exact
import tempering as tp
from tempering.kernels.moves import BlackJAX, MoveInfo
from tempering.models import AbstractModel, JointRBM, named_leaves

NORMAL = tp.Normal(np.zeros(2))
TRAVEL = (tp.Verdict.STUCK, tp.Verdict.KNOT, tp.Verdict.UNREACHED)
ARGUMENTS = ("base", "num_sweeps", "move", "data")  # of tp.estimate


def _rbm() -> tp.RBM:
    return exact.small_rbm()


def _log_f(x):
    return -jnp.sum(x**2)


MODELS = {
    "rbm": _rbm,
    "joint rbm": lambda: JointRBM(_rbm()),
    "averaged rbm": lambda: tp.MomentAveragedRBM(_rbm()),
    "gaussian rbm": lambda: tp.GaussianRBM(np.eye(2), np.zeros(2), np.ones(2)),
    "categorical rbm": lambda: tp.CategoricalRBM(np.ones((2, 3, 2)), np.zeros((2, 3)), np.ones(2)),
    "ising": lambda: tp.Ising.square(2, 3, 0.4),
    "potts": lambda: tp.Potts.square(3, 2, 3, 0.4),
    "boltzmann": lambda: tp.BoltzmannMachine(np.zeros((3, 3))),
    "log density": lambda: tp.LogDensity(_log_f, NORMAL),
    "sequence": lambda: tp.Sequence([_log_f, _log_f], NORMAL),
    "gaussian": lambda: tp.Gaussian(np.zeros(2)),
    "mixture": lambda: tp.GaussianMixture([1, 1], [[0.0, 1.0], [2.0, 1.0]]),
    "posterior": lambda: tp.Posterior(_log_f, NORMAL),
    "subsampled posterior": lambda: tp.SubsampledPosterior(lambda x: -((x[0] - jnp.arange(3.0)) ** 2), NORMAL),
}
OF_ROWS = {"rbm", "joint rbm", "averaged rbm", "gaussian rbm", "categorical rbm", "ising", "potts", "boltzmann"}
SAYS = {
    "rbm": ("`base=data`", "`tp.MomentAveragedRBM.fitted(rbm, base)`"),
    "joint rbm": ("sums the hidden units out",),
    "averaged rbm": ("more knots",),
    "gaussian rbm": ("`base=data`",),
    "categorical rbm": ("`base=data`",),
    "ising": ("critical coupling", '`base="field"`'),
    "potts": ("critical coupling", '`base="field"`'),
    "boltzmann": ("critical coupling", "`base=data`"),
    "log density": ("`base=tp.Normal(mean, std)`", "rescale"),
    "sequence": ("`base=tp.Normal(mean, std)`", "rescale"),
    "gaussian": ("`base=tp.Normal(mean, std)`",),
    "mixture": ("`base=tp.Normal(mean, std)`",),
    "posterior": ("standardise", "non-centre", "reparametrise", "priors"),
    "subsampled posterior": ("standardise", "non-centre", "reparametrise", "priors"),
}


@pytest.mark.parametrize("name", MODELS)
def test_advice_where_chains_do_not_travel(name):
    """It fits the kind of the model, and reads well between a semicolon and a full stop."""
    model = MODELS[name]()
    for verdict in TRAVEL:
        advice = model.advice(verdict)
        assert advice is not None
        assert all(words in advice for words in SAYS[name])
    for verdict in tp.Verdict:
        advice = model.advice(verdict)
        if advice is not None:
            assert advice[0].islower()
            assert not advice.endswith(".")
            arguments = [a for a in re.findall(r"`([^`]*)`", advice) if not a.startswith("tp.")]
            assert all(argument.split("=")[0] in ARGUMENTS for argument in arguments)
    assert model.advice(tp.Verdict.GOOD) is None


@pytest.mark.parametrize("name", ["posterior", "subsampled posterior"])
def test_a_posterior_is_never_told_to_change_its_base(name):
    model = MODELS[name]()
    for verdict in tp.Verdict:
        assert "base" not in (model.advice(verdict) or "")


def test_advice_where_moves_are_rejected():
    """For HMC, whose gradient and step may be at fault; other moves have neither, and Gibbs sweeps always accept."""
    for name in ("log density", "posterior", "mixture"):
        assert "`move=tp.HMC(0.01)`" in (MODELS[name]().advice(tp.Verdict.FROZEN) or "")
    assert tp.LogDensity(_log_f, NORMAL, move=tp.RandomWalk()).advice(tp.Verdict.FROZEN) is None
    assert MODELS["ising"]().advice(tp.Verdict.FROZEN) is None


def test_advice_where_trajectories_diverge():
    """By the kind of the model: parameters of a hierarchy, or a step and a scale."""
    assert "non-centre" in (MODELS["posterior"]().advice(tp.Verdict.DIVERGENT) or "")
    assert "smaller step" in (MODELS["log density"]().advice(tp.Verdict.DIVERGENT) or "")
    assert MODELS["ising"]().advice(tp.Verdict.DIVERGENT) is None


@pytest.mark.parametrize("name", MODELS)
def test_which_models_read_rows(name):
    model = MODELS[name]()
    assert model.reads_rows == (name in OF_ROWS)
    if not model.reads_rows:
        with pytest.raises(tp.InputError, match="rows of data"):
            model.log_density(np.zeros((1, 2)))


def test_what_moves_say_of_themselves():
    moves = (tp.HMC(), tp.RandomWalk(), tp.BitFlips(), tp.BlockGibbs(), BlackJAX(lambda log_f, beta: None))
    assert [move.needs_gradient for move in moves] == [True, False, False, False, False]
    assert [move.always_accepts for move in moves] == [False, False, False, True, False]
    assert all(move.redraws_base for move in moves)


def test_a_move_of_the_users_own_has_no_gradient_by_default():
    """Then a density without a gradient is accepted."""

    class Still(tp.AbstractMove):
        def __call__(self, key, path, rung, x):
            return x, MoveInfo.accepted()

    def integer_like(x):
        return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), jnp.sqrt(-x)))  # its gradient is NaN everywhere

    assert not Still().needs_gradient
    tp.LogDensity(integer_like, NORMAL, move=Still())
    with pytest.raises(tp.InputError, match="gradient"):
        tp.LogDensity(integer_like, NORMAL)


def test_names_of_parameters():
    x = {"a": jnp.zeros(2), "b": [jnp.ones(()), jnp.ones(3)]}
    assert list(named_leaves(x)) == ["a", "b.0", "b.1"]
    assert list(named_leaves(jnp.zeros(3))) == ["x"]
    assert list(MODELS["log density"]().named(x)) == ["a", "b.0", "b.1"]


def test_a_model_needs_a_path_and_a_move():
    class Half(AbstractModel):
        def move(self):
            return tp.HMC()

    with pytest.raises(TypeError, match="path"):
        Half()


def test_what_to_do_about_heavy_tails_depends_on_whether_the_base_can_be_chosen():
    """A posterior is tempered from its prior. Kills: advice to take another base there."""
    density = tp.LogDensity(lambda x: -jnp.sum(x**2), tp.Normal(jnp.zeros(2)))
    posterior = tp.Posterior(lambda x: -jnp.sum(x**2), tp.Normal(jnp.zeros(2)))
    assert "tp.Student" in density.advice(tp.Verdict.HEAVY_TAILS)
    assert "non-centre" in posterior.advice(tp.Verdict.HEAVY_TAILS)
