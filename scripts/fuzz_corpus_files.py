"""Writes the files from which `fuzz_readers.py` makes its inputs: one small, valid file for every reader."""

import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
import safetensors.numpy
import scipy.io

import tempering as tp
from tempering.sampling.directory import RunDirectory, sealed

CORPUS = Path(__file__).parent / "fuzz_corpus"


def main() -> None:
    CORPUS.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    arrays = {"W": rng.normal(size=(3, 2)), "vbias": rng.normal(size=3), "hbias": rng.normal(size=2)}
    np.savez(CORPUS / "rbm.npz", **arrays)
    safetensors.numpy.save_file(arrays, CORPUS / "rbm.safetensors")
    with h5py.File(CORPUS / "rbm.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    with h5py.File(CORPUS / "updates.h5", "w") as file:  # as the package rbms writes
        file["model_type"] = "BBRBM"
        for update in (1, 10):
            for name, array in (("weight_matrix", arrays["W"]), ("vbias", arrays["vbias"]), ("hbias", arrays["hbias"])):
                file[f"update_{update}/params/{name}"] = array
    renamed = zip(("vishid", "visbiases", "hidbiases"), arrays.values(), strict=True)
    scipy.io.savemat(CORPUS / "rbm.mat", dict(renamed))
    rows = (rng.random((5, 3)) < 0.4).astype(np.uint8)
    np.savez(CORPUS / "rows.npz", rows)
    np.save(CORPUS / "rows.npy", rows)
    np.savetxt(CORPUS / "rows.csv", rows, "%d", ",")
    with tempfile.TemporaryDirectory() as folder:
        with RunDirectory(folder, {"seed": 3}, resume=False) as directory:
            directory.write({"done": 3}, {"states": rng.normal(size=4)})
        shutil.copy(Path(folder) / "checkpoint", CORPUS / "checkpoint.bin")
        model = tp.RBM(arrays["W"], arrays["vbias"], arrays["hbias"])
        tp.estimate(model, num_chains=2, num_sweeps=4, num_rungs=3, warmup=tp.AnnealedStart(2, (1,))).save(folder)
        shutil.copy(Path(folder) / "result.npz", CORPUS / "result.npz")
    np.savez_compressed(CORPUS / "samples.npz", v=rows)
    (CORPUS / "summary.json").write_text(sealed({"train": {"value": -3.5}, "num_updates": 3}) + "\n")
    found = [{"update": i, "train": -3.5 + i / 100, "log_z": 2.25, "verdict": "good"} for i in range(1, 11)]
    (CORPUS / "metrics.jsonl").write_text("".join(sealed(row) + "\n" for row in found))


if __name__ == "__main__":
    main()
