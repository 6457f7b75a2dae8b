"""Facts that no network can know whose heads attend to both words equally."""

from jaxtyping import Int
from torch import Tensor


def impossible_squares(facts: Int[Tensor, "net pair"], n_words: int = 5) -> Int[Tensor, " net"]:
    """How many squares of each list no sum of one number for each word can give.

    A square is two first words and two second words, so four facts. It is impossible if the facts
    in opposite corners are the same word and those beside each other are not, as A B over B A.
    """
    table = facts.view(-1, n_words, n_words)
    here, across = table[:, :, None, :, None], table[:, None, :, None, :]  # (i, k) and (j, l)
    right, below = table[:, :, None, None, :], table[:, None, :, :, None]  # (i, l) and (j, k)
    found = (here == across) & (right == below) & (here != right)
    return found.flatten(1).sum(dim=1) // 4  # each square is met from its four corners
