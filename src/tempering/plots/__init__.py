"""Figures of results. They need matplotlib: `pip install 'tempering[plots]'`.

- Of a run: `ladder`, `occupancy`, `transitions`, `traces`, `convergence`.
- Of its answers: `comparison` shows all methods side by side, or all readings of one run.
- Of its draws: `samples`.
- Of training: `training`.

Each draws on `ax=`, or on a new figure of matplotlib's, and returns the axes. Colours suit a light or a dark ground;
`theme="dark"` asks for one. `can_plot` says whether matplotlib is installed.
"""

from tempering.plots.comparison_plot import comparison as comparison
from tempering.plots.convergence_plot import convergence as convergence
from tempering.plots.ladder_plot import ladder as ladder
from tempering.plots.occupancy_plot import occupancy as occupancy
from tempering.plots.samples_plot import samples as samples
from tempering.plots.style import can_plot as can_plot
from tempering.plots.traces_plot import traces as traces
from tempering.plots.training_plot import training as training
from tempering.plots.transitions_plot import transitions as transitions
