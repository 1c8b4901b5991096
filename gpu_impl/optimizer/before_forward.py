"""Something to do once, right before a model's next forward pass for training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar
from weakref import ref

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

T = TypeVar("T")


def before_forward(owner: T, params: Iterable[Tensor], do: Callable[[T], object]) -> RemovableHandle:
    """Call ``do(owner)`` once, when a module that has one of ``params`` begins a forward pass with gradients.

    Torch tells nobody that a model has been loaded; but it tells of every forward pass of every module. One under
    ``torch.no_grad()`` does not count.

    Returns:
        A handle, to end it earlier; it ends with ``owner``, too.
    """
    ours = {id(param) for param in params}
    here = ref(owner, lambda _: handle.remove())

    def look(module: nn.Module, _: object) -> None:
        if torch.is_grad_enabled() and any(id(param) in ours for param in module.parameters()):
            handle.remove()
            if (there := here()) is not None:
                do(there)

    # compiled code must not take the hook in, for it is gone in the next pass
    handle = register_module_forward_pre_hook(torch.compiler.disable(look))  # pyright: ignore[reportArgumentType]
    return handle
