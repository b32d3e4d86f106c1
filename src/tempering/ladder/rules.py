"""Ladders in words, such as "adaptive" or "power:4", from which rungs and their weights follow."""

import dataclasses

import numpy as np

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.ladder.betas import geometric_betas, power_betas, uniform_betas
from tempering.ladder.rung_weights import ends_log_prior, exponential_log_prior, uniform_log_prior
from tempering.ladder.step_lengths import check_measure


@dataclasses.dataclass(frozen=True)
class LadderRule:
    """A ladder in words, from which rungs and their weights follow for any number of them."""

    betas: str  # "adaptive" (which begins as "power"), "uniform", "power:P" or "geometric:SMALLEST"
    rung_weights: str  # "ends", "ends:SHARE", "uniform" or "exp:RATE"

    @property
    def measure(self) -> str | None:
        """Of the steps that an adaptive ladder makes equal; None where rungs stay where they are."""
        kind, _, measure = self.betas.partition(":")
        return check_measure(measure or "kl") if kind == "adaptive" else None

    def betas_of(self, num_rungs: int) -> HostPerRung:
        """The inverse temperatures; of an adaptive ladder, those along which it anneals."""
        kind, _, number = self.betas.partition(":")
        if self.measure is not None:
            return power_betas(num_rungs)
        given = [_number(number, "betas")] if number else []
        if kind == "uniform" and not number:
            return uniform_betas(num_rungs)
        if kind == "power":
            return power_betas(num_rungs, *given)
        if kind == "geometric":
            return geometric_betas(num_rungs, *given)
        raise InputError(
            '`betas` must be "auto", "adaptive", "adaptive:rejection", "uniform", "power", "power:4", "geometric", '
            f'"geometric:0.01", or numbers from 0 to 1; got "{self.betas}".'
        )

    def log_prior_of(self, betas: HostPerRung) -> HostPerRung:
        """log r_k."""
        kind, _, number = self.rung_weights.partition(":")
        if kind == "uniform" and not number:
            return uniform_log_prior(len(betas))
        if kind == "ends":
            return ends_log_prior(len(betas), *([_number(number, "rung_weights")] if number else []))
        if kind == "exp" and number:
            return exponential_log_prior(betas, _number(number, "rung_weights"))
        raise InputError(
            '`rung_weights` must be "ends", "ends:0.1", "uniform", "exp:RATE" such as exp:2, or log r_k; '
            f'got "{self.rung_weights}".'
        )


def _number(text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"`{name}` needs a number after the colon, got {text!r}.")
    return number
