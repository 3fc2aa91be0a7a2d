"""What holds for every operator."""

import copy
import pickle

import pytest
import torch
from graphs import Example, dense, graphs
from hypothesis import assume, given, settings
from operators import ALL, DENSE, SELECTIONS, make
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data

from lcpool import ConvScore, LocalClusterPooling, Pooled

every = pytest.mark.parametrize("name", ALL)
every_selection = pytest.mark.parametrize("name", SELECTIONS)
every_dense = pytest.mark.parametrize("name", DENSE)

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


def same(out: Pooled, other: Pooled, exact: bool = False) -> None:
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    for a, b in zip(out, other, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, **tolerance)
    torch.testing.assert_close(torch.as_tensor(out.loss), torch.as_tensor(other.loss), **tolerance)


def no_ties(name: str, x: torch.Tensor, example: Example) -> None:
    """Pass over examples with nodes that rounding alone may tell apart: on some CPUs a product's
    row is rounded by where it stands."""
    if name in SELECTIONS:
        every_node = make(name, ratio=1.0)(x, example.edge_index, batch=example.batch)
        assume(not (every_node.score.diff().abs() < 1e-9).any())


@every
@settings(max_examples=25)
@given(example=graphs())
def test_a_graph_does_not_depend_on_its_batch(name, example: Example):
    pool, x = make(name), example.features()
    no_ties(name, x, example)
    out = pool(x, example.edge_index, batch=example.batch, batch_size=len(example.sizes))
    start = 0
    for b, size in enumerate(example.sizes):
        inside = (example.edge_index[0] >= start) & (example.edge_index[0] < start + size)
        edges = example.edge_index[:, inside] - start
        alone = pool(x[start : start + size], edges)
        mine = (out.batch == b).nonzero().view(-1)
        torch.testing.assert_close(out.x[mine], alone.x)
        edge = (out.batch[out.edge_index[0]] == b).nonzero().view(-1)
        first = int(mine[0]) if mine.numel() else 0
        assert torch.equal(out.edge_index[:, edge] - first, alone.edge_index)
        if alone.edge_attr is not None:
            torch.testing.assert_close(out.edge_attr[edge], alone.edge_attr)
        if alone.perm is not None:
            assert torch.equal(out.perm[mine] - start, alone.perm)
        start += size


# EdgePool's nodes come in the order of their numbers; check_pooling compares it up to that.
@pytest.mark.parametrize("name", [name for name in ALL if name != "edge"])
@settings(max_examples=25)
@given(example=graphs())
def test_permutation_equivariance(name, example: Example):
    """Renumbering the nodes renumbers the result, ties aside: those go to the lower index."""
    pool, x = make(name), example.features()
    no_ties(name, x, example)
    renumber = torch.randperm(
        example.num_nodes, generator=torch.Generator().manual_seed(example.seed + 9)
    )
    there = torch.empty_like(renumber)
    there[renumber] = torch.arange(example.num_nodes)
    out = pool(x, example.edge_index, batch=example.batch, batch_size=len(example.sizes))
    moved = pool(
        x[renumber], there[example.edge_index],
        batch=example.batch[renumber], batch_size=len(example.sizes),
    )  # fmt: skip
    torch.testing.assert_close(out.x, moved.x)
    assert torch.equal(out.batch, moved.batch)
    if out.perm is not None:
        assert torch.equal(out.perm, renumber[moved.perm])
    k = out.x.size(0)
    torch.testing.assert_close(
        dense(out.edge_index, k, out.edge_attr), dense(moved.edge_index, k, moved.edge_attr)
    )


@every
def test_the_same_call_gives_the_same_bits(name):
    """Large enough, and with hubs enough, that torch's threads meet in the same rows."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, 4000, (2, 16000), generator=generator)
    edge_index[:, :4000] //= 100
    x = torch.randn(4000, 32, generator=generator)
    results = []
    for _ in range(3):
        pool = make(name, 32).float()
        x_ = x.clone().requires_grad_()
        out = pool(x_, edge_index)
        attr = 0.0 if out.edge_attr is None else out.edge_attr.square().sum()
        (out.x.square().sum() + out.lift().square().sum() + attr + out.loss).backward()
        results.append([x_.grad, *(p.grad for p in pool.parameters()), *out])
    torch.set_num_threads(threads)
    for result in results[1:]:
        assert all(a is b or torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


@every
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dtypes(name, dtype):
    pool = make(name).to(dtype)
    x = torch.randn(6, 8, dtype=dtype, requires_grad=True)
    out = pool(x, PATH, batch=torch.tensor([0, 0, 0, 0, 1, 1]))
    assert out.x.dtype == dtype
    assert out.edge_attr is None or out.edge_attr.dtype == dtype
    assert out.lift().dtype == dtype
    (out.x.sum() + out.loss).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@every
def test_autocast(name):
    pool = make(name).float()
    x = torch.randn(5, 8, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = pool(x, PATH)
    (out.x.float().sum() + out.loss).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@every
@pytest.mark.parametrize(
    ("num_nodes", "edges", "batch", "batch_size"),
    [
        (0, [], [], None),
        (0, [], [], 3),
        (1, [], [0], None),
        (1, [(0, 0)], [0], 2),
        (4, [], [0, 0, 1, 1], None),
        (3, [(0, 1), (1, 0), (0, 1)], [0, 0, 2], None),
        (3, [(0, 1), (1, 0)], [1, 1, 1], 5),
        (4, [(0, 2), (2, 0), (1, 3)], [1, 0, 1, 0], None),
    ],
)
def test_odd_graphs(name, num_nodes, edges, batch, batch_size):
    """Empty graphs, single nodes, isolated nodes, no edges, gaps and disorder in ``batch``."""
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    batch = torch.tensor(batch, dtype=torch.long)
    pool = make(name)
    x = torch.randn(num_nodes, 8, dtype=torch.float64, requires_grad=True)
    out = pool(x, edge_index, batch=batch, batch_size=batch_size)
    assert all(t.isfinite().all() for t in (out.x, *out.losses.values()))
    assert out.lift().shape == x.shape
    if name in SELECTIONS:
        assert torch.equal(out.batch.unique(), batch.unique())
    (out.x.square().sum() + out.loss).backward()
    assert x.grad is None or x.grad.isfinite().all()
    for parameter in pool.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


@every
def test_batch_size_counts_empty_graphs_at_the_end(name):
    pool, x = make(name), torch.randn(4, 8, dtype=torch.float64)
    batch = torch.zeros(4, dtype=torch.long)
    out = pool(x, PATH, batch=batch, batch_size=3)
    assert out.batch_size == 3
    assert pool(x, PATH, batch=batch).batch_size == 1
    if name in DENSE:
        assert out.x.view(3, 3, 8)[1:].abs().sum() == 0
    torch.testing.assert_close(out.x[: pool(x, PATH).x.size(0)], pool(x, PATH).x)


@every
def test_the_output_is_a_tuple_with_names(name):
    out = make(name)(torch.randn(4, 8, dtype=torch.float64), PATH)
    x, edge_index, edge_attr, batch, perm, score = out
    assert isinstance(out, tuple)
    assert len(out) == 6
    assert x is out.x
    assert edge_index is out.edge_index
    assert edge_attr is out.edge_attr
    assert batch is out.batch
    assert perm is out.perm
    assert score is out.score


@every
def test_layers_and_outputs_can_be_pickled(name):
    pool, x = make(name), torch.randn(4, 8, dtype=torch.float64)
    again = pickle.loads(pickle.dumps(pool))
    with torch.no_grad():
        out = pool(x, PATH)
        same(again(x, PATH), out, exact=True)
    copied = pickle.loads(pickle.dumps(out))
    same(copied, out, exact=True)
    assert torch.equal(copied.lift(), out.lift())
    other = out._replace(x=out.x + 1)
    assert torch.equal(other.lift(), out.lift(out.x + 1))
    assert other.batch_size == out.batch_size


@every
def test_lift_takes_one_value_a_node_and_refuses_what_does_not_fit(name):
    out = make(name)(torch.randn(4, 8, dtype=torch.float64), PATH)
    column = out.lift(out.x[:, :1])
    torch.testing.assert_close(out.lift(out.x[:, 0]), column.view(-1))
    for wrong in (out.x[:-1], out.x.long(), out.x[0, 0]):
        with pytest.raises(ValueError, match="rows"):
            out.lift(wrong)


@every
def test_state_dict_round_trip_copy_and_reset(name):
    pool, x = make(name), torch.randn(4, 8, dtype=torch.float64)
    before = pool(x, PATH)
    same(copy.deepcopy(pool)(x, PATH), before, exact=True)
    state = copy.deepcopy(pool.state_dict())
    pool.reset_parameters()
    assert any(not torch.equal(state[key], value) for key, value in pool.state_dict().items())
    pool.load_state_dict(state)
    same(pool(x, PATH), before, exact=True)


@every
def test_edge_index_of_pyg(name):
    pool, x = make(name), torch.randn(4, 8, dtype=torch.float64)
    index = EdgeIndex(PATH, sparse_size=(4, 4), is_undirected=True)
    out = pool(x, index)
    same(out, pool(x, PATH), exact=True)
    assert type(out.edge_index) is torch.Tensor


@every
def test_one_value_a_node_counts_as_one_channel(name):
    assert make(name, 1)(torch.randn(4, dtype=torch.float64), PATH).x.size(1) == 1


@every
def test_a_pyg_batch(name):
    data = [Data(x=torch.randn(4, 8, dtype=torch.float64), edge_index=PATH) for _ in range(3)]
    batch = Batch.from_data_list(data)
    out = make(name)(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    assert out.batch.unique().tolist() == [0, 1, 2]


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_edge_weights_of_another_dtype(name, dtype):
    pool, x = make(name).float(), torch.randn(4, 8)
    if name.startswith("lcpool"):
        pool.edge_fill = 0
    weight = torch.arange(1, 7).to(dtype)
    out = pool(x, PATH, weight)
    torch.testing.assert_close(out.edge_attr.float(), pool(x, PATH, weight.float()).edge_attr)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert pool(x, PATH, weight).x.isfinite().all()


@every
def test_losses_do_not_depend_on_the_batch_or_on_precision(name):
    """16 bits cannot hold sums over a thousand nodes: these are taken in 32."""
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 1000, (2, 4000), generator=generator)
    pool, x = make(name).float(), torch.randn(1000, 8, generator=generator)
    out = pool(x, edges)
    padded = pool(x, edges, batch=torch.zeros(1000, dtype=torch.long), batch_size=4)
    short = pool.bfloat16()(x.bfloat16(), edges)
    for key, loss in out.losses.items():
        torch.testing.assert_close(padded.losses[key], loss)
        # Modularity is a difference: it is near 0 here.
        atol = 1e-4 if key == "spectral" else 0
        torch.testing.assert_close(short.losses[key].float(), loss, rtol=0.03, atol=atol)


def bad_calls():
    x = torch.randn(4, 8, dtype=torch.float64)
    yield "width", ValueError, r"\b8\b", (x[:, :3], PATH)
    yield "sparse features", TypeError, "'x'", (x.to_sparse(), PATH)
    yield "range", ValueError, "'edge_index'", (x, PATH + 1)
    yield "negative", ValueError, "'edge_index'", (x, PATH - 1)
    yield "float edges", TypeError, "'edge_index'", (x, PATH.double())
    yield "shape", ValueError, "'edge_index'", (x, PATH.t())
    yield "sparse", TypeError, "to_edge_index", (x, torch.eye(4).to_sparse())
    yield "list", TypeError, "list", (x, PATH.tolist())
    yield "int features", TypeError, r"x\)\.float\(\)", (x.long(), PATH)
    yield "3-d features", ValueError, "'x'", (x.view(4, 2, 4), PATH)
    yield "batch length", ValueError, "'batch'", (
        x, PATH, None, torch.zeros(3, dtype=torch.long))  # fmt: skip
    yield "batch values", ValueError, "'batch'", (x, PATH, None, torch.tensor([0, 0, -1, 0]))
    yield "float batch", TypeError, "'batch'", (x, PATH, None, torch.zeros(4))
    yield "attributes", ValueError, "'edge_attr'", (x, PATH, torch.ones(5))
    yield "devices", ValueError, "meta", (x, PATH.to("meta"))


@every
@pytest.mark.parametrize("case", list(bad_calls()), ids=lambda case: case[0])
def test_bad_input_is_named(name, case):
    _, error, words, arguments = case
    with pytest.raises(error, match=words):
        make(name)(*arguments)


def test_scores_without_bound_are_refused():
    """A softmax of infinity is NaN, although the ranks are not."""
    pool = LocalClusterPooling(ConvScore(lambda x, _: x[:, 0], "softmax"))
    with pytest.raises(ValueError, match="NaN"):
        pool(torch.tensor([[torch.inf], [1.0], [2.0], [3.0]]), PATH)


@every
def test_batch_size_is_checked(name):
    x, batch = torch.randn(4, 8, dtype=torch.float64), torch.tensor([0, 0, 1, 1])
    with pytest.raises(ValueError, match="'batch'"):
        make(name)(x, PATH[:, :2], batch=batch, batch_size=1)
    with pytest.raises(ValueError, match="'batch_size'"):
        make(name)(x, PATH, batch=batch, batch_size=0)
    with pytest.raises(ValueError, match="'batch_size'"):
        make(name)(x, PATH, batch_size=2)


@every_selection
def test_scores_by_other_features(name):
    pool, x = make(name), torch.randn(4, 8, dtype=torch.float64)
    attn = torch.randn(4, 8, dtype=torch.float64)
    out = pool(x, PATH, attn=attn)
    torch.testing.assert_close(out.score, pool.score(attn, scored_edges(name))[out.perm])
    with pytest.raises(ValueError, match="'attn'"):
        pool(x, PATH, attn=attn[:2])
    with pytest.raises(ValueError, match="'attn'"):
        pool(x, PATH, attn=attn.to("meta"))


def scored_edges(name):
    """The edges that a score sees: ASAP's are those of A + I."""
    loops = torch.arange(4).expand(2, -1)
    return torch.cat([PATH, loops], dim=1) if name == "asap" else PATH


@every_selection
def test_every_ratio(name):
    x = torch.randn(4, 8, dtype=torch.float64)
    for ratio, kept in ((0.25, 1), (0.3, 2), (1.0, 4), (1, 1), (3, 3), (50, 4)):
        assert make(name, ratio=ratio)(x, PATH).x.size(0) == kept
    with pytest.raises(ValueError, match="ratio"):
        make(name, ratio=1.5)


@every_selection
def test_lift_brings_a_feature_back_to_its_node(name):
    out = make(name)(torch.randn(4, 8, dtype=torch.float64), PATH)
    S = out.assignment.to_dense()
    torch.testing.assert_close(out.lift(), S.to(out.x.dtype) @ out.x)
    assert (S[out.perm, torch.arange(out.perm.numel())] != 0).all()


@every_dense
def test_dense_lift(name):
    x, batch = torch.randn(4, 8, dtype=torch.float64), torch.tensor([1, 0, 1, 0])
    out = make(name)(x, PATH[:, :0], batch=batch)
    S = out.assignment.value
    expected = torch.stack([S[i] @ out.x.view(2, 3, 8)[batch[i]] for i in range(4)])
    torch.testing.assert_close(out.lift(), expected)


@every
def test_no_warning_in_ordinary_use(name):
    """A warning is an error in every test, but for those that pyproject.toml lists."""
    make(name)(torch.randn(4, 8, dtype=torch.float64), PATH)


@every
def test_dense_losses_are_attributes(name):
    out = make(name)(torch.randn(4, 8, dtype=torch.float64), PATH)
    weights = {"diff": {"link": 0.1, "entropy": 0.1}, "mincut": {"cut": 0.5, "ortho": 1.0}}
    weights["dmon"] = {"spectral": 1.0, "cluster": 1.0}
    expected = weights.get(name, {})
    assert set(out.losses) == set(expected)
    total = sum(expected[key] * value for key, value in out.losses.items())
    torch.testing.assert_close(out.loss, total or 0.0)
