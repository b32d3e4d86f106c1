"""Bases: distributions that can be drawn from exactly. Every path of densities starts at one."""

from tempering.bases.base import AbstractBase as AbstractBase
from tempering.bases.composite import Distribution as Distribution
from tempering.bases.composite import Product as Product
from tempering.bases.composite import as_base as as_base
from tempering.bases.densities import Bernoulli as Bernoulli
from tempering.bases.densities import Normal as Normal
from tempering.bases.densities import Student as Student
from tempering.bases.densities import Uniform as Uniform
from tempering.bases.densities import Unnormalised as Unnormalised
