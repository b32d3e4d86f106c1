"""The likelihood of an RBM while somebody trains it: log Z kept alive from update to update, with an error band."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import stdtrit

from tempering._errors import InputError
from tempering._types import Key
from tempering.api import Settings
from tempering.estimators.uncertainty import uncertainty_by_jackknife
from tempering.kernels import Position
from tempering.ladder import Ladder
from tempering.models import RBM, RBMPath
from tempering.models.rbm.batch import Parameters, largest_field
from tempering.models.rbm.binary import Base
from tempering.results import MeanLogLikelihood
from tempering.training.anchor import find_anew, left_out
from tempering.training.tempered import Followed, Reading, follow
from tempering.verdicts import Finding, Verdict, gravest
from tempering.warmups import AnnealedStart

TRACKER_SWEEPS = 5  # between two updates, unless told
MIN_OVERLAP = 0.3  # effective share of the chains under new parameters; below, old draws say little of them
MIN_OCCUPANCY = 0.05  # of a rung's prior probability
MAX_FIELD = 1e6  # at a hidden unit: parameters that large have diverged, though they may be finite
MAX_LAG = 1.0  # nats by which log Z runs behind, beyond noise
_ROOM = 2.0  # fields may grow by this factor before the sums over units are fitted anew, and compiled
_LEAST_BOUND = 200.0  # of fields, below which they never are: larger than those of most RBMs ever get
_NO_BOUND = 1e9  # where no sums are fast and right, and every rung is summed by itself
_NEAR = 0.8  # of the bound: where the fit is made anew, before any field can leave it
_ANCHOR_COST = 2  # sweeps that finding log Z anew may cost for each that follows it


@dataclasses.dataclass(frozen=True)
class Tracked:
    """log Z after an update, with its error, and whether it is to be believed."""

    log_z: float
    std_error: float  # infinite where track was lost
    dof: int
    num_updates: int
    findings: tuple[Finding, ...] = ()
    is_anchored: bool = False  # whether log Z was found anew at this update

    @property
    def verdict(self) -> Verdict:
        """The gravest finding, or good."""
        return gravest(self.findings)

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval."""
        reach = float(stdtrit(self.dof, 0.975)) * self.std_error
        return self.log_z - reach, self.log_z + reach

    def mean_log_likelihood(self, mean_log_density: float, num_rows: int) -> MeanLogLikelihood:
        """mean log f(v) − log Z over rows of data, whose mean log f is given."""
        low, high = self.interval
        band = (mean_log_density - high, mean_log_density - low)
        return MeanLogLikelihood(mean_log_density - self.log_z, self.std_error, band, num_rows)


class Tracker:
    """Follows log Z of an RBM through training, in anybody's loop.

    ```python
    tracker = Tracker(rbm, base=data)
    for ...:                                       # one's own training
        tracked = tracker.update(W, vbias, hbias)
        tracker.mean_log_likelihood(data)          # of the RBM as of the last update, with its band
    ```

    Each update costs `num_sweeps` sweeps of `num_chains` chains. Log Z is predicted from where the chains are, and the
    sweeps then correct it by eq. 24 of the paper, with its `alpha`. The band comes from leaving out one of `num_groups`
    groups of chains at a time, and is widened where log Z visibly runs behind. Where the chains cannot follow, the
    answer says so with the verdict `LOST`, and log Z is found anew by annealing and tempering until the run's own
    verdict is good: at most once in `patience` updates, and less often where that took long.
    """

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
        """`base` is what an RBM's own may be: data, frequencies, "bias" or "uniform". It stays the same throughout."""
        if not 0 < alpha <= 1:
            raise InputError(f"`alpha` must lie between 0 and 1, got {alpha}.")
        if num_groups < 4 or num_chains % num_groups:
            raise InputError(
                f"`num_chains` must be a multiple of `num_groups`, 4 or more; got {num_chains}, {num_groups}."
            )
        settings = Settings(num_chains=num_chains, num_rungs=num_rungs, rung_weights=rung_weights, seed=seed)
        self._betas = np.linspace(0.0, 1.0, num_rungs)
        self._log_prior = settings.make_log_prior(self._betas)
        self._logits = rbm.base_logits("bias" if base is None else base)
        self.num_chains, self.num_sweeps, self.num_groups = num_chains, num_sweeps, num_groups
        self.alpha, self.patience = alpha, patience
        self._anchor = AnnealedStart() if anchor is None else anchor
        self._key = jax.random.key(seed)
        self.num_updates, self._last_anchor, self._anchor_sweeps = 0, 0, 0
        self._anchor_error = 0.0  # at the last anchor, beyond what groups of chains show
        self._lost: tuple[Finding, ...] = ()
        self._parameters = parameters(rbm)
        self._log_z_base = 0.0
        self._anchored(rbm)
        self.tracked = self._from_anchor()

    def update(self, weights: Any, vbias: Any, hbias: Any) -> Tracked:
        """Go on to new parameters, of any array type; the answer is also `tracked`."""
        arrays = [_as_numpy(a) for a in (weights, vbias, hbias)]
        self.num_updates += 1
        if not all(np.all(np.isfinite(array)) for array in arrays):
            self.tracked = Tracked(np.nan, np.inf, self.num_groups - 1, self.num_updates, (_diverged(),))
            return self.tracked
        self._parameters = parameters(RBM(*arrays))
        self._grow_with(float(largest_field(self._parameters)))
        key = jax.random.fold_in(self._key, self.num_updates)
        self.followed, reading = _followed(key, self.followed, self._parameters, self.alpha, self.num_sweeps)
        self.tracked = self._concluded([jax.device_get(reading)])
        return self.tracked

    def take(self, followed: Followed, readings: Sequence[Reading], rbm: Parameters) -> Tracked:
        """What training steps found that led the chains to these parameters themselves, by `follow`, oldest first."""
        self.num_updates += len(readings)
        self.followed, self._parameters = followed, rbm
        readings = jax.device_get(list(readings))
        self.tracked = self._concluded(readings)
        self._grow_with(float(readings[-1].largest_field))
        return self.tracked

    def _concluded(self, readings: Sequence[Reading]) -> Tracked:
        """What the last update has shown; where track was lost on the way, what an annealing pass then finds."""
        # What is lost stays lost: later updates would look sound, and keep the error of the one that was not.
        findings = self._lost or next((found for reading in readings if (found := _findings(reading))), ())
        self._lost = tuple(finding for finding in findings if finding.verdict is Verdict.LOST)
        wait = max(self.patience, self._anchor_sweeps / (_ANCHOR_COST * self.num_sweeps))
        if self._lost and self.num_updates - self._last_anchor >= wait:
            self._anchored(self.rbm)
            return dataclasses.replace(self._from_anchor(), is_anchored=True)
        return self._read(readings[-1], findings)

    @property
    def rbm(self) -> RBM:
        """With the parameters of the last update."""
        return as_rbm(self._parameters)

    @property
    def memory(self) -> dict[str, Any]:
        """All that goes on from update to update beside `followed` and the parameters, to be kept with them."""
        bound = _NO_BOUND if self._followed_path.sums is None else float(self._followed_path.sums.bound)
        numbers = {"num_updates": self.num_updates, "last_anchor": self._last_anchor}
        numbers |= {"anchor_sweeps": self._anchor_sweeps, "anchor_error": self._anchor_error}
        lost = [[finding.seen, finding.cure] for finding in self._lost]
        return numbers | {"log_z_base": self._log_z_base, "field_bound": bound, "lost": lost}

    def recall(self, followed: Followed, rbm: Parameters, memory: dict[str, Any]) -> None:
        """Go on from what was kept."""
        self.followed, self._parameters, self._log_z_base = followed, rbm, memory["log_z_base"]
        self.num_updates, self._last_anchor = int(memory["num_updates"]), int(memory["last_anchor"])
        self._anchor_sweeps, self._anchor_error = int(memory["anchor_sweeps"]), memory["anchor_error"]
        self._lost = tuple(Finding(Verdict.LOST, seen, cure) for seen, cure in memory["lost"])

    def mean_log_likelihood(self, data: Any) -> MeanLogLikelihood:
        """Mean log p(v) over rows of 0/1 data under the last parameters, with the band of log Z."""
        return self.tracked.mean_log_likelihood(float(self.rbm.log_density(data).mean()), len(data))

    @property
    def _followed_path(self) -> RBMPath:
        path = self.followed.ladder.path
        assert isinstance(path, RBMPath)
        return path

    def _grow_with(self, field: float) -> None:
        """Make room where fields have grown as large as that."""
        sums = self._followed_path.sums
        if sums is not None and _NEAR * float(sums.bound) < field < np.inf:
            self.make_room(_ROOM * field)

    def make_room(self, bound: float) -> None:
        """Sums over units for fields up to the bound; chains and all that is known stay."""
        old = self._followed_path
        path = RBMPath.create(self.rbm, self._logits, self._betas, largest_field=bound)
        path = path.with_parameters(old.weights, old.vbias, old.hbias)
        self.followed = eqx.tree_at(lambda f: f.ladder.path, self.followed, path)

    def _anchored(self, rbm: RBM) -> None:
        """Find log Z and the places of all chains anew."""
        room = max(_LEAST_BOUND, _ROOM * float(largest_field(parameters(rbm))))
        path = RBMPath.create(rbm, self._logits, self._betas, largest_field=room)
        self._log_z_base = path.log_z_base()
        key = jax.random.fold_in(jax.random.fold_in(self._key, self.num_updates), 1)
        found = find_anew(key, Ladder.create(path, self._log_prior), self.num_chains, self._anchor)
        self._last_anchor, self._anchor_sweeps, self._lost = self.num_updates, found.num_sweeps, found.findings
        without = left_out(found.stats, self.num_groups)
        excess = found.log_z.std_error**2 - _jackknife(without[:, -1]) ** 2
        self._anchor_error = float(np.sqrt(max(excess, 0.0)))
        grouped = jax.tree.map(self._grouped, found.states)
        none = jnp.zeros(self.num_groups)
        self.followed = Followed(
            found.ladder.with_guess(jnp.asarray(found.log_z.values, jnp.float32)),
            Position(grouped.x, grouped.rung),
            jnp.asarray(without, jnp.float32), jnp.zeros(()), none,
        )  # fmt: skip

    def _grouped(self, leaf: Any) -> Any:
        """Chains dealt out to groups one by one: they were started in the order of their rungs."""
        leaf = np.asarray(leaf)
        return jnp.asarray(leaf.reshape(-1, self.num_groups, *leaf.shape[1:]).swapaxes(0, 1))

    def _from_anchor(self) -> Tracked:
        log_z, without = self.followed.ladder.log_z_guess[-1], self.followed.without[:, -1]
        return self._known(float(log_z), _jackknife(without), self._lost)

    def _read(self, reading: Reading, findings: tuple[Finding, ...]) -> Tracked:
        # Where every update brings the same news, log Z is behind by what eq. 24 has not taken in, 1 − α of them.
        lag, news = _lag(reading), float(reading.innovation)
        catch_up = (1 - self.alpha) * (lag / news) ** 2 if lag > 0 else 0.0  # as much of it as is not noise
        left_out = reading.without + catch_up * reading.innovation_without
        error = float(np.hypot(_jackknife(left_out), lag))
        return self._known(float(reading.log_z[-1]) + catch_up * news, error, findings)

    def _known(self, log_z: float, error: float, findings: tuple[Finding, ...]) -> Tracked:
        # Each update replaces a part α of what the last anchor said by what the chains say.
        anchored = self._anchor_error * (1 - self.alpha) ** (self.num_updates - self._last_anchor)
        error = np.inf if findings else float(np.hypot(error, anchored))
        return Tracked(log_z + self._log_z_base, error, self.num_groups - 1, self.num_updates, findings)


def parameters(rbm: RBM) -> Parameters:
    """On the device, in float32."""
    return Parameters(*(jnp.asarray(a, jnp.float32) for a in (rbm.weights, rbm.vbias, rbm.hbias)))


def as_rbm(rbm: Parameters) -> RBM:
    """Back on the host."""
    return RBM(*(np.asarray(a, np.float64) for a in rbm))


@eqx.filter_jit
def _followed(key: Key, followed: Followed, rbm: Parameters, alpha: float, num_sweeps: int) -> tuple[Followed, Reading]:
    followed, reading, _ = follow(key, followed, rbm, jnp.asarray(alpha, jnp.float32), num_sweeps, looks_back=False)
    return followed, reading


def _jackknife(left_out: Any) -> float:
    """The standard error of an estimate from its values with one group of chains left out at a time."""
    column = np.asarray(left_out, np.float64)[:, None]
    return float(uncertainty_by_jackknife(column.mean(axis=0), column).std_error[0])


def _lag(reading: Reading) -> float:
    """By how much log Z runs behind: what the chains lately had to say, as far as it exceeds noise."""
    excess = float(reading.innovation) ** 2 - _jackknife(reading.innovation_without) ** 2
    return float(np.sqrt(max(excess, 0.0)))


def _findings(reading: Reading) -> tuple[Finding, ...]:
    """Why the chains may have lost track; empty where they follow."""
    is_sound = np.all(np.isfinite(reading.log_z)) and reading.largest_field < MAX_FIELD  # not where it is NaN
    if reading.num_nonfinite > 0 or not is_sound:
        return (_diverged(),)
    rung = int(np.argmin(reading.occupancy))
    lag = _lag(reading)
    reasons = [
        (reading.overlap < MIN_OVERLAP, f"an update left {float(reading.overlap):.1%} of the chains effective"),
        (
            reading.occupancy[rung] < MIN_OCCUPANCY,
            f"rung {rung} has {reading.occupancy[rung]:.2g} of what it should have",
        ),
        (lag > MAX_LAG, f"log Z runs {lag:.1f} nats behind"),
    ]
    seen = "; ".join(text for holds, text in reasons if holds)
    if not seen:
        return ()
    return (Finding(Verdict.LOST, seen, "lower the learning rate, or give the tracker more sweeps or chains"),)


def _diverged() -> Finding:
    seen = "parameters, or densities under them, are NaN, infinite or absurdly large"
    return Finding(Verdict.NONFINITE, seen, "lower the learning rate: training has diverged")


def _as_numpy(array: Any) -> np.ndarray:
    """Arrays of NumPy, JAX or PyTorch, the last also while gradients are recorded."""
    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)
