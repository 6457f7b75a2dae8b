"""What must hold of a page that stands alone."""

import re
from html.parser import HTMLParser

import book_checks
from chapters.pages.standalone import sites


def assert_asks_for_nothing(page: str) -> None:
    """It loads nothing, and names no address but the project's own."""
    loads = book_checks.Page(page).loads
    assert [each[:5] for each in loads] == ["data:"]  # its icon
    for site in sites():
        page = page.replace(site, "")
    assert not re.search(r"https?://|src=|@import|url\(|fetch\(|XMLHttp", page)
    assert page.count("</script>") == 1 and not re.search(r"\{\{|/\*[A-Z]+\*/", page)


class Head(HTMLParser):
    """A page's title, what its meta elements say by name, and the words without a script."""

    def __init__(self, page: str):
        super().__init__()
        self.said, self.inside = {}, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "meta" and "content" in given:
            self.said[given.get("property") or given["name"]] = given["content"]
        if tag == "link":
            self.said[given["rel"]] = given["href"]
        self.inside = tag if tag in ("title", "noscript") else self.inside

    def handle_endtag(self, tag):
        self.inside = None if tag == self.inside else self.inside

    def handle_data(self, data):
        if self.inside:
            self.said[self.inside] = self.said.get(self.inside, "") + data
