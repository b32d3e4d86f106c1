"""Every reader of files held against damaged inputs: no crash, no other error than a refusal, bounded memory and time.

    python scripts/fuzz_readers.py                        # 100,000 inputs for every reader
    python scripts/fuzz_readers.py hdf5 csv --inputs 500  # some readers, fewer inputs

Inputs are made from the files of `scripts/fuzz_corpus` by flipped bits, cuts, repeats, numbers that are too large, and
pieces of other files. Each reader has a process of its own: if that ends in a crash, the input that it died of is kept.
Exits 1 if a reader fails, or takes more than ten seconds for an input. libhdf5 crashes on some inputs and never ends on
others, so the library reads HDF5 in a process of its own; here that process is forked, has the limits that it has in
the library, and is replaced when it dies. One input in 500 goes the whole way. A reader that is added to the library is
one line in READERS, with a file in the corpus.
"""

import argparse
import hashlib
import importlib.util
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORPUS = Path(__file__).parent / "fuzz_corpus"
RECORD = Path(__file__).parents[1] / "benchmarks" / "results" / "fuzz.json"
MOST_SECONDS = 10  # for one input
MOST_MEGABYTES = 500
EXTREMES = [b"\xff" * 4, b"\x00" * 4, b"\xff\xff\xff\x7f", b"\xff" * 8]
EXTREMES += [b"99999999999999", b"-1", b"NaN", b"1e999", b"{", b"'"]


def read_model(file: Path) -> None:
    from tempering.frontends.files import read_rbm

    read_rbm(file)


class HDF5Process:
    """A fork that reads HDF5 files as the library's own process does, with its limits; a new one after 200 files."""

    num_reads = 0
    pipes: tuple[int, int] | None = None
    file: Path | None = None

    def read(self, file: Path) -> bool:
        """Whether the file could be read; a process that died of it is replaced."""
        if self.pipes is None or file != self.file or self.num_reads % 200 == 0:
            self._restart(file)
        self.num_reads += 1
        assert self.pipes is not None
        os.write(self.pipes[1], b"?")
        answer = os.read(self.pipes[0], 1)
        if not answer:
            self._restart(file)
        return answer == b"+"

    def _restart(self, file: Path) -> None:
        if self.pipes is not None:
            for pipe in self.pipes:
                os.close(pipe)
            os.wait()
        (answers, answer), (requests, request) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(answers)
            os.close(request)
            self._serve(file, requests, answer)
        os.close(answer)
        os.close(requests)
        self.pipes, self.file = (answers, request), file

    def _serve(self, file: Path, requests: int, answer: int) -> None:
        from tempering.frontends import _hdf5_worker as worker

        worker.limit(None, worker.ROOM)
        names = [{"name": name} for name in ("W", "vbias", "hbias")]
        asked = [{}, *names, *(name | {"num_bytes": 1000} for name in names)]
        while os.read(requests, 1):
            signal.setitimer(signal.ITIMER_PROF, 2.0)  # of processor time; its signal ends the process
            answers = io.BytesIO()
            worker.serve(str(file), map(json.dumps, asked), answers)
            signal.setitimer(signal.ITIMER_PROF, 0)
            os.write(answer, b"+" if answers.getvalue().count(b'"num_bytes"') == len(asked) else b"-")
        os._exit(0)


HDF5 = HDF5Process()


def read_hdf5(file: Path) -> None:
    """In the fork; one file in 500 the whole way through the library too."""
    from tempering import InputError

    is_read = HDF5.read(file)
    if HDF5.num_reads % 500 == 1:
        read_model(file)
    if not is_read:
        raise InputError("refused")


def read_rows(file: Path) -> None:
    from tempering.frontends.files import load_rows

    load_rows(file)


def read_signed_body(file: Path) -> None:
    """A body that was damaged before its checksum was made: the checksum does not tell."""
    head, _, body = file.read_bytes().partition(b"\n")
    signed = file.with_suffix(".signed")
    signed.write_bytes(head[:-64] + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    read_checkpoint(signed)


def read_checkpoint(file: Path) -> None:
    from tempering.sampling.directory import RunDirectory

    folder = file.parent / "run"
    folder.mkdir(exist_ok=True)
    shutil.copy(file, folder / "checkpoint")
    with RunDirectory(folder, {"seed": 3}, resume=True) as directory:
        directory.read(lambda about, arrays: (about["done"], arrays["states.0"].sum()))


def read_result(file: Path) -> None:
    from tempering.results import load_result

    load_result(file)


def read_metrics(file: Path) -> None:
    from tempering.training.metrics import Metrics

    folder = file.parent / "metrics"
    folder.mkdir(exist_ok=True)
    shutil.copy(file, folder / "metrics.jsonl")
    metrics = Metrics(folder)
    metrics.open(10, 10)
    metrics.close()


def read_draws(file: Path) -> None:
    """As a report reads draws and samples."""
    from tempering import InputError
    from tempering.sampling.directory import MALFORMED, unpacked

    try:
        unpacked(file)
    except MALFORMED as error:
        raise InputError("refused") from error


def read_summary(file: Path) -> None:
    """As a report reads the summary of a training."""
    from tempering import InputError
    from tempering.sampling.directory import unsealed

    if unsealed(file.read_bytes()) is None:
        raise InputError("refused")


READERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "npz": ("rbm.npz", read_model),
    "safetensors": ("rbm.safetensors", read_model),
    "hdf5": ("rbm.h5", read_hdf5),
    "hdf5 of rbms": ("updates.h5", read_hdf5),
    "mat": ("rbm.mat", read_model),
    "npz of rows": ("rows.npz", read_rows),
    "npy": ("rows.npy", read_rows),
    "csv": ("rows.csv", read_rows),
    "checkpoint": ("checkpoint.bin", read_checkpoint),
    "checkpoint with its checksum": ("checkpoint.bin", read_signed_body),
    "result": ("result.npz", read_result),
    "draws": ("samples.npz", read_draws),
    "summary": ("summary.json", read_summary),
    "metrics": ("metrics.jsonl", read_metrics),
}


NEEDS = {"hdf5": "h5py", "hdf5 of rbms": "h5py"}  # packages


def damaged(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """The file with one to four faults."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            del changed[at : at + rng.randrange(1, 64)]
        elif kind == 3:
            changed[at:at] = changed[at : at + rng.randrange(1, 64)]
        elif kind == 4:
            piece = rng.choice(EXTREMES)
            changed[at : at + len(piece)] = piece
        else:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            changed[at : at + 64] = other[start : start + rng.randrange(1, 128)]
    return bytes(changed)


def work(name: str, num_inputs: int, seed: int, folder: Path) -> None:
    """Read so many inputs; print what came of them as JSON."""
    from tempering import InputError

    warnings.simplefilter("ignore")
    file_name, read = READERS[name]
    data = (CORPUS / file_name).read_bytes()
    others = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
    rng, counts, failures, slowest = random.Random(f"{name} {seed}"), {"read": 0, "refused": 0}, [], 0.0
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends this process: libraries in C do not hear Python's handlers
    file = folder / file_name
    file.write_bytes(data)
    read(file)  # which must work
    for number in range(num_inputs):
        content = damaged(rng, data, others)
        file.write_bytes(content)
        started = time.perf_counter()
        signal.alarm(MOST_SECONDS)
        try:
            read(file)
            counts["read"] += 1
        except InputError as error:
            counts["refused"] += 1
            if "\n" in str(error):
                failures.append(f"{number}: a refusal of several lines")
        except Exception as error:  # noqa: BLE001  what is looked for
            failures.append(f"{number}: {type(error).__name__}: {error}")
            (folder / f"failed_{len(failures)}_{file_name}").write_bytes(content)
        finally:
            signal.alarm(0)
        slowest = max(slowest, time.perf_counter() - started)
        if len(failures) >= 20:
            break
    megabytes = (
        max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    )
    told = counts | {"failures": failures, "slowest_seconds": round(slowest, 3), "peak_megabytes": round(megabytes)}
    print(json.dumps(told))


def fuzz(name: str, num_inputs: int, seed: int) -> dict:
    """What came of one reader, in a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz_"))
    command = [sys.executable, __file__, "--worker", name, "--inputs", str(num_inputs), "--seed", str(seed)]
    ended = subprocess.run([*command, "--folder", str(folder)], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        return {"failures": [f"ended with status {ended.returncode}: {ended.stderr[-500:]}"], "kept_in": str(folder)}
    told = json.loads(ended.stdout)
    if told["peak_megabytes"] > MOST_MEGABYTES:
        told["failures"].append(f"took {told['peak_megabytes']} MB")
    if told["failures"]:
        return told | {"kept_in": str(folder)}
    shutil.rmtree(folder)
    return told


def can_be_read(name: str) -> bool:
    """Whether the packages that a reader needs are there; says so where they are not."""
    is_there = name not in NEEDS or importlib.util.find_spec(NEEDS[name]) is not None
    if not is_there:
        print(f"{name} is left out: {NEEDS[name]} is not installed", flush=True)
    return is_there


def about() -> dict:
    """The command, the commit and the machine, as other records have them."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "experiments"))
    import repeats

    return repeats.about()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("readers", nargs="*", help=f"some of: {', '.join(READERS)}; all by default")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="keep the record in benchmarks/results")
    parser.add_argument("--jobs", type=int, default=1, help="readers at a time")
    parser.add_argument("--worker")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.worker is not None:
        work(asked.worker, asked.inputs, asked.seed, asked.folder)
        return
    failed, readers = False, [name for name in asked.readers or READERS if can_be_read(name)]
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = pool.map(lambda name: fuzz(name, asked.inputs, asked.seed), readers)
        for name, found in zip(readers, results, strict=True):
            told = {"inputs": asked.inputs} | found
            print(name, json.dumps(told), flush=True)
            failed |= bool(told["failures"])
            if asked.write:
                told["about"] = about()
                before = json.loads(RECORD.read_text()) if RECORD.exists() else {}
                RECORD.write_text(json.dumps(before | {name: told}, indent=1) + "\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
