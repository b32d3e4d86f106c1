"""NumPyro models as posteriors, whose log Z is the evidence."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tempering._errors import InputError
from tempering._types import Key, Scalar, State
from tempering.frontends._enumeration import (
    Sites,
    check_enumerable,
    check_plates,
    funsor_of_numpyro,
    plate_depth,
    summed_log_density,
)
from tempering.frontends._programs import IMPROPER, evidence_in_words, import_or_refuse, posterior_of
from tempering.models import Posterior

_NUM_SEEDS = 4  # runs of the model, all of which must visit the same sites
_REFUSED_PRIORS = {
    "ImproperUniform": IMPROPER,
    "Delta": "`{name}` is a point mass (Delta), which has no density. Use numpyro.deterministic instead.",
    "MaskedDistribution": "The prior of `{name}` is masked, so that parts of it are flat and improper. Mask observed "
    "sites only, and give missing values a sample site of their own.",
}


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Posterior:
    """The posterior of a NumPyro model; its log Z is the evidence log p(data).

    ```python
    def model(x, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(slope * x, 0.5), obs=y)

    estimate(from_numpyro(model, x, y=y)).log_z      # log p(y)
    ```

    The prior is formed by the sample sites without `obs`, the likelihood by those with `obs` and by `factor`s, which
    enter log Z as they are. All constants are kept. Parameters move on unconstrained space; results have them by
    their names, together with deterministic sites.

    Discrete parameters with finitely many values are summed out by NumPyro (`pip install 'tempering[funsor]'`), as NUTS
    does there: write the model so that it can be enumerated, with a plate around whatever is independent. Results then
    have the continuous parameters alone, since deterministic sites may depend on what was summed out.

    Caveats: models are refused if a parameter cannot be drawn from its prior or has no gradient (discrete ones that
    cannot be enumerated, improper ones, `param`s, masked or scaled priors), or if they use only a part of the data
    (subsampled plates).

    Args:
        model: a NumPyro model.
        *args: positional arguments of the model, its data above all.
        **kwargs: keyword arguments of the model.

    Returns:
        The posterior. NumPyro must be installed: pip install 'tempering[numpyro]'.
    """
    _numpyro()  # first: it may not be installed
    runs = [_drawn_trace(model, args, kwargs, jax.random.key(seed), look=_check_kind) for seed in range(_NUM_SEEDS)]
    _check_sites(runs)
    program = _Program.create(model, args, kwargs, runs[0])
    return posterior_of(program, measure=_evidence(runs[0]))


class _ConstantData:
    """Arguments whose values a model needs while it is traced; jit sees them as constants."""

    def __init__(self, value: Any):
        self.value = value


class _Program(eqx.Module):
    """A model with its data. States are dicts of unconstrained arrays, one per latent site.

    The data are a pytree, so that they become arguments of jit. Where the model needs their values while it is traced,
    to count groups for instance, they are `_ConstantData`.

    Where discrete sites are summed out, `depth` is that of the plates; elsewhere it is None.
    """

    model: Callable[..., Any]
    data: Any
    depth: int | None

    @classmethod
    def create(cls, model: Callable[..., Any], args: Any, kwargs: Any, sites: Sites) -> "_Program":
        data = jax.tree.map(lambda leaf: jnp.asarray(leaf) if _is_numeric(leaf) else leaf, (args, kwargs))
        depth = plate_depth(sites) if any(map(_is_discrete, sites.values())) else None
        program = cls(model, data, depth)
        u = {name: _unconstrained(site) for name, site in sites.items() if _is_parameter(site)}
        try:
            eqx.filter_eval_shape(lambda own, state: own.log_likelihood(state), program, u)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
            return cls(model, _ConstantData((args, kwargs)), depth)
        return program

    def draw(self, key: Key) -> State:
        args, kwargs = self._arguments()
        sites = _drawn_trace(self.model, args, kwargs, key)
        return {name: _unconstrained(site) for name, site in sites.items() if _is_parameter(site)}

    def log_prior(self, u: State) -> Scalar:
        """log p of all latent sites, with the log-Jacobians of the map from u to them."""
        if self.depth is not None:
            log_p, log_jacobian = self._summed_at(u, _hide_observed)
            return log_p + log_jacobian
        sites, log_jacobian = self._trace_at(u)
        return log_jacobian + _summed(site for site in sites.values() if _is_latent(site))

    def log_likelihood(self, u: State) -> Scalar:
        """log p of the observed sites, and factors."""
        if self.depth is not None:
            return self._summed_at(u)[0] - self._summed_at(u, _hide_observed)[0]
        sites, _ = self._trace_at(u)
        return _summed(site for site in sites.values() if _is_observed(site))

    def constrain(self, u: State) -> dict[str, Array]:
        """Latent and deterministic sites by name; the continuous ones alone where others are summed out."""
        sites, _ = self._trace_at(u)
        others = () if self.depth is not None else ("deterministic",)
        wanted = (site for site in sites.values() if _is_parameter(site) or site["type"] in others)
        return {site["name"]: jnp.asarray(site["value"]) for site in wanted}

    def unconstrain(self, values: dict[str, Array]) -> State:
        """The state with these values at its latent sites, as `MCMC.get_samples` has them; others are left out."""
        handlers, _ = _numpyro()
        args, kwargs = self._arguments()
        with handlers.substitute(data=values):
            sites = _drawn_trace(self.model, args, kwargs, jax.random.key(0))
        parameters = {name: site for name, site in sites.items() if _is_parameter(site)}
        if missing := sorted(parameters.keys() - values.keys()):
            raise InputError(f"A dict must have all parameters of the model; `{missing[0]}` is missing.")
        return {name: _unconstrained(site) for name, site in parameters.items()}

    def _trace_at(self, u: State) -> tuple[Sites, Scalar]:
        handlers, _ = _numpyro()
        args, kwargs = self._arguments()
        value_of, log_jacobians = _constraining(u)
        # Discrete sites, on which nothing that is read here depends, get some value.
        seeded = nullcontext() if self.depth is None else handlers.seed(rng_seed=0)
        with handlers.trace() as sites, seeded, handlers.substitute(substitute_fn=value_of):
            self.model(*args, **kwargs)
        return sites, sum(log_jacobians, jnp.zeros(()))

    def _summed_at(
        self, u: State, hidden: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda model: model
    ) -> tuple[Scalar, Scalar]:
        """log p of all sites that are not hidden, summed over the discrete ones, and the log-Jacobian."""
        handlers, _ = _numpyro()
        args, kwargs = self._arguments()
        value_of, log_jacobians = _constraining(u)
        model = handlers.substitute(hidden(self.model), substitute_fn=value_of)
        assert self.depth is not None
        log_p = summed_log_density(model, args, kwargs, self.depth)
        return log_p, sum(log_jacobians, jnp.zeros(()))

    def _arguments(self) -> Any:
        return self.data.value if isinstance(self.data, _ConstantData) else self.data


def _numpyro() -> Any:
    numpyro = import_or_refuse("numpyro", "NumPyro")
    return numpyro.handlers, numpyro.distributions.biject_to


def _constraining(u: State) -> tuple[Callable[[Any], Any], list[Scalar]]:
    """What a model substitutes at its sites for unconstrained values, and the log-Jacobians that this leaves."""
    _, biject_to = _numpyro()
    log_jacobians: list[Scalar] = []

    def value_of(site: Any) -> Array | None:
        if not _is_latent(site) or site["name"] not in u:
            return None
        unconstrained = jnp.asarray(u[site["name"]])
        transform = biject_to(site["fn"].support)
        value = transform(unconstrained)
        if value.ndim - transform.codomain.event_dim > unconstrained.ndim - transform.domain.event_dim:
            raise InputError(
                f"The support of `{site['name']}` depends on a discrete parameter. Let its law depend on it, and not "
                "the set of its values."
            )
        log_jacobians.append(jnp.sum(transform.log_abs_det_jacobian(unconstrained, value)))
        return value

    return value_of, log_jacobians


def _hide_observed(model: Callable[..., Any]) -> Callable[..., Any]:
    handlers, _ = _numpyro()
    return handlers.block(model, hide_fn=_is_observed)


def _drawn_trace(
    model: Callable[..., Any], args: Any, kwargs: Any, key: Key, look: Callable[[Any], None] = lambda site: None
) -> Sites:
    """All sites of a run that draws from the prior; `look` is called for each site before a value is drawn."""
    handlers, _ = _numpyro()
    with handlers.trace() as sites, handlers.seed(rng_seed=key), handlers.substitute(substitute_fn=look):
        model(*args, **kwargs)
    return sites


def _is_latent(site: Any) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _is_discrete(site: Any) -> bool:
    return _is_latent(site) and site["fn"].support.is_discrete


def _is_parameter(site: Any) -> bool:
    return _is_latent(site) and not site["fn"].support.is_discrete


def _is_observed(site: Any) -> bool:
    return site["type"] == "sample" and site["is_observed"]


def _is_factor(site: Any) -> bool:
    return type(site["fn"]).__name__ == "Unit"


def _is_numeric(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biuf"


def _summed(sites: Any) -> Scalar:
    scales = ((site, 1.0 if site["scale"] is None else site["scale"]) for site in sites)
    return sum((jnp.sum(site["fn"].log_prob(site["value"]) * scale) for site, scale in scales), jnp.zeros(()))


def _unconstrained(site: Any) -> Array:
    _, biject_to = _numpyro()
    return biject_to(site["fn"].support).inv(site["value"])


def _check_sites(runs: list[Sites]) -> None:
    first = runs[0]
    for sites in runs[1:]:
        different = {name for name, *_ in _shapes(first) ^ _shapes(sites)}
        if different:
            raise InputError(
                f"The sites of the model differ from run to run, `{min(different)}` for one, so that it does not "
                "define a single density. Take random choices out of its control flow: sum over them, as in a mixture."
            )
    for site in first.values():
        _check_kind(site)  # also those for which `look` was not called
    if not any(_is_latent(site) for site in first.values()):
        raise InputError("The model has no parameter: every sample site is observed, so that log Z is its log density.")
    if not any(_is_parameter(site) for site in first.values()):
        raise InputError(
            "Every parameter of the model is discrete, so that nothing is left to sample. The sum over their values, "
            "numpyro.contrib.funsor.log_density, is log Z itself."
        )
    if any(_is_discrete(site) for site in first.values()):
        funsor_of_numpyro()
        check_plates(first)
    if not any(_is_observed(site) for site in first.values()):
        raise InputError("The model observes nothing, so that log Z is 0. Pass the data that its `obs=` need.")


def _shapes(sites: Sites) -> set[tuple[str, bool, tuple[int, ...]]]:
    sampled = [site for site in sites.values() if site["type"] == "sample"]
    return {(site["name"], site["is_observed"], jnp.shape(site["value"])) for site in sampled}


def _check_kind(site: Any) -> None:
    name, kind = site["name"], site["type"]
    if kind == "param":
        raise InputError(f"`{name}` is a param and has no prior. Sample it from one, or pass its value as an argument.")
    if kind in ("control_flow", "prng_key", "mutable"):
        raise InputError(
            f"`{name}` is a {kind} site, and sample statements inside it cannot be seen. Use plain Python, or jax.lax "
            "without sample statements inside, instead of NumPyro's scan and cond."
        )
    if kind == "plate" and site["value"] is not None and len(site["value"]) != site["args"][0]:
        raise InputError(
            f"The plate `{name}` uses {len(site['value'])} of {site['args'][0]} data at a time, so that the likelihood "
            "differs from run to run. Leave out `subsample_size`."
        )
    if _is_latent(site):
        _check_latent(site)


def _check_latent(site: Any) -> None:
    _, biject_to = _numpyro()
    name, kinds = site["name"], _kinds_of_layers(site["fn"])
    for kind, why in _REFUSED_PRIORS.items():
        if kind in kinds:
            raise InputError(why.format(name=name))
    if site["scale"] is not None and not np.all(np.asarray(site["scale"]) == 1):
        raise InputError(f"The prior of `{name}` is scaled, which leaves it unnormalised. Scale observed sites only.")
    if site["fn"].support.is_discrete:
        check_enumerable(site)
        return
    try:
        biject_to(site["fn"].support)
    except NotImplementedError as error:
        raise InputError(
            f"The support of `{name}`, {site['fn'].support}, has no map from unconstrained space. Build it from real "
            "parameters with numpyro.deterministic."
        ) from error


def _kinds_of_layers(distribution: Any) -> set[str]:
    """The class names of a distribution and of those that it wraps."""
    kinds = set()
    while distribution is not None:
        kinds.add(type(distribution).__name__)
        distribution = getattr(distribution, "base_dist", None)
    return kinds


def _evidence(sites: Sites) -> str:
    observed = [site for site in sites.values() if _is_observed(site)]
    factors = [site["name"] for site in observed if _is_factor(site)]
    data = [site for site in observed if not _is_factor(site)]
    powers = [site["name"] for site in data if site["scale"] is not None]
    words = evidence_in_words([(site["name"], site["fn"].support.is_discrete) for site in data], "factors", factors)
    return words + (f", with {', '.join(powers)} scaled as in the model" if powers else "")
