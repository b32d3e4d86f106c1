"""What the benchmarks beside other packages compute and say; their timings are asserted nowhere."""

import importlib
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from scipy import stats

import checks
from pages import ROOT


@pytest.fixture(scope="module")
def script():
    """A module of benchmarks/, which import one another."""
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module
    sys.path[:] = before


def test_places_are_ranks(script):
    """Kills: a rank that counts from the other end, one that counts itself."""
    tables = script("peer_tables")
    assert tables.place({"tempering": 2.0, "a": 1.0, "b": 3.0, "c": 4.0}) == "2nd of 4"
    assert [tables.ordinal(n) for n in (1, 3, 4, 11, 12, 21)] == ["1st", "3rd", "4th", "11th", "12th", "21st"]


def answered(rmse, seconds, claimed=0.1):
    return {"runs": [{}], "rmse": rmse, "bias": 0.0, "claimed": claimed, "first_seconds": 9.0, "seconds": seconds,
            "why": None}  # fmt: skip


def test_a_package_that_is_better_in_both_is_named_and_a_missing_one_says_why(script):
    """Kills: a sentence that praises whatever the numbers are, a package that gave no answer among those ranked."""
    tables = script("peer_tables")
    missing = {"runs": [], "why": "not installed"}
    peers = {"tempering": answered(0.2, 2.0), "quick": answered(0.1, 1.0, None), "rough": answered(0.3, 0.5)}
    told = tables.place_in_evidence("d = 10", peers | {"absent": missing})
    assert "2nd of 3 by error, 3rd of 3 by time" in told
    assert "2.0 times what we claim; better in both error and time: quick." in told
    content = {
        "rows": {"d = 10": peers | {"absent": missing}},
        "versions": {"tempering": "1", "absent": None},
        "settings": {"tempering": "defaults", "absent": "defaults"},
        "limit": 90,
    }
    _, text, header, rows = tables.evidence(content)
    assert "absent (not installed)" in text
    assert rows[-1] == ["d = 10", "absent", "0", "–", "–", "–", "–", "–", "not installed"]
    assert {len(row) for row in rows} == {len(header)}
    del peers["quick"]
    assert "nobody is better in both" in tables.place_in_evidence("d = 10", peers)


@pytest.mark.parametrize(("to_rts", "times", "verdict"), [(0.9, "1.11", "met"), (0.5, "2.00", "missed")])
def test_a_sweep_that_misses_its_aim_is_said_to(script, to_rts, times, verdict):
    """Kills: the ratio of the wrong way round, an aim that is always met, torch's absence as an error."""
    told = script("peer_tables").place_of_sweep({"two matrix products": {"to_rts_100": to_rts}}, 100, "")
    assert f"{times} × the two matrix products (at most 1.25 was aimed for: {verdict})" in told


def test_times_to_a_target_follow_squares_of_errors(script):
    """Twice the error is four times the time. Kills: errors without their bias, seconds of the run that compiled."""
    found = script("rmse_time").summary([
        {"error": 0.2, "seconds": 50.0, "compiles": True},
        {"error": 0.2, "seconds": 3.0, "compiles": False},
    ])  # fmt: skip
    assert found["seconds_to_target"] == pytest.approx(12.0)
    assert found["first_seconds"] == 50.0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit, when rbms is imported
def test_annealing_in_groups_is_that_of_rbms(script):
    """The same seed gives what `compute_partition_function_ais` does.

    Kills: a step too few, weights between other models, an average of logarithms.
    """
    torch = pytest.importorskip("torch", reason="torch is not installed")
    ais = pytest.importorskip("rbms.partition_function.ais", reason="rbms is not installed")
    from rbms.bernoulli_bernoulli.classes import BBRBM

    rng = np.random.default_rng(0)
    shapes = {"weight_matrix": (6, 4), "vbias": 6, "hbias": 4}
    params = BBRBM(**{name: torch.tensor(rng.normal(0, 0.7, shape), dtype=torch.float32)
                      for name, shape in shapes.items()})  # fmt: skip
    torch.manual_seed(1)
    (ours,) = script("rmse_time").annealed_log_z(params, 10, 1)
    torch.manual_seed(1)
    assert ours == pytest.approx(ais.compute_partition_function_ais(100, 10, params), abs=1e-5)


def test_exponents_are_those_of_powers(script):
    """Kills: sizes and seconds exchanged, logarithms left out."""
    found = script("growth").exponents((10, 30, 100), [2 * size**1.5 for size in (10, 30, 100)])
    assert found == pytest.approx({"exponent": 1.5, "last_exponent": 1.5})


def test_the_truths_of_the_evidences(script):
    """Eight schools as in tests/frontends/test_peers.py by another grid; importance sampling on a normal posterior."""
    problems = script("evidence_problems")
    assert problems.schools_log_z() == pytest.approx(-31.036, abs=5e-4)
    ten = problems.normal(10)
    found, error = problems.by_importance(ten.log_likelihood, 10, num_draws=20_000)
    checks.assert_within(found, ten.log_z(), error)


def exact_draws(name, number=20_000):
    """Draws of a target of the coverage study that can be drawn from."""
    rng = np.random.default_rng(11)
    if name.startswith("funnel"):
        v = 3 * rng.normal(size=number)
        return np.column_stack([v, np.exp(v / 2)[:, None] * rng.normal(size=(number, 9))])
    if name.startswith("four"):
        signs = np.array([[1.0] * 6, [-1.0] * 6, [1.0, -1.0] * 3, [-1.0, 1.0] * 3])
        mode = rng.choice(4, number, p=np.array([1.0, 2.0, 0.5, 4.0]) / 7.5)
        return 3 * signs[mode] + np.array([0.5, 0.8, 0.6, 1.0])[mode, None] * rng.normal(size=(number, 6))
    if name.startswith("wide component"):
        return np.where(rng.random(number) < 0.1, 10.0, 1.0)[:, None] * rng.normal(size=(number, 5))
    return np.linspace(-1.0, 1.5, 5) + rng.standard_t(1 if name.startswith("Cauchy") else 2, size=(number, 5))


@pytest.mark.parametrize("name", [
    "funnel under N(0, 3²), 10-d", "funnel under Student, 10-d", "Cauchy under N(0, 3²), 5-d",
    "Cauchy under Student, 5-d", "Student 2 under N(0, 3²), 5-d", "Student 2 under Student, 5-d",
    "four unequal modes, 6-d", "wide component under N(0, 1.5²), 5-d", "wide component under Student, 5-d",
])  # fmt: skip
def test_light_bases_are_those_over_which_the_target_is_skewed_to_the_right(script, name):
    """By exact draws. Kills: a problem whose false alarms are excused though its base is wide, or the other way."""
    script("turns")  # which knows where the experiments are
    kind = script("problems").PROBLEMS[name]
    problem = kind.make()
    path = problem.model.path(problem.base, np.array([0.0, 1.0]))
    rises = np.asarray(jax.jit(jax.vmap(path.slope))(exact_draws(name).astype(np.float32)), np.float64)
    assert np.isfinite(rises).all()
    assert bool(stats.skew(rises) > 0) is kind.has_light_base


@pytest.mark.slow  # PyMC is imported, and compiles five models
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_pymc_and_jax_have_the_same_likelihoods(script):
    """Kills: labels the wrong way round, features that are scaled otherwise, a model that belongs to another name."""
    pymc = pytest.importorskip("pymc", reason="PyMC is not installed")
    problems, peers = script("evidence_problems"), script("evidence_peers")
    for name, make in problems.PROBLEMS.items():
        problem = make()
        x = np.random.default_rng(3).normal(0, 0.3, problem.num_dims)
        with pymc.Model() as model:
            peers.pymc_model(name, problem.num_dims)
        joint = model.compile_logp()({"x": x}) - stats.norm.logpdf(x).sum()
        assert float(problem.log_likelihood(x.astype(np.float32))) == pytest.approx(joint, rel=1e-5), name


def test_a_process_that_does_not_end_is_ended_with_its_children_and_its_rows_are_kept(script, tmp_path):
    """Kills: a limit that is not kept, rows that are lost with the process, a child that goes on."""
    file = tmp_path / "slow.py"
    file.write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('words'); print('{\"pid\": %d}' % child.pid, flush=True); time.sleep(60)\n"
    )
    rows, why = script("turns").alone(str(file), [], limit=3.0)
    assert why == "did not end in 3 s"
    time.sleep(0.2)
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(rows[0]["pid"])], capture_output=True, text=True).stdout
    assert state.strip()[:1] in ("", "Z"), "the child still runs"


def test_a_process_that_fails_says_why(script, tmp_path):
    file = tmp_path / "fails.py"
    file.write_text("print('{\"a\": 1}')\nraise ValueError('no such thing')\n")
    rows, why = script("turns").alone(str(file), [], limit=30.0)
    assert rows == [{"a": 1}]
    assert why == "failed: ValueError: no such thing"
    file.write_text("import os; assert 'JAX_COMPILATION_CACHE_DIR' not in os.environ\n")
    assert script("turns").alone(str(file), [], limit=30.0) == ([], None)
