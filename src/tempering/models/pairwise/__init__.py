"""Discrete models whose sites interact in pairs: Ising, Potts, Boltzmann machines."""

from tempering.models.pairwise.boltzmann import BoltzmannMachine as BoltzmannMachine
from tempering.models.pairwise.ising import Ising as Ising
from tempering.models.pairwise.pair_path import PairPath as PairPath
from tempering.models.pairwise.potts import Potts as Potts
