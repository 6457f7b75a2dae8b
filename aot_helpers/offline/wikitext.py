"""A Wikipedia dump to the plain prose of its articles, without the markup."""

import bz2
import html
import re
from pathlib import Path

DROPPED = re.compile(  # comments, footnotes, formulas, tables of pictures, links to files
    r"<!--.*?-->|<ref[^>]*/>|<(ref|math|gallery|timeline|source)\b.*?</\1>"
    r"|\[\[(?:File|Image|Category|[a-z-]{2,12}):(?:[^\[\]]|\[\[[^\]]*\]\])*\]\]",
    re.DOTALL,
)
SHORTENED = [  # [[page|words]] -> words, [https://… words] -> words, tags and quotes -> nothing
    (r"\[\[(?:[^|\]]*\|)?([^\]]*)\]\]", r"\1"),
    (r"\[https?://\S+ ?([^\]]*)\]", r"\1"),
    (r"<[^>]+>|'{2,}", ""),
]


def read_articles(path: Path) -> list[str]:
    """The articles in a packed MediaWiki dump whose prose has at least 1,000 characters."""
    with bz2.open(path, "rt", encoding="utf-8") as file:
        pages = re.findall(r"<page>.*?</page>", file.read(), re.DOTALL)
    articles = [page for page in pages if "<ns>0</ns>" in page and "<redirect" not in page]
    texts = [plain(re.search(r"<text[^>]*>(.*)</text>", page, re.DOTALL)[1]) for page in articles]
    return [text for text in texts if len(text) >= 1000]


def plain(markup: str) -> str:
    """Running prose: no templates, tables, links, lists, headings, and no line of 40 or fewer."""
    text = DROPPED.sub("", html.unescape(html.unescape(markup)))
    for opening, closing in ("{{", "}}"), ("{|", "|}"):
        inside, kept = 0, []  # they nest
        for part in re.split(f"({re.escape(opening)}|{re.escape(closing)})", text):
            if part == opening:
                inside += 1
            elif part == closing:
                inside = max(inside - 1, 0)
            elif inside == 0:
                kept.append(part)
        text = "".join(kept)
    for pattern, replacement in SHORTENED:
        text = re.sub(pattern, replacement, text)
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if len(line) > 40 and line[0] not in "*#|!{}=:;[")
