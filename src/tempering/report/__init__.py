"""Reports: one self-contained page of HTML, light or dark as the reader's system asks, without any network.

- `run_report` of a run, `comparison_report` of a comparison, `training_report` of training.
- `directory_report` of what a run left in its directory, made without the model.
- `write_report` writes one to a file.
"""

from tempering.report.comparison_page import comparison_report as comparison_report
from tempering.report.directory_page import directory_report as directory_report
from tempering.report.directory_page import write_report as write_report
from tempering.report.run_page import run_report as run_report
from tempering.report.training_page import training_report as training_report
