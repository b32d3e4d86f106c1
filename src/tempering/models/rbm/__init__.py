"""Restricted Boltzmann machines: binary, Gaussian and categorical, and other paths to the binary one."""

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
