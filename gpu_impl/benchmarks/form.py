"""Which 1-bit Adam is timed: the settings of that name of ``OneBitAdam`` [C12, C13, C14]."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch
import typer

from gpu_impl.kernels.arguments import FROZEN_DTYPES
from gpu_impl.optimizer.settings import check_form

CompressOption = Annotated[str, typer.Option(metavar="momentum|update", help="What is compressed [C12].")]
ScaleBlockOption = Annotated[int | None, typer.Option(help="Elements that share a scale [C13]; none: a whole chunk.")]
FrozenDtypeOption = Annotated[str, typer.Option(metavar="float32|bfloat16", help="P is rounded to it [C14].")]


@dataclass(frozen=True)
class Form:
    """One form of the algorithm; the published one without arguments.

    Raises:
        ValueError: a value is not allowed.
    """

    compress: str = "momentum"
    scale_block: int | None = None
    frozen_dtype: str = "float32"

    def __post_init__(self) -> None:
        check_form(self.compress, self.scale_block, self.frozen_dtype)

    @classmethod
    def from_options(cls, compress: str, scale_block: int | None, frozen_dtype: str) -> Form:
        """From a command line.

        Raises:
            typer.BadParameter: a value is not allowed.
        """
        try:
            return cls(compress, scale_block, frozen_dtype)
        except ValueError as error:
            raise typer.BadParameter("--" + str(error).replace("_", "-", 1)) from None

    @property
    def in_updates(self) -> bool:
        """Whether ``compress`` reads P and ``apply`` does not [C12]."""
        return self.compress == "update"

    @property
    def dtype(self) -> torch.dtype:
        """Of P."""
        return FROZEN_DTYPES[self.frozen_dtype]

    def as_dict(self) -> dict[str, Any]:
        """Names and values, as ``OneBitAdam`` takes them."""
        return asdict(self)

    def __str__(self) -> str:
        blocks = "" if self.scale_block is None else f", blocks of {self.scale_block}"
        return f"{self.compress} form{blocks}, P in {self.frozen_dtype}"
