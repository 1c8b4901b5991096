"""Small searches for the tests here."""

from __future__ import annotations

import pytest
from search_support import BRIEF


@pytest.fixture(scope="session")
def brief():
    return BRIEF
