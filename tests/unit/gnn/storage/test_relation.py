"""Forms of a relation agree with each other and with SciPy, whichever came first."""

import pickle

import numpy as np
import pytest
import scipy.sparse
import torch

from graphwright.gnn.storage import Compressed, Relation, invert, rows_of


@pytest.fixture(params=[torch.int32, torch.int64])
def relation(request):
    torch.manual_seed(0)
    src, dst = torch.randint(7, (30,)), torch.randint(5, (30,))
    return Relation(num_src=7, num_dst=5, made_coo=(src.to(request.param), dst.to(request.param)))


def entries(relation):
    src, dst = relation.coo
    return list(zip(src.tolist(), dst.tolist(), strict=True))


def test_compressed_forms_are_scipys(relation):
    src, dst = (ends.numpy() for ends in relation.coo)
    matrix = scipy.sparse.coo_matrix((np.arange(1, 31), (src, dst)), shape=(7, 5))
    for form, theirs in ((relation.csr, matrix.tocsr()), (relation.csc, matrix.tocsc())):
        assert form.indptr.dtype == relation.idtype
        assert form.indptr.tolist()[-1] == 30
        dense = np.zeros((len(form.indptr) - 1, max(form.indices) + 1))
        np.add.at(dense, (rows_of(form.indptr).numpy(), form.indices.numpy()), form.numbered() + 1)
        ours = dense if form is relation.csr else dense.T
        np.testing.assert_array_equal(ours, theirs.toarray()[: ours.shape[0], : ours.shape[1]])
        for first, last in zip(form.indptr[:-1], form.indptr[1:], strict=True):
            assert form.numbered()[first:last].tolist() == sorted(
                form.numbered()[first:last].tolist()
            )


@pytest.mark.parametrize("name", ["csr", "csc"])
def test_edges_keep_their_numbers_in_every_form(relation, name):
    form = getattr(relation, name)
    again = Relation(num_src=7, num_dst=5, **{f"made_{name}": form})
    assert entries(again) == entries(relation)
    assert again.in_degrees().tolist() == relation.in_degrees().tolist()
    assert again.created == ["coo", name] if name == "csr" else "csc" in again.created


def test_a_reversed_relation_shares_what_is_made(relation):
    mirror = relation.reverse
    assert entries(mirror) == [(v, u) for u, v in entries(relation)]
    assert mirror.csc is relation.csr and mirror.reverse is relation
    assert mirror.in_degrees().tolist() == relation.out_degrees().tolist()
    assert entries(pickle.loads(pickle.dumps(mirror))) == entries(mirror)
    assert mirror.convert(dtype=torch.int64).idtype == torch.int64


def test_sorted_edges_need_no_numbers():
    dst = torch.tensor([0, 0, 1, 3])
    relation = Relation(num_src=4, num_dst=4, made_coo=(torch.tensor([3, 1, 2, 0]), dst))
    assert relation.csc.edge_ids is None and relation.csr.edge_ids is not None
    assert relation.csc.numbered().tolist() == [0, 1, 2, 3]
    assert invert(torch.tensor([2, 0, 1])).tolist() == [1, 2, 0]
    assert (
        Compressed(torch.tensor([0, 1]), torch.tensor([0])).convert(dtype=torch.int32).indptr.dtype
        == torch.int32
    )
