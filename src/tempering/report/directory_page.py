"""Reports of what directories hold."""

import os
from pathlib import Path

import numpy as np

from tempering._errors import InputError
from tempering.report.parts import Words
from tempering.report.run_page import run_report
from tempering.report.training_page import training_report
from tempering.results import Details
from tempering.sampling.directory import MALFORMED, unpacked, unsealed, write_atomically
from tempering.training.metrics import read_metrics

SUMMARY_FILE, METRICS_FILE, SAMPLES_FILE = "summary.json", "metrics.jsonl", "samples.npz"


def directory_report(directory: str | os.PathLike, *, shape: tuple[int, int] | None = None, words: Words = str) -> str:
    """The report of the run in a directory, made without its model.

    Args:
        directory: What `tempering estimate` or `tempering train` left there.
        shape: Height and width of a state or a row, where it is an image.
        words: How cures are said; by default as arguments in Python.

    Returns:
        A document of HTML.
    """
    folder = Path(directory)
    name = folder.resolve().name
    if (folder / SUMMARY_FILE).exists():
        return _training(folder, shape, words, name)
    if (folder / METRICS_FILE).exists():
        raise InputError(f"{directory} holds training without its end. Finish the training with `resume`.")
    details = Details.read(folder)
    return run_report(details, shape=shape, words=words, title=f"{details.answer['model'] or 'model'} in {name}")


def write_report(document: str, path: str | os.PathLike) -> None:
    """Write a report to a file, whole or not at all.

    Args:
        document: The report.
        path: The file.
    """
    write_atomically(Path(path), document.encode())


def _training(folder: Path, shape: tuple[int, int] | None, words: Words, title: str) -> str:
    try:
        summary = unsealed((folder / SUMMARY_FILE).read_bytes())
        if summary is None:
            raise InputError(f"{folder / SUMMARY_FILE} is damaged. Resume the run, which writes it again.")
        rows = read_metrics(folder / METRICS_FILE)  # none where the likelihood was not tracked
        samples = None
        if (folder / SAMPLES_FILE).exists():
            samples = unpacked(folder / SAMPLES_FILE)["v"]
        return training_report(
            summary, rows, samples=samples, shape=shape or _square(samples), words=words, title=title
        )
    except MALFORMED as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{folder} holds damaged files ({type(error).__name__}: {error}).") from error


def _square(samples: np.ndarray | None) -> tuple[int, int] | None:
    side = 0 if samples is None else round(samples.shape[1] ** 0.5)
    return (side, side) if samples is not None and side > 2 and side * side == samples.shape[1] else None
