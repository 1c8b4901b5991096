"""T3e, T3f, T3j, T3k: the virtual iterate (law L2), the parameters with the residual applied.

1-bit Adam and compressed momentum SGD have one exactly; a schedule or weight decay moves it by known terms. 1-bit LAMB
and 0/1 Adam have files of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from theory.formula import ForAll, array, eq
from theory.notation import (
    Row,
    beta1,
    count,
    k,
    lr,
    momentum,
    params,
    preconditioner,
    t,
    virtual_iterate,
    weight_decay,
)
from theory.rationals import fractions
from theory.theorem import Hypothesis, Theorem
from theory.theorems.conservation import (
    GRAD_WEIGHT,
    ONE_STEP,
    SCALES,
    SERVER,
    SGD_MOMENTUM,
    SGD_WORKER,
    UPDATE_ROW,
    UPDATE_SERVER,
    UPDATE_WORKER,
    WORKER,
    adam_step,
    grad_weight,
    mean_grad,
    residual,
    sgd_momentum,
    sgd_step,
    update,
    update_step,
)
from theory.witness import instance

learning_rates = array("learning_rates")
s = count("s", least=0)
P = preconditioner[k]


def applied(step: Any) -> Hypothesis:
    """The parameters after step t + 1 are those before it less ``step``."""
    return Hypothesis("parameters", eq(params[t + 1, k], params[t, k] - step), "everyone applies the same update")


def virtual(residual_update: Any) -> Hypothesis:
    """y at any step s is x less ``residual_update``, an expression in s."""
    return Hypothesis(
        "virtual",
        ForAll((s,), eq(virtual_iterate[s, k], params[s, k] - residual_update)),
        "y is x with the residual update applied",
    )


ADAM_VIRTUAL = virtual(lr / (1 - beta1) * P * (beta1 * momentum[s, k] + residual(s)))


def with_parameters(
    run: dict[str, Any], sent: str, factor: Any, residual_updates: list[Any], decay: float = 0.0
) -> Any:
    """``run`` with x, from one, stepped by ``factor`` times what was ``sent``, and y = x less ``residual_updates``."""
    x_D = np.ones(2)
    steps = [x_D, x_D - factor * run[sent][1] - decay * x_D]
    iterates = [fractions(x) - fractions(u) for x, u in zip(steps, residual_updates, strict=True)]
    return run | {"params": steps, "virtual_iterate": iterates}


def total_errors(run: dict[str, Any]) -> list[Any]:
    """Delta before and after the step of ``run``."""
    return [workers.mean(0) + server for workers, server in zip(run["worker_errors"], run["server_error"], strict=True)]


def _adam() -> dict[str, Any]:
    run = adam_step() | {"lr": 0.125, "preconditioner": SCALES}
    updates = [0.25 * SCALES * (0.5 * m + e) for m, e in zip(run["momentum"], total_errors(run), strict=True)]
    return with_parameters(run, "momentum", 0.125 * SCALES, updates)


def _schedule() -> dict[str, Any]:
    """Learning rates 1/8, then 1/16, weight decay 1/2."""
    run = adam_step() | {"learning_rates": [0.0, 0.125, 0.0625], "preconditioner": SCALES, "weight_decay": 0.5}
    factors = zip([0.25, 0.125], run["momentum"], total_errors(run), strict=True)
    updates = [factor * SCALES * (0.5 * m + e) for factor, m, e in factors]
    return with_parameters(run, "momentum", 0.125 * SCALES, updates, decay=0.0625)


def _sgd() -> dict[str, Any]:
    run = sgd_step() | {"lr": 0.125}
    return with_parameters(run, "momentum", 0.125, [0.125 * e for e in total_errors(run)])


def _update() -> dict[str, Any]:
    run: dict[str, Any] = update_step() | {"lr": 0.125}
    updates = [0.25 * (0.5 * u + e) for u, e in zip(run["update"], total_errors(run), strict=True)]
    return with_parameters(run, "update", 0.125, updates)


ADAM = Theorem(
    id="T3e",
    title="Virtual iterate of 1-bit Adam",
    conclusion=eq(virtual_iterate[t + 1, k], virtual_iterate[t, k] - lr * P * mean_grad),
    hypotheses=(WORKER, SERVER, applied(lr * P * momentum[t + 1, k]), ADAM_VIRTUAL),
    words="The parameters less lr over {rest} times P times (beta1 times the momentum plus the total error) move by "
    "exactly lr times P times the mean gradient.",
    numbers={"rest": 1 - beta1},
    good_for="Compressed or not, the algorithm is preconditioned SGD on y with gradients taken at x.",
    source="ours in this form; the same device as in the proof of Theorem 1 of Tang et al. 2021",
    needs=("T3a",),
    example=lambda: instance(ADAM, ONE_STEP, _adam()),
    laws=("L2",),
    remarks="Constant learning rate, no weight decay; T3k has both. P is frozen.",
)

SCHEDULE = Theorem(
    id="T3k",
    title="Virtual iterate under a schedule and weight decay",
    conclusion=eq(
        virtual_iterate[t + 1, k],
        virtual_iterate[t, k]
        - learning_rates[t + 1] * (P * mean_grad + weight_decay * params[t, k])
        - (learning_rates[t + 2] - learning_rates[t + 1])
        / (1 - beta1)
        * P
        * (beta1 * momentum[t + 1, k] + residual(t + 1)),
    ),
    hypotheses=(
        WORKER,
        SERVER,
        applied(learning_rates[t + 1] * (P * momentum[t + 1, k] + weight_decay * params[t, k])),
        virtual(learning_rates[s + 1] / (1 - beta1) * P * (beta1 * momentum[s, k] + residual(s))),
    ),
    words="With a changing learning rate and decoupled weight decay the virtual iterate moves by the gradient step, "
    "by the decay at x, and by the residual update times the change of the learning rate.",
    good_for="What a schedule, weight decay, or bias correction without decay does to L2, exactly.",
    source="ours",
    where=(Row(learning_rates, r"\gamma", "learning rate of each step"),),
    needs=("T3a",),
    example=lambda: instance(SCHEDULE, ONE_STEP, _schedule()),
    laws=("L2", "C5"),
    remarks="Without weight decay, bias correction [C5] is the learning rate lr/(1 - beta1^t); with it no schedule is, "
    "for C5 does not divide the decay. y is taken with the rate of the coming step.",
)

SGD = Theorem(
    id="T3f",
    title="Virtual iterate of compressed momentum SGD",
    conclusion=eq(virtual_iterate[t + 1, k], virtual_iterate[t, k] - lr * grad_weight / (1 - sgd_momentum) * mean_grad),
    hypotheses=(
        SGD_WORKER,
        SERVER,
        applied(lr * momentum[t + 1, k]),
        virtual(lr / (1 - sgd_momentum) * (sgd_momentum * momentum[s, k] + residual(s))),
    ),
    words="The virtual iterate of compressed momentum SGD moves by {step} times the mean gradient.",
    numbers={"step": lr * grad_weight / (1 - sgd_momentum)},
    good_for="Compressed momentum SGD is SGD on y; without momentum y is x less lr times the total error.",
    source="ours; Karimireddy et al. 2019 without momentum",
    where=(SGD_MOMENTUM, GRAD_WEIGHT),
    needs=("T3b",),
    example=lambda: instance(SGD, ONE_STEP, _sgd()),
    laws=("L2",),
)

UPDATE = Theorem(
    id="T3j",
    title="Virtual iterate of 1-bit Adam that compresses updates",
    conclusion=eq(virtual_iterate[t + 1, k], virtual_iterate[t, k] - lr * P * mean_grad),
    hypotheses=(
        UPDATE_WORKER,
        UPDATE_SERVER,
        applied(lr * update[t + 1, k]),
        virtual(lr / (1 - beta1) * (beta1 * update[s, k] + residual(s))),
    ),
    words="Where P times the momentum is compressed, the parameters less lr over {rest} times (beta1 times the update "
    "plus the total error) move by exactly lr times P times the mean gradient.",
    numbers={"rest": 1 - beta1},
    good_for="With compress=update the residual error enters y without the factor P, however small v is.",
    source="ours",
    where=(UPDATE_ROW,),
    needs=("T3i",),
    example=lambda: instance(UPDATE, ONE_STEP, _update()),
    laws=("L2", "C12"),
    remarks="L2 as it stands, with P g for g and one for P.",
)

THEOREMS = (ADAM, SGD, UPDATE, SCHEDULE)
