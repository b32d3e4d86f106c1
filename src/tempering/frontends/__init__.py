"""Doors for what other programs made: parameters and data on disk."""
