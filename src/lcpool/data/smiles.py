"""Molecules written as SMILES, by PyG's converter, which needs RDKit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch_geometric.data import Data
from torch_geometric.utils import from_smiles
from torch_geometric.utils.smiles import e_map, x_map

from lcpool.data.checks import DatasetError
from lcpool.data.columns import with_categories
from lcpool.data.graphset import GraphSet

# Categories of each feature of atoms and bonds, as PyG's converter has them.
ATOMS = tuple(map(len, x_map.values()))
BONDS = tuple(map(len, e_map.values()))


def read_smiles(smiles: Sequence[str], name: str, place: Callable[[int], str]) -> GraphSet:
    """A graph set of molecules without targets.

    Atoms and bonds have the categories of PyG's ``from_smiles``, used or not, so that a network
    trained on some molecules fits others.

    Args:
        smiles: the molecules.
        name: what to call the set.
        place: how an error calls a molecule.
    """
    try:
        from rdkit import Chem, rdBase
    except ModuleNotFoundError:
        raise DatasetError(
            f"{name}: molecules in SMILES need RDKit: pip install rdkit. (Names of datasets are "
            f"passed one at a time.)"
        ) from None
    rows: list[Data] = []
    for number, text in enumerate(smiles):
        with rdBase.BlockLogs():  # It would print what the error says.
            molecule = Chem.MolFromSmiles(text)
        # PyG makes an empty graph of what is no SMILES. RDKit ends at a sign that is not ASCII, as
        # a long dash, and at a space, behind which a name may be.
        if molecule is None or not text.strip() or not text.split()[0].isascii():
            raise DatasetError(f"{place(number)}: '{text[:60]}' is no SMILES that RDKit reads.")
        try:
            rows.append(from_smiles(text))
        except ValueError as error:
            problem = f"has an atom or bond that PyG's converter does not know ({error})"
            raise DatasetError(f"{place(number)}: '{text[:60]}' {problem}.") from None
    if not rows:
        raise DatasetError(f"{name}: there are no molecules.")
    found = GraphSet.from_graphs(rows, name)
    return with_categories(found, ATOMS, BONDS)
