"""What is wrong with a page, read without a browser: nesting, ids, links, headings, alternative texts, references."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "hr", "input"}
WITHIN = {"td": "tr", "th": "tr", "li": "ul", "figcaption": "figure", "summary": "details", "caption": "table"}


class Reader(HTMLParser):
    """Collects what ``problems`` judges."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.problems = [], []
        self.ids, self.links, self.sources, self.headings, self.elements = [], [], [], [], []
        self.text = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if len(attributes) < len(attrs):
            self.problems.append(f"<{tag}> has an attribute twice")
        if tag in WITHIN and (not self.open or self.open[-1] != WITHIN[tag]):
            self.problems.append(f"<{tag}> stands in <{self.open[-1] if self.open else 'nothing'}>")
        self.elements.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a":
            self.links.append(attributes.get("href", ""))
        elif {"src", "href", "srcset", "action", "data"} & set(attributes):
            self.sources += [attributes[name] for name in ("src", "href", "srcset", "action", "data")
                             if name in attributes]  # fmt: skip
        if tag == "img" and not attributes.get("alt", "").strip():
            self.problems.append("a picture has no alternative text")
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.problems.append(f"</{tag}> closes <{self.open[-1] if self.open else 'nothing'}>")
        else:
            self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


def read(page: str) -> Reader:
    """The page, read to its end."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


def problems(page: str) -> list[str]:
    """One sentence for each thing that is wrong."""
    reader = read(page)
    found = list(reader.problems) + [f"<{tag}> is not closed" for tag in reader.open]
    found += [f"two elements have the id {name}" for name in {x for x in reader.ids if reader.ids.count(x) > 1}]
    found += [f"the link {link!r} leads nowhere" for link in reader.links
              if not link.startswith("#") or link[1:] not in reader.ids]  # fmt: skip
    found += [f"{source[:80]!r} is loaded from elsewhere" for source in reader.sources
              if not source.startswith("data:")]  # fmt: skip
    found += ["there is a script" for tag, attributes in reader.elements
              if tag == "script" or any(name.startswith("on") for name in attributes)]  # fmt: skip
    if reader.headings.count(1) != 1:
        found.append(f"there are {reader.headings.count(1)} headings of the first level")
    found += [f"a heading of level {second} follows one of level {first}"
              for first, second in zip(reader.headings, reader.headings[1:], strict=False)
              if second > first + 1]  # fmt: skip
    if "url(" in page or "@import" in page:
        found.append("the style loads something")
    return found
