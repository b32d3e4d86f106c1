"""What happens before the draws that count: a first guess of log Z, start states, step sizes, rungs."""

from tempering.warmups.annealed_start import AnnealedStart as AnnealedStart
from tempering.warmups.annealed_start import Annealing as Annealing
from tempering.warmups.annealed_start import annealing_ladder as annealing_ladder
from tempering.warmups.hysteresis import HysteresisStart as HysteresisStart
from tempering.warmups.initial_iterations import InitialIterations as InitialIterations
from tempering.warmups.self_adjusting import SelfAdjusting as SelfAdjusting
from tempering.warmups.self_adjusting import adjust as adjust
from tempering.warmups.sequential import SequentialStart as SequentialStart
from tempering.warmups.starting_anew import started_anew as started_anew
from tempering.warmups.tuned import Tuned as Tuned
from tempering.warmups.tuned import tuned_if_needed as tuned_if_needed
