"""The data of the paper's experiments: read from a directory, and downloaded there where they are missing.

A downloaded file must have the SHA-256 that is written here, and the arrays made from it theirs, so that nobody's
numbers rest on other data.
"""

import dataclasses
import hashlib
import io
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tempering._errors import InputError

_RAW = "https://raw.githubusercontent.com"
_MNIST_PIXELS = (28, 28)
_TIMEOUT = 60.0  # seconds without a byte

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Source:
    """A file on the network.

    Attributes:
        url: Where it is.
        sha256: What it must be.
    """

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """Its name without folders."""
        return self.url.rpartition("/")[2]


@dataclasses.dataclass(frozen=True)
class Dataset:
    """An .npz file, and what it is made from.

    Attributes:
        digest: The SHA-256 of its arrays, see `digest_of`.
        sources: The files that it is made from.
        convert: Makes the arrays from the contents of the sources, by their names.
    """

    digest: str
    sources: tuple[Source, ...]
    convert: Callable[[Mapping[str, bytes]], Arrays]


def fetched(name: str, directory: Path, say: Callable[[str], None]) -> Path:
    """A file of data that is there and is what it should be.

    Args:
        name: Of `DATASETS`.
        directory: Where it is, or where it is written to. A source that lies there already is not downloaded.
        say: Told of a download.

    Returns:
        Its path.

    Raises:
        InputError: It is not there and cannot be downloaded, or it is something else.
    """
    dataset, file = DATASETS[name], directory / name
    if not file.exists():
        contents = {source.name: _contents(source, name, directory, say) for source in dataset.sources}
        arrays = dataset.convert(contents)
        _check(arrays, dataset, "What was downloaded for " + name)
        directory.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]  arrays only
        return file
    with np.load(file, allow_pickle=False) as archive:
        _check(dict(archive), dataset, str(file))
    return file


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of arrays with their names, types and shapes, however the file was packed.

    Args:
        arrays: By name.

    Returns:
        64 hexadecimal digits.
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def default_directory() -> Path:
    """Where data are kept unless told otherwise, by the custom of the platform."""
    import platformdirs  # only where data are fetched

    return platformdirs.user_cache_path("tempering", appauthor=False) / "data"


def _check(arrays: Arrays, dataset: Dataset, what: str) -> None:
    found = digest_of(arrays)
    if found != dataset.digest:
        raise InputError(
            f"{what} is not the data of the paper: SHA-256 of its arrays {found[:12]}…, expected "
            f"{dataset.digest[:12]}…. Remove it, so that it is downloaded again, or choose another `data_dir`."
        )


def _contents(source: Source, wanted: str, directory: Path, say: Callable[[str], None]) -> bytes:
    """The bytes of a source, from the directory or from the network."""
    local = directory / source.name
    if local.exists():
        content = local.read_bytes()
    else:
        say(f"Downloading {source.url}")
        try:
            with urllib.request.urlopen(source.url, timeout=_TIMEOUT) as answer:
                content = answer.read()
        except (urllib.error.URLError, OSError) as error:
            raise InputError(
                f"{wanted} is not in {directory}, and {source.url} cannot be downloaded ({error}). Put {wanted} or "
                f"{source.name} there, or give the directory that has it as `data_dir`."
            ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise InputError(
            f"{source.name} is damaged or another file: SHA-256 {found[:12]}…, expected {source.sha256[:12]}…. "
            f"Remove it from {directory} if it is there, and try again."
        )
    return content


def _mat(content: bytes) -> dict[str, Any]:
    from scipy.io import loadmat

    return loadmat(io.BytesIO(content))


def _rbm(weights: Any, vbias: Any, hbias: Any, suffix: str = "") -> Arrays:
    """Parameters under the names that `load` knows, visible units first."""
    weights = np.asarray(weights, np.float64)
    weights = weights if len(weights) == np.size(vbias) else weights.T
    biases = {"vbias": np.ravel(vbias).astype(np.float64), "hbias": np.ravel(hbias).astype(np.float64)}
    return {f"{name}{suffix}": np.ascontiguousarray(array) for name, array in {"W": weights, **biases}.items()}


def _salakhutdinov(contents: Mapping[str, bytes], suffix: str = "", name: str = "mnistvh_CD25.mat") -> Arrays:
    parts = _mat(contents[name])
    return _rbm(parts["vishid"], parts["visbiases"], parts["hidbiases"], suffix)


def _small_rbms(contents: Mapping[str, bytes]) -> Arrays:
    arrays = _salakhutdinov(contents, "_15", "mnistvh.mat")
    for number in (10, 20, 100, 500):
        parts = _mat(contents[f"h{number}.mat"])
        arrays |= _rbm(parts["parameter_W"], parts["parameter_b"], parts["parameter_a"], f"_{number}")
    return arrays


def _binarized(contents: Mapping[str, bytes]) -> Arrays:
    """Bits packed along the pixels, which the source has column by column, and here are row by row."""
    parts = _mat(contents["randomly_binarized_mnist.mat"])
    arrays = {}
    for part, name in (("train", "x_trn"), ("test", "x_tst")):
        rows = np.asarray(parts[name])
        rows = rows.T if len(rows) == np.prod(_MNIST_PIXELS) else rows
        images = rows.reshape(-1, *_MNIST_PIXELS).transpose(0, 2, 1).reshape(len(rows), -1)
        arrays[f"{part}_packed"] = np.packbits(images.astype(np.uint8), axis=1)
    return arrays


def _dna(contents: Mapping[str, bytes]) -> Arrays:
    """Rows of `label index:value …`, where indices count from 1."""
    arrays = {}
    for part, suffix in (("train", "tr"), ("valid", "val"), ("test", "t")):
        lines = contents[f"dna.scale.{suffix}"].decode().split("\n")
        rows = [line.split() for line in lines if line.strip()]
        bits = np.zeros((len(rows), 180), np.uint8)
        for row, (_, *entries) in enumerate(rows):
            for entry in entries:
                index, _, value = entry.partition(":")
                bits[row, int(index) - 1] = float(value) > 0
        arrays[part] = bits
        arrays[f"{part}_labels"] = np.array([int(float(row[0])) for row in rows], np.uint8)
    return arrays


_MCMC, _DNA = f"{_RAW}/lzhbrian/MCMC/master/src/partition", f"{_RAW}/ryaninhust/douban_pGBRT/master/data"
_DISTILLING = f"{_RAW}/gpapamak/distilling_intractable_generative_models/eeac81861ee1c89cf254fd302303363bebfb1a27"
_NEURAL_NET = f"{_RAW}/a-taherkhani/neural_net/3963e680512c53d204f7ee35b471a06b5dc03267"
_BINARIZED_ROWS = Source(
    f"{_DISTILLING}/outdir/randomly_binarized_mnist.mat",
    "de1a93505c4561bbc3e3e2fbb6d911e31fb0e840bcea5f7c010848fba7d4f89a",
)
_CD25_500 = Source(
    f"{_MCMC}/reference/code_AIS/mnistvh_CD25.mat", "264d0e1b8b54162efc886ad596408316ded23664eb8858f8a3ff280d31fb491d"
)
_SMALL_RBMS = (
    Source(f"{_MCMC}/data/h10.mat", "5be9accc538f9d1548ccef1954c2444a71a3b2baef319ac2e3bfb1282ea9a92e"),
    Source(f"{_MCMC}/data/h20.mat", "caa0fa72bc57eac629d2d5ec12574eda2526ee6c508fde7f72e20a7dd027a6ed"),
    Source(f"{_MCMC}/data/h100.mat", "e1054109bfe28427d2c3ca8fa5a622a5299c9e141181cdd23bc0ba9baab80202"),
    Source(f"{_MCMC}/data/h500.mat", "2823840ee01c3ae26e34d8bb930e8dff8ce4deff66ed0b84ceb406eac27ca945"),
    Source(f"{_NEURAL_NET}/mnistvh.mat", "cea5b11edfc02c705f747b772e77da8d933198b05cd75d99a445507f8f2ae98d"),
)
_DNA_ROWS = (
    Source(f"{_DNA}/dna.scale.tr", "101d8f3dc2b4da34263a9dd35694a3896df5830de16650f1307dfa4e0c47976c"),
    Source(f"{_DNA}/dna.scale.val", "5028d909949f791be3628f9f4f25a33de9c470ad5c7458a3f5d62a2e0eb9d2ba"),
    Source(f"{_DNA}/dna.scale.t", "d2eeed170e4e38ae2aba6aa4cd27a8ca4ecceb01a7751e8e509bb4e1a6bcef39"),
)
DATASETS = {
    "mnist_binarized.npz": Dataset(
        "ab249405b5b4d287328418812c780dae69e299e7211a1373492840346c65b45c", (_BINARIZED_ROWS,), _binarized
    ),
    "rbm_mnist_cd25_500.npz": Dataset(
        "cc6704f99dfe56b798efb1ca5f2c57657058191f6c16a7790cf1475aacbaa38e", (_CD25_500,), _salakhutdinov
    ),
    "rbm_mnist_small.npz": Dataset(
        "1fea80c1a1f83341fc983e6d3fcde419a5b2591931392f316498687566fe2a26", _SMALL_RBMS, _small_rbms
    ),
    "dna_libsvm.npz": Dataset("f0bd036f9e068627dcff573e16e8eee20ea99488bd9078a7dee74e49797b5574", _DNA_ROWS, _dna),
}
