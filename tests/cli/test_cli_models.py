"""Any model on the command line: how it is named, what is refused, and that runs of it can be resumed."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import checks
import tempering as tp
from tempering.frontends.loading import load
from tempering.frontends.named_models import FAMILIES
from tempering.models import GaussianMixture

QUICK = ("--warmup", "iterations", "--chains", "20", "--sweeps", "64", "--rungs", "6")

GOOD = """
from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import neighbour
import tempering as tp

print("a line that is not JSON")


class Power(eqx.Module):
    power: int

    def __call__(self, x):
        return -jnp.sum(x**self.power)


model = tp.LogDensity(Power(neighbour.POWER), tp.Normal(jnp.zeros(2)), move=tp.RandomWalk(0.7))


def make():
    return model


def density(x):
    return x


def number():
    return 3


def divides():
    return 1 / neighbour.NOTHING


def leaves():
    raise SystemExit("no reason")


def never():
    return tp.LogDensity(lambda x: jnp.nan * x, tp.Normal(0.0))


def in_numpy():
    import numpy as np

    def log_f(x):
        return np.exp(np.asarray(x))

    return tp.LogDensity(log_f, tp.Normal(0.0))


def of_no_base():
    return tp.LogDensity(lambda x: -x**2, base="normal")
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    (folder / "target.py").write_text(GOOD)
    (folder / "neighbour.py").write_text("POWER, NOTHING = 4, 0\n")
    (folder / "syntax.py").write_text("x = 1\ny = (\n")
    (folder / "imports.py").write_text("\nimport nothing_of_this_name\n")
    (folder / "empty.py").write_text("")
    (folder / "mixture").write_text("a file that is called like a word")
    (folder / "notes.txt").write_text("not a model")
    return folder


@pytest.fixture
def tempering(tempering, monkeypatch, files):
    """The command line in the folder of the files."""
    monkeypatch.chdir(files)
    monkeypatch.setattr("tempering.cli.common.use_cores", lambda devices: None)
    return tempering


def only_json(text: str) -> dict:
    assert text.count("\n") == 1
    return json.loads(text)


# Names of models.


def test_words_and_files_become_models(files, monkeypatch):
    """Kills: a file named like a word that is read instead of it, a name that is not looked up."""
    monkeypatch.chdir(files)
    mixture = load("mixture")
    assert isinstance(mixture, GaussianMixture)
    assert mixture.means.shape == (2, 10)
    assert isinstance(load("target.py:model"), tp.LogDensity)
    assert isinstance(load(files / "target.py:make"), tp.LogDensity)
    with pytest.raises(tp.InputError, match="no suffix"):
        load("./mixture")
    with pytest.raises(tp.InputError, match="no suffix"):
        load(Path("mixture"))


def test_an_ising_model_by_its_name():
    ising = pytest.importorskip("tempering.models.pairwise.ising", reason="Ising models are not here yet")
    model = load("ising:3x4:0.25")
    assert isinstance(model, ising.Ising)
    assert model.quick_log_z() == pytest.approx(ising.Ising.square(3, 4, 0.25).quick_log_z())
    assert load("ising:3x4:-.5").quick_log_z() != model.quick_log_z()


@pytest.mark.parametrize(("spec", "expected"), [
    ("potts:2x3:4:0.7", lambda: tp.Potts.square(4, 2, 3, 0.7)),
    ("ising:2x3:-.5", lambda: tp.Ising.square(2, 3, -0.5)),
    ("mixture", tp.paper_mixture),
])  # fmt: skip
def test_a_family_by_its_name(spec, expected):
    """Kills: rows, columns and colours in another order, and a coupling of the wrong sign."""
    model = load(spec)
    assert type(model) is type(expected())
    assert model.quick_log_z() == pytest.approx(expected().quick_log_z(), abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_family_has_its_example(family):
    """Guards the examples that people are shown: each is a model with a quick exact answer, the same each time."""
    first, second = load(family.example), load(family.example)
    assert first.quick_log_z() is not None
    assert first.quick_log_z() == second.quick_log_z()


def test_the_numbers_of_a_family_mean_what_they_say():
    """Kills: visible and hidden exchanged, categories in the place of units, a scale that is not one."""
    rbm, categories = load("rbm:40x30:0.5"), load("categorical_rbm:5x4:3:0.5")
    assert rbm.weights.shape == (40, 30)
    assert rbm.weights.std() == pytest.approx(0.5, rel=0.1)  # fixed numbers, not a random check
    assert (categories.num_visible, categories.num_hidden, categories.num_categories) == (5, 4, 3)
    assert isinstance(load("gaussian_rbm:5x4:0.5"), tp.GaussianRBM)
    machine, normal = load("boltzmann:30:2"), load("gaussian:4:3")
    assert machine.couplings.std() == pytest.approx(2 / np.sqrt(30), rel=0.1)
    assert len(machine.couplings) == 30 * 29 / 2
    assert np.linalg.norm(normal.mean) == pytest.approx(3.0)


def test_a_python_file_leaves_no_trace(files, monkeypatch):
    """Guards the search path, also where the file fails or changes it, and that the file is run once."""
    before, modules = list(sys.path), set(sys.modules)
    counting = files / "counting.py"
    counting.write_text("import sys, neighbour\nsys.path.append('elsewhere')\nsys.runs = getattr(sys, 'runs', 0) + 1\n"
                        "from target import model\n")  # fmt: skip
    monkeypatch.setattr(sys, "runs", 0, raising=False)
    load(f"{counting}:model")
    assert sys.path == before
    assert sys.runs == 1
    with pytest.raises(tp.InputError, match=r"imports\.py:2: ModuleNotFoundError"):
        load(files / "imports.py:x")
    assert sys.path == before
    assert set(sys.modules) - modules <= {"neighbour", "target", "_tempering_model_counting"}
    for name in ("neighbour", "target", "_tempering_model_counting"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("spec", "line"), [
    ("target.py", "target.py needs the name of a model after it. Write target.py:NAME."),
    ("target.py:", "target.py: must end in the name of a model after the colon, as in target.py:model."),
    ("target.py:a.b", "target.py:a.b must end in the name of a model after the colon, as in target.py:model."),
    ("target.py:other", "target.py has no other. It defines: Power, model, make, density, number, divides, leaves, "
     "never, in_numpy, of_no_base."),
    ("empty.py:x", "empty.py is empty (0 bytes). Save or copy it again."),
    ("target.py:density", "target.py:density takes arguments, expected a model or a function of none that returns "
     "one. A density alone becomes a model by tp.LogDensity(log_f, base)."),
    ("target.py:number", "target.py:number must be a model such as tp.LogDensity(log_f, base), or a function that "
     "returns one; got a int."),
    ("target.py:divides", "target.py:35: ZeroDivisionError: division by zero"),
    ("target.py:leaves", "target.py:39: SystemExit: no reason"),
    ("target.py:never", "target.py:43: 'log_f' is NaN at all of 64 draws of the base. Look for log(0), 0/0 or "
     "overflow."),
    ("target.py:in_numpy", "target.py:50: 'log_f' cannot be evaluated at a draw of its base, float32[]: "
     "TracerArrayConversionError: The numpy.ndarray conversion method __array__() was called on traced array with "
     "shape float32[]. Write it with jax.numpy instead of numpy."),
    ("target.py:of_no_base", "target.py:56: 'base' must be a base such as tp.Normal(mean, std), or a distribution with "
     "'log_prob' and 'sample'; got a str."),
    ("syntax.py:x", "syntax.py:2: SyntaxError: '(' was never closed"),
    ("imports.py:x", "imports.py:2: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
    ("missing.py:x", "cannot read missing.py: no such file. Check the path."),
    ("./mixture", "mixture has no suffix, expected .npz or .safetensors or .h5 or .hdf5 or .mat. Save it in such "
     "a file."),
    ("notes.txt", "notes.txt has suffix '.txt', expected .npz or .safetensors or .h5 or .hdf5 or .mat. Save it in such "
     "a file."),
    ("hopfield", "There is no model or file 'hopfield'. MODEL must be FILE.npz, FILE.npz:NAME, FILE.safetensors, "
     "FILE.h5, FILE.mat, FILE.py:NAME, or one of mixture, ising:ROWSxCOLUMNS:COUPLING, "
     "potts:ROWSxCOLUMNS:COLOURS:COUPLING, boltzmann:BITS:SCALE, rbm:VISIBLExHIDDEN:SCALE, "
     "gaussian_rbm:VISIBLExHIDDEN:SCALE, categorical_rbm:VISIBLExHIDDEN:CATEGORIES:SCALE, "
     "gaussian:DIMENSIONS:DISTANCE."),
    ("potts:4x4:0.3", "'potts:4x4:0.3' must be potts:ROWSxCOLUMNS:COLOURS:COUPLING, as in potts:6x6:3:0.9."),
    ("rbm:900000x900000:1", "'rbm:900000x900000:1' would take 8e+11 numbers or more. Give a smaller model."),
    ("rbm:100000000x9:1", "'rbm:100000000x9:1' would take 9e+08 numbers or more. Give a smaller model."),
    ("rbm:0x5:1", "'rbm:0x5:1' must be rbm:VISIBLExHIDDEN:SCALE with sizes of 1 or more, as in rbm:30x12:0.5."),
    ("boltzmann:0:1", "'boltzmann:0:1' must be boltzmann:BITS:SCALE with sizes of 1 or more, as in boltzmann:20:2."),
    ("boltzmann:99999:1", "'boltzmann:99999:1' would take 1e+10 numbers or more. Give a smaller model."),
    ("ising", "'ising' must be ising:ROWSxCOLUMNS:COUPLING, as in ising:16x16:0.44."),
    ("ising:4x4:cold", "'ising:4x4:cold' must be ising:ROWSxCOLUMNS:COUPLING, as in ising:16x16:0.44."),
    ("ising:4x4:nan", "'ising:4x4:nan' must be ising:ROWSxCOLUMNS:COUPLING, as in ising:16x16:0.44."),
])  # fmt: skip
def test_what_is_no_model_is_one_line(tempering, spec, line):
    status, out, err = tempering("estimate", spec)
    assert (status, out) == (2, "")
    assert err.removeprefix("a line that is not JSON\n") == f"Error: {line}\n"


def test_compare_refuses_in_the_same_words(tempering):
    assert tempering("compare", "ising") == tempering("estimate", "ising")


@pytest.mark.parametrize("arguments", [
    "mixture --base uniform", "mixture --base data.npz", "mixture --data data.npz", "mixture --binarize random",
    "target.py:model --base uniform", "target.py:model --data data.npz", "ising:4x4:0.3 --data data.npz",
    "ising:4x4:0.3 --base data.npz", "ising:4x4:0.3 --base bias",
])  # fmt: skip
def test_flags_that_mean_nothing_are_refused(tempering, arguments):
    """Guards against a base or data that would be read and then not used."""
    status, out, err = tempering("estimate", *arguments.split())
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("Error: ")
    assert len(err.removeprefix("a line that is not JSON\n").splitlines()) == 1


# Runs.


def test_a_model_of_ones_own(tempering):
    """Guards --json against what the file prints, and the table."""
    status, out, err = tempering("estimate", "target.py:model", *QUICK, "--json")
    assert status in (0, 3)
    assert err == "a line that is not JSON\n"
    answer = only_json(out)
    truth = 2 * np.log(1.8128049541109543)  # ∫ exp(−x⁴) dx = 2Γ(5/4)
    checks.assert_within(answer["log_z"], truth, answer["std_error"], most=6)
    assert answer["exact_log_z"] is None
    status, out, _ = tempering("estimate", "target.py:make", *QUICK)
    assert out.split()[:3] == ["log", "Z", f"{answer['log_z']:.4f}"]


@pytest.mark.slow  # the README runs a lattice, other pages the mixture
def test_the_mixture_and_an_ising_model(tempering):
    for spec, truth in (("mixture", 0.0), ("ising:4x4:0.3", None)):
        status, out, err = tempering("estimate", spec, *QUICK, "--json")
        answer = only_json(out)
        assert (status, err) == (0 if answer["verdict"] == "good" else 3, "")
        assert answer["exact_log_z"] == pytest.approx(load(spec).quick_log_z() if truth is None else truth)


@pytest.mark.slow  # `estimate` takes the same model above, and test_compare.py has the command
def test_compare_takes_any_model(tempering):
    status, out, err = tempering("compare", "target.py:model", "--methods", "rts,mbar,ais", *QUICK, "--json")
    assert status in (0, 3)
    assert err == "a line that is not JSON\n"
    assert {"rts", "mbar", "ais"} <= set(re.findall(r"\w+", out))
    only_json(out)


def test_ctrl_c_and_resume(tempering, monkeypatch, tmp_path):
    """Guards checkpoints of a model whose density is a function: to the same bits, and not with another function."""
    common = ("estimate", "target.py:model", *QUICK, "--sweeps", 256, "--json", "--out")
    whole = only_json(tempering(*common, tmp_path / "whole")[1])
    original = tp.estimate

    def interrupted(*arguments, watch, **settings):
        def stopping(progress):
            if progress.stage == "sampling":
                os.kill(os.getpid(), signal.SIGINT)
            return watch(progress)

        return original(*arguments, watch=stopping, **settings)

    monkeypatch.setattr("tempering.estimate", interrupted)
    status, out, err = tempering(*common, tmp_path / "cut")
    assert status == 130
    assert "Resume with: tempering estimate --resume target.py:model" in err
    assert 0 < only_json(out)["num_sweeps"] < 256
    monkeypatch.setattr("tempering.estimate", original)
    ended = only_json(tempering(*common, tmp_path / "cut", "--resume")[1])
    for told in (whole, ended):  # how long it took, and how it was asked for
        del told["seconds"], told["settings"], told["command"]
    assert ended == whole
    other = Path("other.py")
    other.write_text(GOOD.replace("-jnp.sum(x**self.power)", "-1.01 * jnp.sum(x**self.power)"))
    status, out, err = tempering(common[0], "other.py:model", *common[2:], tmp_path / "cut", "--resume")
    assert (status, out) == (2, "")
    assert "holds another run; it differs in MODEL or --base" in err


def test_help_names_every_kind_of_model(tempering):
    for command in ("estimate", "compare"):
        status, out, _ = tempering(command, "--help")
        assert status == 0
        for word in ("FILE.npz", "FILE.mat", "FILE.py:NAME", "whose code is run", "mixture", "ising:"):
            assert word in out
