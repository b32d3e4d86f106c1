"""Models with their own paths, moves and, where it exists, the exact log Z."""

from tempering.models.boltzmann import BoltzmannMachine as BoltzmannMachine
from tempering.models.categorical_rbm import CategoricalRBM as CategoricalRBM
from tempering.models.gaussian import Gaussian as Gaussian
from tempering.models.gaussian_rbm import GaussianRBM as GaussianRBM
from tempering.models.ising import Ising as Ising
from tempering.models.log_density import LogDensity as LogDensity
from tempering.models.log_density import Posterior as Posterior
from tempering.models.mixtures import GaussianMixture as GaussianMixture
from tempering.models.mixtures import paper_mixture as paper_mixture
from tempering.models.model import AbstractModel as AbstractModel
from tempering.models.potts import Potts as Potts
from tempering.models.rbm import RBM as RBM
from tempering.models.rbm import RBMPath as RBMPath
from tempering.models.rbm import RBMState as RBMState
from tempering.models.rbm_joint import JointRBM as JointRBM
from tempering.models.rbm_joint import JointRBMPath as JointRBMPath
from tempering.models.rbm_moments import MomentAveragedPath as MomentAveragedPath
from tempering.models.rbm_moments import MomentAveragedRBM as MomentAveragedRBM
from tempering.models.sequence import Sequence as Sequence
from tempering.models.subsampled import SubsampledPosterior as SubsampledPosterior
