"""`partition_graph` cuts a graph into files, `load_partition` reads one part.

out_path/
  NAME.json                 counts, types, ranges of ids, and the files of each part
  part0/graph.dgl           nodes and edges of the part, and of its surroundings (halo)
  part0/node_feats.dgl      features of the part's own nodes, "type/field"
  part0/edge_feats.dgl      features of its own edges

Nodes are numbered anew, part by part and, within one, type by type; edges belong to the part of
their destination. In a part's graph `dgl.NID` and `dgl.EID` are the new ids, `orig_id` the old ones
within the type, `inner_node` and `inner_edge` say what is the part's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphwright.files import write_atomically
from graphwright.gnn.data import (
    InvalidDataFile,
    MissingData,
    load_graphs,
    load_tensors,
    save_graphs,
    save_tensors,
)
from graphwright.gnn.distributed.assign import metis_partition_assignment
from graphwright.gnn.distributed.book import RangePartitionBook
from graphwright.gnn.graph import EID, ETYPE, NID, NTYPE, DGLGraph, graph, row_entries
from graphwright.gnn.sampling import torch_generator
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms import to_homogeneous


def partition_graph(
    g: DGLGraph,
    graph_name: str,
    num_parts: int,
    out_path: str,
    num_hops: int = 1,
    part_method: str = "metis",
    balance_ntypes: Any = None,
    balance_edges: bool = False,
    return_mapping: bool = False,
    num_trainers_per_machine: int = 1,
    objtype: str = "cut",
    graph_formats: Any = None,
    **options: Any,
) -> Any:
    """Cut a graph into parts and save them; with `return_mapping` the old id of each new one.

    `part_method` is "metis" (few edges between parts; our own algorithm after METIS), "random" or
    "range" (nodes in the order of their ids). A part holds the nodes that lead to its own within
    `num_hops` edges as well. With types, mappings are dictionaries by type.
    """
    if num_parts < 1 or num_hops < 1 or num_trainers_per_machine != 1 or options:
        raise DGLError(
            "num_parts and num_hops have to be at least 1, num_trainers_per_machine 1; other "
            f"options are not supported. Got {num_parts}, {num_hops}, "
            f"{num_trainers_per_machine} and {options}."
        )
    flat = to_homogeneous(g.cpu())
    count = flat.num_nodes()
    match part_method:
        case "metis":
            parts = metis_partition_assignment(g, num_parts, balance_ntypes, balance_edges)
        case "random":
            parts = torch.randint(0, num_parts, (count,), generator=torch_generator())
        case "range":
            parts = torch.arange(count) * num_parts // max(count, 1)
        case _:
            raise DGLError(
                f'part_method has to be "metis", "random" or "range". Got {part_method!r}.'
            )
    src, dst = flat.edges()
    node_kind, edge_kind = flat.ndata[NTYPE].long(), flat.edata[ETYPE].long()
    edge_parts = parts[dst.long()]
    nodes = torch.argsort(parts * len(g.ntypes) + node_kind, stable=True)  # old id of each new one
    edges = torch.argsort(edge_parts * len(g.etypes) + edge_kind, stable=True)
    new_node = torch.empty_like(nodes).scatter_(0, nodes, torch.arange(count))
    new_src, new_dst = new_node[src.long()][edges], new_node[dst.long()][edges]
    whole = graph((new_src, new_dst), num_nodes=count)
    node_map = _ranges(parts[nodes], node_kind[nodes], num_parts, g.ntypes)
    edge_names = [":".join(etype) for etype in g.canonical_etypes]
    edge_map = _ranges(edge_parts[edges], edge_kind[edges], num_parts, edge_names)
    old_nodes, old_edges = flat.ndata[NID][nodes], flat.edata[EID][edges]
    about = {
        "graph_name": graph_name, "num_nodes": count, "num_edges": len(src),
        "part_method": part_method, "num_parts": num_parts, "halo_hops": num_hops,
        "node_map": node_map, "edge_map": edge_map,
        "ntypes": {name: at for at, name in enumerate(g.ntypes)},
        "etypes": {name: at for at, name in enumerate(edge_names)},
    }  # fmt: skip
    root = Path(out_path)
    for part in range(num_parts):
        made = _part(whole, parts[nodes], part, num_hops)
        inner, own = made.ndata[NID], made.edata[EID]
        made.ndata[NTYPE], made.edata[ETYPE] = node_kind[nodes][inner], edge_kind[edges][own]
        made.ndata["orig_id"], made.edata["orig_id"] = old_nodes[inner], old_edges[own]
        folder = root / f"part{part}"
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            kind: f"part{part}/{kind if kind != 'part_graph' else 'graph'}.dgl"
            for kind in ("node_feats", "edge_feats", "part_graph")
        }
        save_graphs(str(root / files["part_graph"]), made)
        for kind, mapping, old, names, frame_of in (
            ("node_feats", node_map, old_nodes, g.ntypes, g.node_frame),
            ("edge_feats", edge_map, old_edges, edge_names, _edge_frames(g)),
        ):
            features = {
                f"{name}/{field}": values[old[slice(*mapping[name][part])].long()].cpu()
                for name in names
                for field, values in frame_of(name).items()
            }
            save_tensors(str(root / files[kind]), features)
        about[f"part-{part}"] = files
    write_atomically(root / f"{graph_name}.json", json.dumps(about, indent=4).encode())
    if not return_mapping:
        return None
    by_type = [
        {name: torch.cat([old[slice(*span)] for span in mapping[name]]) for name in names}
        for mapping, old, names in (
            (node_map, old_nodes, g.ntypes),
            (edge_map, old_edges, edge_names),
        )
    ]
    if g.is_homogeneous:
        return by_type[0][g.ntypes[0]], by_type[1][edge_names[0]]
    return by_type[0], {tuple(name.split(":")): ids for name, ids in by_type[1].items()}


def _edge_frames(g: DGLGraph) -> Any:
    return lambda name: g.edge_frame(tuple(name.split(":")))


def _ranges(parts: Tensor, kinds: Tensor, num_parts: int, names: Any) -> dict[str, Any]:
    """For each type, where its ids of each part begin and end."""
    counts = torch.bincount(parts * len(names) + kinds, minlength=num_parts * len(names))
    ends = torch.cumsum(counts, 0)
    table = torch.stack([ends - counts, ends], 1).reshape(num_parts, len(names), 2)
    return {name: table[:, at].tolist() for at, name in enumerate(names)}


def _part(whole: DGLGraph, parts: Tensor, part: int, hops: int) -> DGLGraph:
    """The edges into a part's nodes, and into those around it for every further hop."""
    csc = whole.relation().csc
    inner = (parts == part).nonzero().reshape(-1)
    reached, border, edges = inner, inner, [torch.empty(0, dtype=torch.long)]
    for _ in range(hops):
        entries, _ = row_entries(csc.indptr, border)
        edges.append(csc.numbered()[entries])
        sources = torch.unique(csc.indices[entries])
        border = sources[~torch.isin(sources, reached)]
        reached = torch.cat([reached, border])
    own = torch.unique(torch.cat(edges))
    number = torch.full((whole.num_nodes(),), -1)
    number[reached] = torch.arange(len(reached))
    src, dst = whole.relation().find(own)
    made = graph((number[src], number[dst]), num_nodes=len(reached))
    made.ndata[NID], made.edata[EID] = reached, own
    made.ndata["inner_node"] = parts[reached] == part
    made.ndata["part_id"] = parts[reached]
    made.edata["inner_edge"] = parts[dst] == part
    return made


def load_partition(part_config: str, part_id: int, load_feats: bool = True) -> tuple[Any, ...]:
    """(graph, node features, edge features, partition book, name, node types, edge types)."""
    path = Path(part_config)
    about = _read(path)
    if not 0 <= part_id < about["num_parts"]:
        raise DGLError(f"{path} has parts 0 to {about['num_parts'] - 1}. Got {part_id}.")
    try:
        files = {name: _inside(path, file) for name, file in about[f"part-{part_id}"].items()}
        book = _book(about, part_id)
        made = load_graphs(str(files["part_graph"]))[0][0]
        features: list[Mapping[str, Tensor]] = [{}, {}]
        if load_feats:
            features = [load_tensors(str(files[kind])) for kind in ("node_feats", "edge_feats")]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidDataFile(f"{path} describes no part {part_id}: {error!r}.") from error
    return made, *features, book, about["graph_name"], book.ntypes, book.canonical_etypes


def load_partition_book(part_config: str, part_id: int) -> tuple[Any, ...]:
    """(partition book, name, node types, edge types), without the part itself."""
    about = _read(Path(part_config))
    book = _book(about, part_id)
    return book, about["graph_name"], book.ntypes, book.canonical_etypes


def _book(about: Mapping[str, Any], part_id: int) -> RangePartitionBook:
    triplet = lambda name: tuple(name.split(":"))
    return RangePartitionBook(
        part_id,
        about["num_parts"],
        about["node_map"],
        {triplet(name): spans for name, spans in about["edge_map"].items()},
        about["ntypes"],
        {triplet(name): at for name, at in about["etypes"].items()},
    )


def _read(path: Path) -> Any:
    try:
        about = json.loads(path.read_bytes())
    except OSError as error:
        raise MissingData(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidDataFile(f"{path} is no JSON: {error}") from error
    if not isinstance(about, dict) or not isinstance(about.get("num_parts"), int):
        raise InvalidDataFile(f"{path} does not describe parts of a graph.")
    return about


def _inside(config: Path, file: str) -> Path:
    """A file that is named in a description, which has to be in the same folder."""
    folder = config.parent.resolve()
    found = (folder / file).resolve()
    if folder not in found.parents:
        raise InvalidDataFile(f"{config} names {file}, which is not in its folder.")
    return found
