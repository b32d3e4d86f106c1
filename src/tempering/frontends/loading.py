"""Models and data from files, and models by name."""

import os
import re
from importlib import resources

import numpy as np

from tempering._errors import InputError
from tempering.frontends._npz import split_name
from tempering.frontends.files import load_data as load_data
from tempering.frontends.files import load_rows as load_rows
from tempering.frontends.files import read_rbm
from tempering.frontends.python_file import load_from_python, split_target
from tempering.models import RBM, AbstractModel, Ising, paper_mixture

_ACCEPTED = "FILE.npz, FILE.npz:NAME, FILE.mat, FILE.py:NAME, mixture, or ising:ROWSxCOLUMNS:COUPLING"
_ISING = re.compile(r"ising:([0-9]{1,6})x([0-9]{1,6}):([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))")


def load(spec: str | os.PathLike) -> AbstractModel:
    """A model from a file, or by its name.

    | spec | model |
    | --- | --- |
    | `FILE.npz` | the RBM with the arrays W (visible, hidden), vbias and hbias |
    | `FILE.npz:NAME` | the RBM with the arrays W_NAME, vbias_NAME and hbias_NAME |
    | `FILE.mat` | the RBM with vishid, visbiases and hidbiases, as in Salakhutdinov's MATLAB code |
    | `FILE.py:NAME` | the model NAME of a Python file, or what its function NAME returns |
    | `mixture` | the mixture of two normals of the paper's Appendix E.1 |
    | `ising:16x16:0.44` | an Ising model on a periodic square lattice: rows × columns, and the coupling |

    ```python
    estimate(load("rbm.npz"))
    ```

    Caveats: a Python file is executed, so load only files that you would run. Other files are never executed or
    unpickled.

    Args:
        spec: one of the above. A name wins over a file: for a file called mixture write `./mixture`, or pass a `Path`.

    Returns:
        The model. A file that cannot be used is refused with an `InputError`.
    """
    text = os.fsdecode(spec)
    if isinstance(spec, str) and text == "mixture":
        return paper_mixture()
    if isinstance(spec, str) and text.partition(":")[0] == "ising":
        return _ising_from_name(text)
    target = split_target(text)
    if target is not None:
        return load_from_python(*target)
    path, _ = split_name(text)
    if path.suffix.lower() not in (".npz", ".mat") and not os.path.lexists(text):
        raise InputError(f"There is no model or file {text!r}. MODEL must be {_ACCEPTED}.")
    return RBM(*read_rbm(spec))


def load_example() -> tuple[RBM, np.ndarray]:
    """The small RBM that comes with the package: 8 × 8 digits, 16 hidden units.

    ```python
    rbm, frequencies = load_example()
    estimate(rbm, frequencies)
    ```

    Returns:
        The RBM, and the frequencies of its visible units in the data, which make a good base.
    """
    file = resources.files("tempering") / "data" / "digits_rbm.npz"
    with resources.as_file(file) as path, np.load(path, allow_pickle=False) as arrays:
        return RBM(arrays["W"], arrays["vbias"], arrays["hbias"]), arrays["frequencies"]


def _ising_from_name(spec: str) -> AbstractModel:
    match = _ISING.fullmatch(spec)
    if match is None:
        raise InputError(f"{spec!r} must be ising:ROWSxCOLUMNS:COUPLING, as in ising:16x16:0.44.")
    return Ising.square(int(match[1]), int(match[2]), float(match[3]))
