"""A small search, for tests that need no more."""

from verification.search.plan import Profile

BRIEF = Profile(1, 1, 12, triples=False, minutes=30, simplifying=200, largest=300)
"""One covering array of sizes up to 1024, so every pair of levels once; twelve seeds without rounding."""
