"""A stacked run computes what the same run alone computes."""

import copy
import warnings
from dataclasses import replace

import page_poolings
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv

from lcpool.data import GraphSet, builtin
from lcpool.models import POOLINGS, Architecture, Backbone
from lcpool.nn.norm import BatchNorm
from lcpool.train import train
from lcpool.train.loop import run_losses
from lcpool.train.stack import CannotStackError, Stack, layers
from lcpool.train.stack.rows import RunRows

GRAPHS = builtin(num_graphs=60)
GRAPHS = replace(GRAPHS, x=GRAPHS.x.double())
RUNS = 3
# A stack draws other numbers than its runs alone.
CHOOSING = [pool for pool in POOLINGS if not pool.startswith("random")]
EXACT = {"rtol": 0, "atol": 1e-9}


@pytest.fixture(params=["run by run", "at once"])
def way(request, monkeypatch):
    """Both ways: the one of a CPU, and the one of a GPU without kernels."""
    if request.param == "at once":
        monkeypatch.setattr(RunRows, "at_once", True)
        monkeypatch.setattr(layers, "run_kernels", lambda x: None)
    return request.param


def networks(graphs=GRAPHS, **options):
    architecture = Architecture(**{"hidden": 8, **options})
    models = []
    for run in range(RUNS):
        torch.manual_seed(run)
        models.append(Backbone.of(graphs, architecture).double())
    return models


def compare(stack, models, losses, alone):
    torch.testing.assert_close(losses, torch.stack(alone), **EXACT)
    tensors = stack.tensors()
    for run, model in enumerate(models):
        for name, value in model.named_buffers():
            torch.testing.assert_close(tensors[name][run], value, **EXACT)
        for name, parameter in model.named_parameters():
            grad, value = tensors[name].grad, tensors[name][run].detach()
            if parameter.grad is None:
                assert grad is None or not grad[run].any()
                continue
            torch.testing.assert_close(grad[run], parameter.grad, **EXACT)
            # A bias before a batch norm has no gradient but rounding, which Adam divides by 1e-8.
            real = parameter.grad.abs() > 1e-9
            torch.testing.assert_close(value[real], parameter.detach()[real], **EXACT)
            torch.testing.assert_close(value, parameter.detach(), rtol=0, atol=1e-6)


def train_side_by_side(models, steps, graphs=GRAPHS, **options):
    stack = Stack(models)
    optimizers = [
        torch.optim.Adam(m.parameters(), lr=5e-4, **options) for m in (stack.model, *models)
    ]
    generator = torch.Generator().manual_seed(7)
    for _ in range(steps):
        parts = [torch.randperm(len(graphs), generator=generator)[:6] for _ in models]
        batch = graphs.batch(torch.cat(parts))
        losses = run_losses(stack(batch, RUNS), batch, RUNS)
        alone = []
        for model, part in zip(models, parts, strict=True):
            own = graphs.batch(part)
            alone.append(run_losses(model(own), own, 1).squeeze(0))
        for optimizer, loss in zip(optimizers, (losses.sum(), *alone), strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        compare(stack, models, losses.detach(), [loss.detach() for loss in alone])
        for run, model in enumerate(models):
            same_state(stack, optimizers[0], model, optimizers[1 + run], run)
    return stack


def small_graphs():
    """Two graphs each without nodes, with one node, with two, and with five."""
    torch.manual_seed(0)
    graphs = []
    for n in (0, 0, 1, 1, 2, 2, 5, 5):
        edges = torch.stack([torch.arange(n), torch.arange(n).roll(1)])[:, : n - 1 if n else 0]
        x = torch.randn(n, 3)
        graphs.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1), y=len(graphs) % 2))
    found = GraphSet.from_graphs(graphs)
    return replace(found, x=found.x.double())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("pool", "options"),
    [(pool, {}) for pool in CHOOSING]
    + [("lcpool", {"conv": "gin", "depth": 2}), ("sagpool", {"readout": "sum+std", "conv": "gin"})],
)
@pytest.mark.parametrize(
    "parts",
    [[[0, 1]] * 3, [[0, 1], [0, 2], [4, 7]], [[6, 7], [3, 1], [2, 3]], [[0, 6], [4, 5], [7, 1]]],
    ids=["no nodes", "none, one, seven", "ten, one, two", "one kept"],
)
def test_a_run_with_no_or_one_node_trains(pool, options, parts):
    """Alone and in a stack: the batch is normalised by running statistics, which stay."""
    graphs = small_graphs()
    models = networks(graphs, pool=pool, ratio=1, **options)
    for model in models:  # Equal rows are normalised to the bias: at 0, ReLU has no gradient.
        for layer in model.modules():
            if isinstance(layer, BatchNorm):
                torch.nn.init.normal_(layer.bias)
    stack, before = Stack(models), [copy.deepcopy(model.norms[0][0]) for model in models]
    batch = graphs.batch(torch.tensor(parts).flatten())
    losses = run_losses(stack(batch, RUNS), batch, RUNS)
    losses.sum().backward()
    alone = []
    for model, norm, part in zip(models, before, parts, strict=True):
        own = graphs.batch(torch.tensor(part))
        alone.append(run_losses(model(own), own, 1).squeeze(0))
        alone[-1].backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
        stays = torch.equal(model.norms[0][0].running_mean, norm.running_mean)
        assert stays == (own.x.size(0) < 2)
        assert int(model.norms[0][0].num_batches_tracked) == (not stays)
    assert losses.isfinite().all()
    compare(stack, models, losses.detach(), [loss.detach() for loss in alone])


def same_state(stack, of_stack, model, optimizer, run):
    """Let the next step begin where the stack is. Adam divides by the size of gradients, so that
    where these are zero but for rounding, rounding would grow from step to step."""
    tensors = stack.tensors()
    model.load_state_dict({name: tensors[name][run] for name in model.state_dict()})
    for name, parameter in model.named_parameters():
        for key, value in of_stack.state[tensors[name]].items():
            optimizer.state[parameter][key] = value[run].clone() if value.dim() else value.clone()


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pool", CHOOSING)
@pytest.mark.parametrize(
    ("conv", "backbone"), [("gcn", "hierarchical"), ("graphconv", "plain"), ("gin", "hierarchical")]
)
def test_steps_of_a_stack_are_the_steps_of_its_runs(pool, conv, backbone):
    """Loss, gradients, batch norm's statistics and updated parameters, at several points."""
    train_side_by_side(networks(pool=pool, conv=conv, backbone=backbone), steps=4)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "options",
    [
        {"norm": "layer"},
        {"norm": "none"},
        {"poolings": 2},
        {"poolings": 2, "pool": "mincutpool"},
        {"ratio": 0.3, "score_channels": 5, "self_loops": False, "rescale": True},
        {"depth": 3},
        {"depth": 2, "poolings": 2, "conv": "gin"},
        {"conv": "gin", "norm": "layer"},
        {"conv": "torch_geometric.nn:SAGEConv"},
        {"readout": "sum"},
        {"readout": "max+sum+std"},
        {"readout": "softmax+min"},
        {"readout": "attentional", "poolings": 2},
    ],
)
def test_options_stack_too(options):
    train_side_by_side(networks(**options), steps=2)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pool", CHOOSING)
@pytest.mark.filterwarnings("ignore::lcpool.data.DataWarning")
def test_edge_attributes_stack_too(pool):
    """Their linear layer has a row per edge, where others have one per node."""
    attr = torch.randn(GRAPHS.edge_index.size(1), 3, dtype=torch.float64)
    graphs = replace(GRAPHS, edge_attr=attr)
    models = networks(graphs, conv="gine", pool=pool, poolings=2, depth=2)
    train_side_by_side(models, steps=2, graphs=graphs)


@pytest.mark.usefixtures("way")
def test_weight_decay_stacks_too():
    train_side_by_side(networks(conv="gin"), steps=3, weight_decay=0.1)


@pytest.mark.usefixtures("way")
def test_dropout_in_a_stack_differs_between_runs_and_leaves_evaluation_as_it_is():
    models = networks(dropout=0.5, conv="gin", depth=2)
    stack = Stack([models[0]] * RUNS)  # the same parameters: only what is dropped differs
    batch = GRAPHS.batch(torch.arange(6).repeat(RUNS))
    torch.manual_seed(0)
    losses = run_losses(stack(batch, RUNS), batch, RUNS)
    assert len(losses.unique()) == RUNS
    stack = Stack(models)
    stack.model.eval()
    logits = stack(batch, RUNS).logits.chunk(RUNS)
    for model, found in zip(models, logits, strict=True):
        own = model.eval()(GRAPHS.batch(torch.arange(6))).logits
        torch.testing.assert_close(found, own, **EXACT)


@pytest.mark.parametrize(
    ("options", "stacked"),
    [
        ({"conv": "gin", "dropout": 0.2, "depth": 2, "readout": "sum"}, True),
        ({"readout": "std+powermean", "dropout": 0.2}, True),
        ({"conv": "torch_geometric.nn:GraphConv"}, True),
        ({"conv": "torch_geometric.nn:GATConv"}, False),
        ({"readout": "set2set"}, False),
        ({"readout": "mean+lcm"}, False),
    ],
)
def test_what_can_be_stacked_is_and_the_rest_trains_one_run_at_a_time(options, stacked):
    """The rest is said in a warning; each run has the same result as alone."""
    given = {"runs": 2, "epochs": 1, "hidden": 8, "device": "cpu", **options}
    graphs = builtin(num_graphs=40)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = train(graphs, "lcpool", **given)
    assert result.stack == (2 if stacked else 1)
    assert any("one run at a time" in str(w.message) for w in said) != stacked
    assert len(result.accuracies()) == 2
    if "dropout" not in options:
        alone = train(graphs, "lcpool", **{**given, "runs": 1})
        assert result.runs[0].curves == alone.runs[0].curves


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pool", ["KMIS", "EdgeContraction", "WithLoss"])
def test_poolings_whose_counts_only_selecting_tells_stack_too(pool):
    options = {"pool": f"page_poolings:{pool}", "poolings": 2}
    train_side_by_side(networks(**options), steps=2)


@pytest.mark.parametrize(
    ("pool", "match"),
    [("OnClusters", "rows"), ("OneLoss", "loss")],
)
def test_what_a_pooling_does_that_a_stack_cannot_is_said(pool, match):
    stack = Stack(networks(pool=f"page_poolings:{pool}"))
    with pytest.raises(CannotStackError, match=match):
        stack(GRAPHS.batch(torch.arange(12)), RUNS)
    options = {"runs": 2, "epochs": 1, "hidden": 8, "device": "cpu"}
    with pytest.warns(UserWarning, match=match):
        assert train(builtin(num_graphs=20), f"page_poolings:{pool}", **options).stack == 1


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("poolings", [1, 2])
def test_both_backbones_stack(poolings):
    """Runs with different backbones as one, also when some leave and come back."""
    plain, nested = (networks(backbone=b, poolings=poolings) for b in ("plain", "hierarchical"))
    models = [nested[0], plain[1], nested[2]]
    stack = train_side_by_side(models, steps=3)
    whole = {name: value.detach().clone() for name, value in stack.tensors().items()}
    optimizer = torch.optim.Adam(stack.model.parameters())
    batch = GRAPHS.batch(torch.arange(12))
    expected = stack(batch, RUNS).logits
    run_losses(stack(batch, RUNS), batch, RUNS).sum().backward()
    optimizer.step()
    stack.keep(torch.tensor([1]), optimizer)
    assert stack(GRAPHS.batch(torch.arange(4)), 1).logits.shape == (4, GRAPHS.num_classes)
    stack.restore(whole)
    torch.testing.assert_close(stack(batch, RUNS).logits, expected, **EXACT)


@pytest.mark.usefixtures("way")
def test_evaluation():
    models = networks(pool="lcpool")
    stack = train_side_by_side(models, steps=2)
    stack.model.eval()
    parts = [torch.arange(r, 20 + r) for r in range(RUNS)]
    logits = stack(GRAPHS.batch(torch.cat(parts)), RUNS).logits.view(RUNS, 20, -1)
    for run, (model, part) in enumerate(zip(models, parts, strict=True)):
        torch.testing.assert_close(logits[run], model.eval()(GRAPHS.batch(part)).logits, **EXACT)


@pytest.mark.usefixtures("way")
def test_a_diverged_run_does_not_touch_the_others():
    models = networks(pool="lcpool")
    sound = Stack(models)
    with torch.no_grad():
        models[1].pre[0].weight.fill_(torch.nan)
    stack = Stack(models)
    batch = GRAPHS.batch(torch.arange(18))
    expected = run_losses(sound(batch, RUNS), batch, RUNS)
    losses = run_losses(stack(batch, RUNS), batch, RUNS)
    losses.sum().backward()
    assert losses.isnan().tolist() == [False, True, False]
    assert torch.equal(losses[[0, 2]], expected[[0, 2]])
    for parameter in stack.model.parameters():
        if parameter.grad is not None:
            assert parameter.grad[[0, 2]].isfinite().all()


@pytest.mark.usefixtures("way")
def test_runs_that_leave_take_their_memory_along():
    """After dropping run 1, runs 0 and 2 go on as if nothing had happened: to 1e-7, far below the
    1e-2 that a step with another run's memory would differ by. Also while somebody holds the
    losses, and with them the autograd graphs, of earlier steps."""
    held = []
    models = networks(pool="sagpool")
    stack = Stack(models)
    optimizer = torch.optim.Adam(stack.model.parameters(), lr=1e-2)
    others = [torch.optim.Adam(m.parameters(), lr=1e-2) for m in models]

    def step(runs):
        parts = [torch.arange(6 * r, 6 * r + 6) for r in runs]
        batch = GRAPHS.batch(torch.cat(parts))
        held.append(run_losses(stack(batch, len(runs)), batch, len(runs)).sum())
        held[-1].backward()
        optimizer.step()
        optimizer.zero_grad()
        for run, part in zip(runs, parts, strict=True):
            own = GRAPHS.batch(part)
            run_losses(models[run](own), own, 1).sum().backward()
            others[run].step()
            others[run].zero_grad()

    step([0, 1, 2])
    stack.keep(torch.tensor([0, 2]), optimizer)
    step([0, 2])
    for name, value in stack.tensors().items():
        for position, run in enumerate((0, 2)):
            expected = models[run].state_dict()[name]
            torch.testing.assert_close(value[position], expected, rtol=0, atol=1e-7)


def test_what_cannot_be_stacked_says_so():
    models = networks(pool="torch_geometric.nn:TopKPooling")
    with pytest.raises(CannotStackError, match="TopKPooling"):
        Stack(models)
    models = networks(pool="sagpool")
    for model in models:
        model.convs[0] = GATConv(8, 8)
    with pytest.raises(CannotStackError, match=r"'convs\.0'.*GATConv"):
        Stack(models)


def test_a_stack_that_computes_something_else_is_refused(monkeypatch):
    """A pooling that looks at the whole batch, or at the parameters of all runs."""
    for cls in (OfTheBatch, OfAllRuns):
        monkeypatch.setitem(page_poolings.__dict__, cls.__name__, cls)
        options = {"runs": 2, "epochs": 1, "hidden": 8, "device": "cpu"}
        name = f"page_poolings:{cls.__name__}"
        with pytest.warns(UserWarning, match=name):
            assert train(builtin(num_graphs=20), name, **options).stack == 1


class OfTheBatch(page_poolings.KMIS):
    """Moves features by their mean over the batch."""

    def reduce(self, graph, S):
        return super().reduce(graph, S) - 5 * graph.x.mean()


class OfAllRuns(page_poolings.KMIS):
    """Divides by the size of a parameter."""

    def reduce(self, graph, S):
        return super().reduce(graph, S) * self.score.weight.norm()
