"""Parameters that a module has given up for new objects, as ``load_state_dict(assign=True)`` does.

The optimizer holds the old ones: it would go on with these, and the model would not be trained. Torch tells of every
parameter that a module registers. What gets into a module past that (``functional_call``, FSDP2) is put back by whoever
does it; and of a layer that is replaced as a whole nobody is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakKeyDictionary, ref

from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

_before: WeakKeyDictionary[nn.Module, dict[str, list[ref[Tensor]]]] = WeakKeyDictionary()
"""What a module had before under the name of a parameter."""

_counts = {"replaced": 0}


def _note(module: nn.Module, name: str, param: Tensor | None) -> None:
    old = module._parameters.get(name)
    if old is not None and old is not param:
        _counts["replaced"] += 1
        earlier = _before.setdefault(module, {}).setdefault(name, [])
        earlier[:] = [*(one for one in earlier if one() is not None), ref(old)]


register_module_parameter_registration_hook(_note)


def replaced_so_far() -> int:
    """How many parameters have been replaced in this process: when it changes, look again."""
    return _counts["replaced"]


def refuse_replaced(params: Iterable[Tensor]) -> None:
    """Look for a module that had one of ``params`` and now trains another object in its place.

    Raises:
        RuntimeError: there is one; the message says what to do.
    """
    ours = {id(param) for param in params}
    for module, names in _before.items():
        for name, earlier in names.items():
            new = module._parameters.get(name)
            if new is None or not new.requires_grad or id(new) in ours:
                continue
            if any(id(old()) in ours for old in earlier):
                raise RuntimeError(
                    f"{name} of a {type(module).__name__} is another object than the parameter that this optimizer "
                    "has, which would leave it untrained: load without assign=True, or make the optimizer after that"
                )
