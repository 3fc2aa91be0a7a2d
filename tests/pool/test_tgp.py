"""The adapter of tgp's poolings, with a stand-in for tgp; and k-MIS beside tgp's."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from lcpool import KMISPooling
from lcpool.models import Architecture, make_pooling
from lcpool.models.pooling import import_class
from lcpool.train.api import own_code

EDGES = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])


class Pairs(nn.Module):
    """Joins nodes 0 and 1, 2 and 3; called and made as tgp's poolers are."""

    def __init__(self, in_channels, k, sparse_output):
        super().__init__()
        assert sparse_output
        self.lin, self.k = nn.Linear(in_channels, 1), k

    def reset_parameters(self):
        self.lin.reset_parameters()

    def forward(self, *, x, adj, edge_weight, batch):
        pooled = (x * self.lin(x).sigmoid()).view(-1, 2, x.size(1)).sum(1)
        losses = [self.lin.weight.square().sum(), torch.tensor(1.0)] if self.k > 1 else []
        return SimpleNamespace(
            x=pooled, edge_index=adj[:, :0], edge_weight=None, batch=batch[::2],
            has_loss=bool(losses), get_loss_value=lambda: losses,
        )  # fmt: skip


@pytest.fixture
def tgp(monkeypatch):
    poolers = ModuleType("tgp.poolers")
    poolers.pooler_map = {"pairs": Pairs}
    poolers.get_pooler = lambda name, in_channels, k, sparse_output, **_: poolers.pooler_map[name](
        in_channels, k, sparse_output
    )
    monkeypatch.setitem(sys.modules, "tgp", ModuleType("tgp"))
    monkeypatch.setitem(sys.modules, "tgp.poolers", poolers)


@pytest.mark.usefixtures("tgp")
def test_a_pooling_of_tgp_is_a_pooling():
    options = Architecture(pool="tgp:pairs", hidden=8)
    pool = make_pooling("tgp:pairs", 8, 3, options)
    x, batch = torch.randn(4, 8, requires_grad=True), torch.tensor([0, 0, 1, 1])
    out = pool(x, EDGES, batch=batch)
    assert out.x.shape == (2, 8)
    assert out.batch.tolist() == [0, 1]
    torch.testing.assert_close(out.loss, pool.layer.layer.lin.weight.square().sum() + 1)
    (out.x.sum() + out.loss).backward()
    assert x.grad is not None
    assert make_pooling("tgp:pairs", 8, 1, options)(x, EDGES, batch=batch).loss == 0
    assert not pool.stackable
    assert import_class("tgp:pairs") is Pairs
    assert own_code(options)
    with pytest.raises(ValueError, match="choose one of pairs"):
        make_pooling("tgp:pears", 8, 3, options)


def test_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tgp", None)
    with pytest.raises(ValueError, match="pip install torch-geometric-pool"):
        make_pooling("tgp:kmis", 8, 3, Architecture())


@pytest.mark.parametrize("k", [1, 2])
def test_kmis_is_that_of_tgp(k):
    tgp = pytest.importorskip("tgp.poolers", reason="tgp is not installed", exc_type=ImportError)
    generator = torch.Generator().manual_seed(0)
    for n in range(1, 30):
        torch.manual_seed(n)
        pairs = torch.randint(0, n, (2, 2 * n), generator=generator)
        pairs = pairs[:, pairs[0] != pairs[1]]
        edges = torch.cat([pairs, pairs.flip(0)], dim=1).unique(dim=1)
        x = torch.randn(n, 8, generator=generator)
        ours, theirs = KMISPooling(8, k), tgp.get_pooler("kmis", in_channels=8, order_k=k)
        with torch.no_grad():
            theirs.selector.lin.weight.copy_(ours.score.weight)
            theirs.selector.lin.bias.copy_(ours.score.bias)
        out, so = ours(x, edges), theirs(x=x, adj=edges, batch=torch.zeros(n).long()).so
        same = out.labels()[:, None] == out.labels()
        assert torch.equal(same, so.cluster_index[:, None] == so.cluster_index)
