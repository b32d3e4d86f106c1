"""The only loop over Markov steps, the stages of a run, the driver that walks them, and the run's directory."""

from tempering.sampling.chains import Block as Block
from tempering.sampling.chains import run_chains as run_chains
from tempering.sampling.chains import walk_chain as walk_chain
from tempering.sampling.stage import Stage as Stage
from tempering.sampling.stage import block_steps as block_steps
from tempering.sampling.warmup import AbstractWarmup as AbstractWarmup
from tempering.sampling.warmup import Setup as Setup
