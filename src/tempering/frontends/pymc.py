"""PyMC models as posteriors, whose log Z is the evidence."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module  # PyMC and PyTensor are imported only when a model needs them
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tempering._errors import InputError
from tempering._types import Key, Scalar, State
from tempering.frontends._programs import IMPROPER, evidence_in_words, import_or_refuse, posterior_of
from tempering.models import Posterior

_FAILURES = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, NotImplementedError)
_IMPROPER = {"FlatRV", "HalfFlatRV"}


def from_pymc(model: Any) -> Posterior:
    """The posterior of a PyMC model; its log Z is the evidence log p(observed).

    ```python
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * x, 0.5, observed=y)

    estimate(from_pymc(model)).log_z                 # log p(y)
    ```

    The prior is that of the free variables. The likelihood is that of the observed variables, and `Potential`s enter
    log Z as they are. All constants are kept. Variables move on PyMC's unconstrained space; results have them by their
    names, together with `Deterministic`s.

    Caveats: models are refused if a variable cannot be drawn from its prior or has no gradient (discrete or improper
    variables), if its prior is not normalised (LKJ), or if they use only a part of the data (minibatches).

    Args:
        model: a `pymc.Model`.

    Returns:
        The posterior. PyMC must be installed: pip install 'tempering[pymc]'.
    """
    _check_model(model)
    with _kept_settings():
        program = _Program.create(model)
    return posterior_of(program, measure=_evidence(model))


class _Program(eqx.Module):
    """A model as JAX functions. States are dicts of unconstrained arrays, by the names of PyMC's value variables.

    Attributes:
        names: of the value variables.
        shown: of the variables that results contain.
        log_densities: from a state to the log prior and the log likelihood.
        values: from a state to the variables that results contain.
        draws: from a key to draws of the prior.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    shown: tuple[str, ...] = eqx.field(static=True)
    log_densities: Callable[..., Any]
    values: Callable[..., Any]
    draws: Callable[..., Any]

    @classmethod
    def create(cls, model: Any) -> "_Program":
        get_jaxified_graph = import_module("pymc.sampling.jax").get_jaxified_graph
        is_transformed_name = import_module("pymc.util").is_transformed_name
        inputs = model.value_vars
        shown = [value for value in model.unobserved_value_vars if not is_transformed_name(value.name)]
        data = [*model.observed_RVs, *model.potentials]
        halves = [model.logp(vars=model.free_RVs, jacobian=True), model.logp(vars=data)]
        draws = _prior_sampler(model)
        try:
            log_densities, values = get_jaxified_graph(inputs, halves), get_jaxified_graph(inputs, shown)
        except _FAILURES as error:
            raise InputError(f"PyMC cannot translate the model to JAX: {_first_line(error)}") from error
        names = tuple(value.name for value in inputs)
        return cls(names, tuple(value.name for value in shown), log_densities, values, draws)

    def draw(self, key: Key) -> State:
        with _quiet_about_precision():
            drawn = self.draws(key)
        return {name: jnp.asarray(value, jnp.result_type(float)) for name, value in zip(self.names, drawn, strict=True)}

    def log_prior(self, u: State) -> Scalar:
        """log p of the free variables, with the log-Jacobians of PyMC's transforms."""
        return self._log_densities(u)[0]

    def log_likelihood(self, u: State) -> Scalar:
        """log p of the observed variables, and potentials."""
        return self._log_densities(u)[1]

    def constrain(self, u: State) -> dict[str, Array]:
        """Free variables and deterministics by name."""
        with _quiet_about_precision():
            values = self.values(*(u[name] for name in self.names))
        return dict(zip(self.shown, map(jnp.asarray, values), strict=True))

    def _log_densities(self, u: State) -> list[Scalar]:
        with _quiet_about_precision():
            answers = self.log_densities(*(u[name] for name in self.names))
        return [jnp.asarray(answer, jnp.result_type(float)) for answer in answers]


@contextmanager
def _kept_settings() -> Iterator[None]:
    """Undo global changes: importing PyMC's bridge to JAX turns on double precision and asks for 100 devices."""
    uses_x64, environment = jax.config.jax_enable_x64, dict(os.environ)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        with warnings.catch_warnings():
            # JAX has its own BLAS, so that it does not matter whether PyTensor finds one.
            warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
            yield
    finally:
        jax.config.update("jax_enable_x64", uses_x64)
        os.environ.clear()
        os.environ.update(environment)


@contextmanager
def _quiet_about_precision() -> Iterator[None]:
    """No warning at every float64 that PyTensor's graphs ask for: JAX computes in float32."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Explicitly requested dtype")
        yield


def _prior_sampler(model: Any) -> Callable[[Key], Any]:
    """A function from a key to draws of all value variables."""
    drawn = import_module("pymc.initial_point").make_initial_point_expression(
        free_rvs=model.free_RVs,
        rvs_to_transforms=model.rvs_to_transforms,
        initval_strategies={},
        default_strategy="prior",
        return_transformed=True,
    )
    try:
        drawn = _by_inversion(drawn)
        generators = import_module("pymc.pytensorf").find_rng_nodes(drawn)
        states = [generator.type() for generator in generators]  # so that the model's own generators stay untouched
        fed = import_module("pytensor.graph.replace").clone_replace(drawn, dict(zip(generators, states, strict=True)))
        graph = import_module("pytensor.graph.fg").FunctionGraph(states, fed, clone=True)
        _rewrite(graph)
        function = import_module("pytensor.link.jax.dispatch").jax_funcify(graph)

        def draws(key: Key) -> Any:
            keys = jax.random.split(key, len(states))
            return function(*({"bit_generator": 1, "jax_state": own} for own in keys))

        with _quiet_about_precision():
            jax.eval_shape(draws, jax.random.key(0))
    except _FAILURES as error:
        raise InputError(
            f"The prior cannot be drawn from in JAX: {_first_line(error)} Use another distribution, for instance a "
            "Deterministic function of a Normal or Uniform variable."
        ) from error
    return draws


def _by_inversion(drawn: list[Any]) -> list[Any]:
    """The same draws, by inverting the distribution function at a uniform number where JAX has no sampler."""
    pt, icdf = import_module("pytensor.tensor"), import_module("pymc.logprob.basic").icdf
    sampler_of = import_module("pytensor.link.jax.dispatch.random").jax_sample_fn.dispatch
    random_variable = import_module("pytensor.tensor.random.op").RandomVariable
    graph = import_module("pytensor.graph.fg").FunctionGraph(outputs=drawn, clone=True)
    _rewrite(graph)  # expresses many distributions by those that JAX has
    for node in reversed(graph.toposort()):
        if isinstance(node.op, random_variable) and sampler_of(type(node.op)) is sampler_of(object):
            variable = node.outputs[1]
            uniform = pt.random.uniform(size=tuple(variable.shape))
            own = _INVERSES.get(node.op.name)
            value = icdf(variable, uniform) if own is None else own(pt, uniform, *node.op.dist_params(node))
            graph.replace(variable, value.astype(variable.dtype), import_missing=True)
    return graph.outputs


def _rewrite(graph: Any) -> None:
    import_module("pytensor.compile.mode").JAX.optimizer.rewrite(graph)


def _truncated_normal(pt: Any, uniform: Any, mu: Any, sigma: Any, lower: Any, upper: Any) -> Any:
    """The inverse of (Φ(z) − Φ(α)) / (Φ(β) − Φ(α)), in terms of erf, 2 Φ(z) − 1 = erf(z/√2)."""
    low, high = (pt.erf((end - mu) / (sigma * pt.sqrt(2.0))) for end in (lower, upper))
    return mu + sigma * pt.sqrt(2.0) * pt.erfinv(low + uniform * (high - low))


def _weibull(pt: Any, uniform: Any, shape: Any) -> Any:
    """The inverse of 1 − exp(−x^shape), at 1 − uniform."""
    return (-pt.log(uniform)) ** (1 / shape)


_INVERSES = {"truncated_normal": _truncated_normal, "weibull": _weibull}  # those that PyMC does not invert


def _check_model(model: Any) -> None:
    pymc = import_or_refuse("pymc", "PyMC")
    if not isinstance(model, pymc.Model):
        raise InputError(f"from_pymc(...) takes a pymc.Model, got a {type(model).__name__}.")
    if not model.free_RVs:
        raise InputError("The model has no free variable, so that log Z is its log density.")
    if not model.observed_RVs and not model.potentials:
        raise InputError("The model observes nothing, so that log Z is 0. Give data with `observed=`.")
    for variable in model.free_RVs:
        _check_free(variable, pymc.discrete_types)
    for variable in model.observed_RVs:
        if "Minibatch" in type(variable.owner.op).__name__:
            raise InputError(
                f"`{variable.name}` is a minibatch, so that the likelihood differs from draw to draw. Observe all "
                "data, and leave out `total_size`."
            )


def _check_free(variable: Any, discrete_types: Any) -> None:
    name, kind = variable.name, type(variable.owner.op).__name__
    if variable.dtype in discrete_types:
        raise InputError(f"`{name}` is discrete and has no gradient. Sum over its values, as in pm.Mixture.")
    if kind in _IMPROPER:
        raise InputError(IMPROPER.format(name=name))
    if "LKJ" in kind:
        raise InputError(
            f"The prior of `{name}` is an LKJ, whose density PyMC does not normalise. Build the correlations from "
            "normalised parts, or write the model in NumPyro, whose LKJ is normalised."
        )


def _evidence(model: Any) -> str:
    discrete_types = import_module("pymc").discrete_types
    data = [(variable.name, variable.dtype in discrete_types) for variable in model.observed_RVs]
    return evidence_in_words(data, "potentials", [potential.name for potential in model.potentials])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
