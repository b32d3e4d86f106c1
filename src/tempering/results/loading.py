"""Results that were saved, as results again."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from tempering._errors import InputError
from tempering.diagnosis import Away, Diagnosis, Knot, MissingMass, RungChain, WitnessCheck
from tempering.estimators import Annealed, Expectation, LogZ
from tempering.estimators.uncertainty import Errors
from tempering.kernels import Evaluations
from tempering.ladder import PathLength
from tempering.results.result import ABOUT, RESULT_FILES, MeanLogLikelihood, Result
from tempering.results.saved_form import rebuilt
from tempering.sampling.directory import MALFORMED
from tempering.stats import BlockedStats, Fault, HostTargetSums, MoveCounts, Recording, Tours, Travel
from tempering.verdicts import Finding, Verdict

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Result, LogZ, Errors, Annealed, Expectation, MeanLogLikelihood, PathLength, Evaluations),
        *(Diagnosis, RungChain, Knot, Finding, Verdict, WitnessCheck, MissingMass, Away),
        *(Recording, BlockedStats, Fault, Travel, MoveCounts, Tours, HostTargetSums),
    )
}
_AGAIN = "Resume the run in its directory with `resume=True`, which writes the result again"


def load_result(place: str | os.PathLike) -> Result:
    """A result that was saved, with the same numbers: log Z at every rung, errors, findings, and the statistics.

    ```python
    tp.estimate(rbm, out="run")
    tp.load_result("run").interval
    ```

    Caveats: the model and the draws are not in the files. `tp.estimate(model, out="run", resume=True)` has both, and
    does not sample again.

    Args:
        place: The directory of a run, or the file `result.npz` or `result.json` in it.

    Returns:
        The result. A file that is missing, damaged or of another version is refused with an `InputError`.
    """
    path = Path(place)
    text, binary = (path / name if path.is_dir() else path.with_name(name) for name in RESULT_FILES)
    if not path.is_dir() and path.name not in RESULT_FILES:
        raise InputError(f"{path} is no directory of a run, nor {' or '.join(RESULT_FILES)} in one. Check the path.")
    if not binary.is_file():
        raise InputError(_missing(binary, text))
    try:
        about, arrays = _read(binary)
        result = rebuilt(about["result"], arrays, _KINDS)
        result.to_json()  # which looks at every part
    except InputError:
        raise
    except (*MALFORMED, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        raise InputError(f"{binary} is damaged or of another version ({why}). {_AGAIN}.") from error
    return result


def _missing(binary: Path, text: Path) -> str:
    """Why there is no result to load."""
    if (binary.parent / "checkpoint").exists():
        return f"{binary.parent} holds a run without {binary.name}: it was not finished. {_AGAIN}."
    held = f"; {text.name} alone does not say enough" if text.is_file() else ""
    return f"There is no {binary}{held}. Give a directory that `tp.estimate(model, out=DIR)` has written."


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `Result.save` wrote. Nothing is unpickled or unpacked, so it takes no more memory than the file is long."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise InputError(f"{path} is compressed, which files of results are not. {_AGAIN}.")
        if f"{ABOUT}.npy" not in archive.namelist():
            raise InputError(f"{path} was written by an older version, or by something else. {_AGAIN}.")
        arrays = {}
        for member in members:
            with archive.open(member) as stream:
                name = member.filename.removesuffix(".npy")
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
    return json.loads(arrays.pop(ABOUT).tobytes()), arrays
