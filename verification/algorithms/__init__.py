"""The algorithms that implementations are checked for: a file each has what they differ in, but for the relation."""

from __future__ import annotations

from verification.algorithms.one_bit_adam import ONE_BIT_ADAM
from verification.algorithms.one_bit_lamb import ONE_BIT_LAMB
from verification.algorithms.zero_one_adam import ZERO_ONE_ADAM

ALGORITHMS = {one.name: one for one in (ONE_BIT_ADAM, ZERO_ONE_ADAM, ONE_BIT_LAMB)}
"""By the name that a class says in ``algorithm``."""
