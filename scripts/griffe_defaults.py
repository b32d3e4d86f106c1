"""Defaults in the API reference as their values: 100 in place of Settings.num_chains."""

import re
from typing import Any

import griffe

from tempering.api import Settings
from tempering.training.settings import RunSettings, TrainSettings

_OWNERS = {owner.__name__: owner for owner in (Settings, TrainSettings, RunSettings)}


class ResolvedDefaults(griffe.Extension):
    """Replaces defaults that are read from a dataclass of settings by what they are."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        for parameter in func.parameters:
            found = re.fullmatch(rf"({'|'.join(_OWNERS)})\.(\w+)", str(parameter.default))
            if found:
                parameter.default = repr(getattr(_OWNERS[found[1]], found[2]))
