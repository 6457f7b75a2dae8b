import pytest
import torch

from aot_helpers.reading import factored as lowrank
from aot_helpers.reading.factored import FactoredMatrix

close = torch.testing.assert_close


def low_rank(rows, rank, columns, seed=0):
    draw = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, rank, generator=draw)
    return FactoredMatrix(left, torch.randn(rank, columns, generator=draw))


def test_the_algebra_of_factors_is_that_of_the_products():
    A, B, C = low_rank(7, 3, 5), low_rank(7, 2, 5, seed=1), low_rank(5, 4, 6, seed=2)
    assert A.shape == (7, 5) and A.T.shape == (5, 7)
    close(A.dense(), A.A @ A.B)
    close(A.T.dense(), A.dense().T)
    close((A + B).dense(), A.dense() + B.dense())
    close(A.centered_columns().dense(), A.dense() - A.dense().mean(dim=1, keepdim=True))
    for X, Y in [(A, C), (C.T, A.T)]:
        close((X @ Y).dense(), X.dense() @ Y.dense())
        assert (X @ Y).A.shape[1] == 3  # the smaller rank, on whichever side it is


def test_parts_of_the_matrix_are_parts_of_the_product():
    A, square = low_rank(7, 3, 5), low_rank(6, 2, 6)
    rows = torch.tensor([4, 0, 4])
    close(A.rows(rows), A.dense()[rows])
    close(square.diagonal(), square.dense().diagonal())


@pytest.mark.parametrize("shape", [(7, 3, 5), (5, 3, 7), (4, 9, 6), (6, 9, 4)])
def test_the_norm_is_that_of_the_product(shape):
    A = low_rank(*shape)
    assert A.norm() == pytest.approx(A.dense().norm().item())


def test_the_norm_of_a_difference_of_equals_is_zero():
    A = low_rank(7, 3, 5)
    assert (A + FactoredMatrix(-A.A, A.B)).norm() == pytest.approx(0, abs=1e-2)


def test_truncated_is_the_cut_singular_value_decomposition():
    A = low_rank(7, 4, 6)
    U, values, Vh = torch.linalg.svd(A.dense(), full_matrices=False)
    for rank in range(5):
        cut = A.truncated(rank)
        assert cut.A.shape[1] == rank
        close(cut.dense(), (U[:, :rank] * values[:rank]) @ Vh[:rank])


def test_eigenvalues_are_those_of_the_product_without_zeros():
    A = low_rank(8, 3, 8)
    found = A.eigenvalues()
    dense = torch.linalg.eigvals(A.dense())
    dense = dense[dense.abs().argsort(descending=True)]
    close(dense[3:].abs(), torch.zeros(5), atol=1e-4, rtol=0)
    gaps = (found[:, None] - dense[None, :3]).abs()
    assert gaps.min(dim=0).values.max() < 1e-4 and gaps.min(dim=1).values.max() < 1e-4


@pytest.mark.parametrize("entries", [1, 5, 12, 35, 2**22])
def test_streaming_finds_what_the_whole_matrix_shows(entries, monkeypatch):
    monkeypatch.setattr(lowrank, "BLOCK_ENTRIES", entries)
    A = low_rank(7, 3, 5)
    values, columns = A.row_maxima()
    close(values, A.dense().max(dim=1).values)
    assert torch.equal(columns, A.dense().argmax(dim=1))


def test_a_matrix_that_is_too_large_is_not_built():
    A = FactoredMatrix(torch.ones(5000, 1), torch.ones(1, 5000))
    with pytest.raises(ValueError, match=r"5000 × 5000 entries.*rows\(\).*row_maxima\(\)"):
        A.dense()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda A: FactoredMatrix(A.A, A.A), r"\(7, 3\) and \(7, 3\)"),
        (lambda A: A + A.T, r"added .*\(7, 5\), got \(5, 7\): .*\.T"),
        (lambda A: A @ A, r"multiply \(7, 5\) by \(7, 5\)"),
        (lambda A: A.diagonal(), r"diagonal\(\) .*square.* \(7, 5\)"),
        (lambda A: A.eigenvalues(), r"eigenvalues\(\) .*square"),
        (lambda A: A.truncated(4), "rank .*0 to 3.* 4$"),
        (lambda A: A.truncated(-1), "rank .*0 to 3.* -1$"),
    ],
)
def test_what_cannot_be_is_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        wrong(low_rank(7, 3, 5))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_matrix_that_is_not_finite_ends_no_process(value):
    """LAPACK would end it, with all of a notebook's work."""
    A, B = torch.randn(5, 3), torch.randn(3, 5)
    A[0, 0] = value
    for work in (lambda m: m.eigenvalues(), lambda m: m.truncated(2)):
        with pytest.raises(ValueError, match="must be finite"):
            work(FactoredMatrix(A, B))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_eigenvalues_in_other_precisions(dtype):
    A, B = torch.eye(3, 2), torch.tensor([[2.0, 0, 0], [0, 4, 0]])
    found = FactoredMatrix(A.to(dtype), B.to(dtype)).eigenvalues().real
    assert sorted(found.tolist()) == [2, 4]
