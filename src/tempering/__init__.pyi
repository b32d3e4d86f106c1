# The public names, in the order in which a user meets them. Each is imported when it is first used, see `__init__.py`.
# ruff: noqa: I001

from . import _xla_flags as _xla_flags

# Ask.
from .api import estimate as estimate
from .api import compare as compare
from .api import log_ratio as log_ratio
from .api import estimate_many as estimate_many
from .api import Progress as Progress
from .api import Interrupted as Interrupted

# Answers.
from .results import Result as Result
from .results import Comparison as Comparison
from .results import LogRatio as LogRatio
from .results import MeanLogLikelihood as MeanLogLikelihood
from .results import load_result as load_result
from .estimators import LogZ as LogZ
from .estimators import Expectation as Expectation
from .verdicts import Verdict as Verdict
from .verdicts import Finding as Finding
from ._errors import InputError as InputError
from ._errors import RecoveryWarning as RecoveryWarning

# Models, from files, libraries and formulas.
from .frontends.loading import load as load
from .frontends.loading import load_data as load_data
from .frontends.loading import load_example as load_example
from .frontends.numpyro import from_numpyro as from_numpyro
from .frontends.pymc import from_pymc as from_pymc
from .frontends._prior_checks import check_prior as check_prior
from .models import RBM as RBM
from .models import GaussianRBM as GaussianRBM
from .models import CategoricalRBM as CategoricalRBM
from .models import MomentAveragedRBM as MomentAveragedRBM
from .models import Ising as Ising
from .models import Potts as Potts
from .models import BoltzmannMachine as BoltzmannMachine
from .models import LogDensity as LogDensity
from .models import Posterior as Posterior
from .models import SubsampledPosterior as SubsampledPosterior
from .models import Sequence as Sequence
from .models import Gaussian as Gaussian
from .models import GaussianMixture as GaussianMixture
from .models import paper_mixture as paper_mixture
from .models import AbstractModel as AbstractModel

# What tempering starts from.
from .bases import Normal as Normal
from .bases import Student as Student
from .bases import Uniform as Uniform
from .bases import Bernoulli as Bernoulli
from .bases import Product as Product
from .bases import Unnormalised as Unnormalised
from .bases import AbstractBase as AbstractBase

# How chains move and warm up.
from .kernels.moves import HMC as HMC
from .kernels.moves import RandomWalk as RandomWalk
from .kernels.moves import BitFlips as BitFlips
from .kernels.moves import BlockGibbs as BlockGibbs
from .kernels.moves import BlackJAX as BlackJAX
from .kernels.moves import AbstractMove as AbstractMove
from .warmups import SequentialStart as SequentialStart
from .warmups import AnnealedStart as AnnealedStart
from .warmups import HysteresisStart as HysteresisStart
from .warmups import InitialIterations as InitialIterations
from .warmups import SelfAdjusting as SelfAdjusting

# The likelihood while training.
from .training.tracker import Tracker as Tracker
from .training.tracker import Tracked as Tracked

# Pieces for a loop of your own.
from .ladder import AbstractPath as AbstractPath
from .ladder import Ladder as Ladder
from .kernels import Position as Position
from .kernels import SimulatedTempering as SimulatedTempering
from .stats import TemperingStats as TemperingStats
from .sampling import run_chains as run_chains
from .estimators import rts as rts

# The rest, by package.
from . import diagnosis as diagnosis
from . import estimators as estimators
from . import kernels as kernels
from . import ladder as ladder
from . import models as models
from . import paths as paths
from . import plots as plots
from . import report as report
from . import sampling as sampling
from . import stats as stats
from . import training as training
from . import warmups as warmups
from .kernels import moves as moves

from ._version import __version__ as __version__
