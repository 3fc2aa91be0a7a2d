"""Settings are declared once; what follows from the declarations agrees with them."""

import inspect
import json
import math
import subprocess
import sys
from dataclasses import asdict

import pytest

import lcpool
from lcpool.models import CONVS, POOLINGS, Architecture
from lcpool.models.backbone import NORMS
from lcpool.settings import (
    ALL_POOLS,
    SETTINGS,
    changed,
    config_text,
    flat,
    in_groups,
    labels,
    read_config_text,
)
from lcpool.train import Protocol, train


def test_every_setting_says_what_it_does_and_where_it_belongs():
    for name, one in SETTINGS.items():
        assert one.name == name
        assert one.help.endswith("."), name
        assert one.scope in ("The network", "The pooling", "The protocol")
        assert one.checked(one.default) == one.default, name


def test_the_network_knows_what_can_be_chosen():
    assert tuple(POOLINGS) == ALL_POOLS
    assert tuple(CONVS) == SETTINGS["conv"].choices
    assert tuple(NORMS) == SETTINGS["norm"].choices


@pytest.mark.parametrize("function", [train, lcpool.compare])
def test_functions_show_every_setting_with_its_default(function):
    shown = inspect.signature(function).parameters
    for name, one in SETTINGS.items():
        assert f"        {name}: " in function.__doc__
        if (function, name) != (lcpool.compare, "pool"):
            assert shown[name].default == one.default
    assert "settings" not in shown


def test_a_configuration_is_flat_sorted_json_and_reads_back():
    network, protocol = Architecture(ratio=1, score_channels=3), Protocol(lr=1, split="shared")
    text = config_text(network, protocol)
    assert list(json.loads(text)) == sorted(name for name, one in SETTINGS.items() if not one.later)
    assert read_config_text(text) == flat(network, protocol)
    assert list(read_config_text(text)) == list(SETTINGS)
    assert in_groups(read_config_text(text)) == (asdict(network), asdict(protocol))
    for wrong in ("{}", "[]", "3", "no", '{"hidden": 3}'):
        with pytest.raises(ValueError, match="settings"):
            read_config_text(wrong)


def test_a_later_setting_is_in_the_text_where_it_is_not_the_default():
    network, protocol = Architecture(depth=2, conv="gin"), Protocol(weight_decay=0.01)
    text = config_text(network, protocol)
    assert {"depth", "weight_decay"} < set(json.loads(text))
    assert "dropout" not in json.loads(text)
    assert read_config_text(text) == flat(network, protocol)


def test_equal_settings_have_equal_text():
    assert config_text(Architecture(), Protocol(lr=1)) == config_text(
        Architecture(), Protocol(lr=1.0)
    )
    one, all_of_them = (config_text(Architecture(ratio=r), Protocol()) for r in (1, 1.0))
    assert one != all_of_them  # A number of nodes, and a share of them.


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("hidden", "64", 64), ("lr", "1", 1.0), ("lr", "1e-3", 0.001), ("ratio", "10", 10),
        ("ratio", "1.0", 1.0), ("score_channels", "none", None), ("score_channels", "3", 3),
        ("norm", "none", "none"), ("hops", "2", 2), ("hidden", "wide", "wide"),
    ],
)  # fmt: skip
def test_what_is_written_on_a_command_line(name, text, value):
    found = SETTINGS[name].parse(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", 0), ("hidden", 1.0), ("hidden", True), ("hidden", None), ("lr", math.nan),
        ("lr", 0), ("batch_size", 1), ("seed", -1), ("conv", "gat"), ("hops", 0), ("pool", 3),
        ("self_loops", 1), ("score_channels", 0), ("split", "both"), ("dropout", 1),
        ("dropout", math.nan), ("weight_decay", -0.1), ("weight_decay", math.inf), ("depth", 0),
    ],
)  # fmt: skip
def test_what_a_setting_cannot_be(name, value):
    with pytest.raises(ValueError, match=name):
        SETTINGS[name].checked(value)


def test_what_differs_from_the_default_in_the_order_of_declaration():
    assert list(changed({"epochs": 3, "hidden": 8, "ratio": 0.5})) == ["hidden", "epochs"]
    assert labels([{"epochs": 3, "hidden": 8}, {"epochs": 4, "hidden": 8}]) == [
        "epochs=3", "epochs=4",
    ]  # fmt: skip


def test_declarations_need_no_torch():
    code = "import sys, lcpool.settings; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "False"
