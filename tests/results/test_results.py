"""The answer on disk and as JSON: nothing lost, nothing that JSON cannot say."""

import copy
import inspect
import json
import pickle

import numpy as np
import pytest

import tempering as tp
from tempering.api import Settings
from tempering.cli import estimate_command

QUICK = {"num_chains": 20, "num_sweeps": 6, "num_rungs": 4, "warmup": tp.AnnealedStart(4, (2, 2))}
KEYS = {
    *("log_z", "std_error", "interval", "verdict", "message", "findings", "method", "num_chains"),
    *("num_sweeps", "num_rungs", "num_warmup_sweeps", "seconds", "annealed_log_z", "annealed_std_error"),
    *("seed", "is_complete", "round_trips_per_chain"),
    *("exact_log_z", "mean_log_likelihood", "mean_log_likelihood_interval"),
}


def small_rbm() -> tp.RBM:
    rng = np.random.default_rng(1)
    return tp.RBM(rng.normal(0.2, 0.8, (6, 4)), rng.normal(size=6), rng.normal(size=4))


def quick(**changes) -> tp.Result:
    return tp.estimate(small_rbm(), **{**QUICK, **changes})


def strict_json(text: str):
    """Parsed, and refused where it holds NaN or Infinity, which are no JSON."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.fixture(scope="module")
def result() -> tp.Result:
    return quick(data=np.array([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1]]))


def test_json_round_trips(result):
    """Guards scripts that read the JSON: one line, all keys, every float exactly as it was."""
    text = result.to_json()
    assert "\n" not in text
    parsed = strict_json(text)
    assert parsed.keys() >= KEYS
    assert parsed == result.to_dict()
    assert parsed["log_z"] == result.log_z == result.log_z_by_rung.values[-1]
    assert parsed["std_error"] == result.std_error > 0
    assert parsed["interval"] == list(result.interval)
    assert parsed["verdict"] == result.verdict.label
    assert (parsed["num_chains"], parsed["num_sweeps"], parsed["num_rungs"]) == (20, 6, 4)
    assert parsed["num_warmup_sweeps"] == 8
    assert parsed["annealed_log_z"] == result.annealed.log_z


def test_the_interval_is_around_the_answer(result):
    """Guards the order of the ends, also where the likelihood turns them round."""
    low, high = result.interval
    assert low < result.log_z < high
    likelihood = result.mean_log_likelihood
    assert likelihood.interval[0] < likelihood.value < likelihood.interval[1]
    assert likelihood.num_rows == 3


def test_the_mean_log_likelihood_is_that_of_the_rows(result):
    """Guards mean log f(v) − log Z against signs and missing terms."""
    rbm = small_rbm()
    rows = np.array([[0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1]], np.float64)
    log_f = rows @ rbm.vbias + np.logaddexp(0, rows @ rbm.weights + rbm.hbias).sum(axis=1)
    assert result.mean_log_likelihood.value == pytest.approx(log_f.mean() - result.log_z, abs=1e-12)
    assert result.mean_log_likelihood.std_error == result.std_error


@pytest.mark.parametrize("method", ["rts", "ts", "sd", "rsd"])
def test_one_draw_has_no_error_and_says_so(method):
    """Guards against a confident answer from nothing, and against warnings on the way to it."""
    result = quick(num_chains=1, num_sweeps=1, method=method)
    assert result.std_error == np.inf
    assert not result.verdict.is_good
    parsed = strict_json(result.to_json())
    assert parsed["std_error"] is None
    assert parsed["interval"] == [None, None]
    assert parsed["verdict"] != "good"
    assert parsed["method"] == method
    assert str(result) == result.summary()
    assert repr(result).startswith("Result(log_z=")
    assert len(repr(result)) < 100  # a cell of a notebook, not pages


@pytest.mark.parametrize("num_chains", [2, 5])
@pytest.mark.parametrize("method", ["rts", "ts", "sd", "rsd"])
def test_estimates_on_the_way_warn_of_nothing(method, num_chains):
    """Guards the live estimate of a run that has seen few rungs so far: pytest makes warnings errors."""
    seen = []
    quick(base="uniform", num_chains=num_chains, method=method, watch=seen.append)
    assert [progress.stage for progress in seen] == [*4 * ["annealing"], *4 * ["equilibrating"], *6 * ["sampling"]]
    assert [progress.estimate is not None for progress in seen] == 8 * [False] + 6 * [True]


@pytest.mark.parametrize("method", ["rts", "rsd"])
def test_what_is_saved(tmp_path, method):
    """Guards `result.json` and `result.npz`: the documented arrays, readable without pickle."""
    result = quick(method=method)
    result.save(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["result.json", "result.npz"]
    assert strict_json((tmp_path / "result.json").read_text(encoding="utf-8")) == result.to_dict()
    with np.load(tmp_path / "result.npz", allow_pickle=False) as arrays:
        saved = dict(arrays)
    by_rung = {name for name in saved if not name.startswith("result")}  # the others are for `load_result`
    assert by_rung == {"betas", "log_z", "std_error", "occupancy", "transition_matrix"}
    np.testing.assert_array_equal(saved["betas"], result.betas)
    np.testing.assert_array_equal(saved["log_z"], result.log_z_by_rung.values)
    np.testing.assert_array_equal(saved["std_error"], result.log_z_by_rung.std_errors)
    assert saved["occupancy"].shape == (4,)
    rows = saved["transition_matrix"].sum(axis=1)
    assert np.all(np.isclose(rows, 1) | (rows == 0))


def test_a_result_is_saved_where_nothing_is_yet_and_can_be_copied(tmp_path, result):
    result.save(tmp_path / "new" / "folder")
    assert json.loads((tmp_path / "new" / "folder" / "result.json").read_text())["log_z"] == result.log_z
    (tmp_path / "file").write_text("")
    with pytest.raises(tp.InputError, match="cannot be made"):
        result.save(tmp_path / "file" / "folder")
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):  # noqa: S301
        assert str(again) == str(result)


def test_saving_again_replaces(tmp_path):
    """Guards a result that is written twice into one directory."""
    first, second = quick(), quick(seed=1)
    first.save(tmp_path)
    second.save(tmp_path)
    assert strict_json((tmp_path / "result.json").read_text())["log_z"] == second.log_z != first.log_z


def test_a_stopped_run_says_how_far_it_came(tmp_path):
    """Guards interrupted runs: sweeps done, not sweeps asked for, and no result file yet."""
    part = quick(out=tmp_path, watch=lambda progress: progress.stage == "sampling" and progress.done == 2)
    assert not part.is_complete
    assert part.to_dict()["num_sweeps"] == 2
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("wrong", [
    {"num_chains": 0}, {"num_sweeps": 0}, {"num_rungs": 1}, {"chunk_sweeps": 0},
    {"method": "magic"}, {"warmup": "none"}, {"rung_weights": "exp:"}, {"rung_weights": "exp:x"},
    {"rung_weights": "exp:nan"},
    {"rung_weights": "ends:0.5"}, {"rung_weights": "ends:x"},
    {"betas": "linear"}, {"betas": [0, 1, 0.5]}, {"betas": "geometric:2"}, {"seed": -1}, {"seed": 2**32},
], ids=str)  # fmt: skip
def test_wrong_settings_are_refused_in_one_line(wrong):
    """Guards the door: what a person wrote is checked before anything runs."""
    with pytest.raises(tp.InputError) as caught:
        quick(**wrong)
    assert str(caught.value).isprintable()


def test_settings_default_to_what_the_command_line_says():
    """Guards two sets of defaults against drifting apart."""
    asked = {name: p.default for name, p in inspect.signature(estimate_command).parameters.items()}
    names = {
        "chains": "num_chains",
        "sweeps": "num_sweeps",
        "rungs": "num_rungs",
        "ladder": "betas",
        "chunk": "chunk_sweeps",
    }
    for name in ("chains", "sweeps", "rungs", "ladder", "rung_weights", "warmup", "method", "seed", "chunk"):
        assert str(asked[name]) == str(getattr(Settings(), names.get(name, name)))  # rungs may be "auto"
