"""The oracle: one round, one step and one checkpoint as relations between the implementation's own states."""

from __future__ import annotations

from verification.protocol import Traits
from verification.relation.one_bit_lamb import LambRelation
from verification.relation.step import StepRelation
from verification.relation.transition import Transition
from verification.relation.zero_one_adam import ZeroOneRelation

RELATIONS: dict[str, type[Transition]] = {
    "one_bit_adam": StepRelation,
    "zero_one_adam": ZeroOneRelation,
    "one_bit_lamb": LambRelation,
}
"""Algorithm -> the relation of its steps."""


def relation_of(traits: Traits) -> type[Transition]:
    """The relation of the steps of a class."""
    return RELATIONS[traits.algorithm]
