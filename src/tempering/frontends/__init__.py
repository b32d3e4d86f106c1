"""Models and data from elsewhere: files, NumPyro, PyMC.

- `load`: a model from `FILE.npz`, `FILE.safetensors`, `FILE.h5`, `FILE.mat`, `FILE.py:NAME` or a name such as
  "ising:16x16:0.44".
- `load_data`: 0/1 data from `FILE.npz`, `FILE.npy`, `FILE.csv` and others.
- `load_example`: the small RBM that comes with the package.
- `from_numpyro`, `from_pymc`: the posterior of a NumPyro or PyMC model. The library is imported by the call.
- `check_prior`: whether the draws of a prior follow its density.
"""

from tempering.frontends._prior_checks import check_prior as check_prior
from tempering.frontends.loading import load as load
from tempering.frontends.loading import load_data as load_data
from tempering.frontends.loading import load_example as load_example
from tempering.frontends.numpyro import from_numpyro as from_numpyro
from tempering.frontends.pymc import from_pymc as from_pymc
