"""Figures of results. They need matplotlib: `pip install 'tempering[plots]'`.

- `training_figure` draws the likelihoods of a training run; `plot_training` writes them to a file.
- `can_plot` says whether matplotlib is installed.
"""

from tempering.plots.training import HOW_TO_INSTALL as HOW_TO_INSTALL
from tempering.plots.training import can_plot as can_plot
from tempering.plots.training import plot_training as plot_training
from tempering.plots.training import training_figure as training_figure
