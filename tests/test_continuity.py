"""Whether a function may jump is read from its operations; nothing is computed here."""

import jax
import jax.numpy as jnp
import pytest

from tempering._continuity import is_continuous

X = jax.ShapeDtypeStruct((3,), jnp.float32)
NORM, STUDENT = jax.scipy.stats.norm, jax.scipy.stats.t


def own_derivative(x):
    """A custom derivative, which need not be that of the function."""
    f = jax.custom_jvp(lambda y: y**2)
    f.defjvp(lambda primals, tangents: (primals[0] ** 2, primals[0] * tangents[0]))
    return f(x).sum()


CONTINUOUS = {
    "normal": lambda x: NORM.logpdf(x, 1.0, 2.0).sum(),
    "Student": lambda x: STUDENT.logpdf(x, 3.0).sum(),
    "polynomial": lambda x: -jnp.sum(x**4) + x[0] * x[1],
    "kink": lambda x: -jnp.abs(x).sum() + jnp.maximum(x, 0.5).sum(),
    "two modes": lambda x: jnp.logaddexp(-jnp.sum(x**2), -jnp.sum((x - 1) ** 2)),
    "softplus": lambda x: jax.nn.softplus(x).sum(),
    "Cholesky factor": lambda x: jnp.linalg.cholesky(jnp.eye(3) + jnp.outer(x, x)).sum(),
    "fixed rows": lambda x: x[jnp.array([0, 2])].sum() + x[1:].sum(),
    "fixed choice": lambda x: jnp.where(jnp.arange(3) > 1, x, -x).sum(),
    "loop": lambda x: jax.lax.scan(lambda total, each: (total + each**2, None), 0.0, x)[0],
}
MAY_JUMP = {
    "wall": lambda x: jnp.where(x > 0, -x, -jnp.inf).sum(),
    "step": lambda x: jnp.floor(x).sum(),
    "sign": lambda x: jnp.sign(x).sum(),
    "branch": lambda x: jax.lax.cond(x[0] > 0, jnp.sum, jnp.prod, x),
    "index": lambda x: x[jnp.argmax(x)] + x[jnp.argsort(x)][0],
    "rounded": lambda x: x.astype(jnp.int32).astype(jnp.float32).sum(),
    "stopped gradient": lambda x: jax.lax.stop_gradient(x).sum(),
    "a derivative of its own": own_derivative,
    "unknown length": lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x).sum(),
    "wall in a loop": lambda x: jax.lax.scan(lambda total, each: (total + (each > 0), None), 0.0, x)[0],
    "wall in a function": lambda x: jax.jit(lambda y: jnp.where(y > 0, y, 0.0))(x).sum(),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_a_function_without_a_jump_is_known(name):
    """Kills: operations on what does not vary counted, known functions of JAX refused."""
    assert is_continuous(CONTINUOUS[name], X)


@pytest.mark.parametrize("name", MAY_JUMP)
def test_a_function_that_may_jump_is_not(name):
    """Kills: a varying condition allowed, integers allowed, inner programs not looked at, any custom derivative."""
    assert not is_continuous(MAY_JUMP[name], X)
