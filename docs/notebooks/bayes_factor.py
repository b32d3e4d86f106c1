# %% [markdown]
# # A Bayes factor in NumPyro
#
# Are there outliers in these data? One model says no. The other has a share of outliers, and for
# every point a bit that says whether it is one. NumPyro sums the bits out, `tempering` estimates both
# evidences, and their ratio is the Bayes factor.
#
# `pip install 'tempering[funsor,plots]'`

# %%
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.special import logsumexp
from scipy.stats import halfnorm, multivariate_normal

import tempering as tp

rng = np.random.default_rng(5)
x = np.sort(rng.uniform(0, 10, 20))
y = 1.0 + 0.7 * x + rng.normal(0, 0.5, 20)
y[[4, 13]] += [4.0, -5.0]


# %%
def line(x, y=None):
    a = numpyro.sample("a", dist.Normal(0, 5))
    b = numpyro.sample("b", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with numpyro.plate("points", len(x)):
        numpyro.sample("y", dist.Normal(a + b * x, sigma), obs=y)


def line_with_outliers(x, y=None):
    a = numpyro.sample("a", dist.Normal(0, 5))
    b = numpyro.sample("b", dist.Normal(0, 2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    share = numpyro.sample("share", dist.Beta(1, 5))
    with numpyro.plate("points", len(x)):
        is_outlier = numpyro.sample("is_outlier", dist.Bernoulli(share))
        numpyro.sample("y", dist.Normal(a + b * x, jnp.where(is_outlier, 10.0, sigma)), obs=y)


# %% [markdown]
# Two runs, with seeds of their own, and their ratio. Each run goes on until its error is small enough
# and its verdict good.

# %%
models = {"a line": tp.from_numpyro(line, x, y=y), "with outliers": tp.from_numpyro(line_with_outliers, x, y=y)}
results = [tp.estimate(model, target_error=0.03, seed=seed) for seed, model in enumerate(models.values())]
print(*results, sep="\n")
ratio = tp.log_ratio(results[1], results[0])
print(ratio)

# %% [markdown]
# The evidence of the first model can be checked: for a given sigma the data are jointly normal, and one
# integral is left.

# %%
sigma = np.linspace(0.01, 10, 3000)
covariances = sigma[:, None, None] ** 2 * np.eye(20) + 5.0**2 + 2.0**2 * np.outer(x, x)
log_p = [multivariate_normal.logpdf(y, np.zeros(20), covariance) for covariance in covariances]
exact = logsumexp(log_p + halfnorm.logpdf(sigma, scale=2)) + np.log(sigma[1] - sigma[0])
print(f"a line: log Z = {exact:.3f} by quadrature")

# %% [markdown]
# The draws of each run are draws of its posterior. The lines show what the outliers do to the plain
# model.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, result, name in zip(axes, results, models, strict=True):
    draws = result.draws.resampled(60)
    ax.plot(x, draws["a"] + np.outer(x, draws["b"]), color="C0", alpha=0.15)  # a and b are not constrained
    ax.plot(x, y, "o", color="0.2")
    ax.set(title=f"{name}: log Z = {result.log_z:.2f} ± {result.std_error:.2f}", xlabel="x")

# %%
tp.plots.samples(results[1], names=["a", "b", "share", "sigma"])

# %% [markdown]
# More about evidences, PyMC, and what log Z refers to: [evidence and Bayes
# factors](../guides/bayes.md).
