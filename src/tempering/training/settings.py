"""How an RBM is trained, checked before anything runs."""

import dataclasses
import re
from typing import Any, NamedTuple

from tempering._errors import InputError, check_count, check_seed
from tempering._signatures import suggests

NEGATIVE_PHASES = ("tempered", "pcd", "cd")
RATES = {"rmsspectral": 1e-5, "ssd": 1e-5, "adam": 1e-3, "sgd": 0.05}
"""The optimizers, and the learning rate that each has by default."""

_COUNTS = {
    "num_hidden": 1, "num_updates": 1, "batch_size": 1, "num_chains": 1, "num_sweeps": 1, "num_rungs": 2,
    "track_every": 1, "follow_every": 1,
}  # fmt: skip

_MOST = {"num_updates": 2**30 - 1, "num_sweeps": 10**6}  # updates are part of the random key; sweeps are of one update


class Pretraining(NamedTuple):
    """Updates by contrastive divergence that come before the training proper."""

    num_sweeps: int  # k of CD-k
    num_updates: int
    learning_rate: float | None  # None: the optimizer's default


class Checking(NamedTuple):
    """Annealed importance sampling during training, as an independent check of the tracked log Z."""

    every: int  # updates
    num_steps: int = 10_000
    num_chains: int = 100


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How an RBM is trained. Every field is an argument of `Trainer`, which explains it; its default is written here.

    Attributes:
        num_hidden, optimizer, learning_rate, weight_decay: The RBM, and how its parameters are changed.
        num_updates, batch_size, seed: How often, and by which rows of data.
        method, num_chains, num_sweeps, num_rungs, rung_weights: The negative phase.
        is_tracked, track_every, follow_every, alpha: How the likelihood is tracked.
    """

    num_hidden: int = 500
    method: str = "tempered"
    optimizer: str = "rmsspectral"
    learning_rate: float | None = None
    weight_decay: float = 0.0
    num_updates: int = 8000
    batch_size: int = 100
    num_chains: int = 2000
    num_sweeps: int = 25
    num_rungs: int = 100
    rung_weights: Any = "exp:2"
    alpha: float = 0.2
    is_tracked: bool = True
    track_every: int = 1
    follow_every: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _COUNTS.items():
            check_count(f"`{name}`", getattr(self, name), least)
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                raise InputError(f"`{name}` must be at most {most}; got {getattr(self, name)}.")
        check_seed(self.seed)
        check_choice("method", self.method, NEGATIVE_PHASES)
        check_choice("optimizer", self.optimizer, tuple(RATES))
        check_alpha(self.alpha)
        if not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"`weight_decay` must be a finite number, 0 or more; got {self.weight_decay}.")
        self._check_that_all_is_used()

    def _check_that_all_is_used(self) -> None:
        """An argument without an effect is a mistake of the caller's: better to say so than to train for hours."""
        is_tempered = self.method == "tempered"
        why_unused = {
            "num_chains": self.method == "cd" and 'with `method="cd"`, which starts a chain at every row of the batch',
            "rung_weights": not is_tempered and f'with `method="{self.method}"`, whose chains are not tempered',
            "follow_every": is_tempered and 'with `method="tempered"`, whose chains follow every update',
        }
        if not self.is_tracked:
            names = ("track_every", "follow_every", *(() if is_tempered else ("num_rungs", "alpha")))
            why_unused |= {name: "when the likelihood is not tracked" for name in names}
        for name, why in why_unused.items():
            given, default = getattr(self, name), getattr(TrainSettings, name)
            if why and not (isinstance(given, str | int | float) and given == default):
                raise InputError(f"`{name}` has no effect {why}: leave it out.")

    @property
    def rate(self) -> float:
        """The learning rate: the one given, or the optimizer's default."""
        return RATES[self.optimizer] if self.learning_rate is None else self.learning_rate


@dataclasses.dataclass(frozen=True)
class RunSettings(TrainSettings):
    """What a `TrainingRun` is asked to do: all of `TrainSettings`, and what goes on around the updates.

    ```python
    RunSettings(num_hidden=100, method="pcd", pretrain="cd1:2000", check="ais:500", early_stop=True)
    ```

    Attributes:
        pretrain: "cd1:2000" for 2000 updates of CD-1 first; "cd1:2000:1e-3" gives them a learning rate of their own.
        check: "ais:500" for log Z by annealed importance sampling after every 500 updates.
        early_stop: Whether to stop when the smoothed validation likelihood has fallen below the error band of its
            maximum, and has stayed there.
        patience: Updates for which it must have stayed there.
    """

    pretrain: str | None = None
    check: str | None = None
    early_stop: bool = False
    patience: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("`patience`", self.patience, 1)
        if not self.early_stop and self.patience != RunSettings.patience:
            raise InputError("`patience` has no effect without `early_stop`: leave it out.")
        if self.early_stop and not self.is_tracked:
            raise InputError("`early_stop` needs a tracked likelihood: leave `is_tracked` on.")
        if self.check is not None and not self.is_tracked:
            raise InputError("`check` needs a tracked likelihood to compare with: leave `is_tracked` on.")
        _ = self.pretraining, self.checking  # both refuse words that they cannot read

    @property
    def pretraining(self) -> Pretraining | None:
        """What `pretrain` asks for."""
        wanted = '"cd1:2000", for 2000 updates of CD-1, or "cd1:2000:1e-3", at that learning rate'
        found = self._read("pretrain", r"cd([1-9]\d*):([1-9]\d*)(?::(\d*\.?\d+(?:e[-+]?\d+)?))?", wanted)
        if found is None:
            return None
        return Pretraining(int(found[1]), int(found[2]), self.learning_rate if found[3] is None else float(found[3]))

    @property
    def checking(self) -> Checking | None:
        """What `check` asks for."""
        found = self._read("check", r"ais:([1-9]\d*)", '"ais:500", for AIS every 500 updates')
        return None if found is None else Checking(int(found[1]))

    def _read(self, name: str, pattern: str, wanted: str) -> re.Match[str] | None:
        text = getattr(self, name)
        found = None if text is None else re.fullmatch(pattern, text)
        if text is not None and found is None:
            raise InputError(f'`{name}` must read like {wanted}; got "{text}".')
        return found

    def for_pretraining(self) -> TrainSettings:
        """The settings of the pretraining: CD without tracking, with this run's optimizer, batches and seed."""
        assert self.pretraining is not None
        shared = ("num_hidden", "optimizer", "weight_decay", "batch_size", "seed")
        values = {name: getattr(self, name) for name in shared} | self.pretraining._asdict()
        return TrainSettings(method="cd", is_tracked=False, **values)


TrainSettings.__init__ = suggests()(TrainSettings.__init__)
RunSettings.__init__ = suggests()(RunSettings.__init__)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse what is not one of the words."""
    if value not in choices:
        raise InputError(f"`{name}` must be one of {', '.join(choices)}; got {value!r}.")


def check_alpha(alpha: float) -> None:
    """Refuse steps of eq. 24 that are not in (0, 1]."""
    if not 0 < alpha <= 1:
        raise InputError(f"`alpha` must be greater than 0 and at most 1; got {alpha}.")
