# %% [markdown]
# # An RBM in PyTorch
#
# An RBM is trained in PyTorch on bars and stripes: images of 4 × 4 pixels in which whole rows or
# whole columns are set. There are 30 of them. No model gives them a higher mean log-likelihood than
# −log 30 = −3.40. How close does this one come?
#
# `pip install 'tempering[torch,safetensors,plots]'`

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np
import torch
from safetensors.torch import save_file

import tempering as tp

lines = np.array(list(itertools.product([0, 1], repeat=4)))
stripes = np.repeat(lines, 4, axis=0).reshape(16, 4, 4)
data = np.unique(np.concatenate([stripes, stripes.transpose(0, 2, 1)]).reshape(-1, 16), axis=0)
print(len(data), "images")

# %% [markdown]
# The training is the usual recipe: persistent contrastive divergence.

# %%
torch.manual_seed(0)
torch.set_num_threads(1)
num_updates = 6000
W = (0.1 * torch.randn(16, 20)).requires_grad_()
vbias, hbias = torch.zeros(16, requires_grad=True), torch.zeros(20, requires_grad=True)
optimizer = torch.optim.Adam([W, vbias, hbias], lr=0.01)
rows, chains = torch.tensor(data, dtype=torch.float32), torch.bernoulli(torch.full((200, 16), 0.5))


def free_energy(v):
    return -v @ vbias - torch.nn.functional.softplus(v @ W + hbias).sum(dim=1)


for _ in range(num_updates):
    with torch.no_grad():
        for _ in range(5):
            h = torch.bernoulli(torch.sigmoid(chains @ W + hbias))
            chains = torch.bernoulli(torch.sigmoid(h @ W.T + vbias))
    loss = free_energy(rows).mean() - free_energy(chains).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown]
# ## log Z, and the likelihood
#
# `tp.RBM` takes tensors. The base is that of independent pixels with the frequencies of the data.

# %%
rbm = tp.RBM(W.detach(), vbias.detach(), hbias.detach())
result = tp.estimate(rbm, base=data, data=data, num_sweeps=2000, keep_draws=True, progress=False)
print(result)
likelihood = result.mean_log_likelihood
low, high = likelihood.interval
print(f"mean log-likelihood {likelihood.value:.3f} ({low:.3f} to {high:.3f}), at most {-np.log(30):.3f}")
print(f"exact log Z {result.exact_log_z:.3f}, by enumeration of 2^16 images")

# %%
tp.plots.samples(result, shape=(4, 4))
# %% [markdown]
# Nearly all samples are bars or stripes:

# %%
draws = np.asarray(result.draws.resampled(1000).v).astype(int)
known = {tuple(image) for image in data}
print(f"{np.mean([tuple(image) in known for image in draws]):.0%} of the samples are bars or stripes")

# %% [markdown]
# So the samples look right, and yet the likelihood is far from −3.40. The log-probability of each image
# says why: a few of them are hardly ever drawn. Samples do not show what is missing; log Z does.

# %%
log_p = np.asarray(rbm.log_density(data)) - result.log_z
order = np.argsort(log_p)[::-1]
rarest = ["".join(".#"[pixel] for pixel in row) for row in data[order[-1]].reshape(4, 4)]
print("the rarest image:", *rarest, sep="\n")
plt.figure(figsize=(6, 2.6), layout="constrained")
plt.bar(range(30), log_p[order])
plt.axhline(-np.log(30), linestyle="--", color="0.4", label="−log 30")
plt.xlabel("images, from the most to the least probable")
plt.ylabel("log p")
plt.legend(frameon=False)
# %% [markdown]
# ## From a file
#
# Weights that PyTorch saved as safetensors are read by the command line too: `tempering estimate
# rbm.safetensors`.

# %%
save_file({"W": W.detach(), "vbias": vbias.detach(), "hbias": hbias.detach()}, "rbm.safetensors")
assert tp.load("rbm.safetensors").exact_log_z() == rbm.exact_log_z()

# %% [markdown]
# While training, three lines tell the likelihood at every update: [track a PyTorch
# loop](../guides/tracking_pytorch.md).
