"""Where a run stands, and how that is shown: as a bar on a terminal or in a notebook, or as lines.

`bars` draws with rich. Nothing here imports it before a bar is shown, so that `import tempering` stays quick.
"""

from tempering.progress.pace import Pace as Pace
from tempering.progress.pace import in_hours as in_hours
from tempering.progress.progress import Progress as Progress
from tempering.progress.progress import Watch as Watch
from tempering.progress.shown import check_progress as check_progress
from tempering.progress.shown import is_terminal as is_terminal
from tempering.progress.shown import shown as shown
