"""Pure functions from statistics to log Z with an error bar."""

from tempering.estimators.ais import Annealed as Annealed
from tempering.estimators.ais import ais as ais
from tempering.estimators.expectation import Expectation as Expectation
from tempering.estimators.expectation import expectation as expectation
from tempering.estimators.likelihood import log_likelihood as log_likelihood
from tempering.estimators.likelihood import maximum_likelihood as maximum_likelihood
from tempering.estimators.logz import LogZ as LogZ
from tempering.estimators.rts import bias_corrected_rts as bias_corrected_rts
from tempering.estimators.rts import continuous_rts as continuous_rts
from tempering.estimators.rts import rts as rts
from tempering.estimators.rts import ts as ts
from tempering.estimators.stationary import rsd as rsd
from tempering.estimators.stationary import sd as sd
