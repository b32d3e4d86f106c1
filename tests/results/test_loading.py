"""Results from disk: the same numbers as before they were saved, and one clear line where that cannot be."""

import dataclasses
import json
import shutil
import zipfile

import numpy as np
import pytest

import tempering as tp
from samples import changed, few_crossings
from tempering.results.saved_form import flattened
from tempering.stats import HostTargetSums, MoveCounts

SETTINGS = {"num_chains": 20, "num_sweeps": 30, "num_rungs": 4, "warmup": tp.AnnealedStart(4, (2, 2))}
ROWS = np.array([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1]])


@pytest.fixture(scope="module")
def rbm() -> tp.RBM:
    rng = np.random.default_rng(1)
    return tp.RBM(rng.normal(0.2, 0.8, (6, 4)), rng.normal(size=6), rng.normal(size=4))


@pytest.fixture(scope="module")
def directory(rbm, tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "run"


@pytest.fixture(scope="module")
def result(rbm, directory) -> tp.Result:
    return tp.estimate(rbm, data=ROWS, out=directory, expect=lambda x: x.v, seed=3, **SETTINGS)


def parts_of(result: tp.Result) -> tuple[str, dict[str, np.ndarray]]:
    """All that files hold of a result: plain values as text, since NaN does not equal itself, and arrays by name."""
    arrays: dict[str, np.ndarray] = {}
    return json.dumps(flattened(result, "result", arrays)), arrays


def assert_same(loaded: tp.Result, result: tp.Result) -> None:
    text, arrays = parts_of(result)
    loaded_text, loaded_arrays = parts_of(loaded)
    assert loaded_text == text
    assert loaded_arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded_arrays[name].dtype == array.dtype, name
        np.testing.assert_array_equal(loaded_arrays[name], array, err_msg=name)
    assert {**loaded.to_dict(), "model": "RBM"} == result.to_dict()  # a file does not hold the model


def with_everything(result: tp.Result) -> tp.Result:
    """A result in which every part occurs: chains are stuck at a knot, moves diverge, and numbers do not exist."""
    recording = changed(travel=few_crossings())
    counts = np.full((10, 3, 3), 50)
    counts[:, 0, 1:] = counts[:, 1:, 0] = 0
    counts[0, 0, 1] = counts[0, 1, 0] = 1
    recording = dataclasses.replace(
        recording,
        transition_counts=counts,
        moves=MoveCounts(np.full(3, 100.0), np.array([90.0, 80.0, 70.0]), np.array([0.0, 0.0, 7.0])),
        target=HostTargetSums(np.ones(20), np.ones((20, 2))),
    )
    diagnosis = tp.diagnosis.diagnose(recording, result.annealed)
    assert diagnosis.rung_chain is not None
    return dataclasses.replace(result, recording=recording, diagnosis=diagnosis, target_error=0.1, seconds=float("nan"))


def test_a_directory_becomes_the_result_again(result, directory):
    """Kills: a field that is left out, float32 in between, a list where a tuple was, std errors in place of values."""
    loaded = tp.load_result(directory)
    assert_same(loaded, result)
    assert loaded.interval == result.interval
    assert loaded.log_z_by_rung.interval_at(0.68) == result.log_z_by_rung.interval_at(0.68)
    np.testing.assert_array_equal(loaded.log_z_by_rung.intervals(), result.log_z_by_rung.intervals())
    assert [reading.method for reading in loaded.log_z_by_rung.readings] != []
    assert loaded.log_z_by_rung.errors == result.log_z_by_rung.errors
    assert loaded.diagnosis == result.diagnosis
    assert loaded.mean_log_likelihood == result.mean_log_likelihood
    assert (loaded.num_chains, loaded.seed, loaded.length) == (20, 3, result.length)
    np.testing.assert_array_equal(loaded.expectation.value, result.expectation.value)
    assert str(loaded) == str(result)
    answers = (result.log_z_by_rung, loaded.log_z_by_rung)
    lost = {
        f"{type(saved).__name__}.{field.name}"
        for saved, found in ((result, loaded), (result.recording, loaded.recording), answers)
        for field in dataclasses.fields(saved)
        if getattr(saved, field.name) is not None and getattr(found, field.name) is None
    }
    assert lost == {"Result.model"}


def test_it_serves_as_the_result_did(result, directory):
    """Guards what people do next: another diagnosis, a ratio, and saving it again."""
    loaded = tp.load_result(directory / "result.json")
    assert tp.diagnosis.diagnose(loaded.recording, loaded.annealed) == tp.diagnosis.diagnose(
        result.recording, result.annealed
    )
    answer = result.log_z_by_rung
    elsewhere = dataclasses.replace(answer, values=answer.values + 1.5)
    other = dataclasses.replace(result, seed=4, log_z_by_rung=elsewhere)
    assert tp.log_ratio(loaded, other) == tp.log_ratio(result, other)
    with pytest.raises(tp.InputError, match="resume=True"):
        loaded.to_arviz()


def test_every_part_of_a_result_is_kept(result, tmp_path):
    whole = with_everything(result)
    whole.save(tmp_path)
    loaded = tp.load_result(tmp_path / "result.npz")
    assert_same(loaded, whole)
    assert np.isnan(loaded.seconds)
    assert loaded.diagnosis.rung_chain.knots == whole.diagnosis.rung_chain.knots
    assert loaded.num_divergent == 7
    assert {finding.verdict for finding in loaded.diagnosis.findings} >= {tp.Verdict.STUCK}
    loaded.save(tmp_path)
    assert_same(tp.load_result(tmp_path), whole)


def test_draws_and_programs_stay_out_of_files(result, tmp_path):
    """Guards the size of files, and against pickled functions: only numbers and words are written."""
    result.save(tmp_path)
    with np.load(tmp_path / "result.npz", allow_pickle=False) as archive:
        held = dict(archive)
    assert not any(part in name for name in held for part in ("model", "states", "features", "tuning"))
    assert all(array.dtype.kind in "biuf" for array in held.values())


def line_of(place) -> str:
    with pytest.raises(tp.InputError) as caught:
        tp.load_result(place)
    message = str(caught.value)
    assert message.isprintable()
    assert message.endswith(".")
    return message


def test_damaged_files_are_refused_or_harmless(result, tmp_path):
    """Kills: a reader without checksums, and errors of parsers that reach the user as they are."""
    result.save(tmp_path)
    file = tmp_path / "result.npz"
    sound = file.read_bytes()
    rng = np.random.default_rng(0)
    refusals = []
    for place in rng.integers(0, len(sound), 120):
        damaged = bytearray(sound)
        damaged[place] ^= int(rng.integers(1, 256))
        file.write_bytes(damaged)
        try:
            loaded = tp.load_result(tmp_path)
        except tp.InputError as error:
            refusals.append(str(error))
        else:
            assert_same(loaded, result)  # a byte of the archive that says nothing, such as a date
    assert len(refusals) > 80
    assert all(line.isprintable() for line in refusals)
    for length in (0, 1, 100, len(sound) // 2, len(sound) - 1):
        file.write_bytes(sound[:length])
        assert "damaged" in line_of(tmp_path)


def rewritten(source, target, about=None, compression=zipfile.ZIP_STORED) -> None:
    """The same file with another description, or compressed."""
    with np.load(source) as archive:
        arrays = dict(archive)
    if about is not None:
        arrays["result"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as stream:
                np.lib.format.write_array(stream, array)


def test_only_results_are_made(result, tmp_path):
    """Kills: a reader that makes any class that a file names, or a result with fields that are missing."""
    result.save(tmp_path)
    with np.load(tmp_path / "result.npz") as archive:
        about = json.loads(archive["result"].tobytes())
    other = tmp_path / "other"
    other.mkdir()
    for wrong in (
        {**about, "result": {"kind": "Path", "fields": {}}},
        {**about, "result": {"kind": "Result", "fields": {}}},
        {**about, "result": {**about["result"], "fields": {**about["result"]["fields"], "new": 1}}},
        {**about, "result": {**about["result"], "fields": {**about["result"]["fields"], "diagnosis": "good"}}},
        {**about, "result": [1, 2]},
        [],
    ):
        rewritten(tmp_path / "result.npz", other / "result.npz", wrong)
        assert "resume=True" in line_of(other)
    rewritten(tmp_path / "result.npz", other / "result.npz")
    assert_same(tp.load_result(other), result)
    rewritten(tmp_path / "result.npz", other / "result.npz", compression=zipfile.ZIP_DEFLATED)
    assert "compressed" in line_of(other)


def test_what_is_missing_is_said(result, directory, tmp_path):
    assert "There is no" in line_of(tmp_path)
    assert "Check the path" in line_of(tmp_path / "nowhere")
    result.save(tmp_path)
    (tmp_path / "result.npz").unlink()
    assert "does not say enough" in line_of(tmp_path)
    assert "does not say enough" in line_of(tmp_path / "result.json")
    np.savez(tmp_path / "result.npz", betas=result.betas, log_z=result.log_z_by_rung.values)
    assert "older version" in line_of(tmp_path)
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    shutil.copy(directory / "checkpoint", unfinished)
    assert "not finished" in line_of(unfinished)
