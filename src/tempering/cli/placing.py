"""Where a command runs: the flags for it, which several commands share, and what must be set before JAX computes."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tempering.cli import common, processes
from tempering.cli.compiled import keep_compiled

_HERE = {"devices": common.DevicesFlag, "cache": common.CacheFlag}
_TOGETHER = {
    "coordinator": processes.CoordinatorFlag,
    "num_processes": processes.NumProcessesFlag,
    "process_id": processes.ProcessIdFlag,
}
_DEFAULTS = {"devices": "all", "cache": True}


def placed(*, in_processes: bool = False, devices: str = "all") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags that say where it runs, and set that up before the command begins.

    Args:
        in_processes: Whether several processes can share the run.
        devices: The default of --devices.
    """
    flags = _HERE | (_TOGETHER if in_processes else {})
    defaults = _DEFAULTS | {"devices": devices}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=flag)
        for name, flag in flags.items()
    ]

    def with_flags(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            where = {name: given.pop(name) for name in flags}
            common.use_cores(where["devices"])
            if in_processes:
                processes.join_processes(*(where[name] for name in _TOGETHER))
            keep_compiled(where["cache"])
            command(**given)

        all_flags = signature.replace(parameters=[*signature.parameters.values(), *added])
        vars(run)["__signature__"] = all_flags  # which typer reads
        return run

    return with_flags
