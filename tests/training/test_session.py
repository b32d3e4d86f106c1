"""A training run as a whole: resumed to the bit, stopped early, checked on the way, and kept."""

import errno
import itertools
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import checks
import tempering as tp

pytest.importorskip("optax", reason="training needs Optax")

from tempering._errors import RecoveryWarning
from tempering.sampling.directory import sealed
from tempering.training import session
from tempering.training.metrics import Metrics, read_metrics
from tempering.training.outcomes import Row, Tracked
from tempering.training.session import TrainingRun
from tempering.training.settings import Checking, RunSettings, TrainSettings
from tempering.verdicts import Finding

TINY = {"num_hidden": 4, "num_updates": 12, "batch_size": 20, "num_sweeps": 2, "num_rungs": 8}
ADAM = {"optimizer": "adam", "learning_rate": 0.02}


def some_data(num_rows: int = 60, num_visible: int = 8) -> np.ndarray:
    rng = np.random.default_rng(5)
    prototypes = rng.random((3, num_visible)) < 0.4
    picked = prototypes[rng.choice(3, num_rows, p=[0.5, 0.3, 0.2])]
    return np.where(rng.random(picked.shape) < 0.1, ~picked, picked).astype(np.float32)


def run_of(directory=None, resume=False, data=None, **changes) -> TrainingRun:
    chains = {} if changes.get("method") == "cd" else {"num_chains": 40}
    settings = RunSettings(**(TINY | chains | ADAM | changes))
    return TrainingRun(some_data() if data is None else data, some_data(20), settings=settings, directory=directory,
                       resume=resume)  # fmt: skip


def finished(run: TrainingRun):
    with run:
        rows = list(run)
    return run.outcome(), rows


@pytest.fixture(scope="module")
def plain():
    """The run that nobody cut or changed, which others are held to."""
    run = run_of()
    return run, finished(run)[0]


@pytest.mark.parametrize("method", ["tempered", *(pytest.param(m, marks=pytest.mark.slow) for m in ("pcd", "cd"))])
def test_a_run_cut_anywhere_goes_on_to_the_same_bits(tmp_path, method):
    """Kills: any part of the state that is not kept (optimizer, chains, Ẑ, groups, the tracker's count, the best)."""
    changes = {"method": method, "pretrain": "cd1:3"}
    whole, rows = finished(run_of(tmp_path / "whole", **changes))
    assert [row.is_pretraining for row in rows] == [True] * 3 + [False] * 12
    for cut in (2, 9):  # while pretraining, and later
        directory = tmp_path / f"cut{cut}"
        with run_of(directory, **changes) as run:
            list(itertools.islice(run, cut))
        again, rest = finished(run_of(directory, resume=True, **changes))
        assert len(rest) == 15 - cut
        np.testing.assert_array_equal(again.rbm.weights, whole.rbm.weights)
        assert again.rows == whole.rows
        assert again.best_update == whole.best_update
        np.testing.assert_array_equal(again.best.hbias, whole.best.hbias)
    assert read_metrics(tmp_path / "cut9" / "metrics.jsonl") == whole.rows


def test_a_clock_that_goes_back_loses_no_checkpoint(tmp_path, monkeypatch):
    """Kills: the time of day for the time since the last checkpoint, which then never comes."""
    monkeypatch.setattr(session, "SAVE_SECONDS", 0.0)
    days = itertools.count(time.time(), -1e6)
    monkeypatch.setattr(time, "time", lambda: next(days))
    with run_of(tmp_path) as run:
        kept = [(tmp_path / "checkpoint").read_bytes() for _ in itertools.islice(run, 4)]
    assert len(set(kept)) == 4


def test_a_step_that_fails_leaves_the_last_whole_one(tmp_path, monkeypatch, plain):
    def broken(run):
        with run:
            for row in run:
                if row.num_updates == 5:
                    monkeypatch.setattr(run.trainer, "_batch", lambda number: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        broken(run_of(tmp_path / "run"))
    monkeypatch.undo()
    again, rest = finished(run_of(tmp_path / "run", resume=True))
    assert rest[0].num_updates == 6
    np.testing.assert_array_equal(again.rbm.weights, plain[1].rbm.weights)


def test_another_run_is_refused_and_a_longer_one_is_not(tmp_path):
    finished(run_of(tmp_path))
    with pytest.raises(tp.InputError, match="already holds a run"), run_of(tmp_path):
        pass
    with pytest.raises(tp.InputError, match="num_hidden"), run_of(tmp_path, resume=True, num_hidden=5):
        pass
    with pytest.raises(tp.InputError, match="data"), run_of(tmp_path, resume=True, data=some_data(61)):
        pass
    _, rows = finished(run_of(tmp_path, resume=True, num_updates=14))
    assert [row.num_updates for row in rows] == [13, 14]


def test_a_run_is_whole_before_it_is_entered(tmp_path):
    """Kills: attributes that only a `with` block makes, a directory that stays locked after a refusal."""
    run = run_of(tmp_path)
    assert not run.is_pretraining
    assert run.trainer.num_updates == 0
    run.close()
    with pytest.raises(tp.InputError, match=r"`TrainingRun` has no argument `num_hidden`\. It takes: data, valid, "):
        TrainingRun(some_data(), num_hidden=5)
    with pytest.raises(tp.InputError, match="0 and 1"):
        run_of(tmp_path / "other", data=some_data() + 0.5)
    with run_of(tmp_path / "other") as run:
        rows = list(run)
    assert str(rows[-1]).startswith("update 12: train -")
    assert str(run.outcome()).startswith(f"best update {run.outcome().best_update}: train -")
    assert str(run.outcome()).endswith(", good")


def test_looks_at_the_likelihood_may_be_rare_and_change_nothing_else(plain):
    _, often = plain
    rarely, rows = finished(run_of(track_every=4))
    assert [row.num_updates for row in rows if row.train is not None] == [4, 8, 12]
    np.testing.assert_array_equal(often.rbm.weights, rarely.rbm.weights)
    assert rarely.rows[-1]["log_z"] == pytest.approx(often.rows[-1]["log_z"], abs=1e-5)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_the_trackers_chains_go_with_the_updates_however_rarely_one_looks(every):
    """With every third, if asked. Kills: chains that only move when the likelihood is looked at, here never."""
    with run_of(method="pcd", track_every=20, follow_every=every) as run:
        assert len(list(run)) == 12
        assert run.trainer.tracker.num_updates == 12 // every


def test_pretraining_may_have_a_rate_of_its_own():
    asked = [RunSettings(learning_rate=0.5, pretrain=words) for words in ("cd2:30", "cd2:30:1e-3")]
    plain, own = (settings.for_pretraining() for settings in asked)
    assert (plain.num_sweeps, plain.num_updates, plain.rate) == (2, 30, 0.5)
    assert (own.num_sweeps, own.num_updates, own.rate) == (2, 30, 1e-3)
    assert RunSettings(optimizer="adam", pretrain="cd1:9").for_pretraining() == TrainSettings(
        optimizer="adam", method="cd", num_sweeps=1, num_updates=9, is_tracked=False
    )


def test_a_run_ends_where_its_validation_has_fallen(monkeypatch):
    """Where that is, test_choosing.py knows. Kills: a run that goes on, and one that ends though nobody asked."""
    monkeypatch.setattr("tempering.training.choosing.Choosing.has_fallen", lambda _, *asked: asked == (5, 7))
    outcome, rows = finished(run_of(early_stop=True, patience=7))
    assert (outcome.stopped_early, len(rows)) == (True, 5)
    monkeypatch.setattr("tempering.training.choosing.Choosing.has_fallen", lambda *_: True)
    outcome, rows = finished(run_of())
    assert (outcome.stopped_early, len(rows)) == (False, 12)


@pytest.mark.slow  # the rule is in test_choosing.py, and that it ends a run is above
def test_training_stops_when_validation_has_fallen_by_more_than_its_band():
    """Few rows, a large step: it learns them by heart. Kills: a stop at the first decline, the best not kept."""
    data = some_data(12, 16)
    changes = {"num_hidden": 12, "num_updates": 600, "learning_rate": 0.1, "method": "pcd", "num_chains": 100,
               "early_stop": True, "patience": 40, "data": data, "num_sweeps": 5}  # fmt: skip
    settings = RunSettings(**(TINY | ADAM | {k: v for k, v in changes.items() if k != "data"}))
    rng = np.random.default_rng(8)
    valid = np.where(rng.random((40, 16)) < 0.15, ~some_data(40, 16).astype(bool), some_data(40, 16)).astype(np.float32)
    run = TrainingRun(data, valid, settings=settings)
    outcome, rows = finished(run)
    assert outcome.stopped_early
    last = rows[-1]
    assert last.num_updates < 600
    assert outcome.best_update < last.num_updates
    assert last.num_updates - outcome.best_update >= 40
    exact = [rbm.log_density(valid).mean() - rbm.exact_log_z() for rbm in (outcome.best, outcome.rbm)]
    assert exact[0] > exact[1]


def test_checks_come_when_due_and_agree(tmp_path):
    with run_of(check="ais:5") as run:
        rows = list(run)
    due = [row for row in rows if row.ais_check is not None]
    assert [row.num_updates for row in due] == [5, 10]
    for row in due:
        std_error = np.hypot(row.ais_check.std_error, row.tracked.std_error) + 2e-4
        checks.assert_within(row.ais_check.log_z, row.tracked.log_z, std_error, most=5)
    assert run.metrics.rows[4]["ais_log_z"] == due[0].ais_check.log_z
    assert Checking(500).num_steps == 10_000


def test_the_model_is_kept_as_load_takes_it(tmp_path, plain):
    run, outcome = plain
    run.save_model(tmp_path / "rbm.npz")
    loaded = tp.load(tmp_path / "rbm.npz")
    np.testing.assert_array_equal(loaded.weights, outcome.best.weights)
    pictures = run.samples(3)
    assert pictures.shape == (3, 8)
    assert np.all((pictures > 0) & (pictures < 1))


def test_new_weights_never_recompile():
    from tempering.training import trainer

    with run_of(num_updates=4) as run:
        updates = iter(run)
        next(updates)
        size = trainer._update._cached._cache_size()
        for _ in updates:
            pass
        assert trainer._update._cached._cache_size() == size


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"pretrain": "cd:3"}, "cd1:2000"), ({"pretrain": "cd1:3:-1"}, "cd1:2000"), ({"pretrain": "cd1:3:e"}, "cd1:2000"),
     ({"follow_every": 0}, "follow_every"), ({"check": "ais"}, "ais:500"), ({"track_every": 0}, "track_every"),
     ({"patience": 30}, "no effect without `early_stop`"), ({"early_stop": True, "patience": 0}, "patience"),
     ({"early_stop": True, "is_tracked": False}, "likelihood"), ({"check": "ais:5", "is_tracked": False}, "likelihood"),
     ({"hidden": 5}, "`RunSettings` has no argument `hidden`. Did you mean `num_hidden`?")],
)  # fmt: skip
def test_words_that_mean_nothing_are_refused(changes, words):
    with pytest.raises(tp.InputError, match=words):
        RunSettings(**changes)


def test_lines_cut_short_by_a_kill_are_dropped(tmp_path):
    lines = [sealed({"update": i}) + "\n" for i in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines)[:-5])
    metrics = Metrics(tmp_path)
    metrics.open(1)
    metrics.close()
    assert metrics.rows == [{"update": 1}]
    assert (tmp_path / "metrics.jsonl").read_text() == lines[0]


@pytest.mark.parametrize("damage", [
    lambda lines: lines[:2], lambda lines: [lines[0], "{}", *lines[2:]], lambda lines: [*lines[:2], "\x00" * 9],
    lambda lines: [lines[0].replace('"update"', '"update'), *lines[1:]], lambda lines: [lines[0], "[1, 2]", *lines[2:]],
    lambda lines: [lines[0], '{"update": 2}', *lines[2:]], lambda lines: [lines[0], sealed({"train": 1}), *lines[2:]],
])  # fmt: skip
def test_damaged_metrics_are_said_and_done_without(tmp_path, damage):
    """Kills: a traceback, and rows that are lost in silence."""
    rows = [{"update": i, "train": -float(i)} for i in range(1, 5)]
    lines = [sealed(row) for row in rows]
    (tmp_path / "metrics.jsonl").write_text("\n".join(damage(lines)) + "\n")
    metrics = Metrics(tmp_path)
    with pytest.warns(RecoveryWarning, match=r"[12] of 4 rows of .*metrics\.jsonl are damaged or missing"):
        metrics.open(4, num_rows=4)
    metrics.close()
    assert all(row in rows for row in metrics.rows)


def test_a_digit_of_the_metrics_that_has_changed_is_noticed(tmp_path, plain):
    """Kills: rows that are valid JSON with another number, which a plot would show."""
    with run_of(tmp_path) as run:
        list(itertools.islice(run, 5))
    file = tmp_path / "metrics.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace('"log_z": ', '"log_z": 1')
    file.write_text("".join(lines))
    with pytest.warns(RecoveryWarning, match=r"1 of 5 rows of .*metrics\.jsonl are damaged"):
        outcome, _ = finished(run_of(tmp_path, resume=True))
    assert [row["update"] for row in outcome.rows] == [1, 2, *range(4, 13)]
    np.testing.assert_array_equal(outcome.rbm.weights, plain[1].rbm.weights)


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    """Kills: a traceback from the file of metrics, and one that hides the first in `close`."""
    metrics = Metrics(tmp_path)
    metrics.open(0)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    metrics._lines.close()
    monkeypatch.setattr(metrics, "_lines", SimpleNamespace(write=full, flush=full, close=full))
    for fails in (lambda: metrics.add({"update": 1}), metrics.flush, metrics.close):
        with pytest.raises(tp.InputError, match=r"metrics\.jsonl cannot be written: No space .* Make room"):
            fails()
    metrics.close()


def test_a_checkpoint_is_there_before_the_first_update(tmp_path):
    """Finding log Z of the first model may take minutes. Kills: a first checkpoint after half a minute."""
    run = run_of(tmp_path)
    assert (tmp_path / "checkpoint").exists()
    run.close()


def test_sizes_that_do_not_fit_are_refused_before_anything_is_made():
    for name, value in (("num_hidden", 10**9), ("num_chains", 10**11 // 20 * 20)):
        with pytest.raises(tp.InputError, match=rf"`{name}={value}` needs at least .* of memory, .* `{name}=\d+` fits"):
            run_of(**{name: value})
    for name in ("num_updates", "num_sweeps"):
        with pytest.raises(tp.InputError, match=f"`{name}` must be at most"):
            run_of(**{name: 10**20})


def test_events_are_written_where_they_are_asked_for(tmp_path):
    pytest.importorskip("tensorboardX", reason="events need tensorboardX")
    settings = RunSettings(**(TINY | ADAM | {"num_chains": 40}))
    finished(TrainingRun(some_data(), some_data(20), settings=settings, directory=tmp_path, log_events=True))
    assert list((tmp_path / "events").iterdir())
    with pytest.raises(tp.InputError, match="directory"):
        TrainingRun(some_data(), settings=settings, log_events=True)


def test_no_likelihood_that_cannot_be():
    """p(v) is at most 1. Kills: a positive likelihood of a run that has diverged or lost track."""
    lost = Tracked(10.0, np.inf, 19, 1, (Finding(tp.Verdict.LOST, "seen", "cure"),))
    assert np.isnan(lost.mean_log_likelihood(12.0, 5).value)
    assert lost.mean_log_likelihood(8.0, 5).value == -2
    assert Tracked(10.0, 0.5, 19, 1).mean_log_likelihood(10.5, 5).value == 0.5  # within its error
    assert np.isnan(Tracked(10.0, 0.1, 19, 1).mean_log_likelihood(10.5, 5).value)
    gone = Tracked(10.0, np.inf, 19, 1, (Finding(tp.Verdict.NONFINITE, "seen", "cure"),))
    assert "train unknown" in str(Row(1, gone.mean_log_likelihood(-1e9, 5), tracked=gone))


def test_parameters_that_diverge_are_named(monkeypatch):
    monkeypatch.setattr("tempering.training.anchor.MOST", 1000)  # where log Z is not found, it is given up sooner
    with run_of(method="cd", optimizer="sgd", learning_rate=1e30, num_updates=2) as run:
        rows = list(run)
    assert rows[-1].tracked.verdict in (tp.Verdict.NONFINITE, tp.Verdict.LOST)
    assert jax.tree.leaves(run.outcome().findings)


def test_resuming_does_not_find_log_z_of_the_first_model_again(tmp_path, monkeypatch, plain):
    """For a large model that takes minutes. Kills: a tracker that anchors before it is restored."""
    with run_of(tmp_path) as run:
        list(itertools.islice(run, 5))
    monkeypatch.setattr("tempering.training.tracker.find_anew", None)
    outcome, _ = finished(run_of(tmp_path, resume=True))
    np.testing.assert_array_equal(outcome.rbm.weights, plain[1].rbm.weights)
