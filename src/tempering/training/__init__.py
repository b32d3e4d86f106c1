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

import lazy_loader

# The names are listed in `__init__.pyi`. Each is imported when it is first used: help on the command line needs no JAX,
# and `import tempering` no Optax.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
