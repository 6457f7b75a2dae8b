"""The short texts of notebook 18, and which of their words are nouns or pronouns."""

from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.text.corpora import load_corpus

# Ten short texts of our own, so that every token may be shipped and shown.
_TEXTS = """\
The old ferry leaves the harbor at six. On board are nine farmers, two goats and a piano. The \
captain counts the goats, the goats watch the captain, and nobody watches the piano.
My sister bought a telescope in March. She looks at Saturn, I look at the neighbors, and our dog \
looks at the sky as if it owed her a bone. By April all three of us had a cold.
To bake the bread, mix the flour, the salt and the water. Let the dough rest for one hour. If it \
has not grown, let it rest for another hour. Bake it until the crust is dark.
"Where is the key?" asked the doctor. "Under the red chair," said the girl. "There is no red \
chair," said the doctor. "Then there is no key," said the girl, and closed the door.
In 1911 the town had 340 houses and one bank. In 1951 it had 900 houses and four banks. Today it \
has three houses, a museum, and a bank that opens on Mondays.
The river rose in the night. First it took the garden, then the fence, then the road. In the \
morning we saw a boat tied to the church tower, and in the boat sat our teacher.
Prices fell again last week. Wheat lost two percent, copper lost five, and sugar, which had \
gained for a year, lost more than both. Traders blamed the rain; farmers blamed the traders.
He plays the violin badly and the cello well. She plays the cello badly and the violin well. When \
they play together, each of them takes the wrong instrument, because it is more fun.
The train to the north was late, so we walked along the tracks and talked about the war, the \
weather and the price of onions. When the train came at last, it was going south.
A cell copies its code before it divides. Small errors slip in. Most of them do nothing, some of \
them kill, and a few of them, over a very long time, turn a fish into a bird."""
TEXTS = _TEXTS.split("\n")
# The kinds of their words that S1's future work asks about, marked by hand; "rest" and "cold"
# are other kinds of words as well, and in neither.
_NOUNS = """\
ferry harbor board farmers goats piano captain sister telescope march saturn neighbors dog sky bone
april bread flour salt water dough hour crust key doctor chair girl door town houses bank
museum mondays river night garden fence road morning boat church tower teacher prices week wheat
percent copper sugar year traders rain violin cello instrument fun train north tracks war weather
price onions south cell code errors time fish bird"""
NOUNS = frozenset(_NOUNS.split())
_PRONOUNS = "i you he she it we they me him her us them my our its nobody none"
PRONOUNS = frozenset(_PRONOUNS.split())


def words_of(strings: list[str]) -> list[str]:
    """The word, in lower case, that each token of a text is a part of; "" where it is no word.

    A piece goes on a word if it is marked so (##), or, where words begin with a space, if it does
    not and follows letters.
    """
    spaced, at, words = any(each[0] in " ·" for each in strings if each), [], []
    for string in strings:
        bare = string.removeprefix("##").strip(" ·").lower()
        follows = bool(words) and words[-1].isalnum() and bare.isalnum()
        if string.startswith("##") or (spaced and string[:1] not in " ·" and follows):
            words[-1] += bare
        else:
            words.append(bare if bare.isalnum() else "")
        at.append(len(words) - 1)
    return [words[i] for i in at]


def texts_for(model: Model, name: str, n_texts: int = 10, n_tokens: int = 48) -> list[Tensor]:
    """Tokens [pos] of the first texts, each begun by the model's token for that and cut.

    Models of stories read unread stories; all others read TEXTS.
    """
    read_stories = name.startswith("stories")
    texts = load_corpus("stories", "test", quiet=True).texts if read_stories else TEXTS
    bos = model.tokenizer.bos is not None
    return [model.tokenizer.encode(text, bos=bos)[:n_tokens] for text in texts[:n_texts]]
