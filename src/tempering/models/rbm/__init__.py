"""Restricted Boltzmann machines: binary, Gaussian and categorical, and other paths to the binary one."""
