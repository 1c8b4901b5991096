"""The inputs of a check, as plain arrays: what is shrunk, printed and run again."""

from __future__ import annotations

from dataclasses import dataclass, field

from verification.protocol import Array, Hyper


@dataclass(frozen=True)
class CollectiveCase:
    """One call of a collective, or several: each round is (buffers_ND, worker_errors_ND, server_error_D).

    Attributes:
        rounds: the calls, made on one instance.
        exact: dyadic inputs, on which no operation rounds.
    """

    rounds: tuple[tuple[Array, Array, Array], ...]
    exact: bool = False

    @property
    def n_workers(self) -> int:
        return self.rounds[0][0].shape[0]

    @property
    def dim(self) -> int:
        return self.rounds[0][0].shape[1]

    def __repr__(self) -> str:
        return f"CollectiveCase(N={self.n_workers}, D={self.dim}, rounds={len(self.rounds)})"


@dataclass(frozen=True)
class OptimizerCase:
    """A run of an optimizer.

    Attributes:
        params_D: where it starts.
        grads_TND: gradients of the steps, in order.
        hyper: hyper-parameters.
        program: what is done, in order: "step", "reload" (save, then load into a new instance), "resize 3" (load on
            three workers; gradients of workers that are not there are left out, missing ones repeat the first).
        exact: dyadic inputs, on which no operation of a compression round rounds.
    """

    params_D: Array
    grads_TND: Array
    hyper: Hyper
    program: tuple[str, ...] = field(default=())
    exact: bool = False

    @property
    def n_workers(self) -> int:
        return self.grads_TND.shape[1]

    @property
    def dim(self) -> int:
        return self.params_D.size

    @property
    def operations(self) -> tuple[str, ...]:
        """The program; one step a gradient if none is given."""
        return self.program or ("step",) * len(self.grads_TND)

    def __repr__(self) -> str:
        return f"OptimizerCase(N={self.n_workers}, D={self.dim}, {', '.join(self.operations)}, {self.hyper})"


Case = CollectiveCase | OptimizerCase


def _print_short(self: Case, printer: object, cycle: bool) -> None:
    """What Hypothesis prints: it would otherwise spell out every array of every failing case."""
    printer.text(repr(self))  # pyright: ignore[reportAttributeAccessIssue]


CollectiveCase._repr_pretty_ = OptimizerCase._repr_pretty_ = _print_short  # pyright: ignore[reportAttributeAccessIssue]
