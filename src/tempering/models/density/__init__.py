"""Densities that users write down: any log f, posteriors, mixtures, sequences."""
