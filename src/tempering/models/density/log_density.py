"""Targets that users write down themselves: any log f with a base, or a likelihood with a prior."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tempering._errors import InputError
from tempering._types import HostPerRung, LogF, State
from tempering.bases import AbstractBase, as_base
from tempering.kernels import HMC, AbstractMove
from tempering.ladder import AbstractPath
from tempering.models.density.rows import TargetOfPath, base_around, rows_of_states, states_of_rows
from tempering.models.density.trial import check_same_form, checked_move, state_form
from tempering.models.model import AbstractModel, named_leaves
from tempering.paths import GeometricPath, LikelihoodPath
from tempering.verdicts import Verdict

_TWO_ENDS = np.array([0.0, 1.0])


class AbstractDensity(AbstractModel):
    """A density of a state that is moved by HMC, with rungs that are spaced adaptively and draws that are kept."""

    stuck_advice: ClassVar[str | None] = (
        "choose a base that is wider than the target or closer to it, such as `base=tp.Normal(mean, std)`, or "
        "rescale coordinates of very different sizes"
    )
    divergent_advice: ClassVar[str] = (
        "take a smaller step, `move=tp.HMC(0.01)`, or choose coordinates whose scale is the same everywhere"
    )
    tails_advice: ClassVar[str] = (
        "take a base with heavier tails than the target's, such as `tp.Student`, or coordinates in which no part of "
        "the target is far narrower than the rest"
    )

    def move(self) -> AbstractMove:
        return HMC()

    def spacing(self) -> str:
        return "adaptive"

    def keeps_draws(self) -> bool:
        return True

    def states_of(self, path: AbstractPath, rows: Any) -> State:
        """States from rows of all their numbers (row, number), in the order of their leaves, or from a pytree of rows.

        They are in the coordinates in which chains move: unconstrained ones for models of NumPyro and PyMC, unless a
        model knows the way back from named parameters.
        """
        return states_of_rows(path, rows, type(self).__name__)

    def rows_of(self, x: State) -> np.ndarray:
        return rows_of_states(x)

    def based_at(self, path: AbstractPath, rows: np.ndarray, others: np.ndarray) -> tuple[AbstractModel, Any]:
        return LogDensity(TargetOfPath(path), base_around(path, rows, others), move=self.move()), None

    def advice(self, verdict: Verdict) -> str | None:
        if verdict is Verdict.DIVERGENT:
            return self.divergent_advice
        if verdict is Verdict.HEAVY_TAILS:
            return self.tails_advice
        if verdict is not Verdict.FROZEN or not self.move().needs_gradient:
            return super().advice(verdict)
        return (
            "check the gradient of the log density for NaN, and rescale coordinates of very different sizes. If that "
            "is not enough, take a smaller step, `move=tp.HMC(0.01)`"
        )


class AbstractUserDensity(AbstractDensity):
    """A density that a user wrote, with a move that was given or chosen by what its base draws.

    Attributes:
        own_move: the move.
    """

    own_move: eqx.AbstractVar[AbstractMove]

    def move(self) -> AbstractMove:
        return self.own_move


class AbstractPosterior(AbstractUserDensity):
    """A Bayesian model. It is always tempered from its prior, so that log Z is the log evidence.

    Attributes:
        prior: the prior.
    """

    prior: eqx.AbstractVar[AbstractBase]
    stuck_advice: ClassVar[str | None] = (
        "standardise the data, non-centre hierarchical parameters, reparametrise correlated ones, or tighten the priors"
    )
    missed_advice: ClassVar[str] = (
        "run more chains, or temper the same target from a distribution that covers that part: `tp.LogDensity` of its "
        "log prior plus its log likelihood"
    )
    divergent_advice: ClassVar[str] = (
        "non-centre hierarchical parameters (θ = μ + τ z), or tighten the priors. If that is not enough, take a "
        "smaller step, `move=tp.HMC(0.01)`"
    )
    tails_advice: ClassVar[str] = (
        "non-centre hierarchical parameters (θ = μ + τ z), or give parameters that the data move far away a wider prior"
    )

    def advice(self, verdict: Verdict) -> str | None:
        return self.missed_advice if verdict is Verdict.MISSED else super().advice(verdict)

    def refuse_base(self, base: Any) -> None:
        """Refuse any base: from another one than the prior, log Z would not be the evidence."""
        if base is not None:
            name = type(self).__name__
            raise InputError(f"A {name} is tempered from its prior; give no `base`, or use LogDensity instead.")


class LogDensity(AbstractUserDensity):
    """Any unnormalised log f over a pytree of real arrays or of bits, tempered from a base.

    ```python
    model = LogDensity(lambda x: -jnp.sum(x**4), base=Normal(jnp.zeros(3)))
    estimate(model).log_z                            # log ∫ f(x) dx
    ```

    `base` of `tp.estimate` may be another base, or a distribution with `log_prob` and `sample`.
    """

    log_f: LogF
    base: AbstractBase
    own_move: AbstractMove

    def __init__(self, log_f: LogF, base: Any, *, move: AbstractMove | None = None):
        """Check the density at draws of the base.

        Args:
            log_f: the log density of one state x, unnormalised, written with `jax.numpy`.
            base: a base, or a distribution with `log_prob` and `sample`. Its draws have the structure of x.
            move: how x is moved; by default `BitFlips` for bits and `HMC`, which needs a gradient, for numbers.
        """
        self.log_f, self.base = log_f, as_base(base)
        self.own_move = checked_move("log_f", log_f, self.base, move)
        self.path(None, _TWO_ENDS)  # refuses an improper base

    def path(self, base: Any, betas: HostPerRung) -> GeometricPath:
        chosen = self.base if base is None else as_base(base)
        if base is not None:
            check_same_form(chosen, state_form(self.base))
            checked_move("log_f", self.log_f, chosen, self.own_move)
        return GeometricPath.create(self.log_f, chosen, betas)


class Posterior(AbstractPosterior):
    """A Bayesian model, f(x) = prior(x) · likelihood(x): log Z is the log evidence, or log marginal likelihood.

    ```python
    model = Posterior(log_likelihood, prior=Normal(jnp.zeros(3), 10.0))
    ```

    Tempering raises the likelihood to the power β, from the prior at β = 0 to the posterior at β = 1.
    """

    log_likelihood: LogF
    prior: AbstractBase
    own_move: AbstractMove
    constrain: Callable[[State], dict[str, Array]] | None
    unconstrain: Callable[[dict[str, Array]], State] | None
    measure: str = eqx.field(static=True)

    def __init__(
        self,
        log_likelihood: LogF,
        prior: Any,
        *,
        constrain: Callable[[State], dict[str, Array]] | None = None,
        unconstrain: Callable[[dict[str, Array]], State] | None = None,
        measure: str = "the prior as given",
        move: AbstractMove | None = None,
    ):
        """Check the likelihood at draws of the prior.

        Args:
            log_likelihood: the log likelihood of one state x, written with `jax.numpy`.
            prior: a base, or a distribution with `log_prob` and `sample`.
            constrain: from a state to named parameters, for draws; by default the leaves of the state.
            unconstrain: from named parameters back to a state, for witnesses that have names.
            measure: what log Z is an integral over, in words.
            move: how x is moved; by default `BitFlips` for bits and `HMC` for numbers.
        """
        self.log_likelihood, self.prior = log_likelihood, as_base(prior)
        self.constrain, self.unconstrain, self.measure = constrain, unconstrain, measure
        self.own_move = checked_move("log_likelihood", log_likelihood, self.prior, move)
        self.path(None, _TWO_ENDS)  # refuses an improper prior

    def path(self, base: Any, betas: HostPerRung) -> LikelihoodPath:
        self.refuse_base(base)
        return LikelihoodPath.create(self.log_likelihood, self.prior, betas)

    def states_of(self, path: AbstractPath, rows: Any) -> State:
        """As for any density; a dict is one of parameters by name, as results have them, where the model knows how."""
        if isinstance(rows, dict) and self.unconstrain is not None:
            rows = jax.vmap(self.unconstrain)({name: jnp.asarray(values) for name, values in rows.items()})
        return super().states_of(path, rows)

    def named(self, x: State) -> dict[str, Array]:
        return named_leaves(x) if self.constrain is None else self.constrain(x)
