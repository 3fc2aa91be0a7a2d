"""Names of any kind in CSV files: no formulas, and back as they were."""

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from lcpool.spreadsheet import protected, unprotected

FORMULAS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


@given(st.lists(st.text(alphabet=f"'{FORMULAS}ab1", max_size=5), min_size=1))
def test_no_text_is_a_formula_and_every_one_comes_back(texts: list[str]):
    table = pd.DataFrame({"name": texts, "number": [-1.5] * len(texts)})
    safe = protected(table)
    assert not any(text[:1] in tuple(FORMULAS) for text in safe["name"])
    assert list(safe["number"]) == [-1.5] * len(texts)
    assert list(unprotected(safe)["name"]) == texts
