"""Posteriors tempered by the number of data that they include."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from tempering._errors import InputError, check_count
from tempering._types import HostPerRung
from tempering.bases import AbstractBase, as_base
from tempering.kernels import AbstractMove
from tempering.models.density.log_density import AbstractPosterior
from tempering.models.density.trial import check_callable, checked_move, describe_form, result_form, state_form
from tempering.paths import SubsampledPath
from tempering.paths.piecewise import LogLikelihoods


class SubsampledPosterior(AbstractPosterior):
    """A Bayesian model whose data are added one by one along the path: rung β includes the first βN of them.

    ```python
    model = SubsampledPosterior(log_likelihoods, prior=Normal(jnp.zeros(3), 10.0))
    ```

    The order of the data is random, but fixed by `seed`. Another order is another path to the same evidence (van de
    Meent, Paige and Wood 2014).
    """

    log_likelihoods: LogLikelihoods
    prior: AbstractBase
    order: Int[np.ndarray, " datum"]  # the number of the datum that is added first, second, …
    own_move: AbstractMove

    def __init__(self, log_likelihoods: Any, prior: Any, *, seed: int = 0, move: AbstractMove | None = None):
        """Check the likelihood at draws of the prior.

        Args:
            log_likelihoods: the log likelihood of each datum (datum,) as a function of one state x. Data must be
                independent given x.
            prior: a base, or a distribution with `log_prob` and `sample`.
            seed: the random seed of the order.
            move: how x is moved; by default `BitFlips` for bits and `HMC` for numbers.
        """
        self.log_likelihoods, self.prior = log_likelihoods, as_base(prior)
        num_data = _checked_length(log_likelihoods, self.prior)
        check_count("SubsampledPosterior(seed=...)", int(seed) if isinstance(seed, np.integer) else seed, 0)
        self.order = np.random.default_rng(seed).permutation(num_data)
        self.own_move = checked_move("log_likelihoods", lambda x: jnp.sum(log_likelihoods(x)), self.prior, move)
        self.path(None, np.array([0.0, 1.0]))  # refuses an improper prior

    @property
    def num_data(self) -> int:
        """The number N of data."""
        return len(self.order)

    def path(self, base: Any, betas: HostPerRung) -> SubsampledPath:
        self.refuse_base(base)
        return SubsampledPath.create(self.log_likelihoods, self.prior, self.order, betas)


def _checked_length(log_likelihoods: Any, prior: AbstractBase) -> int:
    """The number of data, from the shape of the log likelihoods."""
    check_callable("log_likelihoods", log_likelihoods)
    answer = result_form("log_likelihoods", log_likelihoods, state_form(prior))
    shape = getattr(answer, "shape", None)
    if shape is None or len(shape) != 1 or shape[0] == 0:
        cure = " Do not add it up; or use tp.Posterior." if shape == () else ""
        came = describe_form(answer)
        raise InputError(f"`log_likelihoods` must return a vector, one number a datum; got {came}.{cure}")
    return shape[0]
