"""Files that other programs write: the same RBM from each, the same data from each, and one clear line otherwise."""

import json
import struct
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import tempering as tp
from tempering.frontends import _guard
from tempering.frontends._guard import FileError
from tempering.frontends.files import load_data, load_rows, read_rbm

RNG = np.random.default_rng(4)
W, VBIAS, HBIAS = (RNG.normal(size=shape).astype(np.float32) for shape in ((5, 3), 5, 3))
BITS = np.array([[0, 1, 1, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 0, 0]], np.uint8)
TRUTH = tp.RBM(W, VBIAS, HBIAS).exact_log_z()


def line_of(read, *args, **kwargs) -> str:
    """The message of the refusal, after checking that it is one line that ends in a cure."""
    with pytest.raises(FileError) as caught:
        read(*args, **kwargs)
    message = str(caught.value)
    assert message.isprintable()
    assert message.endswith(".")
    return message


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="HDF5 files are read by h5py")


@pytest.fixture
def safetensors():
    return pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")


def save_updates(h5py, path, kind="BBRBM", shapes=((5, 3), (5,), (3,)), *, older=False):
    """A file in the layout of rbms: updates 2 and 10 of the parameters, of which the last has the arrays above."""
    with h5py.File(path, "w") as file:
        file["model_type"] = kind
        file["parallel_chains"] = np.zeros((7, 5), np.float32)
        file["hyperparameters/batch_size"] = 100
        for number, factor in ((2, -2), (10, 1)):
            group = file.create_group(f"update_{number}" if older else f"update_{number}/params")
            arrays = zip(("weight_matrix", "vbias", "hbias"), (W, VBIAS, HBIAS), shapes, strict=True)
            for name, array, shape in arrays:
                group[name] = factor * np.resize(array, shape)
            file[f"update_{number}/time"] = 1.5
    return path


# The same RBM.


def test_weights_of_torch(tmp_path):
    """A state dict as PyTorch keeps it, with weights (hidden, visible) of a linear layer."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    save_file = pytest.importorskip("safetensors.torch", reason="safetensors is not installed").save_file
    state = {"W": torch.tensor(W), "vbias": torch.tensor(VBIAS), "hbias": torch.tensor(HBIAS)}
    save_file(state, tmp_path / "rbm.safetensors")
    assert tp.load(tmp_path / "rbm.safetensors").exact_log_z() == TRUTH
    layer = torch.nn.Linear(5, 3)
    with torch.no_grad():
        layer.weight[:], layer.bias[:] = torch.tensor(W.T.copy()), torch.tensor(HBIAS)
    save_file({**layer.state_dict(), "v_bias": torch.tensor(VBIAS)}, tmp_path / "layer.safetensors")
    names = "W=weight.T,vbias=v_bias,hbias=bias"
    assert tp.load(tmp_path / "layer.safetensors", names=names).exact_log_z() == TRUTH
    save_file({name: tensor.half() for name, tensor in state.items()}, tmp_path / "half.safetensors")
    assert tp.load(tmp_path / "half.safetensors").exact_log_z() == pytest.approx(TRUTH, abs=0.01)
    save_file({name: tensor.bfloat16() for name, tensor in state.items()}, tmp_path / "short.safetensors")
    assert "type BF16. Save it as float32" in line_of(tp.load, tmp_path / "short.safetensors")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit, when rbms is imported
def test_weights_of_rbms(tmp_path, h5py):
    """What the package itself writes, if it is installed, and its layout; older files have no group of parameters."""
    assert tp.load(save_updates(h5py, tmp_path / "rbm.h5")).exact_log_z() == TRUTH
    assert tp.load(save_updates(h5py, tmp_path / "old.hdf5", older=True)).exact_log_z() == TRUTH
    earlier = tp.RBM(-2 * W, -2 * VBIAS, -2 * HBIAS).exact_log_z()
    assert tp.load(f"{tmp_path}/rbm.h5:2").exact_log_z() == pytest.approx(earlier, abs=1e-12)
    assert "rbm.h5:10" in line_of(tp.load, f"{tmp_path}/rbm.h5:3")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    saving = pytest.importorskip("rbms.io", reason="the package rbms is not installed")
    classes = pytest.importorskip("rbms.bernoulli_bernoulli.classes")
    parameters = classes.BBRBM(*map(torch.tensor, (W, VBIAS, HBIAS)))
    saving.save_model(str(tmp_path / "own.h5"), parameters, {"visible": torch.zeros(4, 5)}, 1, 0.5)
    assert tp.load(tmp_path / "own.h5").exact_log_z() == TRUTH


def test_categories_of_rbms(tmp_path, h5py):
    """Kills: visible and category exchanged."""
    path = save_updates(h5py, tmp_path / "potts.h5", "PBRBM", ((5, 4, 3), (5, 4), (3,)))
    model = tp.load(path)
    assert isinstance(model, tp.CategoricalRBM)
    expected = tp.CategoricalRBM(np.resize(W, (5, 4, 3)), np.resize(VBIAS, (5, 4)), HBIAS)
    assert model.exact_log_z() == expected.exact_log_z()


def test_weights_of_scikit_learn(tmp_path):
    """Its attributes saved as arrays. Its weights are (hidden, visible)."""
    network = pytest.importorskip("sklearn.neural_network", reason="scikit-learn is not installed")
    rbm = network.BernoulliRBM(n_components=3, n_iter=1, random_state=0).fit(BITS)
    names = ("components_", "intercept_visible_", "intercept_hidden_")
    np.savez(tmp_path / "rbm.npz", **{name: getattr(rbm, name) for name in names})
    loaded = tp.load(tmp_path / "rbm.npz", names=dict(zip(("W", "vbias", "hbias"), names, strict=True)))
    assert loaded.exact_log_z() == tp.RBM(rbm.components_.T, *(getattr(rbm, n) for n in names[1:])).exact_log_z()


def test_plain_arrays_of_hdf5_and_safetensors(tmp_path, h5py, safetensors):
    arrays = {"W": W, "vbias": VBIAS, "hbias": HBIAS}
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip")
    safetensors.save_file({f"{name}_7": array for name, array in arrays.items()}, tmp_path / "plain.safetensors")
    assert tp.load(tmp_path / "plain.h5").exact_log_z() == TRUTH
    assert tp.load(f"{tmp_path}/plain.safetensors:7").exact_log_z() == TRUTH
    assert "Pick one of" in line_of(tp.load, tmp_path / "plain.safetensors")


# The same data.


@pytest.mark.parametrize(
    "text",
    [
        "0,1,1,0,1\n1,0,0,0,1\n1,1,1,0,0\n",
        "\ufeffa;b;c;d;e\r\n0;1;1;0;1\r\n1;0;0;0;1\r\n1;1;1;0;0\r\n",
        '"p 1","p,2","p3","p4","p5"\n"0","1","1","0","1"\n"1","0","0","0","1"\n"1","1","1","0","0"\n',
        "0\t1\t1\t0\t1\n1\t0\t0\t0\t1\n1\t1\t1\t0\t0",
        "0 1  1 0 1\n\n1 0 0 0 1\n1 1 1 0 0\n",
        "0.0,1.0,1.0,0.0,1.0\n1e0,0,0,0,1\n1,1,1,0,0\n",
    ],
    ids=["commas", "excel", "quotes", "tabs", "spaces", "floats"],
)
def test_tables(tmp_path, text):
    """Kills: a first row of numbers taken for titles, or titles for numbers."""
    (tmp_path / "data.csv").write_bytes(text.encode())
    np.testing.assert_array_equal(load_data(tmp_path / "data.csv", num_visible=5), BITS)


def test_integers_of_a_table_stay_integers(tmp_path):
    """Guards grey values, which end at 255 for integers and at 1 for floats, and colours of a Potts model."""
    (tmp_path / "grey.csv").write_text("0,200,10\n255,127,128\n")
    np.testing.assert_array_equal(load_data(tmp_path / "grey.csv", binarize="threshold"), [[0, 1, 0], [1, 0, 1]])
    assert load_rows(tmp_path / "grey.csv").dtype == np.int64
    (tmp_path / "real.tsv").write_text("0.5\t-2\n3\t1e-3\n")
    np.testing.assert_array_equal(load_rows(tmp_path / "real.tsv"), [[0.5, -2], [3, 1e-3]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,1\n1,0,1\n", "number of columns changed from 2 to 3 at row 2. Write as many"),
        ("0,1\nx,1\n", "not a table of numbers"),
        ("a,b\n", "no row of numbers"),
        ("\n\n", "no row of numbers"),
        ("0,1,\n1,0,\n", "not a table of numbers"),
        ("1" * 400 + ",2\n", "not a table of numbers"),
    ],
)
def test_tables_that_are_none(tmp_path, text, words):
    (tmp_path / "data.csv").write_text(text)
    assert words in line_of(load_data, tmp_path / "data.csv")


def test_arrays_in_npy_files(tmp_path):
    for order in "CF":
        np.save(tmp_path / "data.npy", np.asarray(BITS, order=order))
        np.testing.assert_array_equal(load_data(tmp_path / "data.npy"), BITS)
    np.save(tmp_path / "packed.npy", np.packbits(BITS, axis=1))
    np.testing.assert_array_equal(load_data(tmp_path / "packed.npy", num_visible=5), BITS)


def test_data_in_hdf5_and_safetensors(tmp_path, h5py, safetensors):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["sets/train"], file["sets/labels"] = BITS, np.arange(3)
    np.testing.assert_array_equal(load_data(f"{tmp_path}/data.h5:sets/train"), BITS)
    assert "Pick one of" in line_of(load_data, tmp_path / "data.h5")
    safetensors.save_file({"train": BITS, "train_labels": np.arange(3)}, tmp_path / "data.safetensors")
    np.testing.assert_array_equal(load_data(tmp_path / "data.safetensors"), BITS)


# What is refused.


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    """Guards people without the extras: one line that says what to install."""
    for name in ("h5py", "safetensors"):
        monkeypatch.setitem(sys.modules, name, None)
    for suffix, extra in ((".h5", "hdf5"), (".safetensors", "safetensors")):
        (tmp_path / f"rbm{suffix}").write_bytes(b"something")
        assert f"pip install 'tempering[{extra}]'." in line_of(read_rbm, tmp_path / f"rbm{suffix}")


def test_hdf5_does_not_lead_elsewhere(tmp_path, h5py):
    """Guards other files of the user: links, virtual datasets and raw storage are not followed."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["W"] = W
    (tmp_path / "raw").write_bytes(W.tobytes())
    for kind in ("link", "virtual", "raw"):
        path = tmp_path / f"{kind}.h5"
        with h5py.File(path, "w") as file:
            file["model_type"] = "BBRBM"
            group = file.create_group("update_1/params")
            group["vbias"], group["hbias"] = VBIAS, HBIAS
            if kind == "link":
                group["weight_matrix"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/W")
            elif kind == "virtual":
                layout = h5py.VirtualLayout(W.shape, W.dtype)
                layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "W", W.shape)
                group.create_virtual_dataset("weight_matrix", layout)
            else:
                outside = [(str(tmp_path / "raw"), 0, W.nbytes)]
                group.create_dataset("weight_matrix", W.shape, W.dtype, external=outside)
        assert "elsewhere" in line_of(tp.load, path)


def test_arrays_that_are_too_large_are_not_read(tmp_path, h5py, safetensors, monkeypatch):
    """Kills: a size that is checked after the array was read, or not at all."""
    monkeypatch.setattr(_guard, "MAX_ARRAY_BYTES", 1000)
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("data", (10**6, 10**6), "u1", chunks=(10, 10))  # of which nothing is stored
    safetensors.save_file({"data": np.zeros((40, 40), np.uint8)}, tmp_path / "large.safetensors")
    np.save(tmp_path / "large.npy", np.zeros((40, 40), np.uint8))
    (tmp_path / "large.csv").write_text("0,1\n" * 400)
    for name in ("bomb.h5", "large.safetensors", "large.npy", "large.csv"):
        assert "GiB" in line_of(load_data, tmp_path / name), name


def test_an_hdf5_file_that_never_ends_is_refused(monkeypatch, h5py):
    """Found by fuzzing: libhdf5 walks in a circle in it. Kills: reading without a limit, which this test outlasts."""
    monkeypatch.setattr("tempering.frontends._hdf5._LEAST_SECONDS", 2)
    file = Path(__file__).parents[2] / "scripts" / "fuzz_corpus" / "endless.h5"
    assert "truncated or damaged" in line_of(tp.load, file)


def test_what_holds_no_numbers_is_refused(tmp_path, h5py):
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], object), allow_pickle=True)
    assert "unpickling" in line_of(load_data, tmp_path / "objects.npy")
    with h5py.File(tmp_path / "words.h5", "w") as file:
        file["data"] = "words"
    assert "." in line_of(load_data, tmp_path / "words.h5")
    save_updates(h5py, tmp_path / "other.h5", kind="GGRBM")
    assert "GGRBM" in line_of(tp.load, tmp_path / "other.h5")
    assert "expected" in line_of(tp.load, tmp_path / "objects.npy")


@pytest.mark.parametrize("name", ["data.npy", "data.h5", "data.safetensors"])
def test_damaged_files_are_one_line(tmp_path, h5py, safetensors, name):
    """Kills: errors of parsers that reach the user as they are. Damage to the numbers themselves cannot be seen."""
    path = tmp_path / name
    if name == "data.npy":
        np.save(path, BITS)
    elif name == "data.h5":
        with h5py.File(path, "w") as file:
            file["data"] = BITS
    else:
        safetensors.save_file({"data": BITS}, path)
    sound = path.read_bytes()
    for length in (0, 1, 7, 9, len(sound) // 2, len(sound) - 1):
        path.write_bytes(sound[:length])
        line_of(load_data, path)
    path.write_bytes(b"\x93NUMPYnot at all" + sound)
    line_of(load_data, path)
    step = 100 if name == "data.h5" else 7  # HDF5 is read in a process of its own; the fuzzer tries more
    for place in range(0, min(len(sound), 600), step):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 0x55]) + sound[place + 1 :])
        with suppress(FileError):
            load_data(path)


def test_headers_that_lie(tmp_path, safetensors):
    """A header that claims more than there is allocates nothing."""
    header = json.dumps({"data": {"dtype": "F32", "shape": [10**9, 4], "data_offsets": [0, 16 * 10**9]}}).encode()
    (tmp_path / "lie.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    assert "damaged" in line_of(load_data, tmp_path / "lie.safetensors")
    (tmp_path / "long.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")
    assert "damaged" in line_of(load_data, tmp_path / "long.safetensors")
    np.save(tmp_path / "lie.npy", BITS)
    sound = (tmp_path / "lie.npy").read_bytes()
    (tmp_path / "lie.npy").write_bytes(sound.replace(b"(3, 5)", b"(3, 9)"))
    assert "claims shape (3, 9)" in line_of(load_data, tmp_path / "lie.npy")
