"""What is sampled: paths of densities, the joint law over states and rungs, inverse temperatures, rung weights."""

from tempering.ladder.betas import checked_betas as checked_betas
from tempering.ladder.betas import geometric_betas as geometric_betas
from tempering.ladder.betas import power_betas as power_betas
from tempering.ladder.betas import respaced_betas as respaced_betas
from tempering.ladder.betas import uniform_betas as uniform_betas
from tempering.ladder.draw import Draw as Draw
from tempering.ladder.draw import GuidedDraw as GuidedDraw
from tempering.ladder.draw import HeldDraw as HeldDraw
from tempering.ladder.draw import MoveInfo as MoveInfo
from tempering.ladder.joint import Ladder as Ladder
from tempering.ladder.path import AbstractPath as AbstractPath
from tempering.ladder.rules import LadderRule as LadderRule
from tempering.ladder.rung_weights import BOTTOM as BOTTOM
from tempering.ladder.rung_weights import TOP as TOP
from tempering.ladder.rung_weights import ends_log_prior as ends_log_prior
from tempering.ladder.rung_weights import exponential_log_prior as exponential_log_prior
from tempering.ladder.rung_weights import uniform_log_prior as uniform_log_prior
from tempering.ladder.step_lengths import PathLength as PathLength
from tempering.ladder.step_lengths import StepLengths as StepLengths
