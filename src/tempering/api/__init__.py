"""What a person asks for: one call each for an estimate, a comparison, a ratio, and many seeds."""

from tempering.api.comparing import compare as compare
from tempering.api.estimation import Interrupted as Interrupted
from tempering.api.estimation import estimate as estimate
from tempering.api.ratios import log_ratio as log_ratio
from tempering.api.replicates import estimate_many as estimate_many
from tempering.api.settings import Settings as Settings
from tempering.progress import Progress as Progress
