"""Ladders described in words, such as "adaptive" or "power:4"."""

import dataclasses

import numpy as np

from tempering._errors import InputError
from tempering._types import HostPerRung
from tempering.ladder.betas import geometric_betas, power_betas, uniform_betas
from tempering.ladder.rung_weights import ends_log_prior, exponential_log_prior, uniform_log_prior
from tempering.ladder.step_lengths import check_measure

_BETAS = {"uniform": uniform_betas, "power": power_betas, "geometric": geometric_betas}


@dataclasses.dataclass(frozen=True)
class LadderRule:
    """A ladder described in words, from which betas and rung weights follow for any number of rungs.

    ```python
    rule = LadderRule("power:4", "ends")
    betas = rule.betas_of(50)
    log_prior = rule.log_prior_of(betas)
    ```

    Attributes:
        betas: "uniform", "power", "power:POWER", "geometric", "geometric:SMALLEST", "adaptive" (which starts as
            "power") or "adaptive:MEASURE" with one of the measures "kl" and "rejection".
        rung_weights: "auto" (which starts as "ends"), "uniform", "ends", "ends:SHARE" or "exp:RATE".
    """

    betas: str
    rung_weights: str

    @property
    def measure(self) -> str | None:
        """The distance that an adaptive ladder makes equal between neighbours; None if the rungs are fixed."""
        kind, _, measure = self.betas.partition(":")
        return check_measure(measure or "kl") if kind == "adaptive" else None

    def betas_of(self, num_rungs: int) -> HostPerRung:
        """The inverse temperatures; of an adaptive ladder, those with which it starts.

        Args:
            num_rungs: K, at least 2.
        """
        if self.measure is not None:
            return power_betas(num_rungs)
        kind, given = _kind_and_number(self.betas, "betas")
        if kind in _BETAS and not (kind == "uniform" and given):
            return _BETAS[kind](num_rungs, *given)
        raise InputError(
            '`betas` must be "auto", "adaptive", "adaptive:rejection", "uniform", "power", "power:4", "geometric", '
            f'"geometric:0.01", or numbers from 0 to 1; got "{self.betas}".'
        )

    def log_prior_of(self, betas: HostPerRung) -> HostPerRung:
        """The rung weights, as log r_k.

        Args:
            betas: the inverse temperatures.
        """
        kind, given = _kind_and_number(self.rung_weights, "rung_weights")
        if kind == "uniform" and not given:
            return uniform_log_prior(len(betas))
        if kind == "auto" and not given:
            return ends_log_prior(len(betas))
        if kind == "ends":
            return ends_log_prior(len(betas), *given)
        if kind == "exp" and given:
            return exponential_log_prior(betas, *given)
        raise InputError(
            '`rung_weights` must be "auto", "ends", "ends:0.1", "uniform", "exp:RATE" such as exp:2, or log r_k; '
            f'got "{self.rung_weights}".'
        )


def _kind_and_number(rule: str, name: str) -> tuple[str, list[float]]:
    """What is before the colon, and the number after it, if there is one."""
    kind, _, text = rule.partition(":")
    try:
        given = [float(text)] if text else []
    except ValueError:
        given = [np.nan]
    if not np.all(np.isfinite(given)):
        raise InputError(f"`{name}` needs a number after the colon, got {text!r}.")
    return kind, given
