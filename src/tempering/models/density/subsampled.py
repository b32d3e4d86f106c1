"""Posteriors tempered by how many of the data they have seen."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.bases import AbstractBase, as_base
from tempering.kernels import AbstractMove
from tempering.models.density.log_density import AbstractDensity
from tempering.models.density.trial import checked_move, form_of, in_words, shape_at
from tempering.paths import SubsampledPath


class SubsampledPosterior(AbstractDensity):
    """A `Posterior` whose data come in one by one along the path: rung β has seen the first βN of them.

    ```python
    model = SubsampledPosterior(log_likelihoods, prior=Normal(jnp.zeros(3), 10.0))
    ```

    `log_likelihoods` returns a number for each datum, which must be independent given x. Their order is random, but
    fixed by `seed`: another one is another path to the same evidence (van de Meent, Paige and Wood 2014).
    """

    log_likelihoods: Callable[[Any], Float[Array, " datum"]]
    prior: AbstractBase
    order: Int[np.ndarray, " datum"]
    own_move: AbstractMove

    def __init__(
        self,
        log_likelihoods: Any,  # a function of x; looked at below, with words for what is wrong
        prior: Any,
        *,
        seed: int = 0,
        move: AbstractMove | None = None,
    ):
        """The likelihood is tried at draws of the prior before anything runs."""
        self.log_likelihoods, self.prior = log_likelihoods, as_base(prior)
        num_data = _checked_length(log_likelihoods, self.prior)
        self.order = np.random.default_rng(_checked_seed(seed)).permutation(num_data)
        self.own_move = checked_move("log_likelihoods", lambda x: jnp.sum(log_likelihoods(x)), self.prior, move)
        self.path(None, np.array([0.0, 1.0]))  # refuses an improper prior

    @property
    def num_data(self) -> int:
        """N."""
        return len(self.order)

    def path(self, base: Any, betas: HostPerRung) -> SubsampledPath:
        """From the prior, always: another base would not be this model's evidence."""
        if base is not None:
            raise InputError("A SubsampledPosterior is tempered from its prior; give no `base`.")
        return SubsampledPath.create(self.log_likelihoods, self.prior, self.order, betas)


def _checked_length(log_likelihoods: Any, prior: AbstractBase) -> int:
    """How many data there are, from the shape of what they give."""
    if not callable(log_likelihoods):
        raise InputError(f"`log_likelihoods` must be a function of one state, got a {type(log_likelihoods).__name__}.")
    answer = shape_at("log_likelihoods", log_likelihoods, form_of(prior))
    shape = getattr(answer, "shape", None)
    if shape is None or len(shape) != 1 or shape[0] == 0:
        cure = " Do not add it up; or use tp.Posterior." if shape == () else ""
        raise InputError(f"`log_likelihoods` must return a vector, one number a datum; got {in_words(answer)}.{cure}")
    return shape[0]


def _checked_seed(seed: int) -> int:
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"SubsampledPosterior(seed=...) must be a whole number, 0 or more; got {seed!r}.")
    return int(seed)
