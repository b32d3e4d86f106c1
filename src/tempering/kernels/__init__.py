"""One step of a chain.

- `SimulatedTempering`, with the state `Position`: a move of x, then a draw of the rung.
- `ContinuousTempering`, with `ContinuousPosition`: the same with a continuous β.
- `GuidedTempering`, with `Guided`: every chain has its own guess of log Z.
- `AnnealUp` with `AnnealState`, `AnnealDown` with `Position`: annealed importance sampling and its reverse.
- `ClimbUp`, with `Position`: the same as `AnnealUp` in sequential Monte Carlo, where populations are resampled between.
- `Held`, with `Position`: moves at a rung that stays the same.
- `UntilBase`, with `Position`: simulated tempering that ends at the base.
- `AbstractKernel`: what they have in common. Moves of x at one rung are in `tempering.kernels.moves`.
"""

from tempering.kernels.annealing import AnnealDown as AnnealDown
from tempering.kernels.annealing import AnnealState as AnnealState
from tempering.kernels.annealing import AnnealUp as AnnealUp
from tempering.kernels.annealing import ClimbUp as ClimbUp
from tempering.kernels.annealing import positions_at_target as positions_at_target
from tempering.kernels.continuous import ContinuousPosition as ContinuousPosition
from tempering.kernels.continuous import ContinuousTempering as ContinuousTempering
from tempering.kernels.guided import Guided as Guided
from tempering.kernels.guided import GuidedTempering as GuidedTempering
from tempering.kernels.moves import HMC as HMC
from tempering.kernels.moves import NO_EVALUATIONS as NO_EVALUATIONS
from tempering.kernels.moves import AbstractGibbsPath as AbstractGibbsPath
from tempering.kernels.moves import AbstractMove as AbstractMove
from tempering.kernels.moves import AbstractSizedMove as AbstractSizedMove
from tempering.kernels.moves import BitFlips as BitFlips
from tempering.kernels.moves import BlackJAX as BlackJAX
from tempering.kernels.moves import BlockGibbs as BlockGibbs
from tempering.kernels.moves import Evaluations as Evaluations
from tempering.kernels.moves import RandomWalk as RandomWalk
from tempering.kernels.moves import Schedule as Schedule
from tempering.kernels.tempering import AbstractKernel as AbstractKernel
from tempering.kernels.tempering import Held as Held
from tempering.kernels.tempering import Position as Position
from tempering.kernels.tempering import SimulatedTempering as SimulatedTempering
from tempering.kernels.tempering import UntilBase as UntilBase
