"""Figures of results. They need matplotlib."""
