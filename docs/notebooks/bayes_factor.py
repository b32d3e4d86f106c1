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
# Two runs, with seeds of their own, and their ratio.

# %%
how = {"num_rungs": 30, "num_sweeps": 600, "progress": False}
plain = tp.estimate(tp.from_numpyro(line, x, y=y), seed=0, **how)
robust = tp.estimate(tp.from_numpyro(line_with_outliers, x, y=y), seed=1, **how)
print(plain)
print(robust)
ratio = tp.log_ratio(robust, plain)
print(ratio)

# %% [markdown]
# The draws of each run are draws of its posterior. The lines show what the outliers do to the plain
# model.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, result, name in zip(axes, (plain, robust), ("a line", "a line with outliers"), strict=True):
    model = tp.from_numpyro(line if result is plain else line_with_outliers, x, y=y)
    for draw in range(60):
        state = {name: values[draw] for name, values in result.draws.resampled(60).items()}
        named = model.named(state)
        ax.plot(x, named["a"] + named["b"] * x, color="C0", alpha=0.15)
    ax.plot(x, y, "o", color="0.2")
    ax.set(title=f"{name}: log Z = {result.log_z:.1f} ± {result.std_error:.1f}", xlabel="x")

# %%
tp.plots.samples(robust, names=["a", "b", "share", "sigma"])

# %% [markdown]
# More about evidences, PyMC, and what log Z refers to: [evidence and Bayes
# factors](../guides/bayes.md).
