"""Parts of the chains in threads: the same bits, and none of them for densities that call LAPACK."""

import os
import subprocess
import sys
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tempering as tp
from tempering.sampling import side_by_side
from tempering.sampling.side_by_side import calls_out

BETAS = np.linspace(0, 1, 4)
FLAG = "--xla_cpu_enable_concurrency_optimized_scheduler"

PROCESS = """
import sys, tempering as tp, jax, jax.numpy as jnp, numpy as np
places = np.linspace(0, 5, int(sys.argv[1]))
squares, y = jnp.asarray((places[:, None] - places) ** 2, jnp.float32), jnp.asarray(np.sin(2 * places), jnp.float32)

def log_likelihood(x):
    kernel = jnp.exp(2 * x[0]) * jnp.exp(-0.5 * squares * jnp.exp(-2 * x[1]))
    factor = jnp.linalg.cholesky(kernel + (jnp.exp(2 * x[2]) + 1e-3) * jnp.eye(len(y)))
    whitened = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
    return -0.5 * whitened @ whitened - jnp.log(jnp.diag(factor)).sum()

model = tp.Posterior(log_likelihood, tp.Normal(jnp.zeros(3)))
how = {"move": tp.RandomWalk(0.1), "warmup": tp.AnnealedStart(4, (2,))}  # gradients take six times as long
print(tp.estimate(model, num_sweeps=4, num_rungs=5, num_chains=60, **how).num_sweeps)
"""


def _cholesky(x):
    factor = jnp.linalg.cholesky(jnp.eye(3) * (1 + x @ x))
    return -jnp.log(jnp.diag(factor)).sum()


def test_a_density_that_calls_lapack_is_seen_also_inside_other_functions(monkeypatch):
    """Kills: a call that is not seen within a loop, threads for it all the same, no threads for any density."""
    monkeypatch.setattr(side_by_side, "num_cores", lambda: 3)
    looped = tp.LogDensity(
        lambda x: jax.lax.fori_loop(0, 2, lambda _, s: s + _cholesky(x), 0.0), tp.Normal(jnp.zeros(3))
    )
    plain = tp.LogDensity(lambda x: -x @ x, tp.Normal(jnp.zeros(3)))
    assert calls_out(looped.path(None, BETAS))
    assert not calls_out(plain.path(None, BETAS))
    assert side_by_side.num_side_by_side(looped.path(None, BETAS)) == 1
    assert side_by_side.num_side_by_side(plain.path(None, BETAS)) == 3


@pytest.mark.slow  # test_run.py has parts of the chains on two devices, by the same threads
def test_threads_give_the_bits_of_one_thread(monkeypatch):
    """Kills: parts in another order, chains numbered anew in each part."""
    model = tp.LogDensity(lambda x: -0.5 * jnp.sum((x - 1.0) ** 4), tp.Normal(jnp.zeros(3), 2.0))
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(side_by_side, "num_cores", lambda cores=cores: cores)
        result = tp.estimate(model, num_chains=130, num_sweeps=12, num_rungs=8)
        found.append((result.log_z, result.recording.stats.log_sums))
    assert found[0][0] == found[1][0]
    np.testing.assert_array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("num_points", ["12", pytest.param("50", marks=pytest.mark.slow)])  # 50 take half a minute
def test_a_gaussian_process_ends(num_points):
    """Without the flag that `tempering` sets on import, JAX 0.10 may stop for ever here, on two cores."""
    quick = os.environ | {"XLA_FLAGS": "--xla_backend_optimization_level=0"}  # compiles in a third of the time
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, num_points], env=quick, capture_output=True, text=True, timeout=240
    )
    assert done.stdout.strip() == "4", done.stderr[-2000:]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", f"{FLAG}=false"),
        ("--xla_dump_to=here", f"--xla_dump_to=here {FLAG}=false"),
        (f"{FLAG}=true", f"{FLAG}=true"),
    ],
)
def test_the_flag_is_set_on_import_and_one_of_the_user_stays(given, expected):
    """Kills: no flag, one that changes nothing, one in place of what the user has set, one set after JAX is loaded."""
    if not version("jaxlib").startswith(("0.10.", "0.11.")):
        expected = given  # a version that does not know the flag would end the program
    code = "import tempering, os, sys; print(os.environ['XLA_FLAGS'], 'jaxlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"XLA_FLAGS": given}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{expected} False"
