"""What is kept of the draws: small statistics with `empty`, `update` for a draw, and `then` for what comes later.

On the device a statistic speaks of one chain and one block (a stretch of at most `MAX_BLOCK_STEPS` steps) in float32;
on the host blocks are joined in float64, in a fixed order, so that the answer does not depend on how a run was
cut, parallelised or resumed.
"""

from tempering.stats.annealing import AnnealRecord as AnnealRecord
from tempering.stats.annealing import AnnealWeights as AnnealWeights
from tempering.stats.blocked import BlockedStats as BlockedStats
from tempering.stats.blocked import Travel as Travel
from tempering.stats.draws import KeptFeatures as KeptFeatures
from tempering.stats.draws import ReducedDraws as ReducedDraws
from tempering.stats.groups import chain_groups as chain_groups
from tempering.stats.guided import GuidedRecord as GuidedRecord
from tempering.stats.guided import Occupancy as Occupancy
from tempering.stats.keep import JUST_RTS as JUST_RTS
from tempering.stats.keep import MAX_BLOCK_STEPS as MAX_BLOCK_STEPS
from tempering.stats.keep import Keep as Keep
from tempering.stats.moves import MoveCounts as MoveCounts
from tempering.stats.moves import MoveSums as MoveSums
from tempering.stats.moves import TuningCounts as TuningCounts
from tempering.stats.moves import TuningSums as TuningSums
from tempering.stats.record import TemperingRecord as TemperingRecord
from tempering.stats.recording import Recording as Recording
from tempering.stats.states import WeightedDraws as WeightedDraws
from tempering.stats.states import systematic_picks as systematic_picks
from tempering.stats.sums import SlopeSums as SlopeSums
from tempering.stats.sums import StepSums as StepSums
from tempering.stats.sums import TemperingStats as TemperingStats
from tempering.stats.target import HostTargetSums as HostTargetSums
from tempering.stats.target import TargetSums as TargetSums
from tempering.stats.tours import Tours as Tours
from tempering.stats.tours import TourSums as TourSums
from tempering.stats.trace import Trace as Trace
from tempering.stats.transitions import TransitionSums as TransitionSums
