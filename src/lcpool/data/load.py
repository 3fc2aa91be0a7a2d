"""Finds a dataset by its name or path, downloads it if it is missing, and loads it.

What was read from text is cached in a binary file, so that the text is read only once.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lcpool.atomic import read_whole, write_atomically
from lcpool.data.builtin import builtin, builtin_labels
from lcpool.data.checks import DatasetError, DataWarning, EdgeCounts, check_columns, warn_once
from lcpool.data.convert import convert, single_graphs
from lcpool.data.files import TextFiles
from lcpool.data.gcb import GcbFile, read_gcb
from lcpool.data.graphset import GraphSet
from lcpool.data.ogb import OgbFiles, is_ogb, read_ogb
from lcpool.data.predefined import as_splits
from lcpool.data.splits import Split
from lcpool.data.tables import TableFiles, is_tables, read_folder
from lcpool.data.targets import targets, with_task
from lcpool.data.tu import READER_VERSION, TUFiles, check_archive, read_tu
from lcpool.settings import TaskName
from lcpool.words import between

BUILTIN = {"builtin": builtin, "builtin-labels": builtin_labels}
TU_URL = "https://www.chrsmrrs.com/graphkerneldatasets"

_TU = """
    PROTEINS ENZYMES Mutagenicity DD NCI1 COX2 MUTAG NCI109 AIDS BZR BZR_MD COX2_MD DHFR DHFR_MD
    ER_MD FRANKENSTEIN PTC_FM PTC_FR PTC_MM PTC_MR MCF-7 MOLT-4 NCI-H23 OVCAR-8 P388 PC-3 SF-295
    SN12C SW-620 UACC257 Yeast KKI OHSU Peking_1 PROTEINS_full COIL-DEL COIL-RAG Cuneiform
    Fingerprint FIRSTMM_DB Letter-high Letter-low Letter-med MSRC_9 MSRC_21 MSRC_21C COLLAB DBLP_v1
    deezer_ego_nets github_stargazers IMDB-BINARY IMDB-MULTI REDDIT-BINARY REDDIT-MULTI-5K
    REDDIT-MULTI-12K reddit_threads twitch_egos TWITTER-Real-Graph-Partial COLORS-3 SYNTHETIC
    SYNTHETICnew Synthie TRIANGLES
"""
# Datasets of TU for classification. Others can be downloaded too, by their exact names.
TU_DATASETS = tuple(_TU.split())

# What reads files that are not read here.
READ_BY = {
    ".gexf": "networkx.read_gexf",
    ".gml": "networkx.read_gml",
    ".graphml": "networkx.read_graphml",
    ".json": "networkx.node_link_graph",
    ".npy": "numpy.load",
    ".parquet": "pandas.read_parquet",
    ".pickle": "pickle.load, if you trust whoever wrote it",
    ".pkl": "pickle.load, if you trust whoever wrote it",
    ".pt": "torch.load, if it has a list of PyG graphs",
    ".sdf": "rdkit.Chem.SDMolSupplier and torch_geometric.utils.from_rdmol",
    ".smi": "rdkit.Chem.SmilesMolSupplier and torch_geometric.utils.from_rdmol",
    ".xlsx": "pandas.read_excel",
}
# A word that ends like this is the path of a file, not a name.
_FILES = (".zip", ".npz", ".csv", *READ_BY)
# More classes than this, and some of one graph: these may be numbers to predict.
MANY_CLASSES = 10
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)

PathLike = str | os.PathLike[str]
# What load_dataset takes.
Graphs = PathLike | GraphSet | Iterable[Any] | Mapping[str, Any]


def load_dataset(
    name_or_path: Graphs,
    root: PathLike | None = None,
    name: str | None = None,
    splits: Any = None,
    y: Any = None,
    task: TaskName | None = None,
) -> GraphSet:
    """Load a dataset from files, or make one of graphs in memory; files of text are cached.

    Edges without a reverse edge, and what else may not be meant, are reported once as a
    :class:`~lcpool.data.DataWarning`.

    Args:
        name_or_path: one of

            - the name of a TU or OGB dataset, whatever its case, ``"builtin"``, or
              ``"builtin-labels"``;
            - the path of its zip or folder (``PATH/NAME`` if there are several datasets in it), or
              of a folder with ``edges.csv``, ``nodes.csv``, ``graphs.csv``;
            - PyG graphs in a list, a batch or a loader, or a dataset of PyG's or OGB's;
            - networkx graphs in a list, whose attributes are the features;
            - tables, ``{"edges": …, "nodes": …, "graphs": …}``, as pandas frames or paths of CSV
              files (:mod:`lcpool.data.tables`);
            - molecules in a list of SMILES, or a frame with a column ``smiles``.
        root: the folder in which names are searched first, and to which datasets are downloaded.
            After it come the folder ``LCPOOL_DATA`` and the user's cache.
        name: what to call the dataset; by default its own name, or "graphs" for a list.
        splits: predefined splits, in place of any that the data came with: a file of JSON, NPZ or
            CSV, a dictionary or triple of training, validation and test graphs, or a list of these;
            see :mod:`lcpool.data.predefined`. How many graphs they leave out is reported.
        y: targets in place of those that the data has, one per graph.
        task: what the targets are, if it is not to be told from them: "classes", "labels" or
            "values" (:class:`~lcpool.data.GraphSet`).

    Example:
        >>> load_dataset("builtin").num_classes
        2
    """
    if isinstance(name_or_path, str | os.PathLike | GraphSet):
        graphs = _read(name_or_path, root)
        graphs = graphs if name is None else replace(graphs, name=name)
        if y is not None:
            graphs = replace(graphs, **targets(graphs.name, y, len(graphs), task))
        elif task not in (None, graphs.task):
            _check_numbers(name_or_path, root, graphs)
            graphs = with_task(graphs, task)
    else:
        rows = single_graphs(name_or_path)
        graphs = convert(name_or_path, rows, name, y, task)
        weights = [getattr(graph, "edge_weight", None) for graph in rows]
        if any(isinstance(weight, Tensor) and weight.numel() for weight in weights):
            warn_once(
                f"{graphs.name}: 'edge_weight' is not read by any network here. As attributes of "
                f"edges, graph.edge_attr = graph.edge_weight, --conv gine reads them."
            )
    if splits is not None:
        graphs = replace(graphs, splits=as_splits(splits, len(graphs), graphs.name))
        left_out = [len(graphs) - sum(split.sizes) for split in graphs.splits]
        if any(left_out):
            span = between(left_out, 0)
            warn_once(f"{graphs.name}: the splits leave out {span} of {len(graphs)} graphs.")
    _warn_of_many_classes(graphs)
    edges = EdgeCounts.of(graphs)
    if edges.one_way:
        warn_once(
            f"{graphs.name}: {edges.one_way} edges, in {edges.one_way_graphs} of {len(graphs)} "
            f"graphs, have no reverse edge: messages flow only from source to target. If the "
            f"graphs are meant to be undirected, torch_geometric.transforms.ToUndirected() adds "
            f"the reverse edges of PyG graphs, and in tables the columns 'u' and 'v' in place of "
            f"'source' and 'target' do. If they are meant to be directed, silence this: "
            f"warnings.filterwarnings('ignore', category=lcpool.data.DataWarning)."
        )
    return graphs


def _check_numbers(source: PathLike | GraphSet, root: PathLike | None, graphs: GraphSet) -> None:
    """Refuse to take the labels of a TU dataset for numbers: its reader has numbered them anew."""
    if isinstance(source, GraphSet) or is_builtin(source):
        return
    if graphs.task == "classes" and isinstance(dataset_files(locate(source, root)), TUFiles):
        raise DatasetError(
            f"{graphs.name}: graph labels of a TU dataset are classes. Numbers to predict go into "
            f"a file {graphs.name}_graph_attributes.txt in place of that of the labels, or are "
            f"passed in Python: load_dataset(…, y=…)."
        )


def _warn_of_many_classes(graphs: GraphSet) -> None:
    """Say it if classes look like numbers to predict: many, and some of a single graph."""
    if graphs.num_classes <= MANY_CLASSES or graphs.classes_are_words:
        return
    if alone := int((graphs.targets.bincount() == 1).sum()):
        warn_once(
            f"{graphs.name}: the targets are taken for {graphs.num_classes} classes, of which "
            f"{alone} have one graph each. If they are numbers to predict: task='values' (--task "
            f"values)."
        )


def read_dataset(name_or_path: PathLike | GraphSet, root: PathLike | None = None) -> GraphSet:
    """:func:`load_dataset` without warnings, for workers: the user has seen them already."""
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        return _read(name_or_path, root)


def _read(name_or_path: PathLike | GraphSet, root: PathLike | None) -> GraphSet:
    if isinstance(name_or_path, GraphSet):
        return name_or_path
    if is_builtin(name_or_path):
        return BUILTIN[os.fspath(name_or_path).lower()]()
    return read_cached(locate(name_or_path, root))


def is_builtin(name_or_path: PathLike) -> bool:
    """Whether this is the name of a built-in dataset, whatever its case."""
    return os.fspath(name_or_path).lower() in BUILTIN


def locate(name_or_path: PathLike, root: PathLike | None) -> Path:
    """The folder or zip of a dataset, downloaded if it is not on this machine."""
    if found := find_dataset(name_or_path, root):
        return found
    name = check_name(os.fspath(name_or_path))
    folder = data_folders(root)[0]
    if name.lower().startswith("ogbg"):
        raise DatasetError(
            f"{name}: not on this machine, and OGB's datasets are not downloaded. Put the folder "
            f"'{name.replace('-', '_')}' that the package ogb makes (with 'raw' and 'split' in it) "
            f"into {folder}, or pass ogb.graphproppred.PygGraphPropPredDataset(…) in Python."
        )
    usual = {known.lower(): known for known in TU_DATASETS}
    try:
        return download(usual.get(name.lower(), name), folder)
    except DatasetError as error:
        close = difflib.get_close_matches(name.lower(), usual, n=1)
        if not close or close[0] == name.lower():
            raise
        raise DatasetError(f"{error} Did you mean {usual[close[0]]}?") from error


def download(name: str, folder: Path) -> Path:
    """Download ``NAME.zip`` into ``folder``; only a complete and undamaged zip is put there."""
    file, url = f"{name}.zip", f"{TU_URL}/{name}.zip"
    by_hand = f"or put {url} into {folder} by hand."
    try:
        import pooch
        import requests
    except ModuleNotFoundError as error:
        raise DatasetError(
            f"{name}: not found on this machine, and a download needs '{error.name}': "
            f"pip install 'lcpool[lab]', {by_hand}"
        ) from error

    def fetch(url: str, temporary: str, _: object) -> None:
        try:
            pooch.HTTPDownloader(progressbar=True, chunk_size=1 << 16)(url, temporary, None)
        except requests.HTTPError as error:
            if error.response.status_code < 500:  # Trying again is of no use.
                raise OSError(str(error)) from error
            raise
        check_archive(Path(temporary))

    pooch.get_logger().setLevel("WARNING")
    try:
        store = pooch.create(folder, f"{TU_URL}/", registry={file: None}, retry_if_failed=2)
        path = Path(store.fetch(file, downloader=fetch))
        # pooch makes files that only their owner may read; who may read the folder may read these.
        path.chmod(folder.stat().st_mode & 0o666)
    except (OSError, DatasetError) as error:
        raise DatasetError(
            f"{name}: cannot be downloaded to {folder}: {error} Check the name and the connection, "
            f"name another folder by LCPOOL_DATA or root, {by_hand}"
        ) from error
    return path


def check_name(name: str) -> str:
    """The name of a TU dataset; an error if it cannot be one."""
    if not _NAME.fullmatch(name) or name.endswith(_FILES):
        raise DatasetError(f"{name[:100]!r} is no name of a dataset, and no path that exists.")
    return name


def find_dataset(name_or_path: PathLike, root: PathLike | None = None) -> Path | None:
    """The folder or zip of a dataset if it is on this machine, else None."""
    path = Path(os.path.expanduser(name_or_path))
    if not os.fspath(name_or_path):  # It would be the folder of all datasets.
        return None
    if is_path(name_or_path):
        within_zip = any(map(os.path.isfile, path.parents))
        exists = os.path.exists(path) or os.path.exists(f"{path}_A.txt") or within_zip
        return path if exists else None
    names, folders = [f"{path.name}.zip", path.name, f"{path.name}.npz"], data_folders(root)
    if path.name.lower().startswith("ogbg-"):  # OGB writes names with a dash, folders without.
        names.append(path.name.replace("-", "_"))
    for place in (*(folder / name for folder in folders for name in names), path):
        if os.path.exists(place):
            return place
    alike = [name.lower() for name in names]
    files = (file for folder in folders for file in _files(folder))
    return next((file for file in files if file.name.lower() in alike), None)


def is_path(name_or_path: PathLike) -> bool:
    """Whether this is a path and not a bare name, which is searched for in the data folders."""
    path = Path(os.path.expanduser(name_or_path))
    return path.name != name_or_path or path.suffix in _FILES


def data_folders(root: PathLike | None = None) -> list[Path]:
    """Where datasets are looked for, in this order; downloads go to the first."""
    named = (root, os.environ.get("LCPOOL_DATA"), user_cache() / "tu")
    return [Path(os.path.expanduser(folder)) for folder in named if folder]


def local_datasets(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and path of every dataset in a folder."""
    for path in _files(folder):
        with suppress(DatasetError):  # Other files may be there too.
            dataset_files(path)
            yield path.stem if path.suffix in _FILES else path.name, path


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if os.path.isdir(folder) else []


def user_cache() -> Path:
    """The folder for what can be made or downloaded again: ``LCPOOL_CACHE``, or the platform's."""
    if named := os.environ.get("LCPOOL_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "lcpool/Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/lcpool"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lcpool"


class Format(NamedTuple):
    """A layout of files: what finds the files of a dataset, and what reads them."""

    files: Callable[[Path], TextFiles]
    read: Callable[[Path], GraphSet]


def format_of(path: Path) -> Format:
    """The layout of a dataset's files; TU's if it is no other."""
    kind = path.suffix.lower()
    if kind == ".npz":
        return Format(GcbFile.at, read_gcb)
    if is_ogb(path):
        return Format(OgbFiles.at, read_ogb)
    if is_tables(path):
        return Format(TableFiles.at, read_folder)
    if kind == ".csv":
        raise DatasetError(f"{path}: pass its folder, with edges.csv, nodes.csv and graphs.csv.")
    if kind in READ_BY:
        raise DatasetError(f"{path}: read it by {READ_BY[kind]}, and pass the graphs in Python.")
    return Format(TUFiles.at, read_tu)


def dataset_files(path: Path) -> TextFiles:
    """The files of the dataset at a path; an error if there is none."""
    return format_of(path).files(path)


def read_cached(path: Path) -> GraphSet:
    """Read the dataset in a folder or file, from the cache if that is up to date."""
    layout = format_of(path)
    source = layout.files(path)
    key = [READER_VERSION, *source.fingerprint()]
    place = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    cached = user_cache() / "columns" / f"{source.name}-{place}.pt"
    graphs = _load(cached, key)
    if graphs is None:
        graphs = layout.read(path)
        # Edge labels that cannot be read are to be warned of the next time as well.
        if graphs.edge_attr is not None or not {"edge_labels", "edge_attributes"} & set(
            source.files
        ):
            _save(cached, key, graphs)
    return graphs


def _load(path: Path, key: list[Any]) -> GraphSet | None:
    """The graphs in a cache file; None if it is missing, out of date or damaged."""
    try:
        content = read_whole(path)
        if content.pop("key") != key:
            return None
        splits = tuple(Split(*parts) for parts in content["splits"])
        graphs = GraphSet(**{**content, "x": content["x"].float(), "splits": splits})
        check_columns(graphs)
        _ = graphs.targets  # an error for a label that is none of the classes
        return graphs
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return None


def _save(path: Path, key: list[Any], graphs: GraphSet) -> None:
    columns = {field.name: getattr(graphs, field.name) for field in fields(graphs)}
    columns["splits"] = tuple(map(tuple, graphs.splits))  # plain tuples, which need no trust
    # One-hot features as bytes: exact, and a quarter of the size.
    small = graphs.x.to(torch.uint8)
    x = small if torch.equal(small.float(), graphs.x) else graphs.x
    try:
        write_atomically({**columns, "x": x, "key": key}, path)
    except (OSError, RuntimeError) as error:
        warn_once(
            f"datasets cannot be cached in {path.parent} "
            f"({getattr(error, 'strerror', None) or 'writing failed'}) and will be read from text "
            f"every time; set LCPOOL_CACHE to a folder that can be written to."
        )
