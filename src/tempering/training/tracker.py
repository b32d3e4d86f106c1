"""The likelihood of an RBM during training: log Z updated at every step of the parameters, with an error band."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tempering._compiling import compiled_widely
from tempering._errors import InputError, check_count
from tempering._signatures import suggests
from tempering._types import Key
from tempering.api import Settings
from tempering.diagnosis.known_states import log_known_mass
from tempering.ladder import Ladder
from tempering.models import RBM, RBMPath
from tempering.models.rbm.batch import Parameters, largest_field
from tempering.models.rbm.binary import Base
from tempering.results import MeanLogLikelihood
from tempering.sampling.directory import filled
from tempering.training.anchor import Anchor, find_anew, left_out
from tempering.training.doubts import diverged, doubts_of, jackknife_error, lag_of
from tempering.training.outcomes import Tracked
from tempering.training.settings import check_alpha
from tempering.training.spread import Spread
from tempering.training.tempered import Reading, TemperedChains, Walkers, follow
from tempering.training.travelled import Travelled
from tempering.verdicts import Finding, Verdict, without_none
from tempering.warmups import AnnealedStart

TRACKER_SWEEPS = 5  # per update, by default
_MIN_GROUPS = 4  # of chains, for a jackknife
_ROOM = 2.0  # the sums over hidden units are fitted for fields this many times as large as the present ones
_LEAST_BOUND = 200.0  # of fields, for the first fit: most RBMs never exceed it, and so are never fitted again
_NO_BOUND = 1e9  # stands in a snapshot for a path without fast sums, where every rung is summed by itself
_NEAR = 0.8  # share of the bound at which the sums are fitted again
_AFRESH = 2  # part of the random key, where anchors have 1
_ANCHOR_COST = 2  # sweeps that a new estimate from scratch may cost for each sweep since the last one


class Tracker:
    """Tracks log Z of an RBM through any training loop.

    ```python
    tracker = tp.Tracker(rbm, base=data)
    for ...:                                         # your training loop
        tracked = tracker.update(W, vbias, hbias)    # log Z, its error and its verdict
        tracker.mean_log_likelihood(data)            # under the parameters of the last update
    ```

    Tempered chains follow the parameters. At each update log Ẑ_k is moved by the change that the chains predict and
    corrected by eq. 24 of the paper; `training.tempered.follow` has the formulas. The error is the jackknife's over
    groups of chains, widened where log Z lags behind what the chains say. Where the chains cannot follow, the verdict
    is `LOST`. Then log Z is estimated from scratch, by annealing and tempering until the diagnosis is good. Where the
    model changes faster than chains cross the ladder, it is `STUCK`.

    Attributes:
        num_updates: Updates so far.
        travelled: How the chains went through the ladder, and how much the model changed meanwhile.

    Caveats: a mode of the model that no chain has entered is in no error band.
    """

    @suggests()
    def __init__(
        self,
        rbm: RBM,
        base: Base = None,
        *,
        num_chains: int = 200,
        num_sweeps: int = TRACKER_SWEEPS,
        num_rungs: int = 100,
        rung_weights: Any = "ends",
        alpha: float = 0.2,
        num_groups: int = 20,
        patience: int = 20,
        anchor: AnnealedStart | None = None,
        seed: int = 0,
    ):
        """Check the settings. log Z of the first parameters is estimated from scratch when it is first needed.

        Args:
            rbm: The first parameters.
            base: Where tempering starts: data, frequencies, "bias" (the default) or "uniform". It never changes.
            num_chains: Chains, a multiple of `num_groups`.
            num_sweeps: Sweeps of every chain per update.
            num_rungs: Inverse temperatures, equally spaced from 0 to 1.
            rung_weights: r_k, as in `estimate`.
            alpha: Step α of eq. 24, in (0, 1]. Chains that need many updates for a round trip need a smaller one.
            num_groups: Groups of chains for the jackknife, 4 or more.
            patience: Updates from one estimate from scratch to the next, at least.
            anchor: The annealing of estimates from scratch; by default `AnnealedStart()`.
            seed: The same seed gives the same bits.
        """
        check_alpha(alpha)
        for name, count, least in (
            ("num_chains", num_chains, 1), ("num_sweeps", num_sweeps, 1), ("num_rungs", num_rungs, 2),
            ("num_groups", num_groups, _MIN_GROUPS), ("patience", patience, 1),
        ):  # fmt: skip
            check_count(f"`{name}`", count, least)
        if num_chains % num_groups:
            raise InputError(
                f"`num_chains` must be a multiple of {num_groups}, the number of groups; got {num_chains}."
            )
        settings = Settings(num_chains=num_chains, num_rungs=num_rungs, rung_weights=rung_weights, seed=seed)
        self._betas = np.linspace(0.0, 1.0, num_rungs)
        self._log_prior = settings.make_log_prior(self._betas)
        self._logits = rbm.base_logits("bias" if base is None else base)
        self.num_chains, self.num_sweeps, self.num_groups = num_chains, num_sweeps, num_groups
        self.alpha, self.patience = alpha, patience
        self._annealing = AnnealedStart() if anchor is None else anchor
        self._key = jax.random.key(seed)
        self.num_updates, self._last_anchor, self._anchor_sweeps = 0, 0, 0
        self._anchor_error = 0.0  # of the last anchor, beyond what groups of chains show
        self._lost: tuple[Finding, ...] = ()
        self.travelled = Travelled()
        self._pending: list[Reading] = []  # of updates that were not assessed yet
        self._log_z_base = 0.0
        self._first = rbm
        self._chains: TemperedChains | None = None
        self._tracked: Tracked | None = None

    @property
    def chains(self) -> TemperedChains:
        """The tempered chains, and log Ẑ_k at every rung; at first those of an estimate from scratch."""
        if self._chains is None:
            self._chains = self._anchor(self._first)
        return self._chains

    @property
    def tracked(self) -> Tracked:
        """log Z at the last update."""
        if self._tracked is None:
            self._tracked = self._at_anchor()
        return self._tracked

    @property
    def rbm(self) -> RBM:
        """The RBM at the last update whose parameters were finite."""
        return as_rbm(Parameters(self._path.weights, self._path.vbias, self._path.hbias))

    def update(self, weights: Any, vbias: Any, hbias: Any) -> Tracked:
        """Follow the RBM to new parameters.

        Args:
            weights: W of shape (visible, hidden), as an array of NumPy, JAX or PyTorch.
            vbias: c.
            hbias: b.

        Returns:
            log Z under the new parameters; also in `tracked`.
        """
        _ = self.chains  # log Z of the first parameters, if nobody has asked for it yet
        arrays = [_as_numpy(a) for a in (weights, vbias, hbias)]
        if not all(np.all(np.isfinite(array)) for array in arrays):
            self.num_updates += 1
            self._tracked = Tracked(np.nan, np.inf, self.num_groups - 1, self.num_updates, (diverged(),))
            return self.tracked
        rbm = device_parameters(RBM(*arrays))
        self._make_room_for(float(largest_field(rbm)))
        key = jax.random.fold_in(self._key, self.num_updates + 1)
        self.advance(*_follow(key, self.chains, rbm, self.alpha, self.num_sweeps))
        return self.assess()

    def mean_log_likelihood(self, data: Any) -> MeanLogLikelihood:
        """The mean log-likelihood of rows under the parameters of the last update.

        The distinct rows add up to a lower bound of log Z. Where log Z and its band are below it, `tracked` becomes
        `MISSED`: the model has learned rows that no chain finds.

        Args:
            data: 0/1 rows.

        Returns:
            The mean of log p(v), with the error and the interval of log Z.
        """
        log_f = self.rbm.log_density(data)
        self._tracked = self.tracked.held_to(log_known_mass(data, log_f))
        return self.tracked.mean_log_likelihood(float(log_f.mean()), len(data))

    def advance(self, chains: TemperedChains, reading: Reading | None) -> None:
        """Take over chains that `follow` has moved to new parameters, and keep the reading for the next `assess`."""
        self._chains = chains
        if reading is not None:
            self.num_updates += 1
            self._pending.append(reading)

    def assess(self) -> Tracked:
        """Turn the readings since the last call into log Z; where track was lost, estimate it from scratch."""
        readings, self._pending = jax.device_get(self._pending), []
        self._tracked = self._concluded(readings)
        self._make_room_for(float(readings[-1].largest_field))
        return self.tracked

    @property
    def is_assessed(self) -> bool:
        """Whether `assess` has seen all updates."""
        return not self._pending

    def _concluded(self, readings: Sequence[Reading]) -> Tracked:
        # Each log Ẑ_k is the sum of its changes over all updates, of which eq. 24 corrects a part α per update. An
        # update that the chains could not follow leaves its error in this sum. Later updates look sound but inherit
        # that error, so the verdict stays LOST until log Z has been estimated from scratch.
        findings = self._lost or next((found for reading in readings if (found := doubts_of(reading))), ())
        for reading in readings:
            self.travelled = self.travelled.after(float(reading.overlap), float(reading.num_crossings))
        findings = findings or without_none(self.travelled.finding())
        self._lost = tuple(finding for finding in findings if finding.verdict is Verdict.LOST)
        wait = max(self.patience, self._anchor_sweeps / (_ANCHOR_COST * self.num_sweeps))
        if self._lost and self.num_updates - self._last_anchor >= wait:
            self._chains = self._anchor(self.rbm)
            return dataclasses.replace(self._at_anchor(), is_anchored=True)
        return self._at_reading(readings[-1], findings)

    def estimate_afresh(self, rbm: RBM) -> Tracked:
        """log Z of any RBM of this size, by annealing and tempering with chains of their own; nothing is followed.

        Args:
            rbm: The RBM.

        Returns:
            log Z, its error and its verdict, from random numbers that no update and no anchor has used.
        """
        found, log_z_base = self._found(rbm, _AFRESH)
        answer, error = found.log_z, np.inf if found.findings else found.log_z.std_error
        return Tracked(answer.log_z + log_z_base, error, answer.dof, self.num_updates, found.findings, is_anchored=True)

    def _found(self, rbm: RBM, number: int) -> tuple[Anchor, float]:
        """log Z from nothing, relative to the base, and log Z of the base; `number` is part of the random key."""
        room = max(_LEAST_BOUND, _ROOM * float(largest_field(device_parameters(rbm))))
        path = RBMPath.create(rbm, self._logits, self._betas, largest_field=room)
        key = jax.random.fold_in(jax.random.fold_in(self._key, self.num_updates), number)
        ladder = Ladder.create(path, self._log_prior)
        return find_anew(key, ladder, self.num_chains, self._annealing), path.log_z_base()

    def _anchor(self, rbm: RBM) -> TemperedChains:
        """Estimate log Z from scratch; the chains are those of that run."""
        found, self._log_z_base = self._found(rbm, 1)
        self._last_anchor, self._anchor_sweeps, self._lost = self.num_updates, found.num_sweeps, found.findings
        without = left_out(found.stats, self.num_groups)
        excess = found.log_z.std_error**2 - jackknife_error(without[:, -1]) ** 2
        self._anchor_error = float(np.sqrt(max(excess, 0.0)))
        self.travelled = Travelled()
        grouped = jax.tree.map(self._grouped, found.states)
        last_end = self._grouped(found.stats.travel.last_end.astype(np.int32))
        return TemperedChains(
            found.ladder.with_guess(jnp.asarray(found.log_z.values, jnp.float32)),
            Walkers(grouped.x, grouped.rung, last_end),
            jnp.asarray(without, jnp.float32), jnp.zeros(()), jnp.zeros(self.num_groups),
        )  # fmt: skip

    def _template(self, bound: float) -> TemperedChains:
        """Chains of the form that a snapshot has, with other numbers."""
        ladder = Ladder.create(RBMPath.create(self._first, self._logits, self._betas, largest_field=bound))
        forms = jax.eval_shape(ladder.path.sample_base, self._key)
        axes = (self.num_groups, self.num_chains // self.num_groups)
        x = jax.tree.map(lambda form: jnp.zeros((*axes, *form.shape), form.dtype), forms)
        none = jnp.zeros(axes, jnp.int32)
        sums, by_group = jnp.zeros((self.num_groups, len(self._betas))), jnp.zeros(self.num_groups)
        return TemperedChains(ladder, Walkers(x, none, none), sums, jnp.zeros(()), by_group)

    def _grouped(self, leaf: Any) -> Any:
        """Chain c goes to group c mod G, since neighbouring chains were started at the same rung."""
        leaf = np.asarray(leaf)
        return jnp.asarray(leaf.reshape(-1, self.num_groups, *leaf.shape[1:]).swapaxes(0, 1))

    def _at_anchor(self) -> Tracked:
        log_z, without = self.chains.ladder.log_z_guess[-1], self.chains.log_z_without[:, -1]
        return self._make_tracked(float(log_z), jackknife_error(without), self._lost)

    def _at_reading(self, reading: Reading, findings: tuple[Finding, ...]) -> Tracked:
        # If every update brings the same innovation d, of which eq. 24 takes in α, log Ẑ stays (1 − α) d behind. That
        # much is added, times the share of d² that is not noise. All of the lag widens the error: chains that have not
        # equilibrated do not show the whole of d.
        lag, innovation = lag_of(reading), float(reading.innovation)
        gain = (1 - self.alpha) * (lag / innovation) ** 2 if lag > 0 else 0.0
        without = reading.log_z_without + gain * reading.innovation_without
        error = float(np.hypot(jackknife_error(without), lag))
        return self._make_tracked(float(reading.log_z[-1]) + gain * innovation, error, findings)

    def _make_tracked(self, log_z: float, error: float, findings: tuple[Finding, ...]) -> Tracked:
        # By eq. 24 each update replaces a part α of the anchor's log Z, and so of its error.
        anchor_error = self._anchor_error * (1 - self.alpha) ** (self.num_updates - self._last_anchor)
        error = np.inf if findings else float(np.hypot(error, anchor_error))
        return Tracked(log_z + self._log_z_base, error, self.num_groups - 1, self.num_updates, findings)

    @property
    def _path(self) -> RBMPath:
        path = self.chains.ladder.path
        assert isinstance(path, RBMPath)
        return path

    def _make_room_for(self, field: float) -> None:
        """Fit the sums over hidden units again where fields approach the bound that the sums are accurate for."""
        sums = self._path.sums
        if sums is not None and _NEAR * float(sums.bound) < field < np.inf:
            self._fit_sums(_ROOM * field)

    def _fit_sums(self, bound: float) -> None:
        path = RBMPath.create(self.rbm, self._logits, self._betas, largest_field=bound)
        self._chains = eqx.tree_at(lambda chains: chains.ladder.path, self.chains, path)

    def snapshot(self) -> dict[str, Any]:
        """What a later `Tracker` needs besides `chains` to continue with the same bits, as plain numbers."""
        bound = _NO_BOUND if self._path.sums is None else float(self._path.sums.bound)
        numbers = {"num_updates": self.num_updates, "last_anchor": self._last_anchor}
        numbers |= {"anchor_sweeps": self._anchor_sweeps, "anchor_error": self._anchor_error}
        numbers |= dataclasses.asdict(self.travelled)
        lost = [[finding.seen, finding.cure] for finding in self._lost]
        return numbers | {"log_z_base": self._log_z_base, "field_bound": bound, "lost": lost}

    def restore(self, numbers: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Continue from the numbers of a snapshot and the leaves of `chains`, saved under the name "tracker"."""
        template = self._template(numbers["field_bound"])  # so that log Z of the first parameters is not found again
        self._chains = jax.tree.map(jnp.asarray, filled("tracker", template, arrays))
        self._log_z_base = numbers["log_z_base"]
        self.num_updates, self._last_anchor = int(numbers["num_updates"]), int(numbers["last_anchor"])
        self._anchor_sweeps, self._anchor_error = int(numbers["anchor_sweeps"]), numbers["anchor_error"]
        self.travelled = Travelled(**{f.name: numbers[f.name] for f in dataclasses.fields(Travelled)})
        self._lost = tuple(Finding(Verdict.LOST, seen, cure) for seen, cure in numbers["lost"])


def device_parameters(rbm: RBM) -> Parameters:
    """An RBM's parameters on the device, in float32."""
    return Parameters(*(jnp.asarray(a, jnp.float32) for a in (rbm.weights, rbm.vbias, rbm.hbias)))


def as_rbm(parameters: Parameters) -> RBM:
    """The RBM with parameters from the device, in float64."""
    return RBM(*(np.asarray(a, np.float64) for a in parameters))


@compiled_widely
def _follow(
    key: Key, chains: TemperedChains, rbm: Parameters, alpha: float, num_sweeps: int
) -> tuple[TemperedChains, Reading]:
    step = jnp.asarray(alpha, jnp.float32)
    return follow(key, chains, rbm, step, num_sweeps, is_backward=False, spread=Spread())[:2]


def _as_numpy(array: Any) -> np.ndarray:
    """Also of a PyTorch tensor that records gradients."""
    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
