"""Estimators: pure functions from statistics to log Z with an error bar.

- Tempered sampling: `rts`, `equilibrated_rts` (what `tempering.estimate` reports), `bias_corrected_rts`,
  `continuous_rts`, `ts`; `mixed` from several runs; `sd` and `rsd` from transitions; `log_likelihood` and
  `maximum_likelihood` as a check. All read `TemperingStats`, `BlockedStats` or a `Recording`.
- One answer from several readings of a run: `auto`. What chains share from their start: `with_shared_starts`.
- From the draws at each rung: `ti`, `stepping_stone`, `bridge_sampling`, `controlled_bridge`.
- Draws at several rungs, as `ReducedDraws`: `mbar`, `solve_mbar`, `asymptotic_covariance`, `bar`, `bar_chain`.
- Annealing, from `AnnealWeights`: `ais`, `reverse_ais`, `raise_bound`, `raise_log_likelihood`, `Sandwich`;
  `effective_sample_size` and `pareto_k` judge the weights.
- Self-adjusting weights: `sams`, `wang_landau`, from `Adjusted`.
- Expectations under the target: `expectation`, from `TargetSums`.
- Equilibration: `find_equilibration`, `equilibrated`.
- All methods by name: `METHODS`, each a `Method`.

Answers are `LogZ`. `Keep` says what a run must keep for a method.
"""

from tempering.estimators.adjusted import Adjusted as Adjusted
from tempering.estimators.adjusted import sams as sams
from tempering.estimators.adjusted import wang_landau as wang_landau
from tempering.estimators.annealed import Annealed as Annealed
from tempering.estimators.annealed import ais as ais
from tempering.estimators.auto import auto as auto
from tempering.estimators.bennett import bar as bar
from tempering.estimators.bennett import bar_chain as bar_chain
from tempering.estimators.bridging import bridge_sampling as bridge_sampling
from tempering.estimators.controlled import controlled_bridge as controlled_bridge
from tempering.estimators.equilibration import Equilibration as Equilibration
from tempering.estimators.equilibration import equilibrated as equilibrated
from tempering.estimators.equilibration import find_equilibration as find_equilibration
from tempering.estimators.expectations import Expectation as Expectation
from tempering.estimators.expectations import expectation as expectation
from tempering.estimators.likelihood import log_likelihood as log_likelihood
from tempering.estimators.likelihood import maximum_likelihood as maximum_likelihood
from tempering.estimators.log_z import LogZ as LogZ
from tempering.estimators.methods import METHODS as METHODS
from tempering.estimators.methods import Method as Method
from tempering.estimators.methods import RunKind as RunKind
from tempering.estimators.methods import TemperedRun as TemperedRun
from tempering.estimators.mixed_guesses import mixed as mixed
from tempering.estimators.multistate import MBARSolution as MBARSolution
from tempering.estimators.multistate import asymptotic_covariance as asymptotic_covariance
from tempering.estimators.multistate import mbar as mbar
from tempering.estimators.multistate import solve_mbar as solve_mbar
from tempering.estimators.pareto import effective_sample_size as effective_sample_size
from tempering.estimators.pareto import pareto_k as pareto_k
from tempering.estimators.reverse import RowLikelihood as RowLikelihood
from tempering.estimators.reverse import Sandwich as Sandwich
from tempering.estimators.reverse import raise_bound as raise_bound
from tempering.estimators.reverse import raise_log_likelihood as raise_log_likelihood
from tempering.estimators.reverse import reverse_ais as reverse_ais
from tempering.estimators.rts_after_equilibration import equilibrated_rts as equilibrated_rts
from tempering.estimators.shared_starts import with_shared_starts as with_shared_starts
from tempering.estimators.stationary import rsd as rsd
from tempering.estimators.stationary import sd as sd
from tempering.estimators.stepping import stepping_stone as stepping_stone
from tempering.estimators.tempered import bias_corrected_rts as bias_corrected_rts
from tempering.estimators.tempered import continuous_rts as continuous_rts
from tempering.estimators.tempered import rts as rts
from tempering.estimators.tempered import ts as ts
from tempering.estimators.thermodynamic import ti as ti
from tempering.estimators.uncertainty import Errors as Errors
from tempering.estimators.uncertainty import Uncertainty as Uncertainty
from tempering.stats import AnnealWeights as AnnealWeights
from tempering.stats import BlockedStats as BlockedStats
from tempering.stats import HostTargetSums as HostTargetSums
from tempering.stats import Keep as Keep
from tempering.stats import Recording as Recording
from tempering.stats import ReducedDraws as ReducedDraws
from tempering.stats import TargetSums as TargetSums
from tempering.stats import TemperingStats as TemperingStats
from tempering.verdicts import Finding as Finding
from tempering.verdicts import Verdict as Verdict
