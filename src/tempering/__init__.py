"""Log partition functions by Rao-Blackwellized tempered sampling, with error bars that hold.

The names below are what most people need, in the order in which they meet them. The rest is in `tempering.models`,
`tempering.paths`, `tempering.moves`, `tempering.warmups`, `tempering.estimators`, `tempering.diagnosis` and
`tempering.training`; the pieces of a run are in `tempering.ladder`, `tempering.kernels`, `tempering.stats` and
`tempering.sampling`.
"""

import lazy_loader

# Before JAX starts.
from tempering import _xla_flags as _xla_flags

# The names are listed in `__init__.pyi`. Each is imported when it is first used, so that the command line can show
# its help without JAX, and set what has to be set before JAX is loaded.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
