"""A flag of XLA that has to be set before JAX starts, because without it JAX can stop for ever on a CPU.

JAX 0.10 runs independent parts of a program at the same time. If they call LAPACK, as a Cholesky factor does, the end
of such a call is sometimes never noticed: all threads wait, at 0 % of the CPU. No option of a single program prevents
this. So the flag is added to `XLA_FLAGS` when `tempering` is imported, unless it is there already.
"""

import importlib.metadata
import os
import sys
import warnings

FLAG = "--xla_cpu_enable_concurrency_optimized_scheduler"
_KNOWN_IN = ("0.10.", "0.11.")  # of jaxlib; a version that does not know a flag ends the program


def prevent_hang() -> None:
    """Add the flag to the environment, unless the user has set it or this version of JAX may not know it."""
    flags = os.environ.get("XLA_FLAGS", "")
    if FLAG in flags or not importlib.metadata.version("jaxlib").startswith(_KNOWN_IN):
        return
    if _has_started():
        warnings.warn(
            "JAX computed something before tempering was imported. On a CPU, densities with a Cholesky factor can now "
            f"stop for ever. Import tempering first, or set the environment variable XLA_FLAGS to {FLAG}=false.",
            stacklevel=3,
        )
        return
    os.environ["XLA_FLAGS"] = f"{flags} {FLAG}=false".lstrip()


def _has_started() -> bool:
    """Whether JAX has read its flags already, which it does when it first needs a device."""
    bridge = sys.modules.get("jax._src.xla_bridge")  # JAX has no public way to ask without starting
    return bridge is not None and bool(getattr(bridge, "backends_are_initialized", lambda: False)())


prevent_hang()
