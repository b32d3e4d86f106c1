"""Training an RBM by stochastic gradients, with its likelihood known on the way."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tempering._errors import InputError
from tempering._types import Key, Scalar
from tempering.models import RBM
from tempering.models.rbm_batch import Chains, Parameters, moments_of, product
from tempering.results import MeanLogLikelihood
from tempering.training.optimizers import make_optimizer, optax
from tempering.training.phases import AbstractPhase, ContrastiveDivergence, Persistent, gradient
from tempering.training.tempered import Followed, Reading, follow
from tempering.training.tracker import Tracked, Tracker

METHODS = ("tempered", "pcd", "cd")
_SMOOTHING = 0.01  # of the data's frequencies, for the first visible bias
_FIRST_WEIGHTS = 0.01  # standard deviation


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How an RBM is trained; every field is an argument of `train`."""

    num_hidden: int = 500
    method: str = "tempered"  # negative phase: "tempered" as in Section 4.4 of the paper, "pcd" or "cd"
    optimizer: str = "rmsspectral"  # or "ssd", "adam", "sgd"
    learning_rate: float = 1e-5
    weight_decay: float = 0.0  # of W alone
    num_updates: int = 8000
    batch_size: int = 100
    num_chains: int = 2000
    num_sweeps: int = 25  # between two updates
    num_rungs: int = 100
    prior: Any = "exp:2"
    alpha: float = 0.2  # of eq. 24
    is_tracked: bool = True  # for "pcd" and "cd": whether other chains follow log Z; "tempered" has them anyway
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is."""
        for name in ("num_hidden", "num_updates", "batch_size", "num_chains", "num_sweeps"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"`{name}` must be a whole number, 1 or more; got {value!r}.")
        if self.method not in METHODS:
            raise InputError(f"`method` must be one of {', '.join(METHODS)}; got {self.method!r}.")


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where training stands after an update; log Z is that of the parameters before it, which the draws speak of."""

    num_updates: int
    tracked: Tracked | None
    train: MeanLogLikelihood | None
    valid: MeanLogLikelihood | None


class _Training(eqx.Module):
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
        self.rows = {"train": jnp.asarray(self.data)}
        if valid is not None:
            self.rows["valid"] = jnp.asarray(np.asarray(valid, np.float32))
        self.optimizer = _make_optimizer(self.settings)
        self.phase = _make_phase(self.settings)
        self.tracker = self._make_tracker(rbm)
        self.key = jax.random.key(self.settings.seed)
        self.num_updates = 0
        parameters = Parameters(*(jnp.asarray(a, jnp.float32) for a in (rbm.weights, rbm.vbias, rbm.hbias)))
        logits = jnp.asarray(rbm.base_logits(self.data.mean(axis=0)), jnp.float32)
        chains = (
            None
            if self.phase is None
            else self.phase.start(jax.random.fold_in(self.key, 2**31 - 1), parameters, logits)
        )
        followed = None if self.tracker is None else self.tracker.followed
        self.state = _Training(parameters, self.optimizer.init(parameters), chains, followed)

    @property
    def rbm(self) -> RBM:
        """As it is now."""
        return RBM(*(np.asarray(a, np.float64) for a in self.state.parameters))

    def run(self) -> Iterator[Progress]:
        """The rest of the updates, each with what is known after it."""
        while self.num_updates < self.settings.num_updates:
            yield self.step()

    def step(self) -> Progress:
        """One update."""
        key, batch = jax.random.fold_in(self.key, self.num_updates), self._batch(self.num_updates)
        how = (self.settings.num_sweeps, self.phase, self.optimizer)
        before = self.state.parameters
        self.state, reading = _update(key, how, self.state, batch, jnp.float32(self.settings.alpha))
        self.num_updates += 1
        if self.tracker is None or reading is None or self.state.followed is None:
            return Progress(self.num_updates, None, None, None)
        tracked = self.tracker.take(self.state.followed, reading, before)
        self.state = dataclasses.replace(self.state, followed=self.tracker.followed)  # which may have been made anew
        known = {name: float(mean_log_density(before, rows)) for name, rows in self.rows.items()}
        likelihoods = {name: tracked.mean_log_likelihood(value, len(self.rows[name])) for name, value in known.items()}
        return Progress(self.num_updates, tracked, likelihoods["train"], likelihoods.get("valid"))

    def _batch(self, number: int) -> Chains:
        """Rows in an order that depends on the seed and the epoch alone, so that a resumed run sees the same."""
        size = min(self.settings.batch_size, len(self.data))
        per_epoch = len(self.data) // size
        epoch, place = divmod(number, per_epoch)
        order = np.random.default_rng([self.settings.seed, epoch]).permutation(len(self.data))
        return jnp.asarray(self.data[order[place * size : (place + 1) * size]])

    def _make_tracker(self, rbm: RBM) -> Tracker | None:
        settings = self.settings
        if settings.method != "tempered" and not settings.is_tracked:
            return None
        own = {} if settings.method != "tempered" else {
            "num_chains": settings.num_chains, "num_sweeps": settings.num_sweeps, "prior": settings.prior
        }  # fmt: skip
        frequencies = self.data.mean(axis=0)
        return Tracker(rbm, frequencies, num_rungs=settings.num_rungs, alpha=settings.alpha, seed=settings.seed, **own)


@eqx.filter_jit
def _update(
    key: Key, how: tuple[int, AbstractPhase | None, Any], state: _Training, batch: Chains, alpha: Scalar
) -> tuple[_Training, Reading | None]:
    num_sweeps, phase, optimizer = how
    key_phase, key_follow = jax.random.split(key)
    rbm, chains, followed, reading = state.parameters, state.phase, state.followed, None
    model = None
    if followed is not None:
        followed, reading, model = follow(key_follow, followed, rbm, alpha, num_sweeps)
    if phase is not None:
        model, chains = phase(key_phase, rbm, batch, chains)
    assert model is not None
    changes, optimizer_state = optimizer.update(gradient(moments_of(rbm, batch), model), state.optimizer, rbm)
    changed = Parameters(*(old + change for old, change in zip(rbm, changes, strict=True)))
    return _Training(changed, optimizer_state, chains, followed), reading


@eqx.filter_jit
def mean_log_density(rbm: Parameters, rows: Chains) -> Float[Array, ""]:
    """Mean log f(v) over rows."""
    field = product(rows, rbm.weights) + rbm.hbias
    return jnp.mean(product(rows, rbm.vbias) + jnp.sum(jax.nn.softplus(field), axis=1))


def _make_optimizer(settings: TrainSettings) -> Any:
    chosen = make_optimizer(settings.optimizer, settings.learning_rate)
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
