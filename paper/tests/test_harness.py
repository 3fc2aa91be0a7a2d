"""Each difference of the harness's reading, against the literal text; the chain; the tries."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import ASAPooling, SAGPooling

from lcpool.data import builtin
from lcpool.models import Architecture, network_class
from lcpool.models.own import import_class
from lcpool.pool import LCPooling
from lcpool.sweep.grid import Cell, Dataset, read_grids
from lcpool.sweep.results import Results
from lcpool.train import Protocol, Trainer
from paper import chain, tries
from paper.harness import NETWORKS, POOLINGS, outside_mlps

GRAPHS = builtin(num_graphs=40)
GRIDS = Path(__file__).parents[1] / "results/harness"
HIDDEN = 6
NAMES = list(NETWORKS)


def network(backbone, pool, conv="gcn", **settings):
    settings = {"hidden": HIDDEN, "readout": "sum+max", **settings}
    a = Architecture(backbone=backbone, pool=pool, conv=conv, **settings)
    torch.manual_seed(3)
    made = network_class(backbone).of(GRAPHS, a).eval()
    with torch.no_grad():  # as if trained: no norm is the identity
        for name, value in (*made.named_parameters(), *made.named_buffers()):
            norm = outside_mlps(name) or name.startswith(("pre.1", "post.1"))
            if norm and value.is_floating_point():
                value.uniform_(0.5, 1.5)
    return made


def normed(layer, x: Tensor) -> Tensor:
    scale = layer.weight / (layer.running_var + layer.eps).sqrt()
    return (x - layer.running_mean) * scale + layer.bias


def adjacency(edge_index: Tensor, n: int) -> Tensor:
    return torch.zeros(n, n).index_put((edge_index[0], edge_index[1]), torch.ones(()), True)


def convolved(conv, x: Tensor, A: Tensor) -> Tensor:
    """GCN and GraphConv of an unweighted graph, by their formulas."""
    if hasattr(conv, "lin_rel"):
        return conv.lin_rel(A.T @ x) + conv.lin_root(x)
    A = A - A.diag().diag() + torch.eye(len(A))  # GCN has one loop per node
    d = A.sum(0).rsqrt()
    return (d[:, None] * A * d).T @ conv.lin(x) + conv.bias


def literal(net, number: int, hierarchical: bool, pooled) -> Tensor:
    """The scores of one graph; ``pooled(x, A)`` gives X' and A' without weights."""
    batch = GRAPHS.batch(torch.tensor([number]))
    A = adjacency(batch.graph.edge_index, batch.x.size(0))
    x = normed(net.pre[1], net.pre[0](batch.x))  # no ReLU
    x = normed(net.norms[0][1], convolved(net.convs[0], x, A).relu())
    first = torch.cat([x.sum(0), x.max(0).values])
    x, A = pooled(x, A)
    if net.architecture.pool != "nopool" or hierarchical:
        x = normed(net.convs[1].norm, x)
    x = normed(net.norms[1][1], convolved(net.convs[1].conv, x, A).relu())
    last = torch.cat([x.sum(0), x.max(0).values])
    row = first + last if hierarchical else last
    return net.post[3](normed(net.post[1], net.post[0](row)).relu())


def as_edges(A: Tensor) -> Tensor:
    return A.nonzero().T.contiguous()


def by_layer(net):
    """What the pooling itself gives, with edges where weights are not zero."""

    def pooled(x, A):
        out = net.pools[0](x, as_edges(A))
        weight = torch.ones(out.edge_index.size(1)) if out.edge_attr is None else out.edge_attr
        there = out.edge_index[:, weight.view(-1) != 0]
        return out.x, adjacency(there, out.x.size(0))

    return pooled


@pytest.mark.parametrize("conv", ["gcn", "graphconv"])
@pytest.mark.parametrize("pool", ["nopool", "topkpool", "diffpool", "mincutpool", "lcpool"])
@pytest.mark.parametrize("backbone", NAMES)
def test_a_network_is_the_literal_text(backbone, pool, conv):
    net, hierarchical = network(backbone, pool, conv), NETWORKS[backbone] == "hierarchical"
    scores = net(GRAPHS.batch(torch.tensor([3, 7]))).logits
    for row, number in enumerate((3, 7)):
        wanted = literal(net, number, hierarchical, by_layer(net))
        assert torch.allclose(scores[row], wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("pool", "theirs"), [("sagpool", SAGPooling), ("asapool", ASAPooling)])
def test_sag_and_asap_are_pygs(pool, theirs):
    (name,) = (name for name, ours in POOLINGS.items() if ours == pool)
    net = network(NAMES[0], name)
    layer = net.pools[0].layer
    assert type(layer) is theirs

    def pooled(x, A):
        x, edges, *_ = layer(x, as_edges(A))
        return x, adjacency(edges, x.size(0))

    batch = GRAPHS.batch(torch.tensor([5]))
    assert torch.allclose(net(batch).logits[0], literal(net, 5, True, pooled), 1e-3, 1e-4)


def test_behind_no_pooling_only_the_hierarchical_has_a_norm():
    norms = {NETWORKS[name]: network(name, "nopool").convs[1].norm for name in NAMES}
    assert isinstance(norms["plain"], torch.nn.Identity)
    assert isinstance(norms["hierarchical"], torch.nn.BatchNorm1d)


@pytest.mark.parametrize("settings", [{"readout": "mean+max"}, {"norm": "layer"}])
def test_other_settings_are_not_the_harness(settings):
    with pytest.raises(ValueError, match="readout"):
        network(NAMES[0], "nopool", **settings)


def test_the_epoch_is_chosen_by_the_loss_of_training():
    """Mean over batches of cross entropy and auxiliary losses, of networks that do not learn."""
    a = Architecture(backbone=NAMES[1], pool="mincutpool", readout="sum+max", hidden=HIDDEN)
    sums = {}
    for kind in ("task", "total"):
        protocol = Protocol(batch_size=3, lr=1e-12, epochs=1, selection_loss=kind)
        trainer = Trainer(GRAPHS, a, protocol, [0, 1])
        trainer.train_epoch()
        sums[kind] = [run.curves[0][1] for run in trainer.runs]
    for run, split in enumerate(trainer.splits):
        net = network_class(NAMES[1]).of(GRAPHS, a).eval()
        net.load_state_dict({n: v[run] for n, v in trainer.stack.tensors().items()})
        means, losses = [], []
        for part in split.val.split(3):
            batch = GRAPHS.batch(part)
            with torch.no_grad():
                out = net(batch)
            cross = torch.nn.functional.cross_entropy(out.logits, batch.target, reduction="none")
            means.append(cross.mean() + out.graph_loss.mean())
            losses.append(cross)
        assert len(means) == 2  # of four graphs: the last weighs three times
        assert sums["total"][run] == pytest.approx(float(torch.stack(means).mean()), rel=1e-4)
        assert sums["task"][run] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-4)


def test_the_grid_has_192_cells_and_the_chain_is_of_three_datasets():
    (grid,) = read_grids(GRIDS / "grid.toml", {})
    assert len(grid.datasets) * len(grid.configurations()) == 192
    for _, protocol in grid.configurations():
        assert (protocol.selection_loss, protocol.split) == ("total", "fresh")
    (chained,) = read_grids(GRIDS / "chain.toml", {})
    assert len(chained.datasets) * len(chained.configurations()) == 96


@pytest.fixture(scope="module")
def chained():
    a = Architecture(backbone=NAMES[0], pool="lcpool", readout="sum+max", hidden=HIDDEN)
    protocol = Protocol(epochs=2, split="shared", selection_loss="total", batch_size=8)
    cell = Cell(Dataset.of(GRAPHS), a, protocol)
    begun, receive = [], chain.receive
    with pytest.MonkeyPatch.context() as patch:

        def spy(trainer, handed):
            before = {n: v.detach().clone() for n, v in trainer.stack.tensors().items()}
            receive(trainer, handed)
            after = {n: v.detach().clone() for n, v in trainer.stack.tensors().items()}
            begun.append((before, handed, after))

        patch.setattr(chain, "receive", spy)
        return begun, list(chain.links(GRAPHS, cell, 3)), cell


def test_a_chain_hands_on_the_norms_and_nothing_else(chained):
    begun, trainers, cell = chained
    alone = Trainer(GRAPHS, cell.architecture, cell.protocol, [0])
    while not alone.ended:
        alone.train_epoch()
    assert trainers[0].runs[0].curves == alone.runs[0].curves
    ended = alone.stack.tensors()
    (first, nothing, _), (before, handed, after) = begun[:2]
    assert not nothing
    kept = {name for name in ended if name.startswith(("norms.", "convs.1.norm."))}
    assert set(handed) == kept
    assert len(kept) == 3 * 5
    for name, value in after.items():
        assert torch.equal(before[name], first[name])  # the same initial parameters
        assert torch.equal(value, ended[name] if name in kept else first[name])
    curves = [trainer.runs[0].curves for trainer in trainers]
    assert curves[0] != curves[1] != curves[2]
    assert torch.equal(trainers[0].splits[0].test, trainers[2].splits[0].test)


def test_chains_go_into_a_store(tmp_path, monkeypatch):
    grid, store = tmp_path / "grid.toml", tmp_path / "chain.sqlite"
    text = "datasets = 'builtin'\npools = 'nopool'\nruns = 2\nepochs = 1\nhidden = 4\n"
    text += f"backbones = '{NAMES[1]}'\nreadout = 'sum+max'\n"
    grid.write_text(text + "splits = 'fresh'\n")
    with pytest.raises(ValueError, match="shared"):
        chain.train(grid, store)
    grid.write_text(text + "splits = 'shared'\n")
    chain.train(grid, store)
    monkeypatch.setattr(chain, "links", lambda *_: pytest.fail("trained again"))
    chain.train(grid, store)
    assert Results.read(store).runs["run"].tolist() == [0, 1]


X, EDGES = (
    torch.randn(5, HIDDEN, generator=torch.Generator().manual_seed(0)),
    torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]]),
)


def made(name):
    """A try with the parameters of LCPool beside it."""
    torch.manual_seed(0)
    usual, one = LCPooling(HIDDEN), getattr(tries, name)(HIDDEN)
    one.score.load_state_dict(usual.score.state_dict(), strict=False)
    s = usual.score.values(X, usual.check(X, EDGES))
    return usual(X, EDGES), one, one(X, EDGES), s


@pytest.mark.parametrize(
    ("name", "gate"),
    [
        ("Sigmoid", lambda s, _: s.sigmoid()), ("Tanh", lambda s, _: s.tanh()),
        ("Linear", lambda s, _: s), ("Ungated", lambda s, _: torch.ones_like(s)),
        ("OverBatch", lambda s, _: s.softmax(0)),
        ("AmongKept", lambda s, kept: torch.zeros(5).index_copy(0, kept, s[kept].softmax(0))),
    ],
)  # fmt: skip
def test_a_gate(name, gate):
    usual, _, out, s = made(name)
    assert torch.equal(out.perm, usual.perm)
    assert torch.equal(out.edge_index, usual.edge_index)
    h = gate(s, out.perm)[out.perm]
    assert torch.allclose(out.x, X[out.perm] * h.unsqueeze(-1), atol=1e-6)
    assert out.x.requires_grad


def test_a_softmax_over_the_batch_knows_other_graphs():
    _, one, alone, _ = made("OverBatch")
    both = one(torch.cat([X, X]), torch.cat([EDGES, EDGES + 5], 1), None, torch.arange(10) // 5)
    assert torch.allclose(both.x[:3], alone.x / 2, atol=1e-6)


def test_the_other_scores():
    _, one, _, _ = made("MeanDifference")
    L_d, b_d, L_fd, L_x, L_s = one.score._layers()
    A = adjacency(EDGES, 5)
    D = (b_d(L_d(X))[:, None] - L_d(X)[None]).relu() * A.T[..., None]
    mean = D.sum(1) / A.sum(0)[:, None]
    s = L_s(L_fd(mean).relu() + L_x(X).relu()).view(-1)
    assert torch.allclose(one.score.values(X, one.check(X, EDGES)), s, atol=1e-6)
    _, one, _, _ = made("Gathered")
    cluster = (A + torch.eye(5)).T @ X / (A.sum(0) + 1)[:, None]
    assert torch.allclose(one.gather(one.check(X, EDGES))[0], cluster, atol=1e-6)


def test_a_random_sign_reverses_the_order_or_not():
    for sign in (1.0, -1.0):
        _, one, _, s = made("RandomSign")
        with torch.no_grad():
            one.score.sign.weight.fill_(0.3 * sign)
        found = one.score.values(X, one.check(X, EDGES))
        assert torch.allclose(found, sign * s, atol=1e-6)
        found.sum().backward()
        assert one.score.sign.weight.grad is None


def test_every_try_is_in_the_plan():
    pools = {
        a.pool for grid in read_grids(GRIDS / "tries.toml", {}) for a, _ in grid.configurations()
    }
    classes = {
        n for n, c in vars(tries).items() if isinstance(c, type) and issubclass(c, tries.Try)
    }
    assert {name for name in pools if ":" in name} == {
        f"paper.tries:{n}" for n in classes - {"Try", "LocalClusterPooling"}
    }
    assert all(issubclass(import_class(name), tries.Try) for name in pools - {"lcpool"})
