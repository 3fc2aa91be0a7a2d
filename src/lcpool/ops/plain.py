"""The kernels in plain torch: for devices without compiled ones, and to check those against.

What is summed stands by rows, and rows are added in order: the same input gives the same bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lcpool.graph.precision import wide
from lcpool.graph.sizes import owners, row_pointers
from lcpool.ops.survey import Survey


def row_sum(values: Tensor, ptr: Tensor) -> Tensor:
    """The sum of the values ``ptr[i]`` to ``ptr[i + 1]`` for each row i."""
    if values.is_cuda:  # There index_add adds in no order.
        return torch.segment_reduce(values, "sum", offsets=ptr, axis=0, initial=0)
    total = values.new_zeros(ptr.numel() - 1, *values.shape[1:])
    return total.index_add(0, owners(ptr, values.size(0)), values)


def gcn_roots(ptr: Tensor, node: Tensor) -> Tensor:
    """(1 + number of neighbours but itself)^(-1/2) of each node, in double."""
    other = node != owners(ptr, node.numel())
    return (1 + row_sum(other.double(), ptr)).rsqrt()


def aggregate(x: Tensor, ptr: Tensor, node: Tensor, roots: Tensor | None) -> Tensor:
    """The sum of x over each node's neighbours; with ``roots``, GCN's."""
    values = wide(x)
    if roots is None:
        return row_sum(values.index_select(0, node), ptr).to(x.dtype)
    scale = roots.to(values.dtype).unsqueeze(-1)
    values = scale * values
    # Masked, not multiplied by zero: a self-loop's row may hold infinities.
    loop = (node == owners(ptr, node.numel())).unsqueeze(-1)
    rows = values.index_select(0, node).masked_fill(loop, 0.0)
    return (scale * (values + row_sum(rows, ptr))).to(x.dtype)


def difference_sum(z: Tensor, y: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    """Σ relu(z_i − y_k) over the neighbours k of each node i."""
    differences = wide(z).index_select(0, owners(ptr, node.numel())) - wide(y).index_select(0, node)
    return row_sum(differences.relu(), ptr).to(y.dtype)


def difference_sum_backward(
    grad: Tensor, z: Tensor, y: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor, out_node: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of z and y, for which there are gradients again."""
    own, others, grads = wide(z), wide(y), wide(grad)
    row, out_row = owners(ptr, node.numel()), owners(out_ptr, out_node.numel())
    # NaN counts as positive, as in torch's relu: it must not be lost.
    off = own.index_select(0, row) - others.index_select(0, node) <= 0
    grad_z = row_sum(grads.index_select(0, row).masked_fill(off, 0.0), ptr)
    off = own.index_select(0, out_node) - others.index_select(0, out_row) <= 0
    grad_y = row_sum(grads.index_select(0, out_node).masked_fill(off, 0.0), out_ptr)
    return grad_z.to(z.dtype), -grad_y.to(y.dtype)


def weighted_sum(
    x: Tensor, weight: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None
) -> Tensor:
    """Σ w_e x_k over the entries (k, i) of each row i."""
    by_row = weight if entry is None else weight.index_select(0, entry)
    rows = wide(x).index_select(0, node) * wide(by_row).unsqueeze(-1)
    return row_sum(rows, ptr).to(x.dtype)


def entry_dot(y: Tensor, x: Tensor, ptr: Tensor, node: Tensor, entry: Tensor | None) -> Tensor:
    """y_i · x_k of each entry (k, i)."""
    rows = wide(y).index_select(0, owners(ptr, node.numel())) * wide(x).index_select(0, node)
    dots = rows.sum(-1).to(x.dtype)
    return dots if entry is None else torch.empty_like(dots).index_copy(0, entry, dots)


def neighbour_max(x: Tensor, ptr: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum over each node's neighbours, zeros without any, and how many share it."""
    row, rows = owners(ptr, node.numel()), x.index_select(0, node)
    most = x.new_full((ptr.numel() - 1, x.size(1)), -torch.inf)
    most = most.scatter_reduce(0, row.unsqueeze(-1).expand_as(rows), rows, "amax")
    shared = rows == most.index_select(0, row)
    ties = row_sum(shared.to(wide(x).dtype), ptr).clamp(min=1).int()
    return most.where(ptr.diff().unsqueeze(-1) > 0, 0.0), ties


def neighbour_max_backward(
    share: Tensor, x: Tensor, most: Tensor, out_ptr: Tensor, out_node: Tensor
) -> Tensor:
    """The sum of the shares of maxima that each node has, for which there is a gradient again."""
    is_most = x.index_select(0, owners(out_ptr, out_node.numel())) == most.index_select(0, out_node)
    return row_sum(share.index_select(0, out_node).masked_fill(~is_most, 0.0), out_ptr).to(x.dtype)


def softmax(values: Tensor, ptr: Tensor) -> Tensor:
    """The softmax over the nodes of each graph."""
    batch = owners(ptr, values.numel())
    most = values.new_full((ptr.numel() - 1,), -torch.inf).scatter_reduce(0, batch, values, "amax")
    h = (values - most[batch]).exp()
    return h / row_sum(h, ptr)[batch]


def softmax_backward(grad: Tensor, h: Tensor, ptr: Tensor) -> Tensor:
    """The gradient of the values, for which there are gradients again."""
    inner = row_sum(grad * h, ptr)
    return h * (grad - inner.index_select(0, owners(ptr, h.numel())))


def readout(x: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Mean ‖ max of each graph, zeros for an empty one, and how many nodes share each maximum."""
    batch, count = owners(ptr, x.size(0)), ptr.diff().unsqueeze(-1)
    mean = row_sum(x, ptr) / count.clamp(min=1)
    most = torch.full_like(mean, -torch.inf)
    most = most.scatter_reduce(0, batch.unsqueeze(-1).expand_as(x), x, "amax")
    ties = row_sum((x == most[batch]).to(x.dtype), ptr).clamp(min=1).int()
    return torch.cat([mean, most.where(count > 0, 0.0)], dim=-1), ties


def readout_backward(grad: Tensor, x: Tensor, ptr: Tensor, out: Tensor, ties: Tensor) -> Tensor:
    """The gradient of x, for which there is one again; who shares a maximum shares its gradient."""
    batch, count = owners(ptr, x.size(0)), ptr.diff().unsqueeze(-1)
    of_mean, of_most = grad.chunk(2, dim=-1)
    is_most = x == out.chunk(2, dim=-1)[1].index_select(0, batch)
    shared = (of_most / ties).index_select(0, batch).masked_fill(~is_most, 0.0)
    return (of_mean / count.clamp(min=1)).index_select(0, batch) + shared


def shifted_difference_sum(YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor) -> Tensor:
    """D: Σ relu(y_i + b − y_k) over the neighbours k of each node i, y being the left of ``YG``."""
    y = YG[:, : b_d.numel()]
    return difference_sum(y + b_d, y, ptr, node)


def shifted_difference_backward(
    grad: Tensor, YG: Tensor, b_d: Tensor, ptr: Tensor, node: Tensor, out_ptr: Tensor,
    out_node: Tensor, grad_YG: Tensor, sums: Tensor,
) -> Tensor:  # fmt: skip
    """Write the gradient of y into the left of ``grad_YG``; that of b is put after ``sums``."""
    y = YG[:, : b_d.numel()]
    grad_z, grad_y = difference_sum_backward(grad, y + b_d, y, ptr, node, out_ptr, out_node)
    torch.add(grad_z, grad_y, out=grad_YG[:, : b_d.numel()])
    return torch.cat([sums, grad_z.sum(0)])


def combine(F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor, b_s: Tensor) -> Tensor:
    """(relu(F + b_fd) + relu(G + b_x)) w_s + b_s, G being the right of ``YG``."""
    return ((F + b_fd).relu() + (YG[:, F.size(1) :] + b_x).relu()) @ w_s + b_s


def combine_backward(
    grad: Tensor, F: Tensor, YG: Tensor, b_fd: Tensor, b_x: Tensor, w_s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of F, of G in the right of one like ``YG``, and [b_fd ‖ b_x ‖ w_s ‖ b_s]'s."""
    f, g = (F + b_fd).relu(), (YG[:, F.size(1) :] + b_x).relu()
    each = grad.unsqueeze(-1) * w_s
    grad_F, grad_G = each.masked_fill(f == 0, 0.0), each.masked_fill(g == 0, 0.0)
    sums = torch.cat([grad_F.sum(0), grad_G.sum(0), grad @ (f + g), grad.sum().view(1)])
    return grad_F, torch.cat([torch.empty_like(grad_G), grad_G], dim=1), sums


def select(
    rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> tuple[Tensor, Tensor]:
    """The nodes of highest rank of each graph, falling, ties to the lower index; and the graphs."""
    order = rank.argsort(descending=True, stable=True)
    order = order[owners(ptr, rank.numel())[order].argsort(stable=True)]
    # Slot t of the output is the (t − Σ_{b' < b} k_b')-th best node of its graph b.
    batch = owners(kept_ptr, num_kept)
    slots = torch.arange(num_kept, device=rank.device)
    return order[slots + (ptr - kept_ptr)[batch]], batch


def gate(x: Tensor, h: Tensor, perm: Tensor) -> tuple[Tensor, Tensor]:
    """(X ⊙ h)(î, :) and h(î)."""
    score = h.index_select(0, perm)
    return x.index_select(0, perm) * score.unsqueeze(-1), score


def gate_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, h: Tensor, perm: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of x and h, for which there are gradients again; zeros for dropped nodes."""
    score = h.index_select(0, perm).unsqueeze(-1)
    of_h = (wide(grad) * wide(x).index_select(0, perm)).sum(-1).to(h.dtype)
    of_h = of_h if grad_score is None else of_h + grad_score
    grad_x = torch.zeros_like(x).index_copy(0, perm, grad * score)
    return grad_x, torch.zeros_like(h).index_copy(0, perm, of_h)


def choose(
    x: Tensor, rank: Tensor, counts: Tensor, ptr: Tensor, kept_ptr: Tensor, num_kept: int
) -> tuple[Tensor, ...]:
    """X', h(î), î, the graph of each, the place of each node in î or −1, h, and whether it is one.

    h is the softmax of ``rank`` over each graph.
    """
    h, (perm, batch) = softmax(rank, ptr), select(rank, counts, ptr, kept_ptr, num_kept)
    place = perm.new_full((rank.numel(),), -1)
    place[perm] = torch.arange(num_kept, device=perm.device)
    return *gate(x, h, perm), perm, batch, place, h, (h == h).all().long()


def choose_backward(
    grad: Tensor, grad_score: Tensor | None, x: Tensor, perm: Tensor, place: Tensor, h: Tensor,
    counts: Tensor, ptr: Tensor, kept_ptr: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of ``rank``, h (g − Σ g h), and of x in X' = x h with h as it is."""
    of_h = (grad * x.index_select(0, perm)).sum(-1)
    of_h = of_h if grad_score is None else of_h + grad_score
    product = of_h * h.index_select(0, perm)
    total = row_sum(product, kept_ptr).index_select(0, owners(ptr, h.numel()))
    own = torch.cat([product, product.new_zeros(1)])[place]  # −1 is the last
    past = torch.zeros_like(x).index_copy(0, perm, grad * h.index_select(0, perm).unsqueeze(-1))
    return own - h * total, past


def survey(edge_index: Tensor, num_nodes: int, batch: Tensor | None) -> Survey:
    """Look at edges and at the graph of each node; of the edges' order nothing is said."""
    low, high = edge_index.aminmax() if edge_index.numel() else edge_index.new_zeros(2)
    in_range = not edge_index.numel() or bool((low >= 0) & (high < num_nodes))
    if batch is None or not batch.numel():
        return Survey(in_range, False, False, True, 0, 0, None)
    first, last, by_graph = batch[0], batch[-1], (batch.diff() >= 0).all()
    return Survey(in_range, False, False, bool(by_graph), int(first), int(last), None)


def rows(row: Tensor, node: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """Where each row begins in ``node`` sorted by ``row``, and that; in a row the order stays."""
    row, order = row.sort(stable=True)
    return row_pointers(row, num_rows), node[order]


def cluster_search(*_: object) -> None:
    """Left to joins."""


def columns(*_: object) -> None:
    """Left to torch."""


def takes_assignment(*_: object) -> bool:
    """None of them."""
    return False


def connect_assignment(*_: object) -> None:
    """Left to joins."""


def connect_assignment_backward(*_: object) -> None:
    """Left to joins."""


def connect_clusters(*_: object) -> None:
    """Left to joins, which also connect by other assignments."""
