"""P9: 1-bit Adam converges further than the SGD family at the same number of samples."""

from __future__ import annotations

import numpy as np

from paper_figures.algorithms import MOMENTUM, ONE_BIT, SGD_FAMILY
from paper_figures.claims.claim import Check, Claim, Facts
from paper_figures.claims.problems import FIGURES, finals
from paper_figures.claims.statistics import Runs, better

OF = "the final loss of the best of the SGD family, seed by seed"


def measure(facts: Facts) -> list[Check]:
    """Final loss against the best of the family on each seed, which favours the family."""
    checks = []
    for problem, runs in finals(facts):
        family = [runs(algorithm.label) for algorithm in SGD_FAMILY]
        best = Runs(
            "the best of the SGD family",
            np.min([other.log_S for other in family], axis=0),
            np.all([other.diverged_S for other in family], axis=0),
            family[0].seeds_S,
        )
        checks.append(better(runs(ONE_BIT.label), best, problem, of=OF, part=problem))
    return checks


CLAIM = Claim(
    id="P9",
    title="Better than the SGD family",
    statement=(
        "1-bit Adam ends at a lower loss than SGD, momentum SGD, two-sided error-compensated SGD and local SGD, each "
        "of them, as it is itself, at its own best step size."
    ),
    where="the comparison on CIFAR-10",
    published="",
    source="recalled",
    conditions="Where one step size suits all coordinates Adam has no advantage over SGD, compressed or not.",
    figures=FIGURES,
    pair=(ONE_BIT.label, MOMENTUM.label),
    measure=measure,
)
