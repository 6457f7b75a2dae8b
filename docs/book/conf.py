"""Sphinx's settings of the book, which `make book` builds (tools/book.py): no host is asked."""

import html
import re
import sys
from pathlib import Path

import nbformat
from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import book_math  # noqa: E402
import book_pages  # noqa: E402
import publish  # noqa: E402
from glossary import load_glossary  # noqa: E402

project = html_title = "Attention-only transformers"
author = copyright = "the contributors"
extensions = ["myst_nb", "sphinx_copybutton", "sphinx_design"]

nb_execution_mode = "off"  # the committed outputs are the truth
nb_ipywidgets_js = {}  # widgets need a kernel: their pictures stand for them
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
nb_render_markdown_format = "myst"
nb_code_prompt_show, nb_code_prompt_hide = "Show the code", "Hide"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "html_image", "attrs_inline"]
myst_heading_anchors = 3
html_math_renderer = "picture"  # tools/book_math.py
suppress_warnings = [
    "mystnb.mime_priority",
    "mystnb.unknown_mime_type",
    "misc.highlighting_failure",
]

html_theme = "sphinx_book_theme"
html_static_path = [str(Path(__file__).parent / "_static")]
templates_path = [str(Path(__file__).parent / "_templates")]
html_css_files, html_js_files = ["book.css"], ["book.js"]
html_favicon = str(Path(__file__).parent / "_static" / "icon.svg")
html_search_scorer = str(Path(__file__).parent / "scorer.js")
html_baseurl = book_pages.address(ROOT)  # canonical
html_sidebars = {"**": ["brand.html", "search-button-field.html", "sbt-sidebar-nav.html"]}
html_copy_source = html_show_sourcelink = html_use_index = False
html_show_search_summary = False  # a page from the disk may not read its neighbors
html_theme_options = {
    "repository_url": f"https://github.com/{publish.repository_name(ROOT)}",
    "use_repository_button": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],
    "show_navbar_depth": 1,
    "show_toc_level": 2,
}

html_context = {"default_mode": "auto"}  # light or dark as the system is

GLOSSARY = load_glossary()


def link_first_uses(app, doctree: nodes.document, docname: str) -> None:
    """Make the first use of each of the glossary's terms on a page a link with its meaning."""
    if not docname.startswith("notebooks/"):
        return
    left = {name: term for name, term in GLOSSARY.items() if not term.ordinary}
    deep = (nodes.reference, nodes.literal, nodes.title, nodes.literal_block, nodes.math, nodes.raw)
    for text in list(doctree.findall(nodes.Text)):
        parent = text.parent
        while parent is not None and not isinstance(parent, deep):
            parent = parent.parent
        if parent is not None or not left:
            continue
        found = [
            (m.start(), -m.end(), name, m)
            for name, term in left.items()
            if (m := term.pattern.search(text))
        ]
        pieces, end = [], 0
        for start, _, name, match in sorted(found):
            if start < end:
                continue
            where = app.builder.get_relative_uri(docname, "glossary")
            link = nodes.reference(
                "",
                match[0],
                refuri=f"{where}#{book_pages.term_anchor(name)}",
                internal=True,
                reftitle=f"{name}: {GLOSSARY[name].meaning}",
                classes=["term"],
            )
            pieces += [nodes.Text(text[end:start]), link]
            end = match.end()
            del left[name]
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(text[end:])])


def preview(app, pagename: str, template, context: dict, doctree: nodes.document) -> None:
    """What a search engine and a chat show of a page: its title, first statements, and a picture.

    The picture and the page's address must be absolute: they wait for the repository's owner.
    """
    if doctree is None:
        return
    text = html.escape(description(app, pagename), quote=True)
    title = html.escape(re.sub("<[^>]+>", "", context["title"]), quote=True)
    said = {"og:type": "article", "og:site_name": project, "og:title": title}
    said |= {"og:description": text, "twitter:card": "summary_large_image"}
    if html_baseurl:
        said |= {"og:url": f"{html_baseurl}{pagename}.html"}
        said |= {"og:image": f"{html_baseurl}picture.png", "og:image:alt": "an induction head"}
    lines = [f'<meta name="description" content="{text}">']
    lines += [f'<meta property="{name}" content="{value}">' for name, value in said.items()]
    context["metatags"] += "\n".join(lines)


def description(app, pagename: str) -> str:
    """A page in a sentence or two, from its source."""
    source = Path(app.env.doc2path(pagename))
    if source.suffix == ".ipynb":
        return book_pages.description(nbformat.read(source, as_version=4).cells)
    text = re.sub(r"(?m)^(?::::.*|\(\S+\)=)$", "", source.read_text("utf-8"))  # MyST's own lines
    return book_pages.description([nbformat.v4.new_markdown_cell(text)])


def setup(app) -> None:
    """What Sphinx calls."""
    app.connect("doctree-resolved", link_first_uses)
    app.connect("html-page-context", preview)
    app.add_html_math_renderer(
        "picture", (book_math.inline_math, None), (book_math.display_math, None)
    )
