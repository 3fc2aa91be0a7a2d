"""Which poolings of torch-geometric-pool (tgp) work here: each is called and trained for a step.

    python benchmarks/tgp_poolings.py

tgp must be installed. It needs torch_scatter, which has no wheel for current versions of torch;
where it is missing, the stand-in of ``benchmarks/stand_ins`` takes its place. To train with it:

    PYTHONPATH=benchmarks/stand_ins lcpool train builtin --pool tgp:kmis
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import torch

from lcpool.data import builtin
from lcpool.models import Architecture, Backbone

if importlib.util.find_spec("torch_scatter") is None:
    sys.path.append(str(Path(__file__).parent / "stand_ins"))


def step(name: str) -> str:
    """A network with this pooling, forwards and backwards on a small batch; how it went."""
    graphs = builtin(num_graphs=12)
    torch.manual_seed(0)
    try:
        model = Backbone.of(graphs, Architecture(pool=f"tgp:{name}", hidden=16, ratio=0.5))
        batch = graphs.batch(torch.arange(len(graphs)))
        out = model(batch)
        loss = out.logits.square().mean()
        loss = loss if out.graph_loss is None else loss + out.graph_loss.mean()
        loss.backward()
    except Exception as error:
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())[:90]}"
    if not torch.isfinite(loss):
        return "fails: the loss is not finite"
    return "works" if out.graph_loss is None else "works, with a loss"


def main() -> None:
    from tgp.poolers import pooler_map

    warnings.simplefilter("ignore")
    results = {name: step(name) for name in pooler_map}
    for name, result in results.items():
        print(f"tgp:{name:10} {result}")
    working = sum(result.startswith("works") for result in results.values())
    print(f"{working} of {len(results)} work")


if __name__ == "__main__":
    main()
