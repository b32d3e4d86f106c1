"""The figures of the paper: rows, tables, pictures and data, without the long runs behind them."""

import collections
import csv
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.io import savemat

import tempering as tp
from pages import ROOT
from pictured import rbm_result
from tempering.estimators import ais, raise_bound
from tempering.paper import FIGURES, Made, Row, Setting, datasets, figure4, figure5, figure6, figure7, published, runs
from tempering.plots import can_plot
from tempering.results import Details
from tempering.stats import AnnealWeights, BlockedStats
from tempering.training import RunSettings, TrainingRun


def test_every_figure_is_listed_and_can_be_drawn(tmp_path):
    """Eight modules with a `make`; a `Made` writes a table and, with matplotlib, a picture of the same bytes again."""
    assert list(FIGURES) == [f"fig{number}" for number in range(1, 9)]
    for figure in FIGURES.values():
        assert callable(figure.make)
        assert f"Figure {figure.__name__[-1]}" in figure.__doc__
    rows = (Row("left", "RTS", 1000, "RMSE", 0.4, 0.42, 50), Row("left", "RTS", 1000, "mean error", -0.1))
    made = Made("A title", rows, ("A note.",), lambda axes, theme: axes[1].plot([1, 2], color=theme.blue), panels=2)
    made.write_csv(tmp_path / "figure.csv")
    with (tmp_path / "figure.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [line["ours"] for line in table] == ["0.4", "-0.1"]
    assert [line["outcome"] for line in table] == ["no clear difference", ""]
    if can_plot():
        pictures = []
        for name in ("one.svg", "two.svg"):
            made.write_picture(tmp_path / name)
            pictures.append((tmp_path / name).read_bytes())
        assert pictures[0] == pictures[1]


def test_an_outcome_counts_noise_and_the_error_of_reading():
    """Kills: more that is called better, a difference within 10 % that is called one, noise that is left out."""
    outcomes = [Row("", "", 1, "RMSE", ours, 1.0, 10_000).outcome for ours in (0.85, 0.95, 1.09, 1.2)]
    assert outcomes == ["better", "no clear difference", "no clear difference", "worse"]
    assert Row("", "", 1, "RMSE", 1.5, 1.0, 2).outcome == "no clear difference"  # two runs do not tell
    assert Row("", "", 1, "mean error", 1.5, 1.0, 100).outcome == ""


def test_published_values_are_those_of_the_files_that_they_were_read_into():
    """The shapes that the figures rely on. Kills: a method or a length that was left out."""
    assert all(len(values) == len(published.FIGURE4_RUNGS) for values in published.FIGURE4.values())
    assert set(published.FIGURE4) == set(figure4.OURS)
    assert all(len(values) == 3 for values in published.FIGURE2.values())


def test_picked_draws_give_the_statistics_of_a_run():
    """Figure 4 sums picked draws as a run does. Kills: a slope off by a step, weights of other rungs."""
    rbm = tp.RBM(np.array([[1.0, -2.0], [0.5, 1.5], [-1.0, 0.3]]), np.array([0.2, -0.4, 0.1]), np.array([0.3, -0.6]))
    path = rbm.path(np.array([0.3, 0.6, 0.5]), np.linspace(0, 1, 5))
    ladder = tp.Ladder.create(path, None, np.linspace(0, 1, 5))
    states = [path.state_of(jnp.asarray(v, jnp.float32)) for v in ([0, 1, 1], [1, 0, 0], [1, 1, 1])]
    rungs = np.array([0, 4, 2])
    features = np.array([np.asarray(path.features(x), np.float64) for x in states])
    stats: BlockedStats = figure4._stats(ladder, features, rungs, figure4._slope_matrix(path))
    log_f = np.array([np.asarray(path.log_densities(x), np.float64) for x in states])
    posterior = np.exp([np.asarray(ladder.log_rung_posterior(jnp.asarray(row, jnp.float32))) for row in log_f])
    slopes = np.array([np.asarray(path.slopes(x), np.float64) for x in states])
    np.testing.assert_allclose(np.exp(stats.log_sums[0, 0]), posterior.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(stats.weighted_slopes[0, 0, :, 0], (posterior * slopes).sum(axis=0), atol=2e-3)
    own = np.zeros(5)
    own[rungs] = slopes[np.arange(3), rungs]
    np.testing.assert_allclose(stats.counted_slopes[0, 0, :, 0], own, atol=2e-3)


def test_the_exact_curve_of_figure_6_ends_where_it_should():
    np.testing.assert_allclose(figure6.exact_log_z(np.array([0.0, 1.0])), 0.0, atol=1e-6)


class _Small(Setting):
    """RBMs and rows of a dozen bits in place of the paper's."""

    def mnist_rbm(self, num_hidden: int) -> tp.RBM:
        rng = np.random.default_rng(num_hidden)
        return tp.RBM(rng.normal(size=(12, 3)), rng.normal(size=12), rng.normal(size=3))

    def salakhutdinov_rbm(self) -> tp.RBM:
        return self.mnist_rbm(500)

    def mnist_rows(self) -> np.ndarray:
        return np.random.default_rng(0).integers(0, 2, (300, 12))


_SIZES = {"weights": 36, "vbias": 12, "hbias": 3, "log Z by rung": 14, "matrix": 4, "occupancy": 1}


class _Kept(dict):
    """A piece whose every entry has two errors, 0.3 and −0.1; of the sizes of an RBM where that is asked for."""

    def __missing__(self, name: str) -> list[float]:
        return [0.1] * _SIZES[name] if name in _SIZES else [0.3, -0.1]

    def __contains__(self, name: object) -> bool:
        return True

    def items(self):
        return [(name, self[name]) for name in ("RTS", "TS", "MBAR", "TI", "TI-RB")]


def _dna_file(directory: Path) -> Path:
    np.savez(directory / "dna.npz", train=np.zeros((4, 180)), valid=np.zeros((2, 180)))
    return directory / "dna.npz"


NUM_PIECES = {"fig1": 8, "fig2": 20, "fig3": 25, "fig4": 42, "fig5": 1, "fig6": 20, "fig7": 18, "fig8": 8}


def _made_of_pieces(name: str, directory: Path, kept: Callable[[], dict[str, list[float]]]) -> Made:
    """A figure in full, of which every piece was kept from before."""
    asked = []

    def keep(piece, make, is_needed):
        asked.append(piece)
        return _Kept() if is_needed else kept()

    made = FIGURES[name].make(_Small(directory, False, keep=keep))
    assert len(asked) == len(set(asked)) == NUM_PIECES[name]
    return made


@pytest.mark.parametrize("name", NUM_PIECES)
def test_a_figure_is_made_of_its_pieces(name, tmp_path, monkeypatch):
    """Kills: two pieces of one name, an RMSE of other errors, a run outside of all pieces, which is made each time."""
    if name == "fig5":
        monkeypatch.setattr(Setting, "file", lambda setting, name: _dna_file(tmp_path))
    made = _made_of_pieces(name, tmp_path, _Kept)
    found = [row.ours for row in made.rows if row.quantity == "RMSE"]
    assert found or name == "fig5"
    if name != "fig1":  # whose pieces are log Ẑ, not errors
        np.testing.assert_allclose(found, np.sqrt((0.3**2 + 0.1**2) / 2))
    made.write_csv(tmp_path / "figure.csv")
    if can_plot():
        made.write_picture(tmp_path / "figure.png")


@pytest.mark.parametrize("name", [name for name in NUM_PIECES if name != "fig5"])
def test_a_process_passes_by_the_pieces_of_others(name, tmp_path):
    """Each is a single NaN to it. Kills: a worker that fails where a piece is not there yet, and leaves the rest."""
    _made_of_pieces(name, tmp_path, lambda: collections.defaultdict(lambda: [np.nan]))


def test_figure_7_knows_what_is_published(tmp_path):
    """Kills: a published value beside averaged moments, none beside our own RTS."""
    made = _made_of_pieces("fig7", tmp_path, _Kept)
    known = {(row.method, row.at): row.published for row in made.rows if row.quantity == "RMSE"}
    assert known["RTS, default start", 10_000] == known["RTS", 10_000] == 3.5
    assert known["AIS", 10_000] == 7.0
    assert known["RTS, averaged moments", 10_000] is None


def test_figure_7_shows_the_transitions_of_a_run(monkeypatch, tmp_path):
    """Kills: a matrix on its side, a knot that is left out of the picture."""
    result = rbm_result()
    monkeypatch.setattr(figure7, "estimate", lambda *args, **settings: result)
    details, kept = Details.of(result), figure7._transitions(_Small(tmp_path).mnist_rbm(10), _Small(tmp_path))
    shown = figure7._details(json.loads(json.dumps(kept)))
    np.testing.assert_array_equal(shown.arrays["transition_matrix"], details.arrays["transition_matrix"])
    np.testing.assert_array_equal(shown.by_rung["beta"], details.by_rung["beta"])
    places = [knot["beta"] for knot in details.answer["knot_stretches"]]
    assert [knot["beta"] for knot in shown.answer["knot_stretches"]] == places


def test_a_training_goes_on_where_it_stopped(monkeypatch, tmp_path):
    """Figures 5 and 8 keep their runs. Kills: a directory that is removed, a run that begins anew."""
    asked = RunSettings(
        num_hidden=3, num_updates=3, method="pcd", num_chains=20, num_sweeps=1, batch_size=20, is_tracked=False
    )
    rows = np.random.default_rng(0).integers(0, 2, (60, 6))

    class Stopped(TrainingRun):
        def __iter__(self):
            for row in super().__iter__():
                yield row
                if row.num_updates == 2:
                    raise KeyboardInterrupt

    setting = Setting(tmp_path, run_dir=tmp_path)
    monkeypatch.setattr("tempering.training.TrainingRun", Stopped)
    with pytest.raises(KeyboardInterrupt):
        figure5._learned(rows, rows, asked, setting)
    made = []

    class Counted(TrainingRun):
        def __iter__(self):
            for row in super().__iter__():
                made.append(row.num_updates)
                yield row

    monkeypatch.setattr("tempering.training.TrainingRun", Counted)
    figure5._learned(rows, rows, asked, setting)
    assert made == [3]
    figure5._learned(rows, rows, asked, Setting(tmp_path))  # nowhere: anew
    assert made == [3, 1, 2, 3]


@pytest.mark.slow  # in test_compare.py a repeat is the run of its seed
def test_methods_that_read_the_same_runs_are_those_of_a_comparison():
    """Kills: a method that reads another's run, errors by another seed, a statistic that was not kept."""
    rbm, base = tp.load_example()
    how = {"num_chains": 10, "num_sweeps": 40, "num_rungs": 5, "warmup": tp.AnnealedStart(8, (4,))}
    found = runs.read_errors(rbm, base, 1.0, (3, 4), ["rts", "ti_rb"], **how)
    sides = tp.compare(rbm, base, methods="rts,ti_rb", seed=3, repeats=2, truth=1.0, progress=False, **how).repeats
    alone = [result.log_z - 1.0 for result in tp.estimate_many(rbm, base, seeds=(3, 4), method="rts", **how)]
    np.testing.assert_array_equal(runs.rts_errors(rbm, base, 1.0, how.pop("num_sweeps"), (3, 4), **how), alone)
    for method in ("rts", "ti_rb"):
        values = [next(e for e in side.entries if e.method.name == method).answer.log_z for side in sides]
        np.testing.assert_array_equal(found[method], np.array(values) - 1.0)


def test_repeats_of_annealing_are_cut_from_one_run(monkeypatch):
    """Against the estimators. Kills: passes of one repeat in another, a sign, the weights of a part of the pass."""
    monkeypatch.setattr(runs, "NUM_PASSES", 4)
    rbm, base = tp.load_example()
    path = rbm.path(base, np.linspace(0, 1, 31))
    weights = AnnealWeights(np.random.default_rng(0).normal(size=(8, 30)))

    class _Block(NamedTuple):
        record: Any

    class _Record(NamedTuple):
        part: AnnealWeights

        def on_host(self):
            return self.part

    halves = [_Block(_Record(AnnealWeights(weights.log_increments[:, part]))) for part in (slice(0, 12), slice(12, 30))]
    monkeypatch.setattr(runs, "run_chains", lambda *args, **kwargs: iter(halves))
    rows = np.random.default_rng(1).integers(0, 2, (50, 64))
    for repeat, part in enumerate((slice(0, 4), slice(4, 8))):
        up = ais(weights.log_weights()[part], log_z_base=path.log_z_base()).log_z
        np.testing.assert_allclose(runs.ais_errors(rbm, base, 2.0, 30, (0, 1))[repeat], up - 2.0)
        down = raise_bound(weights.log_weights_down()[part], log_z_base=path.log_z_base()).log_z
        np.testing.assert_allclose(runs.raise_errors(rbm, base, 2.0, 30, (0, 1), rows)[repeat], down - 2.0)


# Data.


@pytest.fixture
def small_data() -> dict[str, np.ndarray]:
    """An RBM of our own in the form of Salakhutdinov's files."""
    return {"vishid": np.arange(12.0).reshape(4, 3), "visbiases": np.ones((1, 4)), "hidbiases": np.zeros((1, 3))}


def _with_source(monkeypatch, tmp_path, arrays, *, digest=None, sha256=None) -> datasets.Dataset:
    """A data set that is downloaded from a file of this machine."""
    source = tmp_path / "network" / "mnistvh_CD25.mat"
    source.parent.mkdir()
    savemat(source, arrays)
    content = source.read_bytes()
    made = datasets._salakhutdinov({"mnistvh_CD25.mat": content})
    dataset = datasets.Dataset(
        digest or datasets.digest_of(made),
        (datasets.Source(source.as_uri(), sha256 or hashlib.sha256(content).hexdigest()),),
        datasets._salakhutdinov,
    )
    monkeypatch.setitem(datasets.DATASETS, "rbm.npz", dataset)
    return dataset


def test_data_are_downloaded_once_and_checked(monkeypatch, tmp_path, small_data):
    _with_source(monkeypatch, tmp_path, small_data)
    said, here = [], tmp_path / "data"
    file = datasets.fetched("rbm.npz", here, said.append)
    assert len(said) == 1
    with np.load(file) as archive:
        np.testing.assert_array_equal(archive["W"], small_data["vishid"])
        assert archive["vbias"].shape == (4,)
    assert datasets.fetched("rbm.npz", here, said.append) == file
    assert len(said) == 1  # it was there


def test_data_that_are_not_the_papers_are_refused(monkeypatch, tmp_path, small_data):
    """Kills: no checksum of the download, none of the arrays, none of a file that is there already."""
    _with_source(monkeypatch, tmp_path, small_data, sha256="0" * 64)
    with pytest.raises(tp.InputError, match="damaged or another file"):
        datasets.fetched("rbm.npz", tmp_path / "data", lambda line: None)
    np.savez(tmp_path / "rbm.npz", W=np.zeros((2, 2)))
    with pytest.raises(tp.InputError, match="not the data of the paper"):
        datasets.fetched("rbm.npz", tmp_path, lambda line: None)


def test_without_a_network_one_line_says_what_to_do(monkeypatch, tmp_path, small_data):
    _with_source(monkeypatch, tmp_path, small_data)
    (tmp_path / "network" / "mnistvh_CD25.mat").rename(tmp_path / "elsewhere")
    with pytest.raises(tp.InputError, match="cannot be downloaded") as refused:
        datasets.fetched("rbm.npz", tmp_path / "data", lambda line: None)
    assert "`data_dir`" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_sources_have_checksums():
    for dataset in datasets.DATASETS.values():
        for digest in (dataset.digest, *(source.sha256 for source in dataset.sources)):
            assert re.fullmatch(r"[0-9a-f]{64}", digest)
        assert all(source.url.startswith("https://") for source in dataset.sources)


def test_rows_of_dna_and_bits_are_read_as_they_stand():
    """Kills: an index that counts from 0, columns of pixels for rows."""
    text = b"2 1:1 180:1\n3 5:1\n"
    read = datasets._dna({f"dna.scale.{part}": text for part in ("tr", "val", "t")})
    assert np.flatnonzero(read["train"][0]).tolist() == [0, 179]
    assert read["valid_labels"].tolist() == [2, 3]


def test_the_data_of_this_machine_are_the_papers():
    """Where the repository has them beside it."""
    directory = ROOT.parent / "shared" / "data"
    if not directory.exists():
        pytest.skip("no data here")
    for name in ("rbm_mnist_cd25_500.npz", "rbm_mnist_small.npz", "dna_libsvm.npz"):
        assert datasets.fetched(name, directory, lambda line: None).exists()


def test_quick_and_full_differ():
    assert Setting(ROOT, is_quick=True).either(1, 2) == 2
    assert Setting(ROOT).either(1, 2) == 1
