"""Moves: random maps of x that leave the density of every rung invariant."""

from tempering.kernels.moves.blackjax_move import BlackJAX as BlackJAX
from tempering.kernels.moves.gibbs import AbstractGibbsPath as AbstractGibbsPath
from tempering.kernels.moves.gibbs import BlockGibbs as BlockGibbs
from tempering.kernels.moves.hmc import HMC as HMC
from tempering.kernels.moves.move import AbstractMove as AbstractMove
from tempering.kernels.moves.random_walk import BitFlips as BitFlips
from tempering.kernels.moves.random_walk import RandomWalk as RandomWalk
from tempering.kernels.moves.schedule import AbstractSizedMove as AbstractSizedMove
from tempering.kernels.moves.schedule import Schedule as Schedule
