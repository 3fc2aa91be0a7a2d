"""The protocol: splits, orders, batches, and how an epoch is chosen."""

from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lcpool.data import GraphSet, Split, split
from lcpool.train import RULES, Protocol
from lcpool.train.protocol import EpochChoice, derive

# Graphs, and how many of them train, validate and test, as READING.md has it.
SIZES = {
    "PROTEINS": (1113, [890, 111, 112]),
    "ENZYMES": (600, [480, 60, 60]),
    "Mutagenicity": (4337, [3469, 434, 434]),
    "DD": (1178, [942, 118, 118]),
    "NCI1": (4110, [3288, 411, 411]),
    "COX2": (467, [373, 47, 47]),
}


def sizes(num_graphs, **options):
    batches = Protocol(**options).batches(torch.arange(num_graphs), run=0, epoch=1)
    return [len(batch) for batch in batches]


def order(train, run=0, epoch=1, **options):
    return tuple(torch.cat(Protocol(**options).batches(train, run, epoch)).tolist())


def graphs(number):
    """So many graphs without nodes, of two classes."""
    edges, y = torch.empty(2, 0, dtype=torch.long), torch.arange(number) % 2
    begins = torch.zeros(number + 1, dtype=torch.long)
    return GraphSet("empty", torch.empty(0, 1), edges, begins, begins, y, (0, 1))


def choice(rule, *offers):
    """A choice after some offers of (accuracy, loss), from epoch 1 on."""
    made = EpochChoice(rule)
    for epoch, (accuracy, loss) in enumerate(offers, start=1):
        made.offer(epoch, accuracy, loss)
    return made


def test_the_defaults_are_the_papers():
    assert asdict(Protocol()) == {
        "lr": 5e-4,
        "batch_size": 32,
        "epochs": 500,
        "patience": 50,
        "metric": "auto",
        "split": "fresh",
        "seed": 0,
        "weight_decay": 0.0,
        "selection_loss": "task",
    }
    assert RULES == ("accuracy", "loss")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 1}, "'batch_size'"),
        ({"epochs": 0}, "'epochs'"),
        ({"patience": 0}, "'patience'"),
        ({"seed": -1}, "'seed'"),
        ({"lr": 0.0}, "'lr'"),
        ({"lr": -1e-3}, "'lr'"),
        ({"lr": float("nan")}, "'lr'"),
        ({"lr": float("inf")}, "'lr'"),
        ({"split": "new"}, "'new'.*shared, fresh"),
        ({"split": "1-fold"}, "'1-fold'.*10-fold"),
    ],
)
def test_bad_values_are_refused_by_name(options, words):
    with pytest.raises(ValueError, match=words):
        Protocol(**options)


def test_the_least_values_are_allowed():
    Protocol(lr=1e-12, batch_size=2, epochs=1, patience=1, seed=0)


# --- batches


@pytest.mark.parametrize(
    ("num_graphs", "expected"),
    [
        (96, [32, 32, 32]),
        (98, [32, 32, 32, 2]),
        (97, [32, 32, 33]),  # a single graph left over joins the batch before
        (33, [33]),
        (32, [32]),
        (31, [31]),
        (2, [2]),
    ],
)
def test_batches_have_32_graphs_and_no_batch_has_one(num_graphs, expected):
    assert sizes(num_graphs) == expected


def test_the_batch_size_is_an_option():
    assert sizes(11, batch_size=4) == [4, 4, 3]
    assert sizes(9, batch_size=4) == [4, 5]


@given(st.integers(2, 120), st.integers(2, 40), st.integers(0, 3), st.integers(1, 500))
def test_an_epoch_covers_every_training_graph_exactly_once(num_graphs, batch_size, run, epoch):
    train = 7 + 3 * torch.arange(num_graphs)  # numbers of graphs are not their places
    batches = Protocol(batch_size=batch_size).batches(train, run, epoch)
    assert torch.cat(batches).sort().values.tolist() == train.tolist()
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert 2 <= len(batches[-1]) <= batch_size + 1


def test_orders_differ_between_runs_epochs_and_seeds():
    train = torch.arange(40)
    orders = {
        order(train, run, epoch, seed=seed)
        for run in range(10)
        for epoch in range(1, 21)
        for seed in range(3)
    }
    assert len(orders) == 10 * 20 * 3
    assert tuple(range(40)) not in orders


def test_an_order_follows_from_seed_run_and_epoch_alone():
    train = torch.arange(40)
    torch.manual_seed(0)
    first = order(train, run=3, epoch=5, seed=2)
    order(train, run=4, epoch=5, seed=2)
    torch.manual_seed(1)
    assert order(train, run=3, epoch=5, seed=2) == first
    assert order(train, run=3, epoch=5, seed=2, lr=0.1, patience=3) == first


def test_random_choices_leave_the_global_ones_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    Protocol().batches(torch.arange(40), run=0, epoch=1)
    Protocol().split_of(graphs(40), run=0)
    Protocol().init_seed(0)
    assert torch.equal(torch.get_rng_state(), before)


def test_runs_and_seeds_begin_with_different_parameters():
    seeds = [Protocol(seed=seed).init_seed(run) for seed in range(10) for run in range(10)]
    assert len(set(seeds)) == 100
    assert seeds == [Protocol(seed=seed).init_seed(run) for seed in range(10) for run in range(10)]


def test_no_two_purposes_share_a_seed():
    init = [Protocol().init_seed(run) for run in range(10)]
    orders = [
        Protocol().random(run, 1, e).initial_seed() for run in range(10) for e in range(1, 99)
    ]
    assert len({*init, *orders}) == len(init) + len(orders)
    assert derive(1, 2) != derive(2, 1)


# --- splits


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("way", ["shared", "fresh"])
def test_the_six_datasets_are_split_as_in_the_paper(name, way):
    num_graphs, expected = SIZES[name]
    parts = Protocol(split=way).split_of(graphs(num_graphs), run=0)
    assert [len(part) for part in parts] == expected
    assert torch.cat(parts).sort().values.tolist() == list(range(num_graphs))


def test_a_shared_split_is_that_of_all_runs():
    protocol = Protocol(split="shared")
    first = torch.cat(protocol.split_of(graphs(467), run=0))
    for run in range(1, 10):
        assert torch.equal(torch.cat(protocol.split_of(graphs(467), run)), first)


def test_fresh_splits_are_of_each_run_and_seed():
    splits = {
        tuple(torch.cat(Protocol(split="fresh", seed=seed).split_of(graphs(60), run)).tolist())
        for seed in range(3)
        for run in range(10)
    }
    assert len(splits) == 30


@pytest.mark.parametrize("way", ["shared", "fresh"])
def test_a_split_is_that_of_the_protocols_seed_and_run(way):
    found = Protocol(split=way, seed=3, lr=0.1, patience=7).split_of(graphs(60), run=2)
    for part, expected in zip(found, split(60, 2, way, 3), strict=True):
        assert torch.equal(part, expected)


@pytest.mark.parametrize("way", ["stratified", "10-fold", "repeated-10-fold"])
def test_other_schemes_follow_the_classes_of_the_graphs(way):
    found = Protocol(split=way, seed=3).split_of(graphs(61), run=2)
    expected = split(61, 2, way, 3, torch.arange(61) % 2)
    assert all(map(torch.equal, found, expected))


def test_predefined_splits_are_part_of_the_settings():
    own = Split(torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3]))
    protocol = Protocol(split="predefined").on(replace(graphs(6), splits=(own,)), runs=10)
    assert protocol.split.startswith("predefined-1-")
    assert protocol.split_of(replace(graphs(6), splits=(own,)), 9) is own
    other = own._replace(test=torch.tensor([4]))
    with pytest.raises(ValueError, match="other splits"):
        protocol.split_of(replace(graphs(6), splits=(other,)), 0)


def test_what_a_scheme_cannot_do_is_refused():
    with pytest.raises(ValueError, match="runs=10, or split='repeated-10-fold'"):
        Protocol(split="10-fold").on(graphs(60), runs=11)
    with pytest.raises(ValueError, match="needs 40 graphs of each class"):
        Protocol(split="40-fold").on(graphs(60), runs=10)


# --- choices


def test_a_choice_remembers_the_epoch_and_its_figures():
    assert choice("accuracy", (0.5, 0.9), (0.7, 0.8), (0.6, 0.1)) == EpochChoice(
        "accuracy", 2, 0.7, 0.8
    )
    assert choice("loss", (0.5, 0.9), (0.7, 0.8), (0.6, 0.1)) == EpochChoice("loss", 3, 0.6, 0.1)


def test_an_offer_says_whether_it_was_taken():
    made = EpochChoice("accuracy")
    assert [made.offer(e, a, 1.0) for e, a in ((1, 0.0), (2, 0.5), (3, 0.4))] == [True, True, False]


def test_of_equal_accuracies_the_lower_loss_wins():
    assert choice("accuracy", (0.7, 0.5), (0.7, 0.4)).epoch == 2
    assert choice("accuracy", (0.7, 0.4), (0.7, 0.5)).epoch == 1
    assert choice("accuracy", (0.7, 0.4), (0.8, 9.0)).epoch == 2  # the loss only breaks ties


def test_of_equal_epochs_the_first_wins():
    assert choice("accuracy", (0.7, 0.4), (0.7, 0.4)).epoch == 1
    assert choice("loss", (0.7, 0.4), (0.9, 0.4)).epoch == 1


def test_the_loss_rule_does_not_look_at_accuracies():
    assert choice("loss", (0.9, 0.5), (0.1, 0.4), (1.0, 0.6)).epoch == 2


@pytest.mark.parametrize("rule", RULES)
def test_patience_counts_from_the_best_epoch(rule):
    made = choice(rule, (0.5, 0.9), (0.6, 0.8), (0.7, 0.7), (0.6, 0.8), (0.5, 0.9))
    assert made.epoch == 3
    assert [made.closed(epoch, patience=5) for epoch in (3, 7, 8, 9)] == [False, False, True, True]
    assert [made.closed(epoch, patience=1) for epoch in (3, 4)] == [False, True]


def test_a_rule_that_was_offered_nothing_is_open():
    assert not EpochChoice("accuracy").closed(0, patience=1)
