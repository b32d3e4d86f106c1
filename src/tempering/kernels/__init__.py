"""One step of a chain: moves that leave every rung's density invariant, and simulated tempering over them."""

from tempering.kernels.continuous import ContinuousPosition as ContinuousPosition
from tempering.kernels.continuous import ContinuousTempering as ContinuousTempering
from tempering.kernels.gibbs import AbstractGibbsPath as AbstractGibbsPath
from tempering.kernels.gibbs import BlockGibbs as BlockGibbs
from tempering.kernels.move import AbstractMove as AbstractMove
from tempering.kernels.tempering import AbstractKernel as AbstractKernel
from tempering.kernels.tempering import Position as Position
from tempering.kernels.tempering import SimulatedTempering as SimulatedTempering
