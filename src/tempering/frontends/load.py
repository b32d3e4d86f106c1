"""From a file to a model."""

import os
from importlib import resources

import numpy as np

from tempering.frontends.files import read_data, read_rbm
from tempering.models import RBM


def load(spec: str | os.PathLike) -> RBM:
    """An RBM from `FILE.npz` (W, vbias, hbias), `FILE.npz:NAME` (W_NAME, …) or Salakhutdinov's `FILE.mat`."""
    return RBM(*read_rbm(spec))


def load_data(
    spec: str | os.PathLike, *, num_visible: int | None = None, binarize: str | None = None, seed: int = 0
) -> np.ndarray:
    """0/1 data (row, visible) from `FILE.npz` or `FILE.npz:NAME`; grey values need `binarize`."""
    return read_data(spec, num_visible=num_visible, binarize=binarize, seed=seed)


def load_example() -> tuple[RBM, np.ndarray]:
    """The small RBM that comes with the package (8 × 8 digits, 16 hidden units), and its data's frequencies."""
    file = resources.files("tempering") / "data" / "digits_rbm.npz"
    with resources.as_file(file) as path, np.load(path, allow_pickle=False) as arrays:
        return RBM(arrays["W"], arrays["vbias"], arrays["hbias"]), arrays["frequencies"]
