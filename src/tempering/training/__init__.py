"""Training binary RBMs, with the likelihood known on the way.

- `Tracker` tracks log Z in a training loop of your own; `Tracked` is what it knows after an update.
- `Trainer` trains an RBM; `TrainSettings` has its defaults; each step gives a `TrainingUpdate`.
- `TrainingRun` is what `tempering train` runs: a `Trainer` with pretraining, checks by AIS, early stopping and a
  directory. It takes `RunSettings`, gives a `Row` after each update, and an `Outcome` at the end. `Kept` is
  what new chains say of the RBM that is kept.
- `ContrastiveDivergence` and `PersistentContrastiveDivergence` estimate the gradient, as any `AbstractNegativePhase`.
- `make_optimizer`, `spectral_descent` and `rms_spectral` are optimizers for Optax; `sharp` and `orthogonal_factor` are
  their steps.

`Trainer`, `TrainingRun`, `initial_rbm` and the optimizers need Optax: `pip install 'tempering[train]'`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tempering.training.optimizers import make_optimizer, orthogonal_factor, rms_spectral, sharp, spectral_descent
    from tempering.training.outcomes import Kept, Outcome, Row, Tracked, TrainingUpdate
    from tempering.training.phases import AbstractNegativePhase, ContrastiveDivergence, PersistentContrastiveDivergence
    from tempering.training.session import TrainingRun
    from tempering.training.settings import RunSettings, TrainSettings
    from tempering.training.tracker import Tracker
    from tempering.training.trainer import Trainer, initial_rbm

# Each name is imported when it is first asked for: `import tempering` must work without Optax, and help on the command
# line must not wait for JAX.
_MODULES = {
    "AbstractNegativePhase": "phases", "ContrastiveDivergence": "phases", "PersistentContrastiveDivergence": "phases",
    "Kept": "outcomes", "Outcome": "outcomes", "Row": "outcomes", "Tracked": "outcomes", "TrainingUpdate": "outcomes",
    "RunSettings": "settings", "TrainSettings": "settings", "Tracker": "tracker", "TrainingRun": "session",
    "Trainer": "trainer", "initial_rbm": "trainer",
}  # fmt: skip
__all__ = [
    "AbstractNegativePhase", "ContrastiveDivergence", "Kept", "Outcome", "PersistentContrastiveDivergence", "Row",
    "RunSettings", "Tracked", "Tracker", "TrainSettings", "Trainer", "TrainingRun", "TrainingUpdate", "initial_rbm",
    "make_optimizer", "orthogonal_factor", "rms_spectral", "sharp", "spectral_descent",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'optimizers')}"), name)


def __dir__() -> list[str]:
    return __all__
