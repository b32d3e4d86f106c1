"""What is sampled: paths of densities, the joint law over states and rungs, inverse temperatures, rung weights.

- `AbstractPath`: K unnormalised densities from a base to a target; subclass it for a path of your own.
- `AbstractTwoEndedPath`: one on which two numbers per state give every density.
- `Ladder`: the joint law q(x, k) over states and rungs, from a path, rung weights and a guess of log Z.
- `uniform_betas`, `power_betas`, `geometric_betas`, `respaced_betas`, `checked_betas`: inverse temperatures.
- `uniform_log_prior`, `ends_log_prior`, `exponential_log_prior`: rung weights; `least_variance_weights` learns them.
- `LadderRule`: betas and rung weights by name, such as "power:4" and "ends".
- `StepLengths`, `PathLength`: distances between neighbouring densities, measured by an annealing pass.
- `Draw`, `HeldDraw`, `GuidedDraw`, `MoveInfo`: what kernels pass to statistics.
"""

from tempering.ladder.betas import checked_betas as checked_betas
from tempering.ladder.betas import geometric_betas as geometric_betas
from tempering.ladder.betas import power_betas as power_betas
from tempering.ladder.betas import respaced_betas as respaced_betas
from tempering.ladder.betas import uniform_betas as uniform_betas
from tempering.ladder.draw import ClimbDraw as ClimbDraw
from tempering.ladder.draw import Draw as Draw
from tempering.ladder.draw import GuidedDraw as GuidedDraw
from tempering.ladder.draw import HeldDraw as HeldDraw
from tempering.ladder.draw import MoveInfo as MoveInfo
from tempering.ladder.joint import Ladder as Ladder
from tempering.ladder.path import AbstractPath as AbstractPath
from tempering.ladder.path import AbstractTwoEndedPath as AbstractTwoEndedPath
from tempering.ladder.rules import LadderRule as LadderRule
from tempering.ladder.rung_weights import BOTTOM as BOTTOM
from tempering.ladder.rung_weights import END_MASS as END_MASS
from tempering.ladder.rung_weights import TOP as TOP
from tempering.ladder.rung_weights import LearnedWeights as LearnedWeights
from tempering.ladder.rung_weights import ends_log_prior as ends_log_prior
from tempering.ladder.rung_weights import exponential_log_prior as exponential_log_prior
from tempering.ladder.rung_weights import least_variance_weights as least_variance_weights
from tempering.ladder.rung_weights import uniform_log_prior as uniform_log_prior
from tempering.ladder.step_lengths import PathLength as PathLength
from tempering.ladder.step_lengths import StepLengths as StepLengths
from tempering.ladder.step_lengths import check_measure as check_measure
