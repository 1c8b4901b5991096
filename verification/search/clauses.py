"""The clauses: what is judged on every transition of every case, each with a verdict of its own.

A clause has a domain: the rows of the case space in which it has something to say. A new clause is a line in this table
and a method of that name in a relation, or a finding of that name in ``runs.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from verification.protocol import Traits, attribute
from verification.search.covering import Row
from verification.search.driver import Driver


def always(row: Row) -> bool:
    """The whole space."""
    return True


@dataclass(frozen=True)
class Clause:
    """One clause.

    Attributes:
        id: level and name, "collective.conservation".
        law: ids of the laws and conventions it checks (docs/algorithm.md).
        title: the law in one sentence.
        catches: bugs it is there for.
        domain: the rows in which it has something to say.
        needs: optional methods without which it is left out.
        of: names of the algorithms that have it; (): all.
        stage: "compression": left out for a class that has the warm-up alone; "server": also for one that has no
            server error; "no server": of a class that has none alone.
    """

    id: str
    law: str
    title: str
    catches: str
    domain: Callable[[Row], bool] = always
    needs: tuple[str, ...] = ()
    stage: str = ""
    of: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Callable[[str], Clause], tuple[str]]:
        return clause_of, (self.id,)  # what it is to another process: its name

    @property
    def level(self) -> str:
        """The protocol that it needs: "collective" or "optimizer"."""
        return self.id.split(".")[0]

    @property
    def name(self) -> str:
        """The name of its findings."""
        return self.id.split(".")[1]

    def foreign(self, driver: Driver) -> str:
        """Why the clause is one of other classes; empty if it is not."""
        if self.level not in driver.levels:
            return f"its levels are {' and '.join(driver.levels)}"
        if self.of and driver.traits.algorithm not in self.of:
            return f"it is {driver.traits.checked_as.title}"
        if self.stage == "no server" and driver.traits.has_server_error:
            return f"{driver.name} declares no has_server_error = False"
        return ""

    def left_out(self, driver: Driver) -> str:
        """Why this class has no such clause; empty if it has."""
        traits: Traits = driver.traits
        if missing := [name for name in self.needs if not callable(attribute(driver.under_test, name))]:
            return f"{driver.name} has no {' and no '.join(f'{name}()' for name in missing)}"
        if self.stage and not traits.compresses:
            return f"{driver.name} declares compresses = False"
        if self.stage == "server" and not traits.has_server_error:
            return f"{driver.name} declares has_server_error = False"
        one_number = traits.workers is not None and len(traits.workers) == 1
        if one_number and (self.name.startswith("resize") or (self.name == "replicas" and traits.workers == (1,))):
            return f"{driver.name} declares one number of workers"
        if self.name == "floor" and not any(traits.taken("variance_floor") or (1,)):
            return f"{driver.name} takes no variance_floor but 0"
        return ""


ROUND = (
    ("worker_one_bit", "L1", "What a worker keeps differs from what it had by one magnitude.",
     "worker errors lost, doubled or rounded; three-valued signs; more than one scale in a message"),
    ("worker_bits", "C2, C4", "A worker sends the bit u >= 0, so both zeros are +1.",
     "negative zero, bits packed in another order, a lost tail, the own momentum instead of the shared one"),
    ("worker_scale", "C1", "A worker's scale is the l2 or l1 scale of what it compresses.",
     "padding counted, maximum for mean, squares that overflow, long float32 sums, guards against zero"),
    ("conservation", "L1", "Output and new errors together are the mean input and the old errors, at every element.",
     "lost, doubled, stale or rounded errors on the server; a mean over the wrong count"),
    ("one_bit", "L5, C3", "The output is one magnitude on each server chunk.",
     "no server compression, chunks cut elsewhere, zeros in the output"),
    ("server_bits", "C2", "The server sends the bit w >= 0 wherever rounding cannot change it.",
     "server error forgotten or of the wrong sign, bits of the wrong worker, ties decided the other way"),
    ("server_scale", "C1, C3", "Each server chunk has the scale of its own average.",
     "padding counted in the tail chunk, one scale for all chunks, scale of the wrong buffer"),
    ("no_server_error", "L1", "A server that sends its average as it is keeps no error.",
     "an output that is wrong, or nothing, with the rest in a server error that the class says it does not have"),
)  # fmt: skip
SERVER, NO_SERVER = ("one_bit", "server_bits", "server_scale"), ("no_server_error",)


def _round_clauses(level: str) -> tuple[Clause, ...]:
    stages = {name: "compression" * (level == "optimizer") for name, *_ in ROUND}
    stages |= dict.fromkeys(SERVER, "server") | dict.fromkeys(NO_SERVER, "no server")
    return tuple(Clause(f"{level}.{name}", law, title, bugs, stage=stages[name]) for name, law, title, bugs in ROUND)


def _has(feature: str, *levels: str) -> Callable[[Row], bool]:
    return lambda row: row[feature] in levels


def _not(feature: str, level: object) -> Callable[[Row], bool]:
    return lambda row: row[feature] != level


def _floor(row: Row) -> bool:
    return bool(row["variance_floor"]) and row["snapshots"] == "every step"


def _skips(row: Row) -> bool:
    return row["skips"] != "none" and row["snapshots"] == "every step"


def _local(row: Row) -> bool:
    return row["local_limit"] > 1 and row["compressed"][1] > 4


SAVES = ("save", "load")
ADAM, ZERO_ONE, LAMB = ("one_bit_adam",), ("zero_one_adam",), ("one_bit_lamb",)
FREEZING = (*ADAM, *LAMB)

TAKES_ALL = ("protocol", "The class takes every input that it does not refuse, and returns what the protocol says.",
             "exceptions, wrong shapes and types")  # fmt: skip

CLAUSES: tuple[Clause, ...] = (
    Clause("collective.raises", *TAKES_ALL),
    *_round_clauses("collective"),
    Clause("collective.purity", "purity", "Inputs are not modified, and what is returned is the caller's.",
           "in-place sums, returned views of kept buffers"),
    Clause("collective.determinism", "L9", "The same inputs give the same bits, on the same instance and on another.",
           "ties broken at random, generators shared by instances, state kept from call to call"),
    Clause("collective.scaling", "L7", "Inputs times 2^k give outputs times 2^k, bitwise; and times -1 without ties.",
           "scales through logarithms or tables, fixed-point sums", _not("factor", 1.0)),
    Clause("collective.wire_bytes", "wire", "A worker sends one bit an element and one scale a message.",
           "a byte a sign, chunks sent to oneself, every chunk sent to everybody", needs=("bytes_per_worker",)),
    Clause("optimizer.raises", *TAKES_ALL),
    Clause("optimizer.start", "protocol",
           "A run starts at the given parameters, with no step taken; all else is 0, and r and s of 1-bit LAMB 1.",
           "parameters that are scaled, counters that start at 1, a momentum or a variance from elsewhere"),
    Clause("optimizer.count", "C8", "Applied steps count from 1, one at a time.", "steps counted twice or not at all"),
    Clause("optimizer.skip", "C8", "A gradient that is NaN or infinite on any worker changes no bit of the state.",
           "NaN passed on, only one worker looked at, a skipped step counted, zero-variance coordinates not looked at",
           _skips),
    Clause("optimizer.replicas", "L6", "The parameters are bitwise equal on all workers after every step.",
           "local updates, workers that miss a message", _not("workers", 1)),
    Clause("optimizer.refresh", "F1", "In T_v v is Adam's, of the mean gradient.",
           "mean of squares, one worker's gradient, swapped betas", of=ZERO_ONE),
    Clause("optimizer.kept_variance", "F1", "Outside T_v v is bitwise constant.",
           "a refresh too many, a doubling too late, a variance that goes on moving", of=ZERO_ONE),
    Clause("optimizer.between", "F2", "Between two meetings no error changes, nor x of the last meeting.",
           "a round in a step that takes none, errors dropped where nothing is sent", _local, of=ZERO_ONE),
    Clause("optimizer.local_momentum", "F2", "Between two meetings m_i is that of the worker's own gradients.",
           "another worker's gradient, a momentum that is not updated alone", _local, of=ZERO_ONE),
    Clause("optimizer.local_sum", "F2", "Between two meetings u_i grows by lr m_i.",
           "a step that is not counted, a sum that is preconditioned, or of gradients", _local, of=ZERO_ONE),
    Clause("optimizer.local_params", "F2, C7", "Between two meetings x_i moves by lr (m_i / (sqrt(v) + eps) + decay).",
           "a worker that stands still, decay of the worker's own x, a floor left out", _local, of=ZERO_ONE),
    Clause("optimizer.meeting", "F3", "A meeting leaves one x, one momentum and nothing accumulated on all workers.",
           "momenta that stay apart, sums that are not emptied", of=ZERO_ONE),
    Clause("optimizer.meeting_params", "F3, C7", "At a meeting x moves by P times what is received, from the last one.",
           "a start from the worker's own x, decay of one step for a round's, P of another v", of=ZERO_ONE),
    Clause("optimizer.adam_momentum", "L3, C6",
           "Until the freeze m is Adam's; at it, zero-variance coordinates lose theirs.",
           "first step dropped, one worker's gradient, bias correction in the state, reset at the freeze",
           of=FREEZING),
    Clause("optimizer.adam_variance", "L3", "Until the freeze v is Adam's.",
           "mean of squares, swapped betas, freezing too early", of=FREEZING),
    Clause("optimizer.adam_params", "L3, C5", "Until the freeze x moves as Adam's, with both corrections if asked for.",
           "epsilon inside the root, coupled decay, bias correction ignored, t that counts skipped steps", of=ADAM),
    Clause("optimizer.lamb_params", "F4, C5", "Until the freeze x moves as LAMB's, by the trust ratio of each layer.",
           "norms of all layers or of padding, a ratio without decay in it, the range forgotten", of=LAMB),
    Clause("optimizer.trust_mean", "F4", "c-bar is the running mean of the trust ratio, and constant after the freeze.",
           "swapped weights, the mean of another layer, a mean that goes on moving", of=LAMB),
    Clause("optimizer.no_errors_yet", "L1", "Nothing is compressed during the warm-up, so there is no residual.",
           "a warm-up that compresses, errors of an earlier run", of=FREEZING),
    Clause("optimizer.floor", "C7", "At the freeze v is raised to kappa times the mean of live v.",
           "no floor, zero-variance coordinates counted or raised, the floor of a corrected v", _floor,
           stage="compression", of=FREEZING),
    Clause("optimizer.frozen", "L4", "After the freeze the variance is bitwise constant.",
           "freezing one step late, a variance that goes on moving", stage="compression", of=FREEZING),
    Clause("optimizer.layer_scale", "F5", "At the freeze a layer gets its scale for good, the mean RMS over its own.",
           "one scale for all layers, a scale that is upside down, or moves on", of=LAMB, stage="compression"),
    Clause("optimizer.fresh_variance", "F6", "v' starts as v and follows the gradient rebuilt from two momenta.",
           "the mean gradient that nobody received, the scaled momentum, v' from 0", of=LAMB, stage="compression"),
    Clause("optimizer.variance_ratio", "F6", "r is the largest (√v + ε) / (√v' + ε), in its range, cut near the last.",
           "the smallest ratio, all layers together, range or change not limited", of=LAMB, stage="compression"),
    *_round_clauses("optimizer"),
    Clause("optimizer.dead", "C6", "A coordinate whose variance is 0 at the freeze has no momentum and no errors.",
           "zero-variance coordinates in the scale or in a resize, the mask lost at load", _not("dead", "none"),
           stage="compression"),
    Clause("optimizer.apply", "L2, C5", "After the freeze x moves by lr (m/b1 / (sqrt(v/b2) + eps) + weight_decay x).",
           "the momentum of a step ago, uncompressed momentum, decay forgotten, correction that moves on",
           stage="compression", of=ADAM),
    Clause("optimizer.lamb_apply", "F4, C5", "After the freeze x moves by lr c-bar r (m/b1 P + weight_decay x).",
           "the ratio of another layer or step, decay that is not trusted, the momentum as it was sent",
           stage="compression", of=LAMB),
    Clause("optimizer.dead_params", "C6", "A zero-variance coordinate is not updated and does not decay.",
           "a coordinate without gradient that jumps by lr scale/eps, or decays", _not("dead", "none"),
           stage="compression"),
    Clause("optimizer.arguments", "purity", "Gradients and parameters passed in are not modified and not kept.",
           "in-place clipping of the caller's gradient, parameters kept by reference"),
    Clause("optimizer.observation", "purity", "A snapshot changes nothing, and does not change later.",
           "snapshots that are views, state that only snapshot() completes"),
    Clause("optimizer.determinism", "L9", "The same run gives the same bits.", "generators that are not seeded"),
    Clause("optimizer.start_again", "L9", "A run on a used instance is the run on a new one.",
           "errors, counters or buffers kept by start()", _has("begin", "used", "used with the same shape")),
    Clause("optimizer.beside", "L9", "A run goes on unchanged beside another one.", "state on the class or the module",
           _has("begin", "beside")),
    Clause("optimizer.save", "L9", "save() changes nothing in the running instance.",
           "buffers handed over or freed by save()", _has("checkpoint", "save"), SAVES),
    Clause("optimizer.resume", "L9, C11", "A run that is loaded into a new instance goes on bitwise as if it had not.",
           "errors, masks, floor, step or freeze left out of a checkpoint",
           lambda row: row["checkpoint"] in ("reload", "reload often") or row["end"] == "reload", SAVES),
    Clause("optimizer.resume_used", "L9, C11", "The same, loaded into an instance that has run before.",
           "what load() does not overwrite", _has("checkpoint", "reload used"), SAVES),
    Clause("optimizer.resize", "L9, C11",
           "Loaded on another number of workers, each has the mean of the old errors: the total is kept.",
           "errors zeroed, summed or cut off; errors of zero-variance coordinates filled",
           lambda row: row["end"] == "resize"
           or (row["checkpoint"].startswith("resize") and row["snapshots"] == "every step"), SAVES),
    Clause("optimizer.together", "L9", "All of these at once end bitwise where the plain run ends.",
           "bugs that need two events: a save after a step that nobody looked at"),
)  # fmt: skip
"""In the order of the report."""


def clause_of(name: str) -> Clause:
    """The clause with this id."""
    return next(clause for clause in CLAUSES if clause.id == name)


def clauses_of(driver: Driver) -> tuple[list[Clause], dict[str, list[str]]]:
    """The clauses that the class is checked by, and those left out: reason -> names."""
    chosen, left_out = [], {}
    for clause in CLAUSES:
        if not clause.foreign(driver):
            if reason := clause.left_out(driver):
                left_out.setdefault(reason, []).append(clause.name)
            else:
                chosen.append(clause)
    return chosen, left_out
