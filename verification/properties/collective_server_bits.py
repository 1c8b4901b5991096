"""The server sends the bit w >= 0 wherever rounding cannot change it."""

from __future__ import annotations

from verification.property import Property, collective_clauses
from verification.strategies import collective_cases

PROPERTY = Property(
    id="collective.server_bits",
    law="C2",
    title="The server sends the bit w >= 0 wherever rounding cannot change it.",
    catches="server error forgotten or of the wrong sign, bits of the wrong worker",
    cases=collective_cases,
    check=collective_clauses("server_bits"),
)
