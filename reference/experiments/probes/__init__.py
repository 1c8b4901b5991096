"""What a run can measure beside its usual columns. ``PROBES`` names them for run configurations."""

from __future__ import annotations

from reference.experiments.probes.base import Probe
from reference.experiments.probes.compression import Compression
from reference.experiments.probes.layers import Layers
from reference.experiments.probes.squares import Squares
from reference.experiments.probes.stationarity import Stationarity

PROBES: dict[str, type[Probe]] = {
    "layers": Layers,
    "compression": Compression,
    "stationarity": Stationarity,
    "squares": Squares,
}

__all__ = ["PROBES", "Probe"]
