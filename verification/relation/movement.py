"""Tolerances of x - rate (a + b): a step along terms that are known to tolerances of their own: P m and lambda x.

The model is that of ``theory.rounding``: u the unit roundoff, gamma_k = k u/(1 - k u) [T11a], eta the smallest
subnormal, by which a product may underflow. Bounds are for one arithmetic; a comparison adds that of our own float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theory import rounding
from theory.rounding.formats import scalar_error
from verification.protocol import Traits
from verification.relation.tolerances import fits

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """Numbers, and how far a correct implementation's may be from them; arrays that broadcast."""

    value: Any
    tolerance: Any = 0.0

    @property
    def reach(self) -> Any:
        """The largest magnitude that an implementation may hold."""
        return np.abs(self.value) + self.tolerance

    @classmethod
    def between(cls, low: Any, high: Any) -> Known:
        """Numbers in an interval; nothing is known where it is infinite."""
        with np.errstate(invalid="ignore"):
            whole = np.isfinite(low) & np.isfinite(high)
            middle = np.where(whole, (low + high) / 2, 0.0)
            return cls(middle, np.where(whole, (high - low) / 2, np.inf))


def product(known: Known, factor: Known, traits: Traits, roundings: int = 1) -> Known:
    """The product of two, in so many roundings.

    Proof. A product of numbers within tau_a of a and tau_b of b is within abs(a) tau_b + tau_a (abs(b) + tau_b) of a b.
    Its roundings are within gamma_k of at most (abs(a) + tau_a)(abs(b) + tau_b), and each may underflow by eta, which
    later factors of the same product multiply by at most 1 + abs(a) + tau_a + abs(b) + tau_b.
    """
    off = np.abs(known.value) * factor.tolerance + known.tolerance * factor.reach
    for dtype in (traits.dtype, "float64"):
        off = off + rounding.gamma(roundings, dtype) * (known.reach * factor.reach)
    underflow = roundings * spill(traits) * (1 + known.reach + factor.reach)
    return Known(known.value * factor.value, off + underflow * (known.reach * factor.reach > 0))


def stored(value: float, traits: Traits, roundings: int = 0) -> Known:
    """A hyper-parameter, or what is formed from it in so many roundings, as the implementation holds it."""
    relative = rounding.compose(scalar_error(value, traits.dtype), rounding.gamma(roundings, traits.dtype))
    return Known(value, relative * abs(value))


def spill(traits: Traits) -> float:
    """What one product may lose to underflow, by the implementation and by us."""
    own = rounding.smallest_subnormal("float64")
    return rounding.smallest_subnormal(traits.dtype) + own + traits.lost(2)


def moved(
    x: Any, terms: Sequence[Known], rate: Known, traits: Traits, *, beside: Any = 0.0, scaled: Any = 0.0
) -> Known:
    """x less rate times the sum of at most two terms.

    The rate may be applied to their sum or to each of them, in one factor or two; x less the decay may be formed first,
    or as x times 1 less a factor. ``beside``: how far x is from the point p where it began, if it may be kept as p less
    that way. ``scaled``: what a term may be multiplied by after the rate, such as P.

    Proof. Each term enters by a product with the rate of at most three roundings and one more where terms are added
    first: at most gamma_4 of its reach times the rate's, and it may underflow twice, the first time multiplied by
    ``scaled`` or by the rate. x takes part in two subtractions, and as x (1 - c) in two roundings more: gamma_4.
    With x kept as p - w, w at most abs(p - x)/(1 - u), the old x was read off by one rounding, w grows by an addition
    of each term, and is read off by another: gamma_4 of x and of p - x covers it, and gamma_3 of the terms.
    Nothing is known where the product with the rate, or the sum, may overflow.
    """
    total = sum(term.value for term in terms)
    reach = sum(term.reach for term in terms)
    tolerance = np.abs(rate.value) * sum(term.tolerance for term in terms) + rate.tolerance * reach
    for dtype in (traits.dtype, "float64"):
        tolerance = tolerance + rounding.gamma(4, dtype) * (np.abs(x) + 2 * beside)
        tolerance = tolerance + rounding.gamma(4 + 3, dtype) * (rate.reach * reach)
    some = (reach > 0) & (rate.reach > 0)
    tolerance = tolerance + some * 2 * len(terms) * spill(traits) * (1 + rate.reach + scaled)
    tolerance = np.where(fits(traits.dtype, reach, rate.reach, beside=np.abs(x) + 2 * beside), tolerance, np.inf)
    return Known(x - rate.value * total, tolerance)


def decay(weight_decay: float, x: Any, traits: Traits, times: Known | None = None) -> Known:
    """lambda x, times what is given."""
    found = product(stored(weight_decay, traits), Known(x), traits)
    return found if times is None else product(found, times, traits, 2)


def nothing_known(known: Known) -> Known:
    """The same; where there is no bound (v may be 0, and so is eps) any number is right."""
    with np.errstate(invalid="ignore"):
        bad = ~np.isfinite(known.value) | np.isnan(known.tolerance)
    return Known(np.where(bad, 0.0, known.value), np.where(bad, np.inf, known.tolerance))
