"""Tables in the docs are those that ``make tables`` writes."""

import importlib.util
from pathlib import Path

import pytest

from lcpool.settings import SETTINGS
from lcpool.sweep.columns import NAMES

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("docs_tables", DOCS / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["settings", "columns", "poolings", "pyg"])
def test_tables_are_not_stale(tables, name):
    assert tables.PAGES[name].read_text("utf-8") == tables.written(name), "run: make tables"


def test_everything_declared_is_in_its_table(tables):
    assert all(f"| `{name}`" in tables.settings() for name in SETTINGS)
    assert all(f"| `{name}` |" in tables.columns() for name in NAMES)
