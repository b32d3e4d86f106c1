"""Densities that users write down: any log f, posteriors, mixtures, sequences."""

from tempering.models.density.gaussian import Gaussian as Gaussian
from tempering.models.density.log_density import LogDensity as LogDensity
from tempering.models.density.log_density import Posterior as Posterior
from tempering.models.density.mixtures import GaussianMixture as GaussianMixture
from tempering.models.density.mixtures import paper_mixture as paper_mixture
from tempering.models.density.sequence import Sequence as Sequence
from tempering.models.density.subsampled import SubsampledPosterior as SubsampledPosterior
