"""Targets that people write down themselves: any log f with a base, or a likelihood with a prior."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from tempering._errors import InputError
from tempering._types import HostPerRung, LogF, State
from tempering.bases import AbstractBase, as_base
from tempering.kernels import AbstractMove
from tempering.models.density.trial import check_same_form, checked_move, form_of
from tempering.models.model import AbstractModel
from tempering.paths import GeometricPath, LikelihoodPath

_TWO_ENDS = np.array([0.0, 1.0])


class AbstractDensity(AbstractModel):
    """A model whose density people wrote themselves, and a move that was given or chosen by what its base draws."""

    own_move: eqx.AbstractVar[AbstractMove]

    def move(self) -> AbstractMove:
        """The one that was given; else flips for bits, HMC for numbers."""
        return self.own_move

    def spacing(self) -> str:
        """Where densities narrow by an unknown factor, the rungs must be found."""
        return "adaptive"

    def keeps_draws(self) -> bool:
        """Draws of the target are half of what such models are for."""
        return True


class LogDensity(AbstractDensity):
    """Any unnormalised log f over a pytree of real arrays (or of bits), tempered from a base.

    ```python
    model = LogDensity(lambda x: -jnp.sum(x**4), base=Normal(jnp.zeros(3)))
    estimate(model).log_z                            # log ∫ f(x) dx
    ```

    `log_f` is written with `jax.numpy`, for one x. Bits move by flips, everything else by Hamiltonian dynamics, which
    needs a gradient, unless a `move` says otherwise.
    """

    log_f: LogF
    base: AbstractBase
    own_move: AbstractMove

    def __init__(self, log_f: LogF, base: Any, *, move: AbstractMove | None = None):
        """Both are tried at draws of the base before anything runs."""
        self.log_f, self.base = log_f, as_base(base)
        self.own_move = checked_move("log_f", log_f, self.base, move)
        self.path(None, _TWO_ENDS)  # refuses an improper base

    def path(self, base: Any, betas: HostPerRung) -> GeometricPath:
        """The geometric path from `base`, if another one is given."""
        chosen = self.base if base is None else as_base(base)
        if base is not None:
            check_same_form(chosen, form_of(self.base))
            checked_move("log_f", self.log_f, chosen, self.own_move)
        return GeometricPath.create(self.log_f, chosen, betas)


class Posterior(AbstractDensity):
    """A Bayesian model, f(x) = prior(x) · likelihood(x): log Z is the log evidence, or marginal likelihood.

    ```python
    model = Posterior(log_likelihood, prior=Normal(jnp.zeros(3), 10.0))
    ```

    Tempering raises the likelihood to the power β, so that it goes from the prior to the posterior. `constrain` turns a
    state into named parameters; `measure` says in words what log Z is an integral over.
    """

    log_likelihood: LogF
    prior: AbstractBase
    own_move: AbstractMove
    constrain: Callable[[State], dict[str, Array]] | None
    measure: str = eqx.field(static=True)

    def __init__(
        self,
        log_likelihood: LogF,
        prior: Any,
        *,
        constrain: Callable[[State], dict[str, Array]] | None = None,
        measure: str = "the prior as given",
        move: AbstractMove | None = None,
    ):
        """The likelihood is tried at draws of the prior before anything runs."""
        self.log_likelihood, self.prior = log_likelihood, as_base(prior)
        self.constrain, self.measure = constrain, measure
        self.own_move = checked_move("log_likelihood", log_likelihood, self.prior, move)
        self.path(None, _TWO_ENDS)  # refuses an improper prior

    def path(self, base: Any, betas: HostPerRung) -> LikelihoodPath:
        """From the prior, always: another base would not be this model's evidence."""
        if base is not None:
            raise InputError("A Posterior is tempered from its prior; give no `base`, or use LogDensity instead.")
        return LikelihoodPath.create(self.log_likelihood, self.prior, betas)

    def named(self, x: State) -> dict[str, Array]:
        """By `constrain`, where it was given."""
        return super().named(x) if self.constrain is None else self.constrain(x)
