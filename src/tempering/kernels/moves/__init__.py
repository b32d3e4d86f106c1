"""Moves: random maps of x that leave the density of every rung invariant (`tp.moves`).

- `HMC`, `RandomWalk`: for real numbers, with and without a gradient.
- `BitFlips`: for bits.
- `BlockGibbs`: for models that can draw their own conditional laws.
- `BlackJAX`: any algorithm of BlackJAX.
- `AbstractMove`, `AbstractSizedMove`, `AbstractGibbsPath`: what a new move, or a model with Gibbs sweeps, starts from.
- `Schedule`, `StepSize`: the step sizes of a move at every inverse temperature.
- `MoveInfo`, `AbstractPath`: what a move returns and takes.
"""

from tempering.kernels.moves.blackjax_move import BlackJAX as BlackJAX
from tempering.kernels.moves.gibbs import AbstractGibbsPath as AbstractGibbsPath
from tempering.kernels.moves.gibbs import BlockGibbs as BlockGibbs
from tempering.kernels.moves.hmc import HMC as HMC
from tempering.kernels.moves.move import NO_EVALUATIONS as NO_EVALUATIONS
from tempering.kernels.moves.move import AbstractMove as AbstractMove
from tempering.kernels.moves.move import Evaluations as Evaluations
from tempering.kernels.moves.random_walk import BitFlips as BitFlips
from tempering.kernels.moves.random_walk import RandomWalk as RandomWalk
from tempering.kernels.moves.schedule import AbstractSizedMove as AbstractSizedMove
from tempering.kernels.moves.schedule import Schedule as Schedule
from tempering.kernels.moves.schedule import StepSize as StepSize
from tempering.ladder import AbstractPath as AbstractPath
from tempering.ladder import MoveInfo as MoveInfo
