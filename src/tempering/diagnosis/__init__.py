"""From statistics to findings and a verdict: whether an estimate can be trusted, and when a run may stop.

- The check of a run: `diagnose` gives a `Diagnosis` with `Finding`s and a `Verdict`.
- Its numbers: `round_trips`, `occupancy`, `transition_matrix`; `unequilibrated` is the finding of a warm-up,
  `open_tours` that of a run of whole tours, `captured` that of one whose tours are cut off, `heavy_target` and
  `beyond_the_run` those of a walk at the target, `beyond_all_draws` and `narrow_peak` those of rays.
- Bottlenecks of the ladder: `rung_chain` gives a `RungChain`, `find_knots` its `Knot`s; `rung_weight_cost` says what
  other rung weights would gain.
- Witnesses: `missed` is the finding of a `WitnessCheck`, which has the chains that stayed `Away` and the
  `MissingMass`.
- Stopping at a target error: `decide` turns a `Look` and a `Goal` into a `Decision`.
"""

from tempering.diagnosis.checks import Diagnosis as Diagnosis
from tempering.diagnosis.checks import diagnose as diagnose
from tempering.diagnosis.checks import occupancy as occupancy
from tempering.diagnosis.checks import open_tours as open_tours
from tempering.diagnosis.checks import round_trips as round_trips
from tempering.diagnosis.checks import transition_matrix as transition_matrix
from tempering.diagnosis.checks import unequilibrated as unequilibrated
from tempering.diagnosis.knots import Knot as Knot
from tempering.diagnosis.knots import RungChain as RungChain
from tempering.diagnosis.knots import find_knots as find_knots
from tempering.diagnosis.knots import rung_chain as rung_chain
from tempering.diagnosis.rays import beyond_all_draws as beyond_all_draws
from tempering.diagnosis.rays import narrow_peak as narrow_peak
from tempering.diagnosis.rung_flow import rung_weight_cost as rung_weight_cost
from tempering.diagnosis.stopping import Decision as Decision
from tempering.diagnosis.stopping import Goal as Goal
from tempering.diagnosis.stopping import Look as Look
from tempering.diagnosis.stopping import decide as decide
from tempering.diagnosis.tails import beyond_the_run as beyond_the_run
from tempering.diagnosis.tails import heavy_target as heavy_target
from tempering.diagnosis.time_reversal import captured as captured
from tempering.diagnosis.witnesses import Away as Away
from tempering.diagnosis.witnesses import MissingMass as MissingMass
from tempering.diagnosis.witnesses import WitnessCheck as WitnessCheck
from tempering.diagnosis.witnesses import missed as missed
from tempering.estimators.annealed import Annealed as Annealed
from tempering.estimators.log_z import LogZ as LogZ
from tempering.stats import BlockedStats as BlockedStats
from tempering.stats import Recording as Recording
from tempering.verdicts import Finding as Finding
from tempering.verdicts import Verdict as Verdict
