"""From a NumPyro model to a posterior whose log Z is its evidence."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tempering._errors import InputError
from tempering._types import Key, Scalar, State
from tempering.frontends._prior_checks import DrawnPrior, check_prior
from tempering.models import Posterior

Sites = Mapping[str, Any]  # a trace of NumPyro: what happened at each named place of a model

_NUM_SEEDS = 4  # runs of the model that must pass the same places


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Posterior:
    """The posterior of a NumPyro model, called with its data as NumPyro would call it.

    ```python
    estimate(from_numpyro(model, x, y=y)).log_z      # log p(y), the evidence
    ```

    The prior is what is sampled without `obs`; the likelihood is what has `obs`, and `factor`s as they are, so that
    log Z includes them. All constants are kept. Parameters move on unconstrained space, and come back by their names,
    with deterministic sites. Refused: what cannot be drawn from its prior or has no gradient (discrete or improper
    parameters, `param`s, masked or scaled priors), and what hides data (subsampled plates).
    """
    _numpyro()
    runs = [_drawn_trace(model, args, kwargs, jax.random.key(seed), look=_check_kind) for seed in range(_NUM_SEEDS)]
    _check_sites(runs)
    program = _Program.create(model, args, kwargs, runs[0])
    prior = DrawnPrior(program.log_prior, program.draw)
    check_prior(prior)
    return Posterior(program.log_likelihood, prior, constrain=program.constrain, measure=_measure(runs[0]))


class _Held:
    """Data that a model must see as they are while it is traced; jit takes them as constants."""

    def __init__(self, value: Any):
        self.value = value


class _Program(eqx.Module):
    """A model with its data. States are dicts of unconstrained arrays, one per latent site."""

    model: Callable[..., Any]
    data: Any  # the arguments as a pytree, so that data are arguments of jit; or held

    @classmethod
    def create(cls, model: Callable[..., Any], args: Any, kwargs: Any, sites: Sites) -> "_Program":
        """With the data as arguments of jit, unless the model looks at their values, to count groups for instance."""
        data = jax.tree.map(lambda leaf: jnp.asarray(leaf) if _is_numeric(leaf) else leaf, (args, kwargs))
        program = cls(model, data)
        u = {name: _unconstrained(site) for name, site in sites.items() if _is_latent(site)}
        try:
            eqx.filter_eval_shape(lambda own, state: own.log_likelihood(state), program, u)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
            return cls(model, _Held((args, kwargs)))
        return program

    def draw(self, key: Key) -> State:
        """An exact draw of the prior."""
        args, kwargs = self._arguments()
        sites = _drawn_trace(self.model, args, kwargs, key)
        return {name: _unconstrained(site) for name, site in sites.items() if _is_latent(site)}

    def log_prior(self, u: State) -> Scalar:
        """log p of all latent sites, with the log-Jacobians of the map from u to them."""
        sites, log_jacobian = self._at(u)
        return log_jacobian + _summed(site for site in sites.values() if _is_latent(site))

    def log_likelihood(self, u: State) -> Scalar:
        """log p of all that was observed, and factors."""
        sites, _ = self._at(u)
        return _summed(site for site in sites.values() if _is_observed(site))

    def constrain(self, u: State) -> dict[str, Array]:
        """Latent and deterministic sites by name."""
        sites, _ = self._at(u)
        wanted = (site for site in sites.values() if _is_latent(site) or site["type"] == "deterministic")
        return {site["name"]: jnp.asarray(site["value"]) for site in wanted}

    def _at(self, u: State) -> tuple[Sites, Scalar]:
        handlers, biject_to = _numpyro()
        log_jacobians = []

        def value_of(site):
            if not _is_latent(site) or site["name"] not in u:
                return None
            transform = biject_to(site["fn"].support)
            value = transform(u[site["name"]])
            log_jacobians.append(jnp.sum(transform.log_abs_det_jacobian(u[site["name"]], value)))
            return value

        args, kwargs = self._arguments()
        with handlers.trace() as sites, handlers.substitute(substitute_fn=value_of):
            self.model(*args, **kwargs)
        return sites, sum(log_jacobians, jnp.zeros(()))

    def _arguments(self) -> Any:
        return self.data.value if isinstance(self.data, _Held) else self.data


def _numpyro() -> Any:
    try:
        numpyro = importlib.import_module("numpyro")
    except ImportError as error:
        raise InputError(f"from_numpyro(...) needs NumPyro ({error}): pip install 'tempering[numpyro]'.") from error
    return numpyro.handlers, numpyro.distributions.biject_to


def _drawn_trace(
    model: Callable[..., Any], args: Any, kwargs: Any, key: Key, look: Callable[[Any], None] = lambda site: None
) -> Sites:
    """All sites of a run with the prior's draws; `look` sees each of them before anything is drawn there."""
    handlers, _ = _numpyro()
    with handlers.trace() as sites, handlers.seed(rng_seed=key), handlers.substitute(substitute_fn=look):
        model(*args, **kwargs)
    return sites


def _is_latent(site: Any) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _is_observed(site: Any) -> bool:
    return site["type"] == "sample" and site["is_observed"]


def _is_factor(site: Any) -> bool:
    return type(site["fn"]).__name__ == "Unit"


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biuf"


def _summed(sites: Any) -> Scalar:
    total = jnp.zeros(())
    for site in sites:
        log_p = jnp.sum(site["fn"].log_prob(site["value"]) * (1.0 if site["scale"] is None else site["scale"]))
        total = total + log_p
    return total


def _unconstrained(site: Any) -> Array:
    _, biject_to = _numpyro()
    return biject_to(site["fn"].support).inv(site["value"])


def _check_sites(runs: list[Sites]) -> None:
    first = runs[0]
    for sites in runs[1:]:
        different = {name for name, _ in set(_shapes(first)) ^ set(_shapes(sites))}
        if different:
            raise InputError(
                f"The model passes other sites from run to run, `{min(different)}` for one, so it is not one density. "
                "Take random choices out of its control flow: sum over them, as in a mixture."
            )
    for site in first.values():
        _check_kind(site)  # also those that are not looked at on the way
    if not any(_is_latent(site) for site in first.values()):
        raise InputError("The model has no parameter: every sample site is observed, so log Z is its log density.")
    if not any(_is_observed(site) for site in first.values()):
        raise InputError("The model observes nothing, so log Z is 0: pass the data that its `obs=` arguments expect.")


def _shapes(sites: Sites) -> list[tuple[str, tuple]]:
    return [
        (name, (site["type"], site.get("is_observed"), jnp.shape(site["value"])))
        for name, site in sites.items()
        if site["type"] == "sample"
    ]


def _check_kind(site: Any) -> None:
    name, kind = site["name"], site["type"]
    if kind == "param":
        raise InputError(f"`{name}` is a param, without a prior: sample it from one, or pass its value as an argument.")
    if kind in ("control_flow", "prng_key", "mutable"):
        raise InputError(
            f"`{name}` is a {kind} site, inside of which sites cannot be told apart: write scan and cond as plain "
            "Python or jax.lax around the sample statements."
        )
    if kind == "plate" and site["value"] is not None and len(site["value"]) != site["args"][0]:
        raise InputError(
            f"The plate `{name}` shows {len(site['value'])} of {site['args'][0]} data at a time, so that there is no "
            "one likelihood: leave out `subsample_size`."
        )
    if _is_latent(site):
        _check_latent(site)


def _check_latent(site: Any) -> None:
    _, biject_to = _numpyro()
    name, kinds = site["name"], _layers(site["fn"])
    if "ImproperUniform" in kinds:
        raise InputError(f"The prior of `{name}` is improper and has no draws; give it a proper one, however wide.")
    if "Delta" in kinds:
        raise InputError(f"`{name}` is a point mass (Delta), which has no density: use numpyro.deterministic instead.")
    if "MaskedDistribution" in kinds:
        raise InputError(
            f"The prior of `{name}` is masked, so parts of it are flat and improper: mask observed sites only, and "
            "sample what is missing by itself."
        )
    if site["scale"] is not None and not np.all(np.asarray(site["scale"]) == 1):
        raise InputError(f"The prior of `{name}` is scaled, which makes it another, unnormalised one: scale data only.")
    if site["fn"].support.is_discrete:
        raise InputError(
            f"`{name}` is discrete, and has no gradient: sum it out, with dist.MixtureSameFamily for instance."
        )
    try:
        biject_to(site["fn"].support)
    except NotImplementedError as error:
        raise InputError(
            f"The support of `{name}`, {site['fn'].support}, has no map from unconstrained space: build it from real "
            "parameters with numpyro.deterministic."
        ) from error


def _layers(distribution: Any) -> set[str]:
    """Names of a distribution and of what it is wrapped around."""
    kinds = set()
    while distribution is not None:
        kinds.add(type(distribution).__name__)
        distribution = getattr(distribution, "base_dist", None)
    return kinds


def _measure(sites: Sites) -> str:
    """What log Z is, in words."""
    observed = [site for site in sites.values() if _is_observed(site)]
    factors = [site["name"] for site in observed if _is_factor(site)]
    data = [site for site in observed if not _is_factor(site)]
    counted = [site["name"] for site in data if site["fn"].support.is_discrete]
    measured = [site["name"] for site in data if not site["fn"].support.is_discrete]
    powers = [site["name"] for site in data if site["scale"] is not None]
    parts = [f"the density of {', '.join(measured)} (Lebesgue measure)"] if measured else []
    parts += [f"the probability of {', '.join(counted)} (counting measure)"] if counted else []
    parts += [f"the factors {', '.join(factors)} as they are, normalised or not"] if factors else []
    return " times ".join(parts) + (f", with {', '.join(powers)} scaled as in the model" if powers else "")
