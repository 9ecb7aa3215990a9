"""When a reduced Vision Transformer will collapse, and of what: pure functions, each with an accumulator."""

from catis.diagnostics.amplifier import Channel, closed_form, recurrence
from catis.diagnostics.amplifier_fit import AmplifierFit, fit_amplifier
from catis.diagnostics.assumptions import measure_assumptions
from catis.diagnostics.consistency import (
    RankingConsistency,
    frobenius_distance,
    key_cosine,
    pairwise_consistency,
    unary_consistency,
    unary_signals,
)
from catis.diagnostics.correlation import OffDiagonal, chance_level, matched_level, off_diagonal
from catis.diagnostics.critical import CriticalR, DepthFit, find_critical_r, fit_depth
from catis.diagnostics.distortion import Distortion, cosine_distance
from catis.diagnostics.dual_fit import DualFit, fit_dual
from catis.diagnostics.estimates import BlockMeans, Estimate, band_blocks, bands
from catis.diagnostics.pareto import ConvexityTest, check_convexity
from catis.diagnostics.perturbation import energy_scaling, perturbation_energy
from catis.diagnostics.ranks import average_ranks, spearman
from catis.diagnostics.verdict import Verdict, judge

__all__ = [
    "AmplifierFit",
    "BlockMeans",
    "Channel",
    "ConvexityTest",
    "CriticalR",
    "DepthFit",
    "Distortion",
    "DualFit",
    "Estimate",
    "OffDiagonal",
    "RankingConsistency",
    "Verdict",
    "average_ranks",
    "band_blocks",
    "bands",
    "chance_level",
    "check_convexity",
    "closed_form",
    "cosine_distance",
    "energy_scaling",
    "find_critical_r",
    "fit_amplifier",
    "fit_depth",
    "fit_dual",
    "frobenius_distance",
    "judge",
    "key_cosine",
    "matched_level",
    "measure_assumptions",
    "off_diagonal",
    "pairwise_consistency",
    "perturbation_energy",
    "recurrence",
    "spearman",
    "unary_consistency",
    "unary_signals",
]
