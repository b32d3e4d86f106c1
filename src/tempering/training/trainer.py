"""Training an RBM by stochastic gradient ascent, with the likelihood tracked on the way."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tempering._compiling import compiled_widely
from tempering._errors import InputError
from tempering._memory import check_memory
from tempering._signatures import suggests
from tempering._types import Scalar
from tempering.diagnosis.known_states import first_occurrences
from tempering.models import RBM
from tempering.models.rbm.batch import Chains, Moments, Parameters, moments_of, product
from tempering.sampling.directory import filled
from tempering.training.optimizers import make_optimizer, optax
from tempering.training.outcomes import TrainingUpdate
from tempering.training.phases import AbstractNegativePhase, loss_gradient
from tempering.training.phases import ContrastiveDivergence as CD
from tempering.training.phases import PersistentContrastiveDivergence as PCD
from tempering.training.settings import TrainSettings
from tempering.training.spread import Spread
from tempering.training.tempered import Reading, TemperedChains, Walkers, follow
from tempering.training.tracker import TRACKER_SWEEPS, Tracker, as_rbm, device_parameters

_SMOOTHING = 0.01  # of the data's frequencies, for the first visible bias
_FIRST_WEIGHTS = 0.01  # standard deviation
_MAX_ROWS = 10_000  # rows whose likelihood is evaluated: more hardly add precision, and each costs half a sweep
_ONLY_IN_RUNS = "`TrainingRun(settings=RunSettings(...))` has it, and so has `tempering train`."
_COPIES = 4  # of the weights, at least: themselves, their gradient, the optimizer's, and the best ones
_STARTS = 2**31 - 1  # part of the random key, far from the numbers of updates


_How: TypeAlias = tuple[int, AbstractNegativePhase | None, Any]  # sweeps of tempered chains, and the optimizer


class TrainingState(eqx.Module):
    """What an update changes, except for the tracker, which keeps its own chains."""

    parameters: Parameters
    optimizer: Any
    phase: Any  # the chains of the negative phase; None where none persist


class EvaluatedRows(eqx.Module):
    """Rows whose likelihood is followed, by name, and which rows of training are not the same as one before."""

    rows: dict[str, Chains]
    is_first: Bool[Array, " row"]


def initial_rbm(data: np.ndarray, num_hidden: int, seed: int = 0) -> RBM:
    """An RBM to start training from.

    Args:
        data: 0/1 rows.
        num_hidden: Hidden units.
        seed: Of the weights.

    Returns:
        An RBM with small random weights, hidden biases of 0, and the visible bias that gives independent units the
        frequencies of the data.
    """
    frequencies = (1 - 2 * _SMOOTHING) * np.asarray(data, np.float64).mean(axis=0) + _SMOOTHING
    weights = np.random.default_rng(seed).normal(0, _FIRST_WEIGHTS, (data.shape[1], num_hidden))
    return RBM(weights, np.log(frequencies) - np.log1p(-frequencies), np.zeros(num_hidden))


class Trainer:
    """Trains a binary RBM, one update at a time, and tracks its likelihood.

    ```python
    trainer = tp.training.Trainer(data, valid=other_rows, num_hidden=100, num_updates=500)
    for update in trainer.run():
        print(update)  # update 1: train -90.215 ± 0.021, valid -90.310 ± 0.021
    trainer.rbm
    ```

    A `TrainingRun` adds checkpoints, pretraining, checks by AIS and early stopping. The tempered chains are spread over
    all devices, and over all processes in a program that has called `jax.distributed.initialize`.

    Caveats: the error of a likelihood is that of log Z. A mode of the model that no chain has entered is in no error.
    """

    @suggests(dict.fromkeys(("pretrain", "check", "early_stop"), _ONLY_IN_RUNS))
    def __init__(
        self,
        data: Any,
        *,
        valid: Any = None,
        rbm: RBM | None = None,
        num_hidden: int = TrainSettings.num_hidden,
        method: str = TrainSettings.method,
        optimizer: str = TrainSettings.optimizer,
        learning_rate: float | None = TrainSettings.learning_rate,
        weight_decay: float = TrainSettings.weight_decay,
        num_updates: int = TrainSettings.num_updates,
        batch_size: int = TrainSettings.batch_size,
        num_chains: int = TrainSettings.num_chains,
        num_sweeps: int = TrainSettings.num_sweeps,
        num_rungs: int = TrainSettings.num_rungs,
        rung_weights: Any = TrainSettings.rung_weights,
        alpha: float = TrainSettings.alpha,
        is_tracked: bool = TrainSettings.is_tracked,
        track_every: int = TrainSettings.track_every,
        follow_every: int = TrainSettings.follow_every,
        seed: int = TrainSettings.seed,
    ):
        """Check the settings, and estimate log Z of the first parameters.

        Args:
            data: 0/1 rows to train on.
            valid: 0/1 rows that are not trained on, whose likelihood is tracked too.
            rbm: Where training starts; by default `initial_rbm`.
            num_hidden: Hidden units of `initial_rbm`.
            method: The negative phase: "tempered" (Section 4.4 of the paper), "pcd" or "cd".
            optimizer: "rmsspectral", "ssd", "adam" or "sgd".
            learning_rate: By default one that suits the optimizer: 1e-5, 1e-5, 1e-3 or 0.05.
            weight_decay: Coefficient of the L2 penalty on the weights.
            num_updates: Updates in all.
            batch_size: Rows of data per update.
            num_chains: Chains of the negative phase, with "tempered" and "pcd".
            num_sweeps: Sweeps of every chain per update.
            num_rungs: Inverse temperatures.
            rung_weights: r_k of "tempered", as in `estimate`.
            alpha: Step α of eq. 24.
            is_tracked: Whether the likelihood is tracked.
            track_every: Updates between two evaluations of the likelihood.
            follow_every: Updates between two steps of the tracker's chains, with "pcd" and "cd".
            seed: The same seed gives the same bits.
        """
        self.settings = settings = TrainSettings(
            num_hidden=num_hidden, method=method, optimizer=optimizer, learning_rate=learning_rate,
            weight_decay=weight_decay, num_updates=num_updates, batch_size=batch_size, num_chains=num_chains,
            num_sweeps=num_sweeps, num_rungs=num_rungs, rung_weights=rung_weights, alpha=alpha, is_tracked=is_tracked,
            track_every=track_every, follow_every=follow_every, seed=seed,
        )  # fmt: skip
        self.data = _checked_rows("data", data, None if rbm is None else rbm.num_visible)
        if rbm is None:
            _check_memory(settings, *self.data.shape)
        rbm = initial_rbm(self.data, num_hidden, seed) if rbm is None else rbm
        self.rows = {"train": _evaluated_rows(self.data, seed)}
        if valid is not None:
            self.rows["valid"] = _evaluated_rows(_checked_rows("valid", valid, rbm.num_visible), seed)
        self.key = jax.random.key(seed)
        self.num_updates = 0
        self._order: tuple[int, np.ndarray] | None = None  # of the rows in the present epoch
        self.optimizer, self.phase = _make_optimizer(settings), _make_phase(settings)
        self.tracker = _make_tracker(settings, rbm, self.data.mean(axis=0))
        self._spread = Spread() if self.tracker is None else Spread.over_all_devices(self.tracker.num_groups)
        self.evaluated_rows = EvaluatedRows(self.rows, jnp.asarray(first_occurrences(np.asarray(self.rows["train"]))))
        self._placed_rows = self._spread.placed(self.evaluated_rows)
        start = device_parameters(rbm)
        logits = jnp.asarray(rbm.base_logits(self.data.mean(axis=0)), jnp.float32)
        key_start = jax.random.fold_in(self.key, _STARTS)
        chains = None if self.phase is None else self.phase.start(key_start, start, logits)
        self.state = TrainingState(start, self.optimizer.init(start), chains)

    @property
    def rbm(self) -> RBM:
        """The RBM after the last update."""
        return as_rbm(self.state.parameters)

    def run(self) -> Iterator[TrainingUpdate]:
        """Make the updates that are left.

        Returns:
            An iterator; each step of it makes an update and says what is known after it.
        """
        while self.num_updates < self.settings.num_updates:
            yield self.step()

    def step(self) -> TrainingUpdate:
        """Make one update.

        Returns:
            What is known after it. Likelihoods are of the parameters before it.
        """
        settings, before, tracker = self.settings, self.state.parameters, self.tracker
        number = self.num_updates + 1
        is_due = settings.is_tracked and number % settings.track_every == 0
        # Tempered chains make the gradient, so they follow every update; a tracker's own chains may take longer steps.
        is_followed = is_due or settings.method == "tempered" or number % settings.follow_every == 0
        chains = tracker.chains if tracker is not None and is_followed else None
        how = (settings.num_sweeps if settings.method == "tempered" else TRACKER_SWEEPS, self.phase, self.optimizer)
        key, batch = jax.random.fold_in(self.key, self.num_updates), self._batch(self.num_updates)
        inputs = (key, batch, jnp.float32(settings.alpha))
        chains, reading, log_densities = self._updated(how, inputs, chains, self._placed_rows if is_due else None)
        self.num_updates = number
        if tracker is not None and chains is not None:
            tracker.advance(chains, reading if settings.is_tracked else None)
        if tracker is None or not is_due:
            return TrainingUpdate(number, before)
        means, log_mass = jax.device_get(log_densities)
        tracked = tracker.assess().held_to(float(log_mass))
        found = {name: tracked.mean_log_likelihood(float(means[name]), len(rows)) for name, rows in self.rows.items()}
        return TrainingUpdate(number, before, tracked, **found)

    @property
    def is_whole(self) -> bool:
        """Whether `snapshot` holds all that the next update depends on: no reading waits to be assessed."""
        return self.tracker is None or self.tracker.is_assessed

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a later `Trainer` needs to continue with the same bits: plain numbers, and trees of arrays by name."""
        tracker = self.tracker
        numbers = {"num_updates": self.num_updates, "tracker": None if tracker is None else tracker.snapshot()}
        return numbers, {"state": self.state, "tracker": None if tracker is None else tracker.chains}

    def restore(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Continue from the numbers of a snapshot and the leaves of its trees, as a `RunDirectory` keeps them."""
        self.num_updates = numbers["num_updates"]
        self.state = jax.tree.map(jnp.asarray, filled("state", self.state, arrays))
        if self.tracker is not None:
            self.tracker.restore(numbers["tracker"], arrays)

    def _updated(
        self, how: _How, inputs: Any, chains: TemperedChains | None, rows: EvaluatedRows | None
    ) -> tuple[TemperedChains | None, Reading | None, Any]:
        """Make an update of the state, with the chains shared out to the devices."""
        spread, positions = self._spread, None
        if chains is not None:
            positions, chains = chains.positions, _with_positions(chains, None)
        positions = spread.placed(positions, is_shared_out=True)
        positions, found = _update(spread, how, positions, (*spread.placed((inputs, self.state, chains)), rows))
        self.state, chains, reading, log_densities = spread.local(found)
        return None if chains is None else _with_positions(chains, positions), reading, log_densities

    def _batch(self, number: int) -> Chains:
        """Rows in an order that depends on the seed and the epoch alone, so that a resumed run sees the same."""
        size = min(self.settings.batch_size, len(self.data))
        epoch, place = divmod(number, len(self.data) // size)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.settings.seed, epoch]).permutation(len(self.data))
        return jnp.asarray(self.data[self._order[1][place * size : (place + 1) * size]])


@compiled_widely
def _update(spread: Spread, how: _How, positions: Walkers | None, others: Any) -> tuple[Walkers | None, Any]:
    """One update on every device: the new positions of its chains, and what is the same on all devices."""
    num_sweeps, phase, optimizer = how

    def on_one_device(positions: Walkers | None, others: Any) -> tuple[Walkers | None, Any]:
        (key, batch, alpha), state, chains, rows = others
        key_phase, key_follow = jax.random.split(key)
        rbm, phase_chains = state.parameters, state.phase
        reading: Reading | None = None
        model: Moments | None = None
        if chains is not None:
            chains = _with_positions(chains, positions)
            chains, reading, model = follow(
                key_follow, chains, rbm, alpha, num_sweeps, is_backward=phase is None, spread=spread
            )
            positions, chains = chains.positions, _with_positions(chains, None)
        if phase is not None:
            model, phase_chains = phase(key_phase, rbm, batch, phase_chains)
        assert model is not None
        changes, optimizer_state = optimizer.update(loss_gradient(moments_of(rbm, batch), model), state.optimizer, rbm)
        changed = Parameters(*(old + change for old, change in zip(rbm, changes, strict=True)))
        log_densities = None if rows is None else evaluated(rbm, rows)
        return positions, (TrainingState(changed, optimizer_state, phase_chains), chains, reading, log_densities)

    return spread.run(on_one_device, positions, others)


def _with_positions(chains: TemperedChains, positions: Walkers | None) -> TemperedChains:
    return eqx.tree_at(lambda chains: chains.positions, chains, positions, is_leaf=lambda leaf: leaf is None)


@eqx.filter_jit
def evaluated(rbm: Parameters, rows: EvaluatedRows) -> tuple[dict[str, Scalar], Scalar]:
    """The mean of log f(v) over each set of rows, and log Σ f(v) over the distinct rows of training."""
    log_f = {name: row_log_densities(rbm, some) for name, some in rows.rows.items()}
    log_mass = jax.nn.logsumexp(jnp.where(rows.is_first, log_f["train"], -jnp.inf))
    return {name: jnp.mean(values) for name, values in log_f.items()}, log_mass


def row_log_densities(rbm: Parameters, rows: Chains) -> Float[Array, " row"]:
    """log f(v) of each row."""
    field = product(rows, rbm.weights) + rbm.hbias
    return product(rows, rbm.vbias) + jnp.sum(jax.nn.softplus(field), axis=1)


def _checked_rows(name: str, rows: Any, num_visible: int | None) -> np.ndarray:
    rows = np.asarray(rows, np.float32)
    if rows.ndim != 2 or len(rows) == 0 or num_visible not in (None, rows.shape[1]):
        units = "visible" if num_visible is None else num_visible
        raise InputError(f"`{name}` must have shape (rows, {units}); got {rows.shape}.")
    if not np.all((rows == 0) | (rows == 1)):
        raise InputError(f"`{name}` must hold only 0 and 1: binarize grey values first.")
    return rows


def _check_memory(settings: TrainSettings, num_rows: int, num_visible: int) -> None:
    """Refuse more hidden units, or chains, than memory has room for, before any array is made."""
    evaluated = min(num_rows, _MAX_ROWS)

    def num_bytes(num_hidden: int, num_chains: int) -> int:
        weights = (8 + 4 * _COPIES) * num_visible * num_hidden  # float64 on the host, float32 on the device
        return weights + 4 * evaluated * num_hidden + 4 * num_chains * (num_visible + num_hidden)

    check_memory("num_hidden", settings.num_hidden, lambda number: num_bytes(number, 1))
    if settings.method != "cd":
        check_memory("num_chains", settings.num_chains, lambda number: num_bytes(settings.num_hidden, number))


def _evaluated_rows(data: np.ndarray, seed: int) -> Chains:
    """All rows, or a fixed random choice of `_MAX_ROWS`."""
    if len(data) > _MAX_ROWS:
        data = np.random.default_rng(seed).choice(data, _MAX_ROWS, replace=False)
    return jnp.asarray(data)


def _make_optimizer(settings: TrainSettings) -> Any:
    # Newton–Schulz needs matrix products only: on a GPU it is many times as fast as an SVD.
    method = "newton_schulz" if settings.optimizer in ("rmsspectral", "ssd") else None
    chosen = make_optimizer(settings.optimizer, settings.rate, method=method)
    if settings.weight_decay == 0:
        return chosen
    decay = optax.add_decayed_weights(settings.weight_decay, lambda rbm: jax.tree.map(lambda leaf: leaf.ndim == 2, rbm))
    return optax.chain(decay, chosen)


def _make_phase(settings: TrainSettings) -> AbstractNegativePhase | None:
    """The negative phase; None for tempered training, where the tracked chains give the moments."""
    if settings.method == "cd":
        return CD(settings.num_sweeps)
    if settings.method == "pcd":
        return PCD(settings.num_chains, settings.num_sweeps)
    return None


def _make_tracker(settings: TrainSettings, rbm: RBM, frequencies: np.ndarray) -> Tracker | None:
    """Tempered training needs its chains, tracked or not; "pcd" and "cd" get a tracker of the default size."""
    if settings.method != "tempered" and not settings.is_tracked:
        return None
    own = ("num_chains", "num_sweeps", "rung_weights") if settings.method == "tempered" else ()
    options = {name: getattr(settings, name) for name in ("num_rungs", "alpha", "seed", *own)}
    return Tracker(rbm, frequencies, **options)
