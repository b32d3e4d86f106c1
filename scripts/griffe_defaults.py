"""Defaults in the API reference as their values: 100 in place of Settings.num_chains or _defaults.NUM_CHAINS."""

import re
from typing import Any

import griffe

from tempering import _defaults
from tempering.api import Settings
from tempering.training.settings import RunSettings, TrainSettings

_OWNERS = {owner.__name__: owner for owner in (Settings, TrainSettings, RunSettings)} | {"_defaults": _defaults}


class ResolvedDefaults(griffe.Extension):
    """Replaces defaults that are read from a dataclass of settings by what they are."""

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        for parameter in func.parameters:
            parameter.default = _resolved(parameter.default)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        attr.value = _resolved(attr.value)


def _resolved(default: Any) -> Any:
    found = re.fullmatch(rf"({'|'.join(_OWNERS)})\.(\w+)", str(default))
    return repr(getattr(_OWNERS[found[1]], found[2])) if found else default
