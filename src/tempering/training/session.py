"""A whole training run: pretraining, updates, checks and early stopping, kept in a directory and resumed to the bit."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tempering._signatures import suggests
from tempering.estimators import Annealed
from tempering.ladder import Ladder
from tempering.models import RBM
from tempering.models.rbm.batch import Parameters, product
from tempering.sampling import Setup
from tempering.sampling.directory import RunDirectory, digest, filled
from tempering.sampling.processes import anywhere, is_first_process
from tempering.training.choosing import Best, Choosing
from tempering.training.metrics import Metrics
from tempering.training.outcomes import Kept, Outcome, Row, TrainingUpdate
from tempering.training.settings import RunSettings, TrainSettings
from tempering.training.spread import own_part, whole
from tempering.training.tracker import as_rbm, device_parameters
from tempering.training.trainer import Trainer, evaluated
from tempering.verdicts import Finding, Verdict
from tempering.warmups import AnnealedStart

SAVE_SECONDS = 30.0  # between two checkpoints
_CHECKS = 2**30  # part of the random key, far from the numbers of updates


class TrainingRun:
    """Trains an RBM from start to end, or from a checkpoint. Like a file, it is open until its `with` block ends.

    ```python
    settings = tp.training.RunSettings(num_hidden=100, early_stop=True)
    with tp.training.TrainingRun(data, valid, settings=settings, directory="run") as run:
        for row in run:
            print(row)
    run.outcome().best
    ```

    Attributes:
        settings: What was asked for.
        trainer: Makes the updates; during the pretraining, that of the pretraining.
        is_pretraining: Whether the pretraining is still under way.
        stopped_early: Whether early stopping has ended the run.
        has_diverged: Whether the parameters or their densities are no longer finite.
        findings: Why the last log Z cannot be believed; empty where it can.
        metrics: The rows so far.
        tell: Called with a sentence when something begins that takes longer than an update, and with "" at its end.
    """

    @suggests()
    def __init__(
        self,
        data: Any,
        valid: Any = None,
        *,
        settings: RunSettings | None = None,
        directory: str | Path | None = None,
        resume: bool = False,
        log_events: bool = False,
    ):
        """Open the directory and take up the run that it holds, or begin.

        Args:
            data: 0/1 rows to train on.
            valid: 0/1 rows that are not trained on.
            settings: How to train; by default `RunSettings()`.
            directory: Where metrics.jsonl and checkpoints go; by default nothing is kept.
            resume: Whether to continue the run in the directory, to the same bits as if it had never stopped. A
                `RecoveryWarning` says if a file there was damaged.
            log_events: Whether to write TensorBoard events in the directory too.
        """
        settings = RunSettings() if settings is None else settings
        self.data, self.valid, self.settings = np.asarray(data), valid, settings
        self.stopped_early = self.has_diverged = False
        self._choosing = Choosing()
        self.findings: tuple[Finding, ...] = ()
        self._last_finite: Parameters | None = None
        self.tell: Callable[[str], None] = lambda what: None
        file_directory = None if directory is None or not is_first_process() else Path(directory)
        self.metrics = Metrics(file_directory, log_events and is_first_process())
        self._directory: RunDirectory | None = None
        self._unsaved: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._saved_at = time.monotonic()
        if directory is not None:
            self._directory = RunDirectory(directory, _identity(self.data, valid, settings), resume=resume).__enter__()
        try:
            self.is_pretraining, num_rows = settings.pretrain is not None, None
            self.trainer = self._make_trainer(settings.for_pretraining() if self.is_pretraining else settings)
            if self._directory is not None:
                num_rows = self._directory.read(self._restore)
            self.metrics.open(0 if self.is_pretraining else self.trainer.num_updates, num_rows)
            self._remember(at_once=True)  # finding log Z of the first model may have taken minutes
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "TrainingRun":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None and jax.process_count() > 1:
            self._unsaved = None  # all processes would have to be here
        self.close()

    def close(self) -> None:
        """Save a checkpoint, close the metrics, and unlock the directory."""
        try:
            self._save()
        finally:
            self.metrics.close()
            if self._directory is not None:
                self._directory.__exit__()

    def __iter__(self) -> Iterator[Row]:
        """Make the updates that are left; each step of the iteration is one."""
        if self.is_pretraining:
            for update in self.trainer.run():
                self._remember()
                yield Row(update.num_updates, is_pretraining=True)
            self.is_pretraining = False
            self.trainer = self._make_trainer(self.settings, self.trainer.rbm)
        while self.trainer.num_updates < self.settings.num_updates and not (self.stopped_early or self.has_diverged):
            row = self._row(self.trainer.step())
            self._remember()
            yield row

    @property
    def best(self) -> Best | None:
        """Where the smoothed validation likelihood was highest so far; None before there is any."""
        return self._choosing.best

    def outcome(self) -> Outcome:
        """What the run has come to so far.

        Returns:
            The last and the best RBM, and all that was evaluated.
        """
        finite = self._last_finite if self.has_diverged else None
        last = self.trainer.rbm if finite is None else as_rbm(finite)
        best = last if self.best is None else as_rbm(self.best.parameters)
        update = (self.best or self.trainer).num_updates
        return Outcome(last, best, update, self.stopped_early, self.metrics.rows, self.findings, self.best is not None)

    def assess_kept(self) -> Kept | None:
        """Estimate log Z of the RBM that is kept with chains of its own, which had no part in choosing it.

        Returns:
            Its likelihoods; None where the likelihood is not tracked, and during the pretraining.
        """
        tracker, outcome = self.trainer.tracker, self.outcome()
        if tracker is None or self.is_pretraining or not self.settings.is_tracked:
            return None
        means, log_mass = evaluated(device_parameters(outcome.best), self.trainer.evaluated_rows)
        found = tracker.estimate_afresh(outcome.best).held_to(float(log_mass))
        numbers = {name: len(rows) for name, rows in self.trainer.rows.items()}
        likelihoods = {name: found.mean_log_likelihood(float(mean), numbers[name]) for name, mean in means.items()}
        return Kept(found, likelihoods)

    def save_model(self, path: str | Path) -> None:
        """Save W, vbias and hbias of the best parameters.

        Args:
            path: An .npz file that `tempering.load` reads.
        """
        weights, vbias, hbias = self.outcome().best.on_host()
        np.savez(path, W=weights, vbias=vbias, hbias=hbias)

    def samples(self, num: int) -> np.ndarray:
        """Samples of the model, to look at.

        Args:
            num: How many.

        Returns:
            Probabilities of the visible units after half a sweep, for the chains at the highest rungs; rows of the
            data serve where there are no chains.
        """
        trainer = self.trainer
        if trainer.tracker is not None:
            positions = trainer.tracker.chains.positions
            rungs = own_part(positions.rung).ravel()
            v = own_part(positions.x.v).reshape(len(rungs), -1)[np.argsort(-rungs, kind="stable")]
        else:
            v = self.data if trainer.state.phase is None else np.asarray(trainer.state.phase)
        rbm = trainer.state.parameters
        h = jax.nn.sigmoid(product(jnp.asarray(v[:num], jnp.float32), rbm.weights) + rbm.hbias)
        return np.asarray(jax.nn.sigmoid(product(h, rbm.weights.T) + rbm.vbias))

    def _row(self, update: TrainingUpdate) -> Row:
        row = Row(update.num_updates, update.train, update.valid, update.tracked, self._check(update))
        if row.tracked is not None:
            self.findings = row.tracked.findings
            self.has_diverged = row.tracked.verdict is Verdict.NONFINITE  # from where no gradient leads back
            self.metrics.add(row.to_dict())
            if not self.has_diverged:
                self._last_finite = update.parameters
        if row.valid is not None and row.tracked is not None and row.tracked.verdict is Verdict.GOOD:
            self._choosing.add(row.num_updates, row.valid, update.parameters)
            has_fallen = self._choosing.has_fallen(row.num_updates, self.settings.patience)
            self.stopped_early = self.settings.early_stop and has_fallen
        return row

    def _check(self, update: TrainingUpdate) -> Annealed | None:
        """log Z by annealing from the data's frequencies to the RBM in equal steps of β, where it is due."""
        checking = self.settings.checking
        if checking is None or update.num_updates % checking.every:
            return None
        self.tell("checking log Z by annealed importance sampling")
        key = jax.random.fold_in(self.trainer.key, _CHECKS + update.num_updates)
        rbm = as_rbm(update.parameters)
        ladder = Ladder.create(rbm.path(self.data.mean(axis=0), np.linspace(0.0, 1.0, 2)))
        setup = Setup(key, ladder, rbm.move(), checking.num_chains)
        *_, ended = AnnealedStart(anneal_steps=checking.num_steps).first(setup).walk(key)
        self.tell("")
        return Annealed.from_weights(ended.recording.log_weights(), ladder.path.log_z_base())

    def _make_trainer(self, settings: TrainSettings, rbm: RBM | None = None) -> Trainer:
        values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(TrainSettings)}
        return Trainer(self.data, valid=self.valid, rbm=rbm, **values)

    def _remember(self, *, at_once: bool = False) -> None:
        """Hold on to the present state, by reference, wherever it is whole; write it from time to time."""
        if self._directory is None or not self.trainer.is_whole:
            return
        numbers, trees = self.trainer.snapshot()
        about: dict[str, Any] = {"is_pretraining": self.is_pretraining, "stopped_early": self.stopped_early}
        chosen, best = self._choosing.snapshot()
        about |= {"trainer": numbers, "choosing": chosen, "has_diverged": self.has_diverged}
        about["num_rows"] = self.metrics.num_rows
        about["findings"] = [[finding.verdict.name, finding.seen, finding.cure] for finding in self.findings]
        if self._last_finite is not None:
            trees["last_finite"] = self._last_finite
        if best is not None:
            trees["best"] = best
        self._unsaved = about, trees
        if at_once or anywhere(time.monotonic() - self._saved_at > SAVE_SECONDS)[0]:
            self._save()

    def _save(self) -> None:
        if self._directory is not None and self._unsaved is not None:
            self.metrics.flush()  # before the checkpoint, which must never be ahead of them
            about, trees = self._unsaved
            self._directory.write(about, whole(trees))
            self._unsaved, self._saved_at = None, time.monotonic()

    def _restore(self, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> int:
        """Take up what was saved; returns how many rows of metrics there were."""
        if self.is_pretraining and not about["is_pretraining"]:
            self.is_pretraining, self.trainer = False, self._make_trainer(self.settings)
        self.trainer.restore(about["trainer"], arrays)
        self.stopped_early, self.has_diverged = about["stopped_early"], about["has_diverged"]
        self.findings = tuple(Finding(Verdict[name], seen, cure) for name, seen, cure in about["findings"])
        if "last_finite.0" in arrays:
            self._last_finite = filled("last_finite", self.trainer.state.parameters, arrays)
        best = filled("best", self.trainer.state.parameters, arrays) if "best.0" in arrays else None
        self._choosing.restore(about["choosing"], best)
        return about["num_rows"]


def _identity(data: np.ndarray, valid: Any, settings: RunSettings) -> dict[str, Any]:
    """What must be the same when a run is resumed: all settings but its length, and the data."""
    identity = {f"`{name}`": str(value) for name, value in vars(settings).items() if name != "num_updates"}
    rows = {"`data`": data, "`valid`": valid}
    return identity | {name: digest(np.asarray(part, np.float32)) for name, part in rows.items() if part is not None}
