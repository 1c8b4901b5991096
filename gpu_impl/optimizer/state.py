"""The state of a run as torch's tools expect it: for every parameter ``step``, ``exp_avg``, ``exp_avg_sq``, and ours.

    exp_avg               m during the warm-up, m-bar after it, in floats; with compress="update" y-bar = P m-bar [C12]
    exp_avg_sq            v; after the freeze a v from which P comes out to the bit, 0 where dead
    worker_error_of_3     delta_i of worker 3; only worker 3 has it
    server_error_of_3     delta-bar where worker 3 serves, 0 elsewhere
    ignored_of_3          gradients of worker 3 that arrived at dead coordinates, with the first parameter of a bucket
    frozen                1 if the parameter is compressed and its variance frozen, else 0
    variance_norms        ||v||_1 after the last Delta + 1 steps, oldest first, where a rule ends the warm-up [C10]
    master                the float32 copy of a 16-bit parameter

Another algorithm has other names beside these: ``names.py`` lists them, and the file of the algorithm explains them.

What has an element for each of a parameter's has its shape, and is sharded like it. So ``torch.distributed.checkpoint``
saves, loads and reshards it, every worker's errors too, for their names differ. What is no tensor stands in every
parameter group as ``onebit``; there ``layout`` says which parameters lie in one buffer. Those have a state, whether
they need a gradient at the moment or not.

Resuming is exact to the last bit [C11, L9]: the buffers are cut as they were, and the next step forms u from m-bar and
the errors in floats, in the order of the reference. With another ``bucket_elements`` or number of shards the buffers
are cut anew, and what is owed is conserved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from gpu_impl.kernels.state import F32, F64, I64
from gpu_impl.optimizer.bucket import Bucket, Group
from gpu_impl.optimizer.flat_params import local
from gpu_impl.optimizer.freeze_rule import window_of
from gpu_impl.optimizer.names import OF
from gpu_impl.optimizer.plan import Content, Kind, contents_in, cut, is_uniform, n_shards_of, numbered
from gpu_impl.optimizer.run import Phase, Run

WORKER, SERVER, IGNORED = (f"{name}{OF}" for name in ("worker_error", "server_error", "ignored"))
"""What only one worker has; its number follows. So it does on whatever else has ``OF`` in its name."""

NORMS = "variance_norms"

SERVER_ALL = f"{SERVER}all"
"""In the state of a resized run: delta-bar of all chunks; each worker takes the one that it serves."""

FACTS = {
    "format": str,
    "n_workers": int,
    "phase": str,
    "frozen_at": int,
    "steps": int,
    "skipped_steps": int,
    "bytes_sent": int,
    "bias_correction": bool,
    "compress": str,
    "frozen_dtype": str,
    "bucket_elements": int,
    "n_shards": int,
    "layout": str,
}
"""What is no tensor. frozen_at is 0 during the warm-up. ``plan.Content.row`` says what a row of the layout is, and
bucket_elements and n_shards for what it was cut. Lists are JSON, for torch's tools take lists apart and lose empty
ones. And ``errors_of_3`` is the step at which worker 3 gave its errors: a state that was put together from several, or
sent from one rank to all, shows there if they are missing."""

ERRORS = "errors_of_"

ParamState = dict[str, Any]


def facts_for(run: Run, group: Group) -> dict[str, Any]:
    """The entry ``onebit`` of a parameter group."""
    first = next(numbers.start for owner, numbers in numbered(run.groups) if owner is group)
    return {
        "format": run.names.format,
        "n_workers": run.collectives.size,
        "phase": str(run.phase),
        "frozen_at": run.frozen_at,
        "steps": run.steps,
        "skipped_steps": run.skipped_steps,
        "bytes_sent": run.collectives.bytes_sent,
        "bias_correction": run.settings.bias_correction,
        "compress": run.settings.compress,
        "frozen_dtype": run.settings.frozen_dtype,
        "bucket_elements": run.settings.bucket_elements,
        "n_shards": n_shards_of(all_params(run)),
        "layout": json.dumps([content.row(first) for content in run.contents if content.group is group]),
        f"{ERRORS}{run.collectives.rank}": run.steps,
    }


def of_workers(groups: list[Any], n_workers: int, ranks: Iterable[int]) -> list[Any]:
    """The groups of a state that holds the errors of these of ``n_workers`` workers."""
    found = []
    for group in groups:
        facts = {name: value for name, value in group["onebit"].items() if not name.startswith(ERRORS)}
        errors = {f"{ERRORS}{rank}": facts["steps"] for rank in ranks}
        found.append({**group, "onebit": {**facts, "n_workers": n_workers, **errors}})
    return found


def pack(run: Run) -> dict[int, ParamState]:
    """The state of every parameter that has joined, by its number among all; copies.

    And zeros for one that will join in the next step, for torch's tools want a state of all that need a gradient.
    """
    rank, states = run.collectives.rank, {}
    names = run.names.saved(rank)
    for parcel in run.parcels:
        numbers = iter(parcel.numbers)
        for _, bucket in parcel.buckets:
            dense = bucket.dense()
            for k, param in enumerate(bucket.flat.params):
                state = {names[name]: _like(param, bucket.flat.view_of(flat, k)) for name, flat in dense.items()}
                ignored = int(bucket.worker.ignored) if k == 0 else 0
                states[next(numbers)] = _more(state, rank, run.steps - bucket.began, bucket.is_frozen, ignored)
    for content in run.contents:
        for param, number in zip(content.params, content.numbers, strict=True):
            if number not in states:  # it is empty, or its shard is
                is_frozen = run.is_frozen and content.kind.freezes
                states[number] = _more(_zeros(param, run), rank, run.steps - content.kind.began, is_frozen, 0)
    for number, param in enumerate(all_params(run)):
        if param.requires_grad and number not in states:
            states[number] = _more(_zeros(param, run), rank, 0, False, 0)
    for name in run.names.numbers:
        for number, state in states.items():
            state[name] = run.numbers(name)[number].clone()
    if run.freeze_rule.needs_norms:
        histories = run.freeze_rule.histories(len(all_params(run)), window_of(run.groups))
        for number, state in states.items():
            state[NORMS] = histories[number].clone()
    return dict(sorted(states.items()))


def _zeros(param: Tensor, run: Run) -> ParamState:
    values, names = local(param), run.names.saved(run.collectives.rank)
    found = {name: torch.zeros_like(values, dtype=F32) for name in names.values() if name != "master"}
    if run.names.has_master(is_narrow=values.dtype != F32):
        found["master"] = values.to(F32)
    return {name: _like(param, value) for name, value in found.items()}


def _more(state: ParamState, rank: int, steps: int, is_frozen: bool, ignored: int) -> ParamState:
    counts = {f"{IGNORED}{rank}": torch.tensor(ignored, dtype=I64), "frozen": int(is_frozen)}
    return {"step": torch.tensor(float(steps), dtype=torch.float32), **state, **counts}


def _like(param: Tensor, values: Tensor) -> Tensor:
    """A copy, as a DTensor if the parameter is one."""
    own = values.clone()
    if not isinstance(param, DTensor):
        return own
    return DTensor.from_local(
        own, param.device_mesh, param.placements, run_check=False, shape=param.shape, stride=param.stride()
    )


def all_params(run: Run) -> list[Tensor]:
    """The parameters of all groups, in order."""
    return [param for group in run.groups for param in group["params"]]


def placed(run: Run, groups: list[Any], states: Mapping[int, ParamState]) -> list[Content]:
    """The buffers to go on with: those of the state, or others where it was cut for other ones.

    Raises:
        ValueError: the state does not say where a parameter belongs.
    """
    facts, most = groups[0]["onebit"], run.settings.bucket_elements
    contents = contents_in(run.groups, groups)
    kinds = {number: content.kind for content in contents for number in content.numbers}
    strangers = {n: state for n, state in states.items() if n not in kinds and int(state.get("step", 0))}
    if strangers and facts["phase"] != Phase.WARM_UP:
        raise ValueError(f"the state is damaged: its layout has no place for parameter {min(strangers)}")
    is_same_size = (facts["bucket_elements"], facts["n_shards"]) == (most, n_shards_of(all_params(run)))
    if not strangers and is_same_size and is_uniform(contents):
        return contents
    for group, numbers in numbered(run.groups):  # of another Adam, whose buffers nobody has cut
        for number in sorted(strangers.keys() & set(numbers)):
            began = facts["steps"] - int(strangers[number]["step"])
            kinds[number] = Kind(not group.get("non_freeze", False), began)
    return cut(run.groups, kinds, most, 0)


def unpack(run: Run, groups: list[Any], states: Mapping[int, ParamState]) -> None:
    """Continue from a checked state."""
    facts, contents = groups[0]["onebit"], placed(run, groups, states)
    if run.broken or run.is_frozen or [one.row(0) for one in contents] != [one.row(0) for one in run.contents]:
        run.lay_out_anew(contents)
    run.phase, run.frozen_at = Phase(facts["phase"]), facts["frozen_at"]
    for name, start in run.names.numbers.items():
        for number in range(len(all_params(run))):
            run.numbers(name)[number] = float(states.get(number, {}).get(name, start))
    rank, kinds = run.collectives.rank, {n: content.kind for content in contents for n in content.numbers}
    for parcel in run.parcels:
        numbers = iter(parcel.numbers)
        for _, bucket in parcel.buckets:
            own = [next(numbers) for _ in bucket.flat.params]
            _load_bucket(bucket, [states[number] for number in own], rank, run.phase, kinds[own[0]])
        parcel.publish()
    run.set_applied(facts["steps"])
    run.calls = facts["steps"] + facts["skipped_steps"]
    run.collectives.bytes_sent = run.bytes_before = facts["bytes_sent"]
    run.freeze_rule.norms = []
    if run.freeze_rule.needs_norms and run.phase is Phase.WARM_UP:
        nothing = torch.zeros(0, dtype=F64)
        histories = [states.get(number, {}).get(NORMS, nothing) for number in range(len(all_params(run)))]
        run.freeze_rule.restore(histories)
    run.settings_differ, run.broken = False, ""


def _load_bucket(bucket: Bucket, states: list[ParamState], rank: int, phase: Phase, kind: Kind) -> None:
    found = {}
    for name, saved in bucket.names.saved(rank).items():
        if name == "master" and not bucket.names.has_master(is_narrow=bucket.flat.is_narrow):
            continue
        found[name] = torch.zeros_like(bucket.momentum)
        for k, state in enumerate(states):
            given = SERVER_ALL if name == "server_error" and SERVER_ALL in state else saved
            bucket.flat.view_of(found[name], k).copy_(local(state[given]))
    # A chunk that is another worker's now, since buckets or shards are cut in another way: what it owes is conserved as
    # an error of this worker, which counts for 1/N [L9].
    strange = torch.zeros_like(bucket.momentum)
    for k, state in enumerate(states):
        if SERVER_ALL not in state:
            bucket.flat.view_of(strange, k).copy_(local(state[f"{SERVER}{rank}"]))
    strange[bucket.layout.part(rank)] = 0
    if bool(strange.any()):
        found["worker_error"] += bucket.layout.n_chunks * strange
    is_frozen = phase is not Phase.WARM_UP and kind.freezes
    bucket.load(found, is_frozen=is_frozen, is_first=phase is Phase.FROZEN, frozen_with=kind.frozen_with)
    bucket.worker.ignored.fill_(sum(int(state.get(f"{IGNORED}{rank}", 0)) for state in states))
