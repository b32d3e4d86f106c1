"""From statistics to findings and a verdict: may the number be believed, and when may a run stop."""

from tempering.diagnosis.checks import Diagnosis as Diagnosis
from tempering.diagnosis.checks import diagnose as diagnose
from tempering.diagnosis.checks import occupancy as occupancy
from tempering.diagnosis.checks import round_trips as round_trips
from tempering.diagnosis.checks import transition_matrix as transition_matrix
from tempering.diagnosis.checks import unequilibrated as unequilibrated
from tempering.diagnosis.knots import Knot as Knot
from tempering.diagnosis.knots import RungChain as RungChain
from tempering.diagnosis.knots import find_knots as find_knots
from tempering.diagnosis.knots import rung_chain as rung_chain
from tempering.diagnosis.stopping import Decision as Decision
from tempering.diagnosis.stopping import Goal as Goal
from tempering.diagnosis.stopping import Look as Look
from tempering.diagnosis.stopping import decide as decide
