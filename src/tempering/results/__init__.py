"""Answers: what a run, a comparison or a ratio has to say, and its forms on disk."""

from tempering.results.comparison import Comparison as Comparison
from tempering.results.comparison import Entry as Entry
from tempering.results.comparison import SideBySide as SideBySide
from tempering.results.details import Details as Details
from tempering.results.loading import load_result as load_result
from tempering.results.ratio import LogRatio as LogRatio
from tempering.results.result import MeanLogLikelihood as MeanLogLikelihood
from tempering.results.result import Result as Result
from tempering.results.result import jsonable as jsonable
