"""What a run does unless something else is asked for.

No JAX is loaded here, so that the help of the command line can show these values without waiting for it.
"""

NUM_CHAINS = 100
BETAS = "auto"
RUNG_WEIGHTS = "auto"
WARMUP = "sequential"
METHOD = "auto"
SEED = 0
CHUNK_SWEEPS = 1
LENGTH = 1000  # sweeps, where the length of the ladder is not known
ITERATIONS = 20  # of the paper's initial ones, at most
ITERATION_SWEEPS = 50  # of the first ones, as in the paper
