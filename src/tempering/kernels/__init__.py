"""One step of a chain: moves that leave every rung's density invariant, and simulated tempering over them."""

from tempering.kernels.blackjax import BlackJAX as BlackJAX
from tempering.kernels.continuous import ContinuousPosition as ContinuousPosition
from tempering.kernels.continuous import ContinuousTempering as ContinuousTempering
from tempering.kernels.gibbs import AbstractGibbsPath as AbstractGibbsPath
from tempering.kernels.gibbs import BlockGibbs as BlockGibbs
from tempering.kernels.held import Held as Held
from tempering.kernels.hmc import HMC as HMC
from tempering.kernels.move import AbstractMove as AbstractMove
from tempering.kernels.random_walk import BitFlips as BitFlips
from tempering.kernels.random_walk import RandomWalk as RandomWalk
from tempering.kernels.schedule import AbstractSizedMove as AbstractSizedMove
from tempering.kernels.schedule import Schedule as Schedule
from tempering.kernels.tempering import AbstractKernel as AbstractKernel
from tempering.kernels.tempering import Position as Position
from tempering.kernels.tempering import SimulatedTempering as SimulatedTempering
