"""Paths of densities from a base to a target (`tp.paths`).

- `GeometricPath`: f^β p_1^(1 − β), for any density.
- `LikelihoodPath`: prior · likelihood^β.
- `SubsampledPath`: prior · the likelihood of the first βN data.
- `SequencePath`: through densities of the user's choice.
- `GaussianMomentPath`: Gaussians whose moments are averages of the two ends'.
- `AbstractLinearPath`, `AbstractPiecewisePath`, `AbstractBasedPath`, `AbstractPath`: what a new path may start from.
- `AbstractBase`, `IndexedLogF`: types of the arguments.

The paths of RBMs and of pairwise models are in `tempering.models`.
"""

from tempering.bases import AbstractBase as AbstractBase
from tempering.ladder import AbstractPath as AbstractPath
from tempering.paths.linear import AbstractBasedPath as AbstractBasedPath
from tempering.paths.linear import AbstractLinearPath as AbstractLinearPath
from tempering.paths.linear import GeometricPath as GeometricPath
from tempering.paths.linear import LikelihoodPath as LikelihoodPath
from tempering.paths.moments import GaussianMomentPath as GaussianMomentPath
from tempering.paths.piecewise import AbstractPiecewisePath as AbstractPiecewisePath
from tempering.paths.piecewise import IndexedLogF as IndexedLogF
from tempering.paths.piecewise import SequencePath as SequencePath
from tempering.paths.piecewise import SubsampledPath as SubsampledPath
