"""Hostile datasets, calls and files, one after the other, in a process that may die of one.

    python benchmarks/fuzz.py datasets SEED FIRST

Prints the number of each case before it is tried, and complaints on lines between them: a case must
end with an error of ours that says what is wrong, or with a right result. ``benchmarks/faults.py``
starts it and counts.
"""

from __future__ import annotations

import functools
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import psutil
import torch

import lcpool
from lcpool.atomic import read_whole, write_atomically
from lcpool.data import DatasetError, GraphSet, builtin, load_dataset
from lcpool.models import POOLINGS
from lcpool.train import Model, train

CASES = 100  # what one process tries
MEMORY = 2**30  # bytes that a small file or a small call may take
SECONDS = 15  # after which a case hangs
UNSCORED = ("nopool", "graclus", "random", "randomassign")  # NaN passes through them
HUGE = (10**9, 2**63)  # what sizes of graphs may claim; a layer of that width takes the memory


def harm(path: Path, chance: random.Random, kind: str) -> None:
    """Damage a file."""
    content = bytearray(path.read_bytes())
    if kind == "cut off":
        del content[chance.randrange(len(content)) :]
    elif kind == "bytes flipped":
        for _ in range(chance.choice([1, 1, 3, 30])):
            content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    elif kind == "a page zeroed":
        at = chance.randrange(len(content))
        content[at : at + 4096] = bytes(len(content[at : at + 4096]))
    else:
        content[:] = chance.randbytes(chance.randrange(2 * len(content)))
    path.write_bytes(content)


def write_tu(folder: Path, graphs: GraphSet) -> None:
    """The graphs as a TU dataset."""
    folder.mkdir()
    owner = torch.arange(len(graphs)).repeat_interleave(graphs.node_counts) + 1
    columns = {
        "A": [f"{a}, {b}" for a, b in (graphs.edge_index.T + 1).tolist()],
        "graph_indicator": owner.tolist(),
        "graph_labels": graphs.y.tolist(),
        "node_labels": graphs.x[:, -3:].argmax(1).tolist(),
        "node_attributes": [", ".join(map(str, row)) for row in graphs.x[:, :3].tolist()],
        "edge_labels": [a % 3 for a in graphs.edge_index[0].tolist()],
    }
    for kind, lines in columns.items():
        (folder / f"{folder.name}_{kind}.txt").write_text("".join(f"{line}\n" for line in lines))


def write_ogb(folder: Path, graphs: GraphSet) -> None:
    """The graphs in OGB's raw layout, with a split."""
    (folder / "raw").mkdir(parents=True)
    (folder / "split" / "scaffold").mkdir(parents=True)
    first = graphs.node_ptr[:-1].repeat_interleave(graphs.edge_counts)
    columns = {
        "raw/edge": [f"{a},{b}" for a, b in (graphs.edge_index - first).T.tolist()],
        "raw/num-node-list": graphs.node_counts.tolist(),
        "raw/num-edge-list": graphs.edge_counts.tolist(),
        "raw/graph-label": graphs.y.tolist(),
        "raw/node-feat": [f"{row},{row % 3}" for row in graphs.x.argmax(1).tolist()],
        "raw/edge-feat": [a % 3 for a in graphs.edge_index[0].tolist()],
        "split/scaffold/train": range(10),
        "split/scaffold/valid": range(10, 15),
        "split/scaffold/test": range(15, 20),
    }
    for name, lines in columns.items():
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines))


def write_tables(folder: Path, graphs: GraphSet) -> None:
    """The graphs as CSV files of edges, nodes and graphs."""
    folder.mkdir()
    owner = torch.arange(len(graphs)).repeat_interleave(graphs.node_counts).tolist()
    pairs, nodes = graphs.edge_index.T.tolist(), range(len(owner))
    columns = {
        "edges": ["graph,source,target,kind", *(f"{owner[a]},{a},{b},{a % 3}" for a, b in pairs)],
        "nodes": ["graph,node,word,size", *(f"{owner[v]},{v},w{v % 3},{v / 2}" for v in nodes)],
        "graphs": ["graph,label", *(f"{g},c{y}" for g, y in enumerate(graphs.y.tolist()))],
    }
    for name, lines in columns.items():
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines))


WRITERS = (write_tu, write_ogb, write_tables)


def change_a_line(path: Path, chance: random.Random) -> None:
    odd = [
        "-1", "0", "1e400", "9" * 30, "nan", "inf", "1, 2, 3", "", "x", "1.5", "2147483648", "\0",
        "\u0663", '"', "1,,2", "é,1,2,3",
    ]  # fmt: skip
    lines = path.read_text().splitlines()
    for _ in range(chance.choice([1, 5])):
        lines[chance.randrange(len(lines))] = chance.choice(odd)
    path.write_text("\n".join(lines))


def as_zip(folder: Path, chance: random.Random) -> Path:
    """The dataset zipped: with damage, a member that expands to gigabytes, or one that escapes."""
    place = folder.with_suffix(".zip")
    kind = chance.choice(["damaged", "bomb", "escapes"])
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
        if kind == "escapes":
            archive.writestr("../escaped.txt", "1\n")
        if kind == "bomb":
            name = (
                f"{folder.name}_{chance.choice(['node_attributes', 'edge_labels', 'readme'])}.txt"
            )
            with warnings.catch_warnings(), archive.open(name, "w", force_zip64=True) as member:
                for _ in range(3 * MEMORY // 2**25):
                    member.write(b"1\n" * 2**23)
    if kind == "damaged":
        harm(place, chance, chance.choice(["cut off", "bytes flipped"]))
    return place


def dataset(chance: random.Random) -> str | None:
    """A folder or zip with something wrong: refused, or graphs that can be pooled."""
    folder, write = Path("HOSTILE"), chance.choice(WRITERS)
    write(folder, builtin(num_graphs=20))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path, kind = chance.choice(files), chance.choice(range(7))
    place = folder
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.unlink()
        chance.choice([os.mkfifo, os.mkdir])(path)
    elif kind == 2 and write is write_tu and chance.random() < 0.5:
        place = as_zip(folder, chance)
    elif kind < 5:
        change_a_line(path, chance)
    else:
        harm(path, chance, chance.choice(["cut off", "bytes flipped", "noise"]))
    try:
        return unusable(load_dataset(place))
    except DatasetError:
        return None


# What a user's tables and networkx graphs may have in place of a number or a word.
ODD = (
    None, float("nan"), float("inf"), 10**400, -1, 2**63, 1j, b"x", "", "é", "\0", [], [1, [2]], {},
    True, object(), [1.0, 2.0], torch.ones(2), torch.ones(2, 2),
)  # fmt: skip
MOLECULES = ("CCO", "c1ccccc1", "[Na+].[Cl-]", "C#N", "F/C=C/F", "O")


def in_memory(chance: random.Random) -> str | None:
    """Graphs of networkx, frames or SMILES with something wrong: refused, or usable."""

    def some(right: Any) -> Any:
        return chance.choice(ODD) if chance.random() < 0.02 else right

    kind, size = chance.choice(["networkx", "frames", "SMILES"]), 6
    given: Any
    if kind == "networkx":
        given = [chance.choice([nx.Graph, nx.MultiDiGraph])() for _ in range(size)]
        for graph in given:
            graph.graph["y"] = some(chance.randrange(2))
            for v in range(chance.randrange(5)):
                graph.add_node(v, colour=some("red"), size=some(0.5))
            ends = [(u, v) for u in graph for v in graph if chance.random() < 0.5]
            graph.add_edges_from((u, v, {"weight": some(v)}) for u, v in ends)
    elif kind == "frames":
        rows = [(some(g), some(0), some(n + 1), some(n)) for g in range(size) for n in range(3)]
        given = {"edges": pd.DataFrame(rows, columns=["graph", "u", "v", "kind"])}
        known = [(some(g), some(g % 2)) for g in range(size)]
        names = ["graph", chance.choice(["label", "value", "label_a", "split", "graph", "smiles"])]
        given["graphs"] = pd.DataFrame(known, columns=names)
    else:
        given = [some(chance.choice(MOLECULES)) for _ in range(size)]
        if chance.random() < 0.5:
            given = [str(text)[: chance.randrange(1, 12)] for text in given]
    try:
        y = chance.choice([None, None, [some(n) for n in range(size)], some([])])
        task = chance.choice([None, None, "classes", "labels", "values", some("x")])
        return unusable(load_dataset(given, y=y, task=task))
    except ValueError:
        return None


def unusable(graphs: GraphSet) -> str | None:
    """What is wrong with graphs that were read: a pooling must be able to pool all of them."""
    batch = graphs.batch(torch.arange(len(graphs)))
    if not batch.x.isfinite().all():
        return "features are not finite"
    pool = lcpool.LCPooling(graphs.num_features)
    pooled = pool(batch.x, batch.edge_index, batch=batch.batch, batch_size=batch.batch_size)
    return None if pooled.x.isfinite().all() else "pooled features are not finite"


def tensor(chance: random.Random, *size: int, most: int | None = None) -> torch.Tensor:
    """Random numbers, indices below ``most`` if that is given; now and then of a wrong kind."""
    shape = list(size)
    if chance.random() < 0.1:
        shape = chance.choice([[*shape, 1], shape[:-1], [n + 1 for n in shape], [0] * len(shape)])
    if most is None:
        values = torch.randn(shape)
        kinds = [torch.float64, torch.float16, torch.int64, torch.complex64, torch.bool]
    else:
        values = torch.randint(0, max(most, 1), shape)
        kinds = [torch.int32, torch.float32, torch.bool, torch.uint8, torch.complex64]
    if values.numel() and chance.random() < 0.15:
        odd = [-1, 10**9, 2**62, -(2**63)] if most is not None else [float("nan")]
        values.view(-1)[chance.randrange(values.numel())] = chance.choice(odd)
    return values.to(chance.choice(kinds)) if chance.random() < 0.1 else values


def count(chance: random.Random, right: int, *huge: int) -> Any:
    """How many; now and then another number, none at all, or a huge one."""
    odd = [-1, 0, right - 1, right + 1, *huge, 1.5, True, None, "3", float("nan")]
    return chance.choice(odd) if chance.random() < 0.1 else right


def call(chance: random.Random) -> str | None:
    """An operator or layer called at random: an error of ours, or a right result."""
    torch.manual_seed(chance.randrange(2**32))
    n, width = chance.randrange(0, 30), chance.choice([1, 3, 8])
    edges = tensor(chance, 2, chance.randrange(0, 4 * n + 1) if n else 0, most=n)
    kind = chance.choice(["cluster_connect", "assignment_connect", "labels", *POOLINGS])
    try:
        if kind == "cluster_connect":
            perm = torch.randperm(n)[: chance.randrange(n + 1)]
            perm = tensor(chance, len(perm), most=n) if chance.random() < 0.3 else perm
            hops = count(chance, 3)
            found = lcpool.cluster_connect(edges, perm, count(chance, n, *HUGE), hops=hops)
            return (
                None if hops != 3 or torch.equal(found, connected(edges, perm, n)) else "wrong A'"
            )
        if kind == "labels":
            S = lcpool.Assignment.of_labels(tensor(chance, n, most=max(n // 2, 1)))
            return outside(S.lift(S.reduce(tensor(chance, n, width))), n)
        if kind == "assignment_connect":
            entries = tensor(chance, n, most=n), count(chance, n, *HUGE), tensor(chance, n, most=n)
            S = lcpool.Assignment(*entries, count(chance, n, *HUGE), tensor(chance, n))
            index, weight = lcpool.assignment_connect(edges, S, tensor(chance, edges.shape[-1]))
            return outside(index.T, len(weight), n)
        size = chance.randrange(1, 4)
        pool = layer(kind, count(chance, width), chance)
        batch = chance.choice([None, tensor(chance, n, most=size)])
        number = None if batch is None else count(chance, size, *HUGE)
        x = tensor(chance, n, width)
        out = pool(x.requires_grad_(x.is_floating_point()), edges, batch=batch, batch_size=number)
        (out.x.sum() + out.loss).backward()
        if kind not in UNSCORED and not out.x.isfinite().all():
            return f"{kind}: the pooled features are not finite"
        return outside(out.edge_index.T, out.edge_index.size(1), len(out.x))
    except (ValueError, TypeError):
        return None
    except Exception as error:
        return f"{kind}: {in_short(error)}"


def layer(kind: str, width: Any, chance: random.Random) -> torch.nn.Module:
    classes = {"nopool": lcpool.NoPooling, "topkpool": lcpool.TopKPooling}
    classes |= {"sagpool": lcpool.SAGPooling, "asapool": lcpool.ASAPooling}
    classes |= {"lcpool": lcpool.LCPooling, "lcpool*": lcpool.LCPooling}
    classes |= {"kmis": lcpool.KMISPooling, "edgepool": lcpool.EdgePooling}
    classes |= {"graclus": lcpool.GraclusPooling, "random": lcpool.RandomSelection}
    classes |= {"randomassign": lcpool.RandomAssignment, "cellpool": lcpool.CellPooling}
    if kind in classes:
        return classes[kind]() if kind == "nopool" else classes[kind](width)
    dense = {"diffpool": lcpool.DiffPooling, "mincutpool": lcpool.MinCutPooling}
    dense |= {"dmon": lcpool.DMoNPooling}
    return dense[kind](width, count(chance, 4))


def connected(edges: torch.Tensor, perm: torch.Tensor, n: int) -> torch.Tensor:
    """ones(A + AᵀA + A² + AᵀA²)(î, î), literally."""
    A = torch.zeros(n, n, dtype=torch.float64)
    A[edges[0].long(), edges[1].long()] = 1.0
    return (A + A.T @ A + A @ A + A.T @ A @ A)[perm.long()][:, perm.long()].nonzero().T


def outside(found: torch.Tensor, length: int, most: int | None = None) -> str | None:
    """A complaint unless there are so many rows, all of indices below ``most``."""
    fits = len(found) == length
    fits &= most is None or not found.numel() or (min(found.min(), most - found.max() - 1) >= 0)
    return None if fits else "a result of a wrong length, or with indices out of range"


class Evil:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


@functools.cache
def trained() -> tuple[bytes, torch.Tensor]:
    """A model file, and what the model predicts."""
    graphs, path = builtin(num_graphs=20), Path("trained.pt")
    train(graphs, "lcpool", runs=1, epochs=1, hidden=8, device="cpu").model.save(path)
    return path.read_bytes(), Model.load(path).probabilities(graphs)


def saved(chance: random.Random) -> str | None:
    """A model or cache from an enemy: refused, or what was saved; nothing in it is executed."""
    model, (content, expected) = Path("model.pt"), trained()
    model.write_bytes(content)
    kind = chance.choice(["damage", "pickle", "values", "import", "cache"])
    if kind == "cache":
        return cached(chance)
    if kind == "damage":
        harm(model, chance, chance.choice(["cut off", "bytes flipped", "a page zeroed", "noise"]))
    elif kind == "pickle":
        values = {"lcpool": 3, "architecture": Evil()}
        chance.choice([torch.save, lambda v, p: p.write_bytes(pickle.dumps(v))])(values, model)
    else:
        values = read_whole(model)
        if kind == "import":
            sys.modules.pop("evil", None)
            Path("evil.py").write_text("import os; os.system('touch executed')\n")
            values["architecture"]["pool"] = "evil:Pool"
        else:
            name = chance.choice(sorted(values))
            values[name] = chance.choice([None, -1, 2**62, "x", [], {}, torch.zeros(2), ["\0"]])
        write_atomically(values, model)
    try:
        same = torch.equal(Model.load(model).probabilities(builtin(num_graphs=20)), expected)
    except (OSError, ValueError):
        same = True
    if Path("executed").exists():
        return f"{kind}: code of the file was executed"
    return None if same or kind == "values" else f"{kind}: another model, without a word"


def cached(chance: random.Random) -> str | None:
    """A cache with a valid checksum, but indices and pointers that lead elsewhere."""
    folder = Path("CACHED")
    write_tu(folder, builtin(num_graphs=20))
    expected = load_dataset(folder)
    (path,) = (Path(os.environ["LCPOOL_CACHE"]) / "columns").iterdir()
    values = read_whole(path)
    name = chance.choice(["edge_index", "node_ptr", "edge_ptr", "y", "x"])
    tampered = values[name].clone()
    tampered.view(-1)[chance.randrange(tampered.numel())] = chance.choice([-1, 200, 10**9])
    write_atomically({**values, name: tampered}, path)
    try:
        graphs = load_dataset(folder)
        complaint = unusable(graphs)
    except ValueError:
        return None
    same = torch.equal(graphs.edge_index, expected.edge_index) or name in ("x", "edge_index", "y")
    return complaint if same else f"a tampered {name} is taken"


def in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


KINDS: dict[str, Callable[[random.Random], str | None]] = {
    "datasets": dataset, "memory": in_memory, "calls": call, "files": saved,
}  # fmt: skip


def main(kind: str, seed: str, first: str) -> None:
    sys.path.insert(0, "")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    lcpool.LCPooling(4)(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))  # compiles kernels
    resource.setrlimit(resource.RLIMIT_DATA, (psutil.Process().memory_info().vms + MEMORY,) * 2)
    home = Path.cwd()
    for case in range(int(first), CASES):
        print(case, flush=True)
        signal.alarm(SECONDS)
        with tempfile.TemporaryDirectory(dir=home) as folder:
            os.chdir(folder)
            os.environ["LCPOOL_CACHE"] = f"{folder}/cache"
            try:
                complaint = KINDS[kind](random.Random(f"{seed}/{case}"))
            except Exception as error:
                complaint = in_short(error)
            os.chdir(home)
        if complaint:
            print(f"{complaint} (seed {seed}, case {case})", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
