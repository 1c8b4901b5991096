"""T3p: what a step conserves where nodes exchange compressed momenta and their workers full gradients [L1, C15].

The workers of a node average their gradients exactly; then each node is one worker of 1-bit Adam. Worker j of node i is
worker i n + j of all, where n is the number of workers of a node.
"""

from __future__ import annotations

from typing import Any

from theory.formula import ForAll, eq, mean
from theory.notation import (
    N,
    Row,
    beta1,
    count,
    grads,
    i,
    j,
    k,
    messages,
    momentum,
    server_error,
    t,
    worker_errors,
)
from theory.theorem import Hypothesis, Theorem
from theory.theorems.conservation import GRADS, MOMENTUM, exchanged
from theory.witness import instance

nodes, node_size = count("nodes"), count("node_size")
in_node = mean(grads[t + 1, i * node_size + j, k], j, node_size)


def pending(step: Any) -> Any:
    """Mean of the nodes' errors plus server error: the total error Delta."""
    return mean(worker_errors[step, i, k], i, nodes) + server_error[step, k]


def step_of_two_nodes() -> dict[str, Any]:
    """One step at beta1 = 1/2 of two nodes of two workers, whose gradients lie apart by plus and minus 4."""
    decoded_D, arrays = exchanged(0.5 * MOMENTUM + 0.5 * GRADS)
    grads_ND = [GRADS[0] + 4, GRADS[0] - 4, GRADS[1] + 4, GRADS[1] - 4]
    numbers = {"n_workers": 4, "nodes": 2, "node_size": 2, "beta1": 0.5}
    return arrays | numbers | {"momentum": [MOMENTUM, decoded_D], "grads": [[0 * g for g in grads_ND], grads_ND]}


THEOREM = Theorem(
    id="T3p",
    title="Conservation law of 1-bit Adam between nodes",
    conclusion=eq(
        momentum[t + 1, k] + pending(t + 1),
        beta1 * momentum[t, k] + (1 - beta1) * mean(grads[t + 1, i, k], i, N) + pending(t),
    ),
    hypotheses=(
        Hypothesis("all_workers", eq(N, nodes * node_size), "all nodes have the same number of workers"),
        Hypothesis(
            "node_feedback",
            ForAll(
                ((i, nodes),),
                eq(
                    worker_errors[t + 1, i, k],
                    beta1 * momentum[t, k] + (1 - beta1) * in_node + worker_errors[t, i, k] - messages[t + 1, i, k],
                ),
            ),
            "each node averages its workers' gradients, and keeps what its message leaves of its own momentum plus "
            "its error",
        ),
        Hypothesis(
            "server_feedback",
            eq(
                server_error[t + 1, k],
                mean(messages[t + 1, i, k], i, nodes) + server_error[t, k] - momentum[t + 1, k],
            ),
            "the server keeps what its message leaves of the mean of the nodes' messages plus its error",
        ),
    ),
    words="Where nodes exchange compressed momenta and their workers full gradients, L1 holds with the nodes' errors "
    "for the workers', and with the mean gradient of all workers.",
    good_for="The certificate L1 works unchanged for the hierarchical form: it has an error for every node.",
    source="ours",
    where=(
        Row(nodes, "M", "nodes", default=2),
        Row(node_size, "n", "workers of a node", default=4),
    ),
    example=lambda: instance(THEOREM, "one exact step of two nodes of two workers, l1 scale", step_of_two_nodes()),
    laws=("L1", "C15"),
    remarks="So is every theorem on 1-bit Adam: M nodes are M workers whose gradients are the nodes' means, and have "
    "less noise. Nodes of different sizes would need weights.",
)
