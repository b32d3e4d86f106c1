"""Discrete models whose sites interact in pairs: Ising, Potts, Boltzmann machines."""
