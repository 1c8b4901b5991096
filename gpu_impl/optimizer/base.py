"""What our optimizers have in common: parameter groups, state, copies. Arguments and steps are their own."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.algorithms.join import Joinable, JoinHook
from torch.optim.optimizer import Optimizer, ParamsT

from gpu_impl.optimizer.agreement import meet
from gpu_impl.optimizer.bucket import Bucket
from gpu_impl.optimizer.clipping import ClippingWatch
from gpu_impl.optimizer.collectives import Collectives
from gpu_impl.optimizer.ddp import refuse_double_average, wrapped_so_far
from gpu_impl.optimizer.numbers import Numbers, as_python
from gpu_impl.optimizer.one_at_a_time import LOAD, NEW_GROUP, READING
from gpu_impl.optimizer.param_states import ParamStates
from gpu_impl.optimizer.replaced import refuse_replaced, replaced_so_far
from gpu_impl.optimizer.resize import resized
from gpu_impl.optimizer.run import Phase, Run
from gpu_impl.optimizer.settings import Settings, check_group, check_surroundings, refuse_settings
from gpu_impl.optimizer.sharding import shard_groups
from gpu_impl.optimizer.shared_memory import check_memory
from gpu_impl.optimizer.state import ParamState, all_params, facts_for, unpack
from gpu_impl.optimizer.state_fits import check, check_facts, check_groups
from gpu_impl.optimizer.stats import Stats, stats_of


class OneBitOptimizer(Optimizer, Joinable):
    """What our optimizers have in common: parameter groups, state, copies.

    Args:
        params: parameters, named parameters or parameter groups, float32, bfloat16 or float16.
        defaults: lr, betas, eps and weight_decay of groups that do not say it.
        settings: what holds for all groups.
        backend: kernels: "auto", "cpu", "triton" or "torch".
        process_group: the workers that average; None is the default group, or one worker without a group.
        node_group: the workers of this node [C15].

    Attributes:
        run: what it knows.

    Raises:
        ValueError, TypeError: an argument is not of this kind; the message names it.
    """

    bucket: ClassVar[type[Bucket]] = Bucket
    """What is done with a flat buffer of parameters: the algorithm."""

    def __init__(
        self,
        params: ParamsT,
        defaults: dict[str, Any],
        settings: Settings,
        backend: str,
        process_group: dist.ProcessGroup | None,
        node_group: dist.ProcessGroup | None = None,
    ) -> None:
        check_surroundings(backend, process_group, node_group)
        self._begin(settings, backend, process_group, node_group)
        Joinable.__init__(self)
        Optimizer.__init__(self, params, defaults)
        self.run.take_number()

    def _begin(
        self,
        settings: Settings,
        backend: str,
        process_group: dist.ProcessGroup | None,
        node_group: dist.ProcessGroup | None = None,
    ) -> None:
        self.run = Run(settings, backend, process_group, self.bucket, node_group)
        self._numbers, self._clipping, self._agreed = Numbers(), ClippingWatch(), False
        self._looked = (-1, -1)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: until the freeze, or at any time with ``non_freeze=True``; its m and v begin at 0.

        Raises:
            RuntimeError: the variance is frozen.
            ValueError, TypeError: a value or a parameter that can't be used.
        """
        if self.run.is_frozen and not param_group.get("non_freeze", False):
            raise RuntimeError(
                f"a parameter group can't join after the freeze (step {self.run.frozen_at}), for it has no variance: "
                "add it during the warm-up, or with non_freeze=True, which trains it by Adam with full gradients"
            )
        with self.alone(NEW_GROUP):
            self._add_checked(param_group)

    def _add_checked(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        try:
            number, name = len(self.param_groups) - 1, self.run.names.optimizer
            refuse_settings(number, self.param_groups[-1], self.run.settings, name)
            check_group(self.param_groups[-1])
            check_memory(param for group in self.param_groups for param in group["params"])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise
        self.param_groups[-1].setdefault("onebit", {})
        self.run.groups = self.param_groups
        self._look_again()

    # --- before a step ---

    def _prepare(self) -> None:
        """Take the parameters over, where that has not been done; check lr and the others."""
        run = self.run
        run.see(self.param_groups)
        self._numbers.check_values(run)
        if run.take_over():
            self._numbers.check_values(run)
        if self._looked != (seen := (wrapped_so_far(), replaced_so_far())) or not self._agreed:
            refuse_replaced(all_params(run))
            refuse_double_average(all_params(run))
            self._looked = seen
        if not self._agreed:
            self._clipping.watch(param for param in all_params(run) if param.requires_grad)
            run.shards = shard_groups(self.param_groups, run.process_group, run.node_group)

    def meet(self, occasion: str) -> None:
        """Wait for all workers before they do together what is no step, such as to save.

        Raises:
            WorkersDisagreeError: another worker takes a step, or does something else.
        """
        self.run.see(self.param_groups)
        meet(self.run, occasion)

    def take_over(self) -> None:
        """Lay the parameters into flat buffers, where that has not been done; the first step does it."""
        self.run.see(self.param_groups)
        self.run.take_over()

    def _loss_scale(self) -> tuple[Tensor | None, Tensor | None]:
        """1/scale of this worker's gradients and whether they overflowed, as GradScaler leaves them here, or None."""
        grad_scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        if isinstance(found_inf, int):  # the sum of no tensors
            raise RuntimeError(
                "GradScaler has found no gradient on this worker, and its update() refuses that: let the loss reach a "
                "parameter on every worker, if only times 0, or leave the step out on all of them"
            )
        unscale = None if grad_scale is None else grad_scale.to(self.run.device).double().reciprocal()
        return unscale, None if found_inf is None else found_inf.to(self.run.device)

    @abstractmethod
    def step(self, closure: Any = None) -> Any: ...

    # --- what it knows ---

    @property
    def collectives(self) -> Collectives:
        """The workers."""
        return self.run.collectives

    @property
    def phase(self) -> Phase:
        """Warm-up, frozen or compressed."""
        return self.run.phase

    @property
    def steps(self) -> int:
        """Applied steps t. Waits for the device."""
        return self.run.steps

    @property
    def skipped_steps(self) -> int:
        """Steps that were skipped for a gradient that was not finite [C8]. Waits for the device."""
        return self.run.skipped_steps

    @property
    def bytes_last_step(self) -> int:
        """Bytes that this worker sent in the last step."""
        return self.run.collectives.bytes_sent - self.run.bytes_before

    def stats(self) -> Stats:
        """How the run is doing, as this worker sees it. Waits for the device; sends nothing."""
        return stats_of(self.run)

    @contextmanager
    def at_last_meeting(self) -> Iterator[None]:
        """Within it the parameters are what all workers share, as :func:`gpu_impl.save_checkpoint` saves them.

        They always are, but with an algorithm whose workers part for some steps.
        """
        yield

    # --- state ---

    @property
    def state(self) -> MutableMapping[Tensor, ParamState]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The state by parameter, read from the buckets when it is asked for; ``state.py`` says what is in it."""
        self.run.see(self.param_groups)
        return ParamStates(self.run, self._look_again)

    @state.setter
    def state(self, value: defaultdict[Tensor, Any]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The base class begins with an empty one, before there are groups; nobody else may replace it."""
        if value or "param_groups" in vars(self):
            raise AttributeError("the state lies in flat buffers: use load_state_dict, or make a new optimizer")

    def alone(self, what: str) -> AbstractContextManager[None]:
        """Around what must not meet a step, a save or a load, as ``one_at_a_time`` names it.

        Raises:
            RuntimeError: one is under way.
        """
        return self.run.one_at_a_time.during(what)

    def state_dict(self) -> dict[str, Any]:
        """This worker's state, copied: tensors, numbers, strings, lists and dicts, safe for ``weights_only=True``.

        Every worker saves its own, beside the model's: the errors are in it under names that have the worker's number.

        Raises:
            RuntimeError: a step, a save or a load is under way; or a step ended in the middle; or the workers used
                different learning rates.
        """
        with self.alone(READING):
            self.check_readable()
            return self._packed()

    def check_readable(self) -> None:
        """Whether there is a state to save.

        Raises:
            RuntimeError: a step ended in the middle, or the workers used different learning rates.
        """
        self.run.check_whole()
        if self.run.settings_differ:
            raise RuntimeError("lr, betas, eps or weight_decay was not the same on all workers: the replicas differ")

    def _packed(self) -> dict[str, Any]:
        self.run.see(self.param_groups)
        for group in self.param_groups:
            group["onebit"] = facts_for(self.run, group)
        packed = copy.copy(super().state_dict())
        packed["param_groups"] = [as_python(group) for group in packed["param_groups"]]
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a :meth:`state_dict` of the same rank of as many workers. The model's parameters come apart.

        lr, betas, eps and weight decay come from the state, as with every optimizer of torch; what was given to the
        constructor may be another than it was, but for ``bias_correction`` and, after the freeze, ``compress`` and
        ``frozen_dtype``.

        Raises:
            ValueError: it is damaged, of another kind, or does not fit; then nothing is changed.
            RuntimeError: a step, a save or another load is under way.

        What ends it in the middle all the same, Ctrl-C or a want of memory, leaves an optimizer that refuses to step
        and to save until a state is loaded.
        """
        with self.alone(LOAD):
            self.continue_from(state_dict)
        self.after_load()

    def continue_from(self, state_dict: dict[str, Any]) -> None:
        """What :meth:`load_state_dict` does, for one who has said that a load is under way."""
        if not isinstance(state_dict, dict):
            raise ValueError(f"a state_dict must be a dict, got {type(state_dict).__name__}")
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        self._load(*self.check_state_dict(state_dict))

    def after_load(self) -> None:
        """What the user has registered for after a load."""
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def check_state_dict(self, state_dict: dict[str, Any]) -> tuple[list[Any], dict[int, ParamState]]:
        """Whether a state_dict fits; nothing is changed. Its groups, and its states by the number of the parameter.

        Raises:
            ValueError: it does not; one sentence says why.
        """
        self.run.see(self.param_groups)
        try:
            groups = cast("list[Any]", state_dict.get("param_groups"))
            check_facts(groups)
            check_groups(self.run, groups)
            states = _by_number(state_dict.get("state"), groups)
            groups, states = resized(groups, states, self.run.collectives.size, self.run.collectives.rank)
            check(self.run, groups, states)
        except (TypeError, AttributeError, KeyError, IndexError, NotImplementedError) as error:
            raise ValueError(f"the state is damaged: something in it is of another kind ({error})") from None
        return groups, states

    def _load(self, groups: list[Any], states: dict[int, ParamState]) -> None:
        """Continue from what was checked."""
        with self.run:
            unpack(self.run, groups, states)
            for group, saved in zip(self.param_groups, groups, strict=True):
                kept = {name: value for name, value in saved.items() if name not in ("params", "param_names")}
                group.update(copy.deepcopy(kept))
            self._look_again()

    def _look_again(self) -> None:
        """The next step compares the workers, as the first one does."""
        self._agreed = False

    def __getstate__(self) -> dict[str, Any]:
        if self.run.process_group is not None:
            raise TypeError("an optimizer with a process_group can't be copied or pickled: use its state_dict()")
        saved = self.state_dict()
        arguments = (self.run.settings, self.run.backend)
        return {"defaults": self.defaults, "param_groups": self.param_groups, "arguments": arguments, "saved": saved}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        saved = state.pop("saved")
        self._begin(*state.pop("arguments"), process_group=None)
        Joinable.__init__(self)
        super().__setstate__(state)
        self.load_state_dict(saved)

    # --- torch.distributed.algorithms.Join: workers with fewer batches take part without a gradient ---

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a worker does that has no more batches: its gradient is 0, the mean still is over all workers.

        Raises:
            ValueError: the workers are in nodes.
        """
        if self.run.node_group is not None:
            raise ValueError("Join counts the workers of one group, so it can't be used with node_group")
        return _TakePart(self)

    @property
    def join_device(self) -> torch.device:
        """Where the notice is sent from that a worker has joined."""
        return self.run.device

    @property
    def join_process_group(self) -> Any:
        """The workers."""
        return self.run.process_group or dist.group.WORLD

    @abstractmethod
    def take_part(self) -> None:
        """A step without a gradient of this worker."""


class _TakePart(JoinHook):
    def __init__(self, optimizer: OneBitOptimizer) -> None:
        self.optimizer = optimizer

    @torch.no_grad()
    def main_hook(self) -> None:
        self.optimizer.zero_grad()
        self.optimizer.take_part()


Method = TypeVar("Method", bound=Callable[..., Any])


def left_by_the_compiler(method: Method) -> Method:
    """``torch.compile`` calls it as it is: a step talks to other processes, which no graph can hold.

    It is what torch decorates its own optimizers with; the public ``torch.compiler.disable`` would import the compiler
    and Triton here, not at the first call.
    """
    return cast("Method", torch._disable_dynamo(method))  # pyright: ignore[reportPrivateImportUsage]


def check_ours(call: str, optimizer: Any) -> None:
    """Whether what ``call`` was given is an optimizer of ours.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(optimizer, OneBitOptimizer):
        raise ValueError(f"{call} takes a OneBitAdam, got {type(optimizer).__name__}")


def _by_number(states: Any, groups: list[Any]) -> dict[int, ParamState]:
    """States by the number of their parameter; ``params`` of the groups names them, by numbers or otherwise."""
    if not isinstance(states, dict):
        raise ValueError("the state is damaged: it has no states of parameters")
    keys = [key for group in groups for key in group["params"]]
    return {number: states[key] for number, key in enumerate(keys) if key in states}
