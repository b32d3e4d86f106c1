"""Models with their own paths, moves and, where it exists, the exact log Z."""

from tempering.models.density import Gaussian as Gaussian
from tempering.models.density import GaussianMixture as GaussianMixture
from tempering.models.density import LogDensity as LogDensity
from tempering.models.density import Posterior as Posterior
from tempering.models.density import Sequence as Sequence
from tempering.models.density import SubsampledPosterior as SubsampledPosterior
from tempering.models.density import paper_mixture as paper_mixture
from tempering.models.model import AbstractModel as AbstractModel
from tempering.models.pairwise import BoltzmannMachine as BoltzmannMachine
from tempering.models.pairwise import Ising as Ising
from tempering.models.pairwise import Potts as Potts
from tempering.models.rbm import RBM as RBM
from tempering.models.rbm import CategoricalRBM as CategoricalRBM
from tempering.models.rbm import GaussianRBM as GaussianRBM
from tempering.models.rbm import JointRBM as JointRBM
from tempering.models.rbm import JointRBMPath as JointRBMPath
from tempering.models.rbm import MomentAveragedPath as MomentAveragedPath
from tempering.models.rbm import MomentAveragedRBM as MomentAveragedRBM
from tempering.models.rbm import RBMPath as RBMPath
from tempering.models.rbm import RBMState as RBMState
