"""How an RBM is to be trained, checked before anything runs."""

import dataclasses
import re
from typing import Any, NamedTuple

from tempering._errors import InputError

NEGATIVE_PHASES = ("tempered", "pcd", "cd")
RATES = {"rmsspectral": 1e-5, "ssd": 1e-5, "adam": 1e-3, "sgd": 0.05}


class Pretraining(NamedTuple):
    """CD before the training proper."""

    num_sweeps: int
    num_updates: int
    learning_rate: float | None  # of its own, or that of the training proper


class Checking(NamedTuple):
    """Annealed importance sampling beside the tracked line, once in so many updates."""

    every: int
    num_steps: int = 10_000
    num_chains: int = 100


@dataclasses.dataclass(frozen=True)
class TrainSettings:
    """How an RBM is trained; every field is an argument of `Trainer`."""

    num_hidden: int = 500
    method: str = "tempered"  # negative phase: "tempered" as in Section 4.4 of the paper, "pcd" or "cd"
    optimizer: str = "rmsspectral"  # or "ssd", "adam", "sgd"
    learning_rate: float | None = None  # None: one that suits the optimizer, see `RATES`
    weight_decay: float = 0.0  # of W alone
    num_updates: int = 8000
    batch_size: int = 100
    num_chains: int = 2000
    num_sweeps: int = 25  # between two updates
    num_rungs: int = 100
    rung_weights: Any = "exp:2"
    alpha: float = 0.2  # of eq. 24
    is_tracked: bool = True  # whether the likelihood is known on the way
    track_every: int = 1  # updates between two looks at it, each over all rows
    follow_every: int = 1  # updates between two steps of the tracker's own chains, where the method is not "tempered"
    pretrain: str | None = None  # "cd1:2000" for 2000 updates of CD-1 first; "cd1:2000:1e-3" with a rate of their own
    check: str | None = None  # "ais:500" for AIS once in 500 updates
    early_stop: bool = False  # when validation has fallen by more than its band
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything is."""
        whole = ("num_hidden", "num_updates", "batch_size", "num_chains", "num_sweeps", "track_every", "follow_every")
        for name in whole:
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"`{name}` must be a whole number, 1 or more; got {value!r}.")
        if self.method not in NEGATIVE_PHASES:
            raise InputError(f"`method` must be one of {', '.join(NEGATIVE_PHASES)}; got {self.method!r}.")
        if not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"`weight_decay` must be a finite number, 0 or more; got {self.weight_decay}.")
        if self.early_stop and not self.is_tracked:
            raise InputError("Early stopping needs the likelihood: leave `is_tracked` on.")
        if self.check is not None and not self.is_tracked:
            raise InputError("A check needs a tracked likelihood beside it: leave `is_tracked` on.")
        _ = self.pretraining, self.checking  # refuse words that mean nothing

    @property
    def rate(self) -> float:
        """The learning rate that was asked for, or the optimizer's own; unknown optimizers are refused elsewhere."""
        return RATES.get(self.optimizer, 0.0) if self.learning_rate is None else self.learning_rate

    @property
    def pretraining(self) -> Pretraining | None:
        """What `pretrain` says."""
        if self.pretrain is None:
            return None
        found = re.fullmatch(r"cd([1-9]\d*):([1-9]\d*)(?::(\d*\.?\d+(?:e[-+]?\d+)?))?", self.pretrain)
        if found is None:
            wanted = '"cd1:2000", for 2000 updates of CD-1, or "cd1:2000:1e-3", at that rate'
            raise InputError(f'`pretrain` must read like {wanted}; got "{self.pretrain}".')
        return Pretraining(int(found[1]), int(found[2]), self.learning_rate if found[3] is None else float(found[3]))

    @property
    def checking(self) -> Checking | None:
        """What `check` says."""
        if self.check is None:
            return None
        found = re.fullmatch(r"ais:([1-9]\d*)", self.check)
        if found is None:
            raise InputError(f'`check` must read like "ais:500", for AIS once in 500 updates; got "{self.check}".')
        return Checking(int(found[1]))

    def before(self) -> "TrainSettings":
        """Those of the pretraining: the same optimizer and batches, and the same rate but where it has its own."""
        pretraining = self.pretraining
        assert pretraining is not None
        plain = {"method": "cd", "is_tracked": False, "early_stop": False, "check": None, "pretrain": None}
        return dataclasses.replace(self, **plain, **pretraining._asdict())
