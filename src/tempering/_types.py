"""Names of axes, and of the arrays that have them.

Axes, in the order in which they appear in a shape:

- `chain`   independent Markov chains, which never exchange information
- `block`   consecutive parts of a run, each summarised by one statistic
- `step`    one transition of a chain (for an RBM: one Gibbs sweep, then one draw of a rung)
- `rung`    the densities f_0 … f_{K-1} of a ladder; rung 0 is the base, the last one is the target
- `visible`, `hidden`  the two sides of an RBM

In kernels, paths and statistics a function describes ONE chain; `run_chains` adds the chain axis by `jax.vmap`. Numbers
are float32 on the device, and NumPy float64 on the host, where estimates are made.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

Key: TypeAlias = PRNGKeyArray
Numbers: TypeAlias = ArrayLike | float | int  # for beartype, a plain number is not an ArrayLike
State: TypeAlias = PyTree  # a point x of the state space: an array, or any pytree of arrays
PerRung: TypeAlias = Float[Array, " rung"]
Rung: TypeAlias = Int[Array, ""]
Rungs: TypeAlias = Int[Array, "*chain"]  # the rung of one chain, or of many
Scalar: TypeAlias = Float[Array, ""]
HostPerRung: TypeAlias = Float[np.ndarray, " rung"]
LogF: TypeAlias = Callable[[Any], Scalar]  # an unnormalised log density of a state
