# %% [markdown]
# # An Ising model
#
# One run gives log Z of an Ising model at every inverse temperature between 0 and its own. Here it is
# held against Kaufman's exact answer, and the energy follows from its slope.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tempering as tp

model = tp.Ising.square(10, 10, coupling=0.6)  # a torus, below its critical temperature
result = tp.estimate(model, betas="uniform", num_rungs=61, num_sweeps=1500, keep_draws=True, progress=False)
print(result)

# %% [markdown]
# ## Free energy and energy
#
# Rung k is the same lattice with the coupling K = 0.6 β_k. The slope of log Z in K, divided by the number
# of bonds, is the mean product of neighbouring spins. It rises where the lattice orders.

# %%
couplings = 0.6 * result.betas
found = result.log_z_by_rung
exact = np.array([tp.Ising.square(10, 10, coupling=coupling).quick_log_z() for coupling in couplings])
left, right = plt.figure(figsize=(9, 3.4), layout="constrained").subplots(1, 2)
left.fill_between(couplings, -2 * found.std_errors, 2 * found.std_errors, alpha=0.3, label="two standard errors")
left.plot(couplings, found.values - exact, label="estimate − exact")
left.set(xlabel="coupling K", ylabel="nats")
left.legend(frameon=False)
right.plot(couplings, np.gradient(exact, couplings) / 200, color="0.6", label="exact")
right.plot(couplings, np.gradient(found.values, couplings) / 200, ".", markersize=4, label="from the run")
right.axvline(np.log(1 + np.sqrt(2)) / 2, linestyle=":", color="0.4", label="critical, infinite lattice")
right.set(xlabel="coupling K", ylabel="⟨s s'⟩ per bond")
right.legend(frameon=False)

# %% [markdown]
# ## Draws
#
# The ordered lattice has two modes, up and down. A chain at K = 0.6 alone would stay in one of them;
# tempered chains pass through the disordered lattice and find both.

# %%
spins = np.asarray(result.draws.resampled(500))
magnetisation = spins.mean(axis=1)
plt.figure(figsize=(5, 2.4), layout="constrained")
plt.hist(magnetisation, bins=np.linspace(-1.05, 1.05, 43))
plt.xlabel("magnetisation of a draw")
plt.ylabel("draws")
print(f"{np.mean(magnetisation > 0):.0%} of the draws are up")

# %%
tp.plots.samples(result, shape=(10, 10))

# %% [markdown]
# The same on a command line: `tempering estimate ising:10x10:0.6 --report ising.html`. For other
# lattices, Potts models and Boltzmann machines see [discrete models](../guides/discrete.md).
