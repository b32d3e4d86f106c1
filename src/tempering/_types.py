"""The glossary: names of axes and of the arrays that carry them. No code.

Axes, in the order in which they appear in a shape:

- `chain`   independent Markov chains; they never talk to one another
- `block`   consecutive stretches of a run, folded into one statistic each
- `step`    one transition of a chain (for an RBM: one Gibbs sweep, then one draw of a rung)
- `rung`    the densities f_0 … f_{K-1} of a ladder; rung 0 is the base, the last one the target
- `visible`, `hidden`  the two sides of an RBM

Inside kernels, paths and statistics a function speaks of ONE chain; `run` adds the chain axis by `jax.vmap`.
On the device numbers are float32; on the host, where estimates are made, they are NumPy float64.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

Key: TypeAlias = PRNGKeyArray
Numbers: TypeAlias = ArrayLike | float | int  # beartype does not take a plain number for ArrayLike
State: TypeAlias = PyTree  # a point x of the state space: an array, or any pytree of arrays
PerRung: TypeAlias = Float[Array, " rung"]
Rung: TypeAlias = Int[Array, ""]
Rungs: TypeAlias = Int[Array, "*chain"]  # of one chain, or of many
Scalar: TypeAlias = Float[Array, ""]
HostPerRung: TypeAlias = Float[np.ndarray, " rung"]
LogF: TypeAlias = Callable[[Any], Scalar]
