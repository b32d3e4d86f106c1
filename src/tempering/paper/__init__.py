"""The figures of the paper, made again: one short module for each, which only calls the library.

- `FIGURES`: the modules by name, "fig1" to "fig8"; `make(setting)` gives a `Made`.
- `Setting`: where the data are, and whether to be quick.
- `Made`, `Row`: our numbers beside the published ones, and the picture; `write_table`: those of several figures.
- `published`: what the paper's figures show, as read off them.
- `datasets`: the data of the paper, downloaded and checked.
"""

from tempering.paper import figure1, figure2, figure3, figure4, figure5, figure6, figure7, figure8
from tempering.paper.making import Made as Made
from tempering.paper.making import Row as Row
from tempering.paper.making import Setting as Setting
from tempering.paper.making import write_table as write_table

FIGURES = {
    "fig1": figure1, "fig2": figure2, "fig3": figure3, "fig4": figure4,
    "fig5": figure5, "fig6": figure6, "fig7": figure7, "fig8": figure8,
}  # fmt: skip
