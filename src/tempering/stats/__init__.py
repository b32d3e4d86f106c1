"""What is kept of the draws.

On the device a record (`AbstractRecord`) describes one chain and one block of at most `MAX_BLOCK_STEPS` steps, in
float32: it starts from `empty`, and `update` adds a draw. `on_host` turns it into a statistic of all chains in float64
(`AbstractHostStatistic`), which `then` joins with that of the next block. Blocks are joined in a fixed order, so that
the answer does not depend on how a run was cut, parallelised or resumed.

| on the device | on the host | for |
| --- | --- | --- |
| `TemperingRecord` | `Recording` | all that a tempered run keeps, by `Keep`: what follows, and |
| | `KeptFeatures`, `ReducedDraws` | MBAR, BAR |
| | `WeightedDraws` | draws of the target |
| `TemperingStats` | `BlockedStats`, `Travel`, `Fault` | RTS; on request thermodynamic integration, stepping stones |
| `TransitionSums` | arrays | transition matrices between rungs |
| `TargetSums` | `HostTargetSums` | expectations under the target |
| `MoveSums`, `TuningSums` | `MoveCounts`, `TuningCounts` | acceptance and tuning of moves |
| `TourSums` | `Tours` | independent tours between draws of the base |
| `AnnealRecord` | `AnnealWeights` | annealed importance sampling |
| `ClimbRecord` | `ClimbSteps` | sequential Monte Carlo |
| `GuidedRecord` | `Occupancy` | self-adjusting weights |
| `AwayRecord` | arrays | chains on their way to the base |
"""

from tempering.stats.annealing import AnnealRecord as AnnealRecord
from tempering.stats.annealing import AnnealWeights as AnnealWeights
from tempering.stats.away import AwayRecord as AwayRecord
from tempering.stats.blocked import BlockedStats as BlockedStats
from tempering.stats.blocked import Fault as Fault
from tempering.stats.blocked import Travel as Travel
from tempering.stats.climb import ClimbRecord as ClimbRecord
from tempering.stats.climb import ClimbSteps as ClimbSteps
from tempering.stats.draws import KeptFeatures as KeptFeatures
from tempering.stats.draws import ReducedDraws as ReducedDraws
from tempering.stats.groups import chain_groups as chain_groups
from tempering.stats.groups import group_sums as group_sums
from tempering.stats.guided import GuidedRecord as GuidedRecord
from tempering.stats.guided import Occupancy as Occupancy
from tempering.stats.keep import JUST_RTS as JUST_RTS
from tempering.stats.keep import Keep as Keep
from tempering.stats.moves import MoveCounts as MoveCounts
from tempering.stats.moves import MoveSums as MoveSums
from tempering.stats.moves import TuningCounts as TuningCounts
from tempering.stats.moves import TuningSums as TuningSums
from tempering.stats.record import TemperingRecord as TemperingRecord
from tempering.stats.recording import Recording as Recording
from tempering.stats.states import Share as Share
from tempering.stats.states import WeightedDraws as WeightedDraws
from tempering.stats.states import mean_of_chains as mean_of_chains
from tempering.stats.states import systematic_picks as systematic_picks
from tempering.stats.statistic import AbstractHostStatistic as AbstractHostStatistic
from tempering.stats.statistic import AbstractRecord as AbstractRecord
from tempering.stats.steps import MAX_BLOCK_STEPS as MAX_BLOCK_STEPS
from tempering.stats.sums import TemperingStats as TemperingStats
from tempering.stats.target import HostTargetSums as HostTargetSums
from tempering.stats.target import TargetSums as TargetSums
from tempering.stats.teams import MAX_TEAMS as MAX_TEAMS
from tempering.stats.teams import MOST_ALONE as MOST_ALONE
from tempering.stats.teams import Teams as Teams
from tempering.stats.tours import Tours as Tours
from tempering.stats.tours import TourSums as TourSums
from tempering.stats.trace import TransitionSums as TransitionSums
