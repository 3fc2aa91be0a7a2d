"""What poolings that are not ours may do to a backbone."""

import pytest
import torch
from torch_geometric.nn import TopKPooling

from lcpool import LCPooling
from lcpool.data import builtin
from lcpool.models import Architecture, Backbone
from lcpool.ops.edges import Edges
from lcpool.ops.graph import Graph
from lcpool.ops.sizes import Sizes
from lcpool.train.rows import counts_are_known

GRAPHS = builtin(num_graphs=8)


class Fewer(LCPooling):
    """Keeps half of what was planned."""

    def select(self, *args):
        perm, batch, h = super().select(*args)
        return perm[::2], batch[::2], h


class Astray(TopKPooling):
    """Forgets that nodes are numbered anew."""

    def forward(self, x, edge_index, edge_attr=None, batch=None):
        x, _, edge_attr, batch, *_ = super().forward(x, edge_index, edge_attr, batch)
        return x, edge_index, edge_attr, batch


class Doubled(LCPooling):
    """Changes what it returns."""

    def pool(self, graph, attn=None):
        out = super().pool(graph, attn)
        return out._replace(x=2 * out.x)


def network(pool):
    torch.manual_seed(0)
    model = Backbone.of(GRAPHS, Architecture(hidden=8, pool="lcpool"))
    model.pools[0] = pool
    return model


def test_a_selection_of_ones_own_is_not_taken_for_the_planned_one():
    pool = Fewer(8)
    assert not counts_are_known(pool)
    model = network(pool)
    logits = model(GRAPHS.batch(torch.arange(8))).logits
    assert logits.isfinite().all()


def test_sizes_that_do_not_fit_never_reach_a_kernel():
    x, edges = torch.zeros(3, 2), Edges(torch.zeros(2, 0, dtype=torch.long), 3)
    sizes = Sizes.of(torch.tensor([2, 2]), x.device)
    with pytest.raises(ValueError, match=r"3 rows of features cannot have .* parts of 4"):
        Graph(x, edges, None, sizes.batch, 2, sizes)


def test_edges_to_nodes_that_are_not_there_are_named():
    with pytest.raises(ValueError, match="'edge_index' spans"):
        network(Astray(8))(GRAPHS.batch(torch.arange(8)))


def test_what_is_replaced_in_an_output_is_what_goes_on():
    batch = GRAPHS.batch(torch.arange(8))
    pools = LCPooling(8), Doubled(8)
    pools[1].load_state_dict(pools[0].state_dict())
    plain, doubled = (network(pool).eval()(batch).logits for pool in pools)
    assert not torch.allclose(plain, doubled)
