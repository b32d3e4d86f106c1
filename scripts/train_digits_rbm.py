"""Train the small RBM that the package ships for its examples, and write it with its exact log Z.

A binary RBM of 64 visible and 16 hidden units learns scikit-learn's 8×8 digits, binarized, by persistent
contrastive divergence. With 16 hidden units log Z can be enumerated, so every estimate has a right answer.

    pip install -e '.[digits]'
    python scripts/train_digits_rbm.py            # writes src/tempering/data/digits_rbm.npz in a few seconds

The file holds W (64, 16), vbias, hbias and frequencies (smoothed pixel frequencies, a base distribution) in
float32, and in float64 log_z (of the weights as stored) and mean_log_likelihood (nats per training image).
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from tempering.models.rbm.enumeration import log_z_by_enumeration

Floats = NDArray[np.floating]

DEFAULT_OUT = Path(__file__).resolve().parents[1] / "src" / "tempering" / "data" / "digits_rbm.npz"
NUM_HIDDEN = 16
NUM_CHAINS = 200
BATCH_SIZE = 100
LEARNING_RATE = 0.2  # at the start; falls linearly to zero, so that the persistent chains catch up
WEIGHT_DECAY = 1e-4
THRESHOLD = 7  # of grey levels 0 to 16


def binary_digits() -> Floats:
    """The 1797 images as 0/1 rows of 64 pixels."""
    return (load_digits(return_X_y=True)[0] > THRESHOLD).astype(np.float64)


def sigmoid(x: Floats) -> Floats:
    return 0.5 * (1.0 + np.tanh(0.5 * x))  # unlike 1 / (1 + exp(−x)), cannot overflow


def pixel_frequencies(data: Floats) -> Floats:
    """Smoothed so that pixels which are never on keep a finite log-odds."""
    return (data.sum(axis=0) + 1.0) / (len(data) + 2.0)


def independent_log_likelihood(data: Floats, frequencies: Floats) -> float:
    """Mean log-likelihood of a model whose pixels are independent: what the hidden units must beat."""
    return float(np.mean(data @ np.log(frequencies) + (1.0 - data) @ np.log1p(-frequencies)))


def mean_log_likelihood(data: Floats, weights: Floats, vbias: Floats, hbias: Floats, log_z: float) -> float:
    """log p(v) = v·c + Σ_j softplus((vW + b)_j) − log Z, averaged over the images."""
    return float(np.mean(data @ vbias + np.logaddexp(0.0, data @ weights + hbias).sum(axis=1))) - log_z


def train(
    data: Floats,
    num_epochs: int,
    rng: np.random.Generator,
    report: Callable[[int, Floats, Floats, Floats], None],
) -> tuple[Floats, Floats, Floats]:
    """Persistent contrastive divergence; `report` is called with the parameters ten times along the way."""
    frequencies = pixel_frequencies(data)
    weights = 0.01 * rng.standard_normal((data.shape[1], NUM_HIDDEN))
    vbias, hbias = np.log(frequencies) - np.log1p(-frequencies), np.zeros(NUM_HIDDEN)
    chains = (rng.random((NUM_CHAINS, data.shape[1])) < frequencies).astype(np.float64)
    for epoch in range(num_epochs):
        rate = LEARNING_RATE * (1.0 - epoch / num_epochs)
        order = rng.permutation(len(data))
        for start in range(0, len(data), BATCH_SIZE):
            batch = data[order[start : start + BATCH_SIZE]]
            hidden = sigmoid(batch @ weights + hbias)
            on = rng.random((NUM_CHAINS, NUM_HIDDEN)) < sigmoid(chains @ weights + hbias)
            chains = (rng.random(chains.shape) < sigmoid(on @ weights.T + vbias)).astype(np.float64)
            chain_hidden = sigmoid(chains @ weights + hbias)
            gradient = batch.T @ hidden / len(batch) - chains.T @ chain_hidden / NUM_CHAINS
            weights += rate * (gradient - WEIGHT_DECAY * weights)
            vbias += rate * (batch.mean(axis=0) - chains.mean(axis=0))
            hbias += rate * (hidden.mean(axis=0) - chain_hidden.mean(axis=0))
        if (epoch + 1) % max(1, num_epochs // 10) == 0:
            report(epoch + 1, weights, vbias, hbias)
    return weights, vbias, hbias


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the 64 × 16 digits RBM and write it with its exact log Z.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="default: the file in the package")
    parser.add_argument("--epochs", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    data = binary_digits()
    frequencies = pixel_frequencies(data)
    print(f"independent pixels: mean log-likelihood {independent_log_likelihood(data, frequencies):.3f}")

    def report(epoch: int, weights: Floats, vbias: Floats, hbias: Floats) -> None:
        log_z = log_z_by_enumeration(weights, vbias, hbias)
        log_likelihood = mean_log_likelihood(data, weights, vbias, hbias, log_z)
        print(f"epoch {epoch}: log Z {log_z:.3f}, mean log-likelihood {log_likelihood:.3f}", flush=True)

    trained = train(data, args.epochs, np.random.default_rng(args.seed), report)
    # Rounded first: log Z and the likelihood must be those of the numbers that are stored.
    weights, vbias, hbias = (a.astype(np.float32) for a in trained)
    log_z = log_z_by_enumeration(weights, vbias, hbias)
    log_likelihood = mean_log_likelihood(data, weights, vbias, hbias, log_z)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        args.out,
        W=weights,
        vbias=vbias,
        hbias=hbias,
        frequencies=frequencies.astype(np.float32),
        log_z=np.float64(log_z),
        mean_log_likelihood=np.float64(log_likelihood),
    )
    print(f"{args.out}: log Z {log_z:.9f}, mean log-likelihood {log_likelihood:.6f}")


if __name__ == "__main__":
    main()
