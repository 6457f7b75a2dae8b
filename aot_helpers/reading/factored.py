"""Products of two thin matrices that are too large to multiply out, kept as their factors."""

from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_finite, check_shape, check_whole

DENSE_LIMIT = 4096 * 4096  # entries; 64 MB
BLOCK_ENTRIES = 2**22  # entries of a product that are held at once; 16 MB


@dataclass(frozen=True, eq=False)
class FactoredMatrix:
    """The matrix A @ B, kept as its two factors.

    A circuit of 50,000 × 50,000 tokens is 10 GB, its factors through one head are 25 MB.
    """

    A: Float[Tensor, "rows rank"]
    B: Float[Tensor, "same_rank columns"]  # so named that a mismatch reaches our own error

    def __post_init__(self):
        A, B = tuple(self.A.shape), tuple(self.B.shape)
        if len(A) != 2 or len(B) != 2 or A[1] != B[0]:
            wrong = f"got {A} and {B}; a factor may need .T"
            raise ValueError(f"A must be [rows, rank] and B [rank, columns], {wrong}")

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the product."""
        return self.A.shape[0], self.B.shape[1]

    @property
    def T(self) -> "FactoredMatrix":
        """The transposed matrix."""
        return FactoredMatrix(self.B.T, self.A.T)

    def __add__(self, other: "FactoredMatrix") -> "FactoredMatrix":
        """The sum, with the factors side by side: the ranks add up. Shapes must be equal."""
        check_shape("what is added", other.shape, self.shape, "it may need .T")
        A = torch.cat([self.A, other.A], dim=1)
        return FactoredMatrix(A, torch.cat([self.B, other.B], dim=0))

    def __matmul__(self, other: "FactoredMatrix") -> "FactoredMatrix":
        """The product, with the smaller of the two ranks."""
        if self.shape[1] != other.shape[0]:
            raise ValueError(
                f"cannot multiply {self.shape} by {other.shape}: one of the two may need .T"
            )
        inner = self.B @ other.A
        if inner.shape[0] <= inner.shape[1]:
            return FactoredMatrix(self.A, inner @ other.B)
        return FactoredMatrix(self.A @ inner, other.B)

    def rows(self, index: Int[Tensor, " n"]) -> Float[Tensor, "n columns"]:
        """These rows of the product."""
        return self.A[index] @ self.B

    def diagonal(self) -> Float[Tensor, " rows"]:
        """The diagonal of a square matrix."""
        self._check_square("diagonal()")
        return (self.A * self.B.T).sum(dim=1)

    def norm(self) -> float:
        """The Frobenius norm: ‖AB‖² is the trace of (AᵀA)(BBᵀ), both rank × rank."""
        squared = ((self.A.T @ self.A) * (self.B @ self.B.T)).sum()
        return squared.clamp(min=0).sqrt().item()  # rounding can make a zero slightly negative

    def truncated(self, rank: int) -> "FactoredMatrix":
        """The nearest matrix of at most this rank in the Frobenius norm (Eckart and Young)."""
        left, values, right = self._svd()
        check_whole("rank", rank, 0, len(values))
        return FactoredMatrix(left[:, :rank] * values[:rank], right[:rank])

    def eigenvalues(self) -> Complex[Tensor, " rank"]:
        """The eigenvalues of B @ A; A @ B, which must be square, has the same ones and zeros."""
        self._check_square("eigenvalues()")
        return torch.linalg.eigvals(solvable("the matrix", self.B @ self.A))

    def centered_columns(self) -> "FactoredMatrix":
        """Each row minus its mean over the columns."""
        return FactoredMatrix(self.A, self.B - self.B.mean(dim=1, keepdim=True))

    def row_maxima(self) -> tuple[Tensor, Tensor]:
        """The largest entry of each row, and the column it stands in: two tensors [rows].

        As many rows are made at a time as fit in 16 MB.
        """
        at_once = max(1, BLOCK_ENTRIES // max(1, self.shape[1]))
        maxima = [(rows @ self.B).max(dim=1) for rows in self.A.split(at_once)]
        return tuple(map(torch.cat, zip(*maxima, strict=True)))

    def dense(self) -> Float[Tensor, "rows columns"]:
        """The whole matrix. Raises ValueError above 4096 × 4096 entries."""
        rows, columns = self.shape
        if rows * columns > DENSE_LIMIT:
            raise ValueError(
                f"{rows} × {columns} entries are too many to build; use rows() or row_maxima()"
            )
        return self.A @ self.B

    def _check_square(self, what: str) -> None:
        if self.shape[0] != self.shape[1]:
            raise ValueError(f"{what} needs a square matrix, this one is {self.shape}")

    def _svd(self) -> tuple[Tensor, Tensor, Tensor]:
        Q_left, R_left = torch.linalg.qr(solvable("the matrix", self.A))
        Q_right, R_right = torch.linalg.qr(solvable("the matrix", self.B.T))
        U, values, Vh = torch.linalg.svd(R_left @ R_right.T, full_matrices=False)
        return Q_left @ U, values, Vh @ Q_right.T


def solvable(name: str, matrix: Tensor) -> Tensor:
    """The matrix as LAPACK takes it: not in half precision. Raises ValueError unless finite."""
    check_finite(name, matrix)
    return matrix.float() if matrix.dtype in (torch.float16, torch.bfloat16) else matrix
