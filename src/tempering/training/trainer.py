"""Training an RBM by stochastic gradients, with its likelihood known on the way."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._types import Key, Scalar
from tempering.models import RBM
from tempering.models.rbm.batch import Chains, Parameters, moments_of, product
from tempering.results import MeanLogLikelihood
from tempering.training.optimizers import make_optimizer, optax
from tempering.training.phases import AbstractPhase, ContrastiveDivergence, Persistent, gradient
from tempering.training.settings import TrainSettings
from tempering.training.tempered import Followed, Reading, follow
from tempering.training.tracker import TRACKER_SWEEPS, Tracked, Tracker, as_rbm, parameters

_SMOOTHING = 0.01  # of the data's frequencies, for the first visible bias
_FIRST_WEIGHTS = 0.01  # standard deviation
_MAX_ROWS = 10_000  # whose likelihood is followed; more tell no more, and each costs half a sweep of a chain
_STARTS = 2**31 - 1  # part of the random key, far from the numbers of updates


@dataclasses.dataclass(frozen=True)
class TrainingUpdate:
    """Where training stands after an update; log Z is that of the parameters before it, which the draws speak of."""

    num_updates: int
    parameters: Parameters  # before the update
    tracked: Tracked | None = None
    train: MeanLogLikelihood | None = None
    valid: MeanLogLikelihood | None = None


class Training(eqx.Module):
    """All that changes from update to update."""

    parameters: Parameters
    optimizer: Any
    phase: Any
    followed: Followed | None


def first_rbm(data: np.ndarray, num_hidden: int, seed: int = 0) -> RBM:
    """Small random weights, and the visible bias that alone would give the data's frequencies."""
    frequencies = (1 - 2 * _SMOOTHING) * np.asarray(data, np.float64).mean(axis=0) + _SMOOTHING
    weights = np.random.default_rng(seed).normal(0, _FIRST_WEIGHTS, (data.shape[1], num_hidden))
    return RBM(weights, np.log(frequencies) - np.log1p(-frequencies), np.zeros(num_hidden))


class Trainer:
    """Stochastic gradient ascent of the log-likelihood of 0/1 data, one update at a time.

    ```python
    trainer = Trainer(data, valid=other_rows, num_hidden=100, num_updates=500)
    for progress in trainer.run():
        print(progress.num_updates, progress.train.value, progress.valid.value)
    trainer.rbm
    ```
    """

    def __init__(self, data: Any, *, valid: Any = None, rbm: RBM | None = None, **settings: Any):
        """`rbm` is where training begins, by default `first_rbm`."""
        self.settings = TrainSettings(**settings)
        self.data = np.asarray(data, np.float32)
        rbm = first_rbm(self.data, self.settings.num_hidden, self.settings.seed) if rbm is None else rbm
        rbm.log_density(self.data[:1])  # refuses rows that are not this RBM's
        self.rows = {"train": self._followed_rows(self.data)}
        if valid is not None:
            self.rows["valid"] = self._followed_rows(np.asarray(valid, np.float32))
        self.optimizer = _make_optimizer(self.settings)
        self.phase = _make_phase(self.settings)
        self.tracker = self._make_tracker(rbm)
        self.key = jax.random.key(self.settings.seed)
        self.num_updates = 0
        self._readings: list[Reading] = []
        self._order: tuple[int, np.ndarray] | None = None
        start = parameters(rbm)
        logits = jnp.asarray(rbm.base_logits(self.data.mean(axis=0)), jnp.float32)
        key = jax.random.fold_in(self.key, _STARTS)
        chains = None if self.phase is None else self.phase.start(key, start, logits)
        followed = None if self.tracker is None else self.tracker.followed
        self.state = Training(start, self.optimizer.init(start), chains, followed)

    @property
    def rbm(self) -> RBM:
        """As it is now."""
        return as_rbm(self.state.parameters)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is under way that `memory` and `state` do not hold."""
        return not self._readings

    @property
    def memory(self) -> dict[str, Any]:
        """All that goes on beside `state`, as plain numbers."""
        return {"num_updates": self.num_updates, "tracker": None if self.tracker is None else self.tracker.memory}

    def recall(self, memory: dict[str, Any], fill: Callable[[Training], Training]) -> None:
        """Go on from what was kept; `fill` puts the saved arrays into a state of the right form."""
        self.num_updates = memory["num_updates"]
        if self.tracker is None:
            self.state = fill(self.state)
            return
        self.tracker.make_room(memory["tracker"]["field_bound"])
        state = fill(dataclasses.replace(self.state, followed=self.tracker.followed))
        self.state = jax.tree.map(jnp.asarray, state)
        assert self.state.followed is not None
        self.tracker.recall(self.state.followed, self.state.parameters, memory["tracker"])

    def run(self) -> Iterator[TrainingUpdate]:
        """The rest of the updates, each with what is known after it."""
        while self.num_updates < self.settings.num_updates:
            yield self.step()

    def step(self) -> TrainingUpdate:
        """One update."""
        settings, before, tracker = self.settings, self.state.parameters, self.tracker
        is_due = settings.is_tracked and (self.num_updates + 1) % settings.track_every == 0
        # Tempered chains make the gradient and go with every update; others only look on, and may take longer steps.
        is_followed = is_due or settings.method == "tempered" or (self.num_updates + 1) % settings.follow_every == 0
        aside = None if is_followed else self.state.followed
        state = self.state if aside is None else dataclasses.replace(self.state, followed=None)
        how = (settings.num_sweeps if settings.method == "tempered" else TRACKER_SWEEPS, self.phase, self.optimizer)
        key, batch = jax.random.fold_in(self.key, self.num_updates), self._batch(self.num_updates)
        rows = self.rows if is_due else {}
        self.state, reading, known = _update(key, how, state, batch, rows, jnp.float32(settings.alpha))
        self.num_updates += 1
        if aside is not None:
            self.state = dataclasses.replace(self.state, followed=aside)
        if reading is not None and settings.is_tracked:
            self._readings.append(reading)
        if not is_due or tracker is None:
            return TrainingUpdate(self.num_updates, before)
        assert self.state.followed is not None
        tracked = tracker.take(self.state.followed, self._readings, before)
        self._readings = []
        self.state = dataclasses.replace(self.state, followed=tracker.followed)  # which may have been made anew
        means = {name: float(value) for name, value in jax.device_get(known).items()}
        likelihoods = {name: tracked.mean_log_likelihood(means[name], len(self.rows[name])) for name in means}
        return TrainingUpdate(self.num_updates, before, tracked, likelihoods["train"], likelihoods.get("valid"))

    def _batch(self, number: int) -> Chains:
        """Rows in an order that depends on the seed and the epoch alone, so that a resumed run sees the same."""
        size = min(self.settings.batch_size, len(self.data))
        epoch, place = divmod(number, len(self.data) // size)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.settings.seed, epoch]).permutation(len(self.data))
        return jnp.asarray(self.data[self._order[1][place * size : (place + 1) * size]])

    def _followed_rows(self, data: np.ndarray) -> Chains:
        """All rows, or as many of them, picked once, as need be looked at."""
        if len(data) <= _MAX_ROWS:
            return jnp.asarray(data)
        return jnp.asarray(np.random.default_rng(self.settings.seed).choice(data, _MAX_ROWS, replace=False))

    def _make_tracker(self, rbm: RBM) -> Tracker | None:
        settings = self.settings
        if settings.method != "tempered" and not settings.is_tracked:
            return None
        own: dict[str, Any] = {"num_sweeps": TRACKER_SWEEPS} if settings.method != "tempered" else {
            "num_chains": settings.num_chains, "num_sweeps": settings.num_sweeps, "rung_weights": settings.rung_weights
        }  # fmt: skip
        frequencies = self.data.mean(axis=0)
        return Tracker(rbm, frequencies, num_rungs=settings.num_rungs, alpha=settings.alpha, seed=settings.seed, **own)


@eqx.filter_jit
def _update(
    key: Key, how: tuple[int, AbstractPhase | None, Any], state: Training, batch: Chains, rows: dict[str, Chains],
    alpha: Scalar,
) -> tuple[Training, Reading | None, dict[str, Scalar]]:  # fmt: skip
    num_sweeps, phase, optimizer = how
    key_phase, key_follow = jax.random.split(key)
    rbm, chains, followed, reading = state.parameters, state.phase, state.followed, None
    model = None
    if followed is not None:
        followed, reading, model = follow(key_follow, followed, rbm, alpha, num_sweeps, looks_back=phase is None)
    if phase is not None:
        model, chains = phase(key_phase, rbm, batch, chains)
    assert model is not None
    changes, optimizer_state = optimizer.update(gradient(moments_of(rbm, batch), model), state.optimizer, rbm)
    changed = Parameters(*(old + change for old, change in zip(rbm, changes, strict=True)))
    known = {name: mean_log_density(rbm, some) for name, some in rows.items()}
    return Training(changed, optimizer_state, chains, followed), reading, known


@eqx.filter_jit
def mean_log_density(rbm: Parameters, rows: Chains) -> Float[Array, ""]:
    """Mean log f(v) over rows."""
    field = product(rows, rbm.weights) + rbm.hbias
    return jnp.mean(product(rows, rbm.vbias) + jnp.sum(jax.nn.softplus(field), axis=1))


def _make_optimizer(settings: TrainSettings) -> Any:
    # Newton–Schulz is products alone, on a GPU many times as fast as an SVD.
    options = {"method": "newton_schulz"} if settings.optimizer in ("rmsspectral", "ssd") else {}
    chosen = make_optimizer(settings.optimizer, settings.rate, **options)
    if settings.weight_decay == 0:
        return chosen
    # Matrices decay, biases do not.
    decay = optax.add_decayed_weights(settings.weight_decay, lambda rbm: jax.tree.map(lambda leaf: leaf.ndim == 2, rbm))
    return optax.chain(decay, chosen)


def _make_phase(settings: TrainSettings) -> AbstractPhase | None:
    """The negative phase; None where the tempered chains that follow log Z give it."""
    if settings.method == "cd":
        return ContrastiveDivergence(settings.num_sweeps)
    return Persistent(settings.num_chains, settings.num_sweeps) if settings.method == "pcd" else None
