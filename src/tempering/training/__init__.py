"""Training RBMs: gradients, optimizers, and the likelihood on the way."""

# Nothing is imported here: `import tempering` passes through, and `optimizers` needs Optax, which few will have.
