"""Models with their own paths, moves and, where it exists, the exact log Z (`tp.models`).

- RBMs: `RBM`, `GaussianRBM`, `CategoricalRBM`; on other paths `MomentAveragedRBM` and `JointRBM`. Their paths are
  `RBMPath`, `GaussianRBMPath`, `CategoricalRBMPath`, `MomentAveragedPath` and `JointRBMPath`, their states
  `HiddenBitsState`, `MomentState` and `JointState`.
- Pairwise models: `Ising`, `Potts`, `BoltzmannMachine`, with the path `PairPath`.
- Densities: `LogDensity`, `Posterior`, `SubsampledPosterior`, `Sequence`, `Gaussian`, `GaussianMixture`,
  `paper_mixture`. Their paths are in `tempering.paths`.
- `AbstractModel`: what a new model starts from; `named_leaves`: the default names of its parameters.
- `AbstractPath`, `AbstractMove`, `AbstractBase`, `Verdict`: types that models take and return.
"""

from tempering.bases import AbstractBase as AbstractBase
from tempering.kernels import AbstractMove as AbstractMove
from tempering.ladder import AbstractPath as AbstractPath
from tempering.models.density.gaussian import Gaussian as Gaussian
from tempering.models.density.log_density import LogDensity as LogDensity
from tempering.models.density.log_density import Posterior as Posterior
from tempering.models.density.mixtures import GaussianMixture as GaussianMixture
from tempering.models.density.mixtures import paper_mixture as paper_mixture
from tempering.models.density.sequence import Sequence as Sequence
from tempering.models.density.subsampled import SubsampledPosterior as SubsampledPosterior
from tempering.models.model import AbstractModel as AbstractModel
from tempering.models.model import named_leaves as named_leaves
from tempering.models.pairwise.boltzmann import BoltzmannMachine as BoltzmannMachine
from tempering.models.pairwise.ising import Ising as Ising
from tempering.models.pairwise.pair_path import PairPath as PairPath
from tempering.models.pairwise.potts import Potts as Potts
from tempering.models.rbm.averaged import MomentAveragedPath as MomentAveragedPath
from tempering.models.rbm.averaged import MomentAveragedRBM as MomentAveragedRBM
from tempering.models.rbm.averaged import MomentState as MomentState
from tempering.models.rbm.binary import RBM as RBM
from tempering.models.rbm.binary import RBMPath as RBMPath
from tempering.models.rbm.categorical import CategoricalRBM as CategoricalRBM
from tempering.models.rbm.categorical import CategoricalRBMPath as CategoricalRBMPath
from tempering.models.rbm.gaussian import GaussianRBM as GaussianRBM
from tempering.models.rbm.gaussian import GaussianRBMPath as GaussianRBMPath
from tempering.models.rbm.hidden_bits import HiddenBitsState as HiddenBitsState
from tempering.models.rbm.joint import JointRBM as JointRBM
from tempering.models.rbm.joint import JointRBMPath as JointRBMPath
from tempering.models.rbm.joint import JointState as JointState
from tempering.verdicts import Verdict as Verdict
