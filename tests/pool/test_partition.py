"""What holds for all poolings with hard clusters: k-MIS, EdgePool, Graclus, random assignment."""

import itertools
from collections.abc import Iterator

import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import given

from lcpool import EdgePooling, GraclusPooling, KMISPooling, RandomAssignment
from lcpool.testing import check_pooling

POOLINGS = {
    "kmis": KMISPooling,
    "2-mis": lambda c, **k: KMISPooling(c, k=2, **k),
    "edge": EdgePooling,
    "graclus": GraclusPooling,
    "random": RandomAssignment,
}
every = pytest.mark.parametrize("name", POOLINGS)


def make(name, channels=8, **options):
    torch.manual_seed(0)
    return POOLINGS[name](channels, **options).double()


def undirected(pairs):
    index = torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()
    return torch.cat([index, index.flip(0)], dim=1)


def components(edge_index, num_nodes):
    """The number of weakly connected parts."""
    part = list(range(num_nodes))

    def root(i):
        while part[i] != i:
            i = part[i]
        return i

    for u, v in edge_index.t().tolist():
        part[root(u)] = root(v)
    return len({root(i) for i in range(num_nodes)})


def all_graphs(most: int) -> Iterator[tuple[int, torch.Tensor]]:
    for n in range(1, most + 1):
        possible = list(itertools.combinations(range(n), 2))
        for chosen in itertools.product((False, True), repeat=len(possible)):
            yield (
                n,
                undirected([pair for pair, there in zip(possible, chosen, strict=True) if there]),
            )


@every
def test_connected_parts_neither_fall_apart_nor_merge(name):
    """All graphs of up to five nodes as one batch, and larger random ones. (Random clusters may
    merge parts, but never let one fall apart.)"""
    cases = list(all_graphs(5))
    generator = torch.Generator().manual_seed(0)
    for n in (20, 50):
        for edges in (n // 2, n, 2 * n):
            pairs = torch.randint(0, n, (edges, 2), generator=generator).tolist()
            cases.append((n, undirected(pairs)))
    counts = torch.tensor([n for n, _ in cases])
    first = counts.cumsum(0) - counts
    index = torch.cat([cases[g][1] + first[g] for g in range(len(cases))], dim=1)
    batch = torch.arange(len(cases)).repeat_interleave(counts)
    x = torch.randn(len(batch), 8, dtype=torch.float64)
    out = make(name)(x, index, batch=batch)
    after, start = out.batch.bincount(minlength=len(cases)), 0
    for g, (n, edges) in enumerate(cases):
        own = out.edge_index[:, out.batch[out.edge_index[0]] == g] - start
        before = components(edges, n)
        if name == "random":
            assert components(own, int(after[g])) <= before
        else:
            assert components(own, int(after[g])) == before
        start += int(after[g])
    assert out.edge_index.size(1) <= index.size(1)


@every
def test_the_output_is_the_product(name):
    """X' = SᵀX and A' = S₁ᵀAS₁ without its diagonal, with S₁ a one for each entry of S."""

    @given(graphs())
    def check(example: Example) -> None:
        x, weight, n = example.features(), example.weights(), example.num_nodes
        pool, size = make(name), len(example.sizes)
        out = pool(x, example.edge_index, weight, example.batch, batch_size=size)
        S = out.assignment.to_dense().double()
        assert torch.equal((S != 0).sum(1), torch.ones(n, dtype=torch.long))
        torch.testing.assert_close(out.x, S.T @ x)
        ones = (S != 0).double()
        A = ones.T @ dense(example.edge_index, n, weight) @ ones
        pattern = ones.T @ dense(example.edge_index, n) @ ones
        pattern.fill_diagonal_(0)
        assert torch.equal(out.edge_index, pattern.nonzero().t())
        torch.testing.assert_close(out.edge_attr, A[tuple(out.edge_index)])
        assert torch.equal(out.batch[out.labels()], example.batch)

    check()


@every
def test_gradients(name):
    pool = make(name, 3)
    edges = torch.tensor([[0, 1, 1, 2, 3, 0, 4, 4], [1, 0, 2, 1, 3, 1, 5, 6]])
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    attr = torch.rand(8, 1, dtype=torch.float64, requires_grad=True)

    def call(x, attr, *parameters):
        torch.manual_seed(0)
        out = pool(x, edges, attr, torch.tensor([0, 0, 0, 1, 2, 2, 2]))
        return out.x, out.edge_attr, out.lift()

    assert torch.autograd.gradcheck(call, (x, attr, *pool.parameters()))


@every
@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_attributes_of_any_width(name, how):
    if name == "graclus":
        pytest.skip("its edge_attr are weights")
    torch.manual_seed(0)
    edges, attr = undirected([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]), torch.arange(20).view(10, 2)
    out = make(name, edge_reduce=how)(torch.randn(4, 8).double(), edges, attr)
    labels, reduce = out.labels(), {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[how]
    for (u, v), found in zip(out.edge_index.t().tolist(), out.edge_attr, strict=True):
        own = (labels[edges[0]] == u) & (labels[edges[1]] == v)
        assert torch.equal(found, reduce(attr[own].double(), 0))
    with pytest.raises(ValueError, match="edge_reduce"):
        make(name, edge_reduce="min")


@every
def test_checks(name):
    # Random poolings draw other numbers for another batch; Graclus' ties go by the numbers of
    # the nodes in their graph.
    skip = {"random": ["independence", "equivariance"], "graclus": ["equivariance"]}
    check_pooling(POOLINGS[name], skip.get(name, []))


@every
def test_equal_scores_in_16_bits_end(name):
    """All scores tie; a loop over scores in place of ranks would not end."""
    n = 400
    path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    pool = make(name).bfloat16()
    out = pool(torch.ones(n, 8, dtype=torch.bfloat16), torch.cat([path, path.flip(0)], 1))
    assert out.x.isfinite().all()
    assert components(out.edge_index, out.x.size(0)) == 1


@every
def test_lift_gives_each_node_its_cluster(name):
    x = torch.randn(5, 8, dtype=torch.float64)
    out = make(name)(x, undirected([(0, 1), (1, 2), (2, 3), (3, 4)]))
    per_cluster = torch.arange(out.x.size(0), dtype=torch.float64)
    found = out.lift(per_cluster)
    if name == "edge":
        found = found * out.score[out.labels()]
    torch.testing.assert_close(found, per_cluster[out.labels()])
