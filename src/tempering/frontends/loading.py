"""From a file, or a word, to a model."""

import os
import re
from importlib import resources

import numpy as np

from tempering._errors import InputError
from tempering.frontends._npz import split_name
from tempering.frontends.files import read_data, read_rbm, read_rows
from tempering.frontends.python_file import load_from_python, split_target
from tempering.models import RBM, AbstractModel, paper_mixture

_ACCEPTED = "FILE.npz, FILE.npz:NAME, FILE.mat, FILE.py:NAME, mixture, or ising:ROWSxCOLUMNS:COUPLING"
_ISING = re.compile(r"ising:([0-9]{1,6})x([0-9]{1,6}):([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))")


def load(spec: str | os.PathLike) -> AbstractModel:
    """A model by its file or its name.

    | spec | model |
    | --- | --- |
    | `FILE.npz` | the RBM with W, vbias and hbias; `FILE.npz:NAME`: with W_NAME, … |
    | `FILE.mat` | the RBM of Salakhutdinov's kind of MATLAB file |
    | `FILE.py:NAME` | the model of that name in a Python file, or what the function of that name returns |
    | `mixture` | the two normals of the paper's Appendix E.1 |
    | `ising:16x16:0.44` | an Ising model: rows × columns on a periodic square lattice, and its coupling |

    A word is never taken for a file: write `./mixture`. A Python file is executed; nothing else is.
    """
    text = os.fsdecode(spec)
    if isinstance(spec, str) and text == "mixture":
        return paper_mixture()
    if isinstance(spec, str) and text.partition(":")[0] == "ising":
        return _ising(text)
    target = split_target(text)
    if target is not None:
        return load_from_python(*target)
    path, _ = split_name(text)
    if path.suffix.lower() not in (".npz", ".mat") and not os.path.lexists(text):
        raise InputError(f"There is no model or file {text!r}. MODEL must be {_ACCEPTED}.")
    return RBM(*read_rbm(spec))


def load_data(
    spec: str | os.PathLike, *, num_visible: int | None = None, binarize: str | None = None, seed: int = 0
) -> np.ndarray:
    """0/1 data (row, visible) from `FILE.npz` or `FILE.npz:NAME`; grey values need `binarize`."""
    return read_data(spec, num_visible=num_visible, binarize=binarize, seed=seed)


def load_rows(spec: str | os.PathLike) -> np.ndarray:
    """Rows of numbers for a model that is not a binary RBM: spins, colours, real numbers.

    Args:
        spec: `FILE.npz`, or `FILE.npz:NAME` for one array of several.

    Returns:
        The array (row, column) as it is stored. The model refuses values that it does not take.
    """
    return read_rows(spec)


def load_example() -> tuple[RBM, np.ndarray]:
    """The small RBM that comes with the package (8 × 8 digits, 16 hidden units), and its data's frequencies."""
    file = resources.files("tempering") / "data" / "digits_rbm.npz"
    with resources.as_file(file) as path, np.load(path, allow_pickle=False) as arrays:
        return RBM(arrays["W"], arrays["vbias"], arrays["hbias"]), arrays["frequencies"]


def _ising(spec: str) -> AbstractModel:
    """`ising:ROWSxCOLUMNS:COUPLING`."""
    from tempering.models import Ising

    match = _ISING.fullmatch(spec)
    if match is None:
        raise InputError(f"{spec!r} must be ising:ROWSxCOLUMNS:COUPLING, as in ising:16x16:0.44.")
    return Ising.square(int(match[1]), int(match[2]), float(match[3]))
