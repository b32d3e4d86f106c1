"""Which model a file of arrays is: every array is used, or the file is refused."""

import warnings
import zipfile

import numpy as np
import pytest

import tempering as tp
from tempering.frontends._guard import FileError

W = np.arange(12.0).reshape(4, 3) / 7 - 0.5  # (visible, hidden); asymmetric, so that a transpose shows
SQUARE = np.arange(9.0).reshape(3, 3) / 7 - 0.5
VBIAS, HBIAS = np.array([0.5, -1.0, 2.0, 0.25]), np.array([1.0, -2.0, 3.5])
SIGMAS = np.array([0.5, 1.5, 2.0, 0.7])
RBM = {"W": W, "vbias": VBIAS, "hbias": HBIAS}
CATEGORIES = {"W": np.arange(24.0).reshape(4, 2, 3) / 9, "vbias": np.arange(8.0).reshape(4, 2), "hbias": HBIAS}


def saved(tmp_path, **arrays):
    np.savez(tmp_path / "model.npz", **arrays)
    return tmp_path / "model.npz"


def refused(path, **options) -> str:
    with pytest.raises(FileError) as caught:
        tp.load(path, **options)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_sigmas_make_it_a_gaussian_rbm(tmp_path):
    """It was a binary RBM, and called good. Kills: sigmas that are left out, biases in the wrong order."""
    for sigmas in (SIGMAS, SIGMAS[:, None], np.float64(1.5)):
        found = tp.load(saved(tmp_path, **RBM, sigmas=sigmas))
        assert isinstance(found, tp.models.GaussianRBM)
        expected = tp.models.GaussianRBM(W, VBIAS, HBIAS, np.broadcast_to(np.ravel(sigmas), 4))
        assert found.exact_log_z() == expected.exact_log_z()


def test_three_axes_make_it_a_categorical_rbm(tmp_path):
    found = tp.load(saved(tmp_path, **CATEGORIES))
    assert isinstance(found, tp.models.CategoricalRBM)
    expected = tp.models.CategoricalRBM(CATEGORIES["W"], CATEGORIES["vbias"], HBIAS)
    assert found.exact_log_z() == expected.exact_log_z()


def test_the_suffix_holds_for_sigmas_too(tmp_path):
    path = saved(tmp_path, **{f"{name}_a": array for name, array in RBM.items()}, sigmas_a=SIGMAS,
                 **{f"{name}_b": -array for name, array in RBM.items()})  # fmt: skip
    assert isinstance(tp.load(f"{path}:a"), tp.models.GaussianRBM)
    binary = tp.load(f"{path}:b")
    assert isinstance(binary, tp.RBM)
    np.testing.assert_array_equal(binary.weights, -W)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"loss": np.zeros(3)}, 'also holds loss, .* an RBM, does not use. If .* `names="unused=loss"`'),
        ({"log_sigma": SIGMAS}, 'With log_sigma it seems to be a GaussianRBM: `names="sigmas=log_sigma"`'),
        ({"sigmas": SIGMAS, "loss": W}, "also holds loss, .* a GaussianRBM, does not use"),
        ({"sigmas": -SIGMAS}, "sigmas in .* must be positive"),
        ({"sigmas": SIGMAS * np.nan}, "sigmas in .* finite, got 4 NaN"),
        ({"sigmas": SIGMAS[:3]}, r"sigmas in .* must be one number or 4, got \(3,\)"),
    ],
)
def test_what_no_model_uses_is_refused(tmp_path, more, words):
    """Kills: an array that is read over, whose model is then another."""
    with pytest.raises(FileError, match=words):
        raise FileError(refused(saved(tmp_path, **RBM, **more)))


def test_shapes_of_categories_that_do_not_fit(tmp_path):
    for name, wrong in (("hbias", np.zeros(4)), ("vbias", np.zeros((4, 3)))):
        assert "(visible, category, hidden)" in refused(saved(tmp_path, **(CATEGORIES | {name: wrong})))
    assert "one model" in refused(saved(tmp_path, **CATEGORIES, sigmas=SIGMAS))


def test_names_of_other_packages(tmp_path):
    """Kills: a transpose of scikit-learn's square weights that no shape can tell, roles that are mixed up."""
    theirs = {"weight": W, "v_bias": VBIAS, "h_bias": HBIAS}
    path = saved(tmp_path, **theirs)
    said = "W=weight,vbias=v_bias,hbias=h_bias"
    assert f'`names="{said}"`' in refused(path)
    for names in (said, {"W": "weight", "vbias": "v_bias", "hbias": "h_bias"}):
        found = tp.load(path, names=names)
        np.testing.assert_array_equal(found.weights, W)
        np.testing.assert_array_equal(found.vbias, VBIAS)
    path = saved(tmp_path, **(theirs | {"weight": W.T}))
    assert '`names="W=weight.T"`' in refused(path, names=said)
    np.testing.assert_array_equal(tp.load(path, names=said.replace("weight", "weight.T")).weights, W)
    both = {"W": "weight", "vbias": "v_bias", "hbias": "h_bias", "unused": ["loss", "epoch"]}
    assert isinstance(tp.load(saved(tmp_path, **theirs, loss=W, epoch=3), names=both), tp.RBM)


def test_an_rbm_of_scikit_learn(tmp_path):
    theirs = {"components_": SQUARE.T, "intercept_visible_": VBIAS[:3], "intercept_hidden_": HBIAS}
    path = saved(tmp_path, **theirs)
    message = refused(path)
    said = message.partition('`names="')[2].partition('"`')[0]
    np.testing.assert_array_equal(tp.load(path, names=said).weights, SQUARE)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("weight", "ROLE=ARRAY"), ("W=", "ROLE=ARRAY"), ("Z=W", "must give W, vbias"), ("W=W,W=vbias", "gives W twice"),
        ("W=missing", "no array missing"),
    ],
)  # fmt: skip
def test_names_that_mean_nothing_are_refused(tmp_path, names, words):
    assert words in refused(saved(tmp_path, **RBM), names=names)


def test_names_are_for_arrays_alone():
    with pytest.raises(tp.InputError, match="arrays of a file"):
        tp.load("mixture", names="W=weight")


def test_an_array_that_is_there_twice_is_refused(tmp_path):
    """NumPy takes the last and zipfile warns: nobody can say which was meant."""
    path = saved(tmp_path, **RBM)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("W.npy", archive.read("W.npy"))
    assert "holds the array W twice" in refused(path)
    with pytest.raises(FileError, match="twice"):
        tp.load_data(f"{path}:W")
