"""RBM parameters and binary data from disk, as NumPy arrays.

Files are not trusted: nothing is unpickled, and no array is allocated before its size was checked.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tempering.frontends._array_files import ArrayFile
from tempering.frontends._formats import WITH_DATA, WITH_MODELS, open_arrays, split_place
from tempering.frontends._guard import FileError, check_size, checked_suffix, name_list
from tempering.frontends._mat import MAT_NAMES, load_mat
from tempering.frontends._rbm_names import Names, choose_names, stored_name, turned

_BLOCK_ROWS = 4096


class RBMArrays(NamedTuple):
    """The parameters of an RBM in float64: log f(v, h) = v·vbias + v·weights·h + h·hbias.

    Attributes:
        weights: of shape (visible, hidden), or (visible, category, hidden).
        vbias: of shape (visible,), or (visible, category).
        hbias: of shape (hidden,).
        sigmas: of shape (visible,), where the visible units are Gaussian.
    """

    weights: np.ndarray
    vbias: np.ndarray
    hbias: np.ndarray
    sigmas: np.ndarray | None = None


def read_rbm(spec: str | os.PathLike, names: Names | None = None) -> RBMArrays:
    """An RBM from `FILE.npz`, `FILE.npz:NAME`, `FILE.mat` or another format; see `tempering.load`."""
    path, pick = split_place(spec)
    if checked_suffix(path, WITH_MODELS) == ".mat":
        if names is not None:
            raise FileError(f"`names` is not for MATLAB files; {path} must hold {name_list(MAT_NAMES)}. Leave it out.")
        return _checked_rbm(path, MAT_NAMES, load_mat(path))
    with open_arrays(path, WITH_MODELS) as held:
        wanted = choose_names(path, held.names, pick, names)
        arrays = [
            turned(held.read(stored_name(name, held.names), 8), name, held.names)  # 8: they become float64
            for name in wanted.values()
        ]
    return _checked_rbm(path, tuple(wanted.values()), arrays)


def load_data(
    spec: str | os.PathLike, *, num_visible: int | None = None, binarize: str | None = None, seed: int = 0
) -> np.ndarray:
    """0/1 data from a file, or from its array NAME by `FILE.npz:NAME`; images are flattened by rows.

    Files may be npz, npy, csv or tsv, safetensors or HDF5. A table may begin with a line of titles.

    ```python
    data = load_data("mnist.npz", num_visible=784, binarize="threshold")
    ```

    Args:
        spec: the file. Without a NAME it must hold one array, or one whose name starts with "train".
        num_visible: the number of visible units. Needed for packed bits, which are then unpacked.
        binarize: how grey values become bits: "threshold" (1 above half of full scale) or "random" (1 with the grey
            value as probability). Without it grey values are refused.
        seed: of the random bits.

    Returns:
        Bits as uint8, of shape (row, visible).
    """
    _check_options(num_visible, binarize, seed)
    stored, label = _stored_data(spec)
    rows = _data_rows(stored, num_visible, label)
    white = 1 if rows.dtype.kind == "f" else 255
    if _is_binary(rows, white, label):
        return rows.astype(np.uint8)
    if binarize is None:
        packed = " If these are packed bits, give `num_visible`." if num_visible is None else ""
        raise FileError(
            f"{label} must be 0/1, got grey values up to {rows.max()}. "
            f'Make them binary with `binarize="threshold"` or `binarize="random"`.{packed}'
        )
    return _binarized(rows, white, binarize, seed)


def load_rows(spec: str | os.PathLike) -> np.ndarray:
    """Rows of numbers for a model that is not a binary RBM: spins, colours, real numbers.

    Args:
        spec: `FILE.npz`, or `FILE.npz:NAME` for one array of several; also npy, csv, tsv, safetensors and HDF5.

    Returns:
        The array (row, column) as it is stored. The model refuses values that it does not take.
    """
    stored, label = _stored_data(spec)
    if stored.ndim != 2 or stored.dtype.kind not in "biuf":
        raise FileError(f"{label} must be numbers in rows and columns, got {stored.dtype}{list(stored.shape)}.")
    return stored


def _stored_data(spec: str | os.PathLike) -> tuple[np.ndarray, str]:
    """The array of data in a file, and what to call it in messages."""
    path, pick = split_place(spec)
    with open_arrays(path, WITH_DATA) as held:
        name = _data_name(held, path, pick)
        return held.read(name, 1), f"{name} in {path}"


def _data_name(held: ArrayFile, path: Path, pick: str | None) -> str:
    """The name of the array to read as data: the one asked for, the only one, or the training images."""
    if not held.names:
        raise FileError(f"{path} holds no arrays, expected one of 0/1 data. Save it with numpy.savez.")
    if pick in held.names:
        return pick
    if pick is None and len(held.names) == 1:
        return held.names[0]
    options = name_list(f"{path}:{name}" for name in held.names)
    if pick is not None:
        raise FileError(f"{path} has no array {pick}. Pick one of: {options}.")
    train = [name for name in held.names if name.startswith("train") and len(held.shape_of(name)) >= 2]  # not labels
    if len(train) == 1:
        return train[0]
    raise FileError(f"{path} holds {len(held.names)} arrays, expected one. Pick one of: {options}.")


def _check_options(num_visible: int | None, binarize: str | None, seed: int) -> None:
    """Refuse options that no file could satisfy."""
    if binarize not in (None, "threshold", "random"):
        raise FileError(f"`binarize` must be threshold or random, got {binarize!r}. Use one of these.")
    if num_visible is not None and num_visible < 1:
        raise FileError(f"`num_visible` must be at least 1, got {num_visible}. Give the model's number.")
    if seed < 0:
        raise FileError(f"`seed` must be 0 or more, got {seed}. Give another integer.")


def _checked_rbm(path: Path, names: tuple[str, ...], arrays: list[np.ndarray]) -> RBMArrays:
    """The arrays as float64 with biases as vectors, if their shapes fit together and all values are finite."""
    is_categorical = arrays[0].ndim == 3 and arrays[1].ndim == 2
    (_check_categories if is_categorical else _check_shapes)(path, names, arrays)
    with np.errstate(all="ignore"):  # a number too large for float64 becomes infinite, and is refused below
        weights, vbias, hbias, *sigmas = (np.ascontiguousarray(array, dtype=np.float64) for array in arrays)
    for name, array in zip(names, (weights, vbias, hbias, *sigmas), strict=True):
        num_bad = array.size - np.count_nonzero(np.abs(array) <= np.finfo(np.float32).max)
        if num_bad:
            raise FileError(
                f"{name} in {path} must be finite, got {num_bad} NaN or infinite of {array.size} values in "
                "single precision. If training diverged, save an earlier state."
            )
    spreads = np.broadcast_to(sigmas[0].ravel(), weights.shape[:1]) if sigmas else None
    if spreads is not None and not np.all(spreads > 0):
        raise FileError(
            f"{names[3]} in {path} must be positive: standard deviations, not their logarithms. Save those."
        )
    return RBMArrays(weights, vbias if is_categorical else vbias.ravel(), hbias.ravel(), spreads)


def _check_categories(path: Path, names: tuple[str, ...], arrays: list[np.ndarray]) -> None:
    """Refuse weights and biases of a categorical RBM that do not fit together."""
    weights, vbias, hbias, *others = arrays
    if others:
        raise FileError(f"{names[3]} in {path} is of no use: {names[0]} is that of categories. Save one model.")
    if not weights.size or vbias.shape != weights.shape[:2] or hbias.size != weights.shape[2] or hbias.ndim == 0:
        shapes = f"{weights.shape}, {vbias.shape} and {hbias.shape}"
        raise FileError(
            f"{', '.join(names)} in {path} must be (visible, category, hidden), (visible, category) and (hidden,), "
            f"not empty, got {shapes}. Save arrays of one categorical RBM."
        )


def _check_shapes(path: Path, names: tuple[str, ...], arrays: list[np.ndarray]) -> None:
    """Refuse weights and biases that do not fit together; a bias may be a row or a column, as in MATLAB."""
    weights, vbias, hbias, *sigmas = arrays
    label, shape = f"{names[0]} in {path}", weights.shape
    if weights.ndim != 2 or not weights.size:
        also = "; 3-d (visible, category, hidden) goes with a 2-d vbias" if weights.ndim == 3 else ""
        raise FileError(f"{label} must be 2-d (visible, hidden), not empty, got {shape}{also}. Save a matrix.")
    for name, bias in zip(names[1:3], (vbias, hbias), strict=True):
        if bias.ndim == 0 or bias.size != max(bias.shape):
            raise FileError(f"{name} in {path} must be a vector, got shape {bias.shape}. Save a 1-d array.")
    sizes = (vbias.size, hbias.size)
    if sizes != shape and sizes == shape[::-1]:
        cure = "Save its .T" if names == MAT_NAMES else f'Save its .T, or say `names="W={names[0]}.T"`'
        raise FileError(f"{label} must be {sizes} by its biases, got {shape}, looks transposed. {cure}.")
    for axis, side in enumerate(("rows", "columns")):
        if sizes[axis] != shape[axis]:
            raise FileError(
                f"{names[1 + axis]} in {path} must have length {shape[axis]}, the {side} of {names[0]}, "
                f"got {sizes[axis]}. Save arrays of one RBM."
            )
    if sigmas and sigmas[0].size not in (1, shape[0]):
        raise FileError(f"{names[3]} in {path} must be one number or {shape[0]}, got {sigmas[0].shape}. Save those.")


def _data_rows(stored: np.ndarray, num_visible: int | None, label: str) -> np.ndarray:
    """The data as (n, visible): packed bits unpacked, images flattened by rows."""
    shape = stored.shape
    if stored.ndim < 2:
        raise FileError(f"{label} must be (n, visible) or images (n, h, w), got shape {shape}. Reshape it.")
    if not stored.size:
        raise FileError(f"{label} is empty, got shape {shape}, expected at least one row. Save some data.")
    rows = stored.reshape(len(stored), -1)
    if num_visible is None or rows.shape[1] == num_visible:
        return rows
    num_packed = -(-num_visible // 8)
    if stored.ndim == 2 and stored.dtype == np.uint8 and shape[1] == num_packed:
        check_size(label, len(rows) * num_visible)
        return np.unpackbits(rows, axis=1, count=num_visible)
    raise FileError(
        f"{label} has {rows.shape[1]} columns, expected {num_visible} (visible units) or {num_packed} of "
        "packed bits. Use the data that the model was made for."
    )


def _is_binary(rows: np.ndarray, white: int, label: str) -> bool:
    """Whether all values are 0 or 1; if not, they must be grey values in 0..white."""
    if rows.dtype == np.bool_:
        return True
    low, high = rows.min(), rows.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        num_bad = np.count_nonzero(~np.isfinite(rows))
        what = "NaN" if np.isnan(low) else "infinite"
        raise FileError(f"{label} must be 0/1 or grey values, got {num_bad} {what}. Drop or fill them.")
    if low < 0 or high > white:
        kind = "floats" if white == 1 else "integers"
        cure = "Divide by the largest grey value." if low >= 0 else "For -1/+1 units save (x + 1) / 2."
        raise FileError(f"{label} must be 0/1 or grey {kind} in 0..{white}, got {low} to {high}. {cure}")
    return bool(high <= 1) if white > 1 else bool(np.all((rows == 0) | (rows == 1)))


def _binarized(rows: np.ndarray, white: int, binarize: str, seed: int) -> np.ndarray:
    """Grey values as 0/1, in blocks of rows, so that no float64 copy of all data is needed."""
    rng = np.random.default_rng(seed)
    binary = np.empty(rows.shape, np.uint8)
    for start in range(0, len(rows), _BLOCK_ROWS):
        grey = rows[start : start + _BLOCK_ROWS] / white
        level = 0.5 if binarize == "threshold" else rng.random(grey.shape)
        binary[start : start + len(grey)] = grey > level
    return binary
