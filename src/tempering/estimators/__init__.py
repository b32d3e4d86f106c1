"""Pure functions from statistics to log Z with an error bar."""

from tempering.estimators.ais import Annealed as Annealed
from tempering.estimators.ais import ais as ais
from tempering.estimators.logz import LogZ as LogZ
from tempering.estimators.rts import rts as rts
from tempering.estimators.rts import ts as ts
from tempering.estimators.stationary import rsd as rsd
from tempering.estimators.stationary import sd as sd
