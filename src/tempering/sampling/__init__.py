"""The loop over the steps of chains, the stages of a run, the driver that walks them, and the run's directory."""

from tempering.sampling.chains import Block as Block
from tempering.sampling.chains import run_chains as run_chains
from tempering.sampling.chains import walk_chain as walk_chain
from tempering.sampling.driver import drive as drive
from tempering.sampling.driver import walk_stages as walk_stages
from tempering.sampling.homecoming import Homecoming as Homecoming
from tempering.sampling.homecoming import walk_home as walk_home
from tempering.sampling.stage import AbstractStageKind as AbstractStageKind
from tempering.sampling.stage import AbstractTemperedKind as AbstractTemperedKind
from tempering.sampling.stage import Sampling as Sampling
from tempering.sampling.stage import Stage as Stage
from tempering.sampling.stage import Standing as Standing
from tempering.sampling.stage import WarmupSummary as WarmupSummary
from tempering.sampling.warmup import AbstractWarmup as AbstractWarmup
from tempering.sampling.warmup import Setup as Setup
