"""Log partition functions by Rao-Blackwellized tempered sampling, with error bars that hold.

The names below are what most people need, in the order in which they meet them. The rest is in `tempering.models`,
`tempering.paths`, `tempering.moves`, `tempering.warmups`, `tempering.estimators`, `tempering.diagnosis` and
`tempering.training`; the pieces of a run are in `tempering.ladder`, `tempering.kernels`, `tempering.stats` and
`tempering.sampling`.
"""

# ruff: noqa: I001  (in the order in which a user meets them)

# Before JAX starts.
from tempering import _xla_flags as _xla_flags

# Ask.
from tempering.api import estimate as estimate
from tempering.api import compare as compare
from tempering.api import log_ratio as log_ratio
from tempering.api import estimate_many as estimate_many
from tempering.api import Progress as Progress
from tempering.api import Interrupted as Interrupted

# Answers.
from tempering.results import Result as Result
from tempering.results import Comparison as Comparison
from tempering.results import LogRatio as LogRatio
from tempering.results import MeanLogLikelihood as MeanLogLikelihood
from tempering.estimators import LogZ as LogZ
from tempering.estimators import Expectation as Expectation
from tempering.verdicts import Verdict as Verdict
from tempering.verdicts import Finding as Finding
from tempering._errors import InputError as InputError

# Models, from files, libraries and formulas.
from tempering.frontends.loading import load as load
from tempering.frontends.loading import load_data as load_data
from tempering.frontends.loading import load_example as load_example
from tempering.frontends.numpyro import from_numpyro as from_numpyro
from tempering.frontends.pymc import from_pymc as from_pymc
from tempering.frontends._prior_checks import check_prior as check_prior
from tempering.models import RBM as RBM
from tempering.models import GaussianRBM as GaussianRBM
from tempering.models import CategoricalRBM as CategoricalRBM
from tempering.models import MomentAveragedRBM as MomentAveragedRBM
from tempering.models import Ising as Ising
from tempering.models import Potts as Potts
from tempering.models import BoltzmannMachine as BoltzmannMachine
from tempering.models import LogDensity as LogDensity
from tempering.models import Posterior as Posterior
from tempering.models import SubsampledPosterior as SubsampledPosterior
from tempering.models import Sequence as Sequence
from tempering.models import Gaussian as Gaussian
from tempering.models import GaussianMixture as GaussianMixture
from tempering.models import paper_mixture as paper_mixture
from tempering.models import AbstractModel as AbstractModel

# What tempering starts from.
from tempering.bases import Normal as Normal
from tempering.bases import Student as Student
from tempering.bases import Uniform as Uniform
from tempering.bases import Bernoulli as Bernoulli
from tempering.bases import Product as Product
from tempering.bases import Unnormalised as Unnormalised
from tempering.bases import AbstractBase as AbstractBase

# How chains move and warm up.
from tempering.kernels.moves import HMC as HMC
from tempering.kernels.moves import RandomWalk as RandomWalk
from tempering.kernels.moves import BitFlips as BitFlips
from tempering.kernels.moves import BlockGibbs as BlockGibbs
from tempering.kernels.moves import BlackJAX as BlackJAX
from tempering.kernels.moves import AbstractMove as AbstractMove
from tempering.warmups import SequentialStart as SequentialStart
from tempering.warmups import AnnealedStart as AnnealedStart
from tempering.warmups import InitialIterations as InitialIterations
from tempering.warmups import SelfAdjusting as SelfAdjusting

# The likelihood while training.
from tempering.training.tracker import Tracker as Tracker
from tempering.training.tracker import Tracked as Tracked

# Pieces for a loop of your own.
from tempering.ladder import AbstractPath as AbstractPath
from tempering.ladder import Ladder as Ladder
from tempering.kernels import Position as Position
from tempering.kernels import SimulatedTempering as SimulatedTempering
from tempering.stats import TemperingStats as TemperingStats
from tempering.sampling import run_chains as run_chains
from tempering.estimators import rts as rts

# The rest, by package.
from tempering import diagnosis as diagnosis
from tempering import estimators as estimators
from tempering import kernels as kernels
from tempering import ladder as ladder
from tempering import models as models
from tempering import paths as paths
from tempering import plots as plots
from tempering import report as report
from tempering import sampling as sampling
from tempering import stats as stats
from tempering import training as training
from tempering import warmups as warmups
from tempering.kernels import moves as moves

from tempering._version import __version__ as __version__
