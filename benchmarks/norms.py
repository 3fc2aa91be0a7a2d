"""Why DiffPool with GraphConv in the plain backbone does not learn with BatchNorm.

    python benchmarks/norms.py --datasets PROTEINS --epochs 25

One run of the paper's protocol for each norm. As it was in the epoch with the best validation
accuracy, the network then classifies all graphs of the dataset, those it was trained on included:
as networks are judged, by BatchNorm's running statistics, and by the statistics of each batch, as
it was trained. "variance" is the largest running variance of a channel behind the pooled graph's
convolution: of features that grow with the size of a graph, which batches have by chance.
"""

from __future__ import annotations

import argparse
import copy

import torch
from operators import print_table
from torch import nn

from lcpool.data import GraphSet, load_dataset
from lcpool.models.backbone import NORMS
from lcpool.train import Model, train


def classes(network: nn.Module, graphs: GraphSet, batch_size: int) -> torch.Tensor:
    """The class that the network gives each graph; batches are drawn, the same each time."""
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0))
    found = torch.empty_like(graphs.targets)
    with torch.no_grad():
        for part in order.split(batch_size):
            scores, _ = network(graphs.batch(part))
            found[part] = scores.argmax(dim=-1)
    return found


def by_batch(network: nn.Module) -> nn.Module:
    """The network with the statistics of each batch in place of the running ones."""
    network = copy.deepcopy(network)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm1d):
            part.train()
    return network


def row(norm: str, model: Model, graphs: GraphSet, batch_size: int) -> tuple[str, ...]:
    network = model.network.cpu().eval()
    given = [classes(net, graphs, batch_size) for net in (network, by_batch(network))]
    texts = []
    for found in given:
        right = 100 * (found == graphs.targets).double().mean()
        counts = found.bincount(minlength=graphs.num_classes).tolist()
        texts.append(f"{right:.1f} % ({' / '.join(map(str, counts))})")
    variances = [getattr(part, "running_var", None) for part in network.norms[-1]]
    largest = max((float(v.max()) for v in variances if v is not None), default=None)
    return graphs.name, norm, *texts, "–" if largest is None else f"{largest:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["PROTEINS"])
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.set_num_threads(1)  # Sums in one order, whatever the machine.
    rows = []
    for name in args.datasets:
        graphs = load_dataset(name)
        for norm in NORMS:
            result = train(
                graphs, "diffpool", "plain", "graphconv", runs=1, norm=norm, epochs=args.epochs,
                batch_size=args.batch_size, split="fresh", device="cpu",
            )  # fmt: skip
            rows.append(row(norm, result.model, graphs, args.batch_size))
    header = ("", "norm", "as it is judged (graphs of each class)", "by each batch", "variance")
    print_table("All graphs, by a network trained on most of them", header, rows)


if __name__ == "__main__":
    main()
