"""What typer raises for a wrong call; newer typers carry click inside them, so it can't be imported from there."""

from __future__ import annotations

from typing import Any

import typer

USAGE_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
