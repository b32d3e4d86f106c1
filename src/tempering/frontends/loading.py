"""Models and data from files, and models by name."""

import os
from importlib import resources

import numpy as np

from tempering._errors import InputError
from tempering.frontends._formats import NAMED, WITH_MODELS, split_place
from tempering.frontends._rbm_names import Names
from tempering.frontends.files import RBMArrays, read_rbm
from tempering.frontends.files import load_data as load_data
from tempering.frontends.files import load_rows as load_rows
from tempering.frontends.named_models import FAMILIES, named_model
from tempering.frontends.python_file import load_from_python, split_target
from tempering.models import RBM, AbstractModel, CategoricalRBM, GaussianRBM

_FILES = "FILE.npz, FILE.npz:NAME, FILE.safetensors, FILE.h5, FILE.mat, FILE.py:NAME"
_ACCEPTED = f"{_FILES}, or one of {', '.join(family.form for family in FAMILIES.values())}"


def load(spec: str | os.PathLike, *, names: Names | None = None) -> AbstractModel:
    """A model from a file, or by its name.

    | spec | model |
    | --- | --- |
    | `FILE.npz` | the RBM with the arrays W (visible, hidden), vbias and hbias |
    | `FILE.npz` | with sigmas too, the `GaussianRBM`; with W (visible, category, hidden), the `CategoricalRBM` |
    | `FILE.npz:NAME` | the RBM with the arrays W_NAME, vbias_NAME and hbias_NAME |
    | `FILE.safetensors` | the same from tensors that PyTorch and others save |
    | `FILE.h5` | the same from HDF5; of a file of the package `rbms` the last update, or update N by `FILE.h5:N` |
    | `FILE.mat` | the RBM with vishid, visbiases and hidbiases, as in Salakhutdinov's MATLAB code |
    | `FILE.py:NAME` | the model NAME of a Python file, or what its function NAME returns; this runs the file |
    | `mixture` | the mixture of two normals of the paper's Appendix E.1 |
    | `ising:16x16:0.44` | an Ising model on a periodic square lattice: rows × columns, and the coupling |
    | `potts:6x6:3:0.9` | a Potts model on the same: rows × columns, colours, and the coupling |
    | `boltzmann:20:2` | a Boltzmann machine of 20 bits, with normal weights of standard deviation 2/√20 |
    | `rbm:30x12:0.5` | an RBM, visible × hidden, with normal weights of standard deviation 0.5 |
    | `gaussian_rbm:10x8:0.5` | the same for real data |
    | `categorical_rbm:10x8:4:0.5` | the same for data of 4 categories |
    | `gaussian:10:8` | a normal density in 10 dimensions, 8 away from its base |

    ```python
    estimate(load("rbm.npz"))
    ```

    A file that holds more arrays than its model uses is refused: it may be another model.

    Caveats: a Python file is executed, so load only files that you would run. Other files are never executed or
    unpickled. Weights of a Gaussian RBM must follow the convention of `GaussianRBM`; no shape can tell.

    Args:
        spec: one of the above. A name wins over a file: for a file called mixture write `./mixture`, or pass a `Path`.
        names: the arrays of a file, where they are called otherwise: "W=weight,vbias=v_bias,hbias=h_bias", or a
            mapping. `weight.T` stands for the transpose; `components_` of scikit-learn is transposed without that.
            `unused=loss` leaves an array out.

    Returns:
        The model. A file that cannot be used is refused with an `InputError`.
    """
    text = os.fsdecode(spec)
    if names is not None and split_place(text)[0].suffix.lower() not in NAMED:
        raise InputError(f"`names` is for the arrays of a file ({', '.join(NAMED)}), got {text!r}. Leave it out.")
    by_name = named_model(text) if isinstance(spec, str) else None
    if by_name is not None:
        return by_name
    target = split_target(text)
    if target is not None:
        return load_from_python(*target)
    path, _ = split_place(text)
    if path.suffix.lower() not in WITH_MODELS and not os.path.lexists(text):
        raise InputError(f"There is no model or file {text!r}. MODEL must be {_ACCEPTED}.")
    return _rbm_of(read_rbm(spec, names))


def _rbm_of(arrays: RBMArrays) -> AbstractModel:
    """The kind of RBM that arrays of these shapes are."""
    if arrays.sigmas is not None:
        return GaussianRBM(arrays.weights, arrays.vbias, arrays.hbias, arrays.sigmas)
    kind = CategoricalRBM if arrays.weights.ndim == 3 else RBM
    return kind(arrays.weights, arrays.vbias, arrays.hbias)


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
