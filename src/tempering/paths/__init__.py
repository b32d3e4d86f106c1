"""Paths of densities from a base to a target."""

from tempering.paths.linear import AbstractLinearPath as AbstractLinearPath
from tempering.paths.linear import GeometricPath as GeometricPath
from tempering.paths.linear import LikelihoodPath as LikelihoodPath
from tempering.paths.moments import GaussianMomentPath as GaussianMomentPath
from tempering.paths.piecewise import AbstractPiecewisePath as AbstractPiecewisePath
from tempering.paths.piecewise import SequencePath as SequencePath
from tempering.paths.piecewise import SubsampledPath as SubsampledPath
