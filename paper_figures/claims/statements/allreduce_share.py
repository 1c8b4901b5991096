"""P20: the gradient all-reduce dominates a training step."""

from __future__ import annotations

from onebit_files import counted
from paper_figures.claims.claim import Check, Claim, Facts

PUBLISHED = {"Ethernet": 0.94, "InfiniBand": 0.75}


def measure(facts: Facts) -> list[Check]:
    """The largest share per network, to the published digits; then each row: is it more than half?"""
    table = facts["profile"].assign(share=lambda rows: rows["allreduce"] / rows["step"])
    largest = table.groupby("network")["share"].max()
    checks = [
        Check(
            setting=f"{network}, largest", value=(share := float(largest[network])),
            unit="of the step", test=f"rounds to the published {printed}", bound=printed,
            exact=round(share, 2) == printed, required=True,
        )
        for network, printed in PUBLISHED.items()
    ]  # fmt: skip
    checks += [
        Check(
            setting=f"{row.network}, {counted(row.nodes, 'node')}, batch {row.batch} x {row.accumulation}",
            value=float(row.share),
            unit="of the step", test="more than half", bound=0.5, exact=bool(row.share > 0.5),
        )
        for row in table.itertuples()
    ]  # fmt: skip
    return checks


CLAIM = Claim(
    id="P20",
    title="Communication dominates",
    statement="The all-reduce takes most of a BERT-Large step: up to 94 % on Ethernet and 75 % on InfiniBand.",
    where="table 1",
    published="94 % and 75 %",
    source="seen",
    conditions="Not within one InfiniBand node, and less with gradient accumulation: there is little to gain.",
    others=("profile",),
    theorems=("T10b",),
    pair=None,
    measure=measure,
)
