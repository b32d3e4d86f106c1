"""Draws for ArviZ: resampled by their weights, named, and in a tree that ArviZ reads."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import types
import warnings
from contextlib import suppress
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import checks
import tempering as tp
from pages import ROOT
from tempering import InputError
from tempering.results.arviz_tree import to_arviz
from tempering.stats import WeightedDraws

xarray = pytest.importorskip("xarray", reason="draws for ArviZ are made by xarray")

ATTRIBUTES = {"log_z": -3.5, "std_error": 0.1, "interval": (-3.7, -3.3), "verdict": "good", "measure": "y", "seed": 4}


def draws_of(x, log_weights, rungs) -> WeightedDraws:
    return WeightedDraws(x, np.asarray(log_weights, np.float64), rungs, log_weights.shape[-1])


def named(x):
    return {"scale": jnp.exp(x["u"]), "place": 2 * x["v"]}


def tempered(num_chains: int, num_draws: int, seed: int = 0) -> WeightedDraws:
    """x from a wide normal law, weighted to one of mean 1 and standard deviation 0.5."""
    x = np.random.default_rng(seed).normal(0, 2, (num_chains, num_draws)).astype(np.float32)
    log_weights = -0.5 * ((x - 1) / 0.5) ** 2 + 0.5 * (x / 2) ** 2 + 700.0  # any constant will do
    place = np.stack([x, -x, x + 1], axis=-1)
    return draws_of({"u": x, "v": place}, log_weights, (np.arange(x.size) % 3).reshape(x.shape))


def test_resampled_draws_follow_the_target():
    """Kills: resampling without weights, by log weights, or of x and rungs by different picks."""
    draws = tempered(40, 3000)
    tree = to_arviz(draws, named, ATTRIBUTES, betas=np.array([0.0, 0.3, 1.0]))
    posterior, stats = tree["posterior"], tree["sample_stats"]
    assert posterior["scale"].sizes["chain"] == 4
    u = np.log(posterior["scale"].values)
    # At most as many picks as the draws are worth, about 31 000 in all: they are nearly independent.
    checks.assert_mean(u.ravel(), 1.0)
    checks.assert_mean((u.ravel() - 1) ** 2, 0.25)
    # each pick is one draw of the run, with all that belongs to it
    source = stats["source_chain"].values, stats["source_draw"].values
    np.testing.assert_allclose(u, draws.x["u"][source], atol=1e-5)
    np.testing.assert_array_equal(stats["rung"].values, draws.rungs[source])
    np.testing.assert_array_equal(stats["beta"].values, np.array([0.0, 0.3, 1.0])[draws.rungs[source]])
    np.testing.assert_allclose(posterior["place"].values, 2 * draws.x["v"][source], rtol=1e-6)
    assert posterior["place"].dims == ("chain", "draw", "place_dim_0")
    # groups share no chain, and keep the order of the run
    assert len(set.intersection(*(set(row) for row in stats["source_chain"].values))) == 0
    assert np.all(np.diff(source[0] * 3000 + source[1], axis=1) >= 0)


def test_systematic_resampling_is_exact_where_it_can_be():
    """Weights 2 : 1 : 1 over three draws give the first one half of the picks; a weight of 0 none."""
    log_weights = np.log(np.array([[2.0, 1.0, 1.0, 1e-300]] * 4))
    x = {"u": np.zeros((4, 4), np.float32), "v": np.zeros((4, 4), np.float32)}
    picks = to_arviz(draws_of(x, log_weights, np.tile(np.arange(4), (4, 1))), named, {})["sample_stats"]["rung"].values
    assert picks.shape == (4, 2)  # 1/Σw² = 2.67 of each chain
    assert np.all(picks[:, 0] == 0)
    assert set(picks[:, 1]) <= {1, 2}


def test_all_draws_with_their_weights():
    draws = tempered(5, 200)
    tree = to_arviz(draws, named, ATTRIBUTES, weights=True)
    weights = np.exp(tree["sample_stats"]["log_weight"].values)
    assert weights.shape == (5, 200)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.diff(np.log(weights)), np.diff(draws.log_weights.astype(np.float64)), atol=1e-9)
    np.testing.assert_allclose(np.log(tree["posterior"]["scale"].values), draws.x["u"], atol=1e-5)


def test_the_answer_travels_along(tmp_path):
    tree = to_arviz(tempered(2, 50), named, ATTRIBUTES)
    assert tree["posterior"].sizes["chain"] == 2
    assert tree.attrs["log_z"] == -3.5
    assert tree.attrs["interval"] == [-3.7, -3.3]
    assert tree.attrs["inference_library"] == "tempering"
    assert tree["posterior"].attrs["verdict"] == "good"


@pytest.mark.parametrize("bad", [np.full((2, 3), -np.inf), np.full((2, 3), np.nan)])
def test_draws_without_weight_are_refused(bad):
    x = {"u": np.zeros((2, 3), np.float32), "v": np.zeros((2, 3), np.float32)}
    with pytest.raises(InputError, match="no posterior"):
        to_arviz(draws_of(x, bad, np.zeros((2, 3), int)), named, {})


def test_the_installed_arviz_reads_it():
    """Its tables, its diagnostics and its pictures. Kills: a DataTree for ArviZ 0.x, an InferenceData for 1.x."""
    pytest.importorskip("matplotlib").use("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what ArviZ says of its own future, and what its libraries say of each other
        arviz = pytest.importorskip("arviz", reason="ArviZ is not installed")
        data = to_arviz(tempered(40, 2000), named, ATTRIBUTES)
        table = arviz.summary(data, var_names=["place"])
        sizes, ratios = arviz.ess(data), arviz.rhat(data)
        arviz.plot_trace(data)
    assert table["mean"].to_numpy(float) == pytest.approx([2.0, -2.0, 4.0], abs=0.1)
    assert table["r_hat"].to_numpy(float) == pytest.approx([1.0, 1.0, 1.0], abs=0.02)
    assert float(sizes["scale"].values) > 1000  # nearly independent picks, about 20 000
    assert ratios["place"].values == pytest.approx([1.0, 1.0, 1.0], abs=0.02)


def newer_python() -> str | None:
    """A Python on which ArviZ 1.x can be installed: this one, one by its name, or one that stands beside this one."""
    beside = Path(sys.base_prefix).parent.glob(
        "3.1[2-9]*/bin/python3"
    )  # as pyenv has them, whose names may be inactive
    for name in (sys.executable, "python3.12", "python3.13", "python3.14", *map(str, sorted(beside))):
        asked = [shutil.which(name) or name, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]
        with suppress(OSError):
            if not subprocess.run(asked, capture_output=True).returncode:
                return asked[0]
    return None


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_other_arviz_reads_it_too(tmp_path):
    """Slow, since it makes an environment with ArviZ 1.x, or 0.x where 1.x is installed, and runs the test above there.

    Kills: a DataTree for ArviZ 0.x, an InferenceData for 1.x.
    """
    has_old = importlib.metadata.version("arviz").startswith("0.")
    wanted, python = ("arviz>=1", newer_python()) if has_old else ("arviz<1", sys.executable)
    if python is None:
        pytest.skip("ArviZ 1.x needs Python 3.12 or newer, and there is none")
    subprocess.run([python, "-m", "venv", tmp_path], check=True)
    program = tmp_path / "bin" / "python"
    needed = [wanted, "matplotlib<3.11", "pytest", "pytest-timeout", "beartype", "scipy"]
    installed = subprocess.run(
        [program, "-m", "pip", "install", "--quiet", f"{ROOT}[arviz,train]", *needed], capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip(f"{wanted} cannot be installed here: {installed.stderr.splitlines()[-1]}")
    # XLA's flags are for the JAX of this environment; the other may not know one of them, and ends.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XLA"))}
    found = [program, "-c", "import importlib.metadata as m; print(m.version('arviz'))"]
    version = subprocess.run(found, env=clean, capture_output=True, text=True, check=True).stdout
    assert version.startswith("0.") != has_old
    test = f"{__file__}::{test_the_installed_arviz_reads_it.__name__}"
    ran = subprocess.run(
        [program, "-m", "pytest", "-q", "-o", "addopts=", test], env=clean, cwd=ROOT, capture_output=True, text=True
    )
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize(("version", "is_tree"), [("0.23.4", False), ("1.0.0", True), ("1.2.0rc1", True), (None, True)])
def test_what_arviz_gets_depends_on_its_version(monkeypatch, version, is_tree):
    """Guards both versions, whichever is installed; 0.x is stood in for by what it would be called with."""

    def installed(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    made = types.ModuleType("arviz")
    made.InferenceData = lambda **groups: groups
    monkeypatch.setattr(importlib.metadata, "version", installed)
    monkeypatch.setitem(sys.modules, "arviz", made)
    data = to_arviz(tempered(2, 50), named, ATTRIBUTES)
    assert isinstance(data, xarray.DataTree) == is_tree
    if not is_tree:
        assert data.keys() == {"attrs", "posterior", "sample_stats"}
        assert data["attrs"]["verdict"] == "good"
        assert data["posterior"]["place"].dims == ("chain", "draw", "place_dim_0")


def test_a_result_by_its_names():
    """From a model to a tree: constrained parameters by name, log Z and what it refers to in the attributes."""
    model = tp.Posterior(
        lambda u: -0.5 * (u - 1.0) ** 2, tp.Normal(0.0, 2.0), constrain=lambda u: {"rate": jnp.exp(u)}, measure="rates"
    )
    result = tp.estimate(model, num_chains=20, num_sweeps=200, num_rungs=10, seed=6)
    tree = result.to_arviz()
    assert tree.attrs["log_z"] == result.log_z
    assert tree.attrs["measure"] == "rates"
    assert set(tree["posterior"].data_vars) == {"rate"}
    u = np.log(tree["posterior"]["rate"].values)
    assert u.mean() == pytest.approx(0.8, abs=0.15)  # precisions 1/4 and 1: mean 0.8, standard deviation 0.89
    assert u.std() == pytest.approx(0.89, abs=0.12)
    everything = result.to_arviz(weights=True)
    weights = np.exp(everything["sample_stats"]["log_weight"].values)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights * np.log(everything["posterior"]["rate"].values)).sum() == pytest.approx(0.8, abs=0.15)
