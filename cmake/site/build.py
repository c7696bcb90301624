#!/usr/bin/env python3
"""Builds the documentation as a site that a browser opens from disk.

    python3 cmake/site/build.py [--output build/site] [--browser build/web/gpuplan.html]

Reads README.md, docs/ and the comments of the public headers; needs mkdocs-material (PyPI),
doxygen and graphviz (Debian). Fails on a dead link, on a page that the menu lacks, and on a public function
without a comment. What pages of docs/ link to outside of it becomes a page too.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as xml

import yaml

root = pathlib.Path(__file__).resolve().parents[2]
headers = root / "include" / "gpuplan"
languages = {".hpp": "cpp", ".cpp": "cpp", ".cuh": "cpp", ".cu": "cpp", ".inc": "cpp", ".py": "python",
             ".json": "json", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml", ".sh": "sh"}
link = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)")


def drawn(found):
    """A flowchart of Mermaid's language as a picture, since its own program is fetched from the network."""
    nodes = re.findall(r'^ *(\w+)\["<b>(.*?)</b><br>(.*?)"\]$', found.group(1), flags=re.M)
    edges = re.findall(r"^ *(\w+) --> (\w+)$", found.group(1), flags=re.M)
    graph = ["digraph { rankdir=LR; bgcolor=none; node [shape=box style=rounded fillcolor=none fontname=sans fontsize=11]"]
    for name, title, text in nodes:
        lines = "<BR/>".join(textwrap.wrap(text, 30))
        graph.append(f"{name} [label=<<B>{title}</B><BR/>{lines}>]")
    graph += [f"{used_by} -> {used}" for used_by, used in edges]
    svg = subprocess.run(["dot", "-Tsvg"], input="\n".join(graph + ["}"]), text=True, check=True,
                         stdout=subprocess.PIPE).stdout
    return '<div class="drawn">' + re.sub(r"<!--.*?-->|\n\s*", "", svg[svg.index("<svg"):], flags=re.S) + "</div>"


class site:
    """The pages that are written, and which of the repository's files each came from."""

    def __init__(self, folder):
        self.folder = folder
        self.page_of = {}  # a file or folder of the repository -> its page, relative to `folder`

    def write(self, page, text):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def add(self, source):
        """The page of a file or folder of the repository, which is made where there is none yet."""
        if source in self.page_of:
            return self.page_of[source]
        inside = source.relative_to(root)
        docs = root / "docs"
        if source == root / "README.md":
            page = "index.md"
        elif source.is_relative_to(docs):
            page = str(source.relative_to(docs))
        elif source.suffix == ".md":
            page = f"files/{inside}"
        elif source.is_dir():
            page = f"files/{inside}/index.md"
        else:
            page = f"files/{inside}.md"
        self.page_of[source] = page
        if source.is_dir():
            entries = sorted(entry.name + "/" * entry.is_dir() for entry in source.iterdir())
            self.write(page, f"# {inside}\n\n" + "".join(f"- `{entry}`\n" for entry in entries))
        elif source.suffix == ".md":
            self.write(page, self.with_links(source, page))
        elif source.is_relative_to(docs):
            (self.folder / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, self.folder / page)
        else:
            language = languages.get(source.suffix, "text")
            self.write(page, f"# {inside}\n\n````{language}\n{source.read_text(encoding='utf-8')}````\n")
        return page

    def with_links(self, source, page):
        """The text of a Markdown file, with links to the pages of what it links to."""
        def relink(found):
            words, target = found.groups()
            if re.match(r"[a-z]+:|#", target):
                return found.group(0)
            path, _, anchor = target.partition("#")
            linked = (source.parent / path).resolve()
            if not linked.exists():
                # In code, `[](auto x)` looks like a link; in prose it is a dead one, which mkdocs names.
                return found.group(0)
            there = os.path.relpath(self.add(linked), pathlib.Path(page).parent)
            return f"[{words}]({there}{'#' + anchor if anchor else ''})"

        text = re.sub(r"^```mermaid\n(.*?)^```$", drawn, source.read_text(encoding="utf-8"), flags=re.M | re.S)
        parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
        for i in range(0, len(parts), 2):
            parts[i] = link.sub(relink, parts[i])
            parts[i] = re.sub(r"(!\[[^\]]*\]\()docs/", r"\1", parts[i])
        return "".join(parts)


@dataclasses.dataclass
class entry:
    """What a header offers under one name, at one line."""
    name: str
    line: int
    comment: str
    declaration: str


def prose(node):
    """A comment, as Markdown."""
    if node is None:
        return ""
    children = "".join(prose(child) + (child.tail or "") for child in node)
    text = (node.text or "") + children
    if node.tag == "computeroutput":
        return f"`{text}`"
    if node.tag == "para":
        return text.strip() + "\n\n"
    if node.tag == "listitem":
        return "- " + text.strip().replace("\n\n", "\n") + "\n"
    if node.tag == "ulink":
        return f"[{text}]({node.get('url')})"
    if node.tag in ("verbatim", "preformatted"):
        return f"\n```text\n{text}\n```\n"
    return text


def declaration_at(lines, first, last):
    """The declaration that begins at or above line `first`, without a function's body."""
    start = first - 1
    while start > 0 and re.match(r"\s*(template|requires|\[\[)", lines[start - 1]):
        start -= 1
    indent = len(lines[start]) - len(lines[start].lstrip())
    if last:  # a struct or an enum, whole
        shown = lines[start:last]
        if len(shown) > 70:
            shown = [line for line in shown[:70]] + [" " * indent + "  …"]
        return "\n".join(line[indent:] for line in shown)
    shown = []
    depth = 0
    for line in lines[start:start + 30]:
        code = line.split("//")[0]
        for at, character in enumerate(code):
            depth += (character in "([") - (character in ")]")
            if depth == 0 and character in "{;" and not (character == "{" and code[at + 1:at + 2] == "}"):
                body = code[:at].rstrip() + ";"
                return "\n".join(part[indent:] for part in shown + [body])
        shown.append(line)
    return "\n".join(part[indent:] for part in shown)


def read_reference(folder):
    """Header, relative to include/ -> its entries in the order of its lines."""
    doxyfile = (root / "cmake/site/Doxyfile").read_text(encoding="utf-8")
    configuration = (f"{doxyfile}INPUT = {headers}\nOUTPUT_DIRECTORY = {folder}\n"
                     f"STRIP_FROM_PATH = {root / 'include'}\nINCLUDE_PATH = {root / 'include'}\n")
    subprocess.run(["doxygen", "-"], input=configuration, text=True, check=True)
    found, without_comment, lines_of = {}, [], {}

    def take(node, name, last):
        place = node.find("location")
        header, line = place.get("file"), int(place.get("line"))
        if header.startswith("gpuplan/detail/"):
            return
        if header not in lines_of:
            lines_of[header] = (root / "include" / header).read_text(encoding="utf-8").splitlines()
        comment = (prose(node.find("briefdescription")) + prose(node.find("detaileddescription"))).strip()
        if not comment:
            if node.get("kind") == "function" and re.match(r"[a-z]", name) and not name.startswith("operator"):
                without_comment.append((header, line, name))
            return
        found.setdefault(header, []).append(
            entry(name, line, comment, declaration_at(lines_of[header], line, last)))

    for path in sorted((folder / "xml").glob("*.xml")):
        kind = path.name.split("gpuplan")[0]
        if kind not in ("namespace", "struct", "class", "concept"):
            continue
        for compound in xml.parse(path).getroot().iter("compounddef"):
            full = compound.find("compoundname").text
            if kind == "namespace":
                for member in compound.iter("memberdef"):
                    place = member.find("location")
                    last = int(place.get("bodyend", 0)) if member.get("kind") == "enum" else 0
                    take(member, member.find("name").text, last)
            elif full.count("::") <= 2 and "<" not in full:
                take(compound, full.split("::")[-1], int(compound.find("location").get("bodyend", 0)))
    for entries in found.values():
        entries.sort(key=lambda one: one.line)
    return found, without_comment


def first_comment(header):
    """What a header says of itself above its includes."""
    above = (root / "include" / header).read_text(encoding="utf-8").split("#include")[0]
    return " ".join(re.findall(r"^// ?(.*)$", above, flags=re.M))


def page_of_headers(title, names, found):
    text = [f"# {title}\n"]
    for header in names:
        text.append(f"## `{header}`\n\n{first_comment(header)}\n\n```cpp\n#include <{header}>\n```\n")
        for one in found.get(header, []):
            text.append(f"### {one.name.replace('<', '&lt;')}\n\n{one.comment}\n\n```cpp\n{one.declaration}\n```\n")
    return "\n".join(text)


def write_reference(pages, folder):
    """A page for each question of README.md's table, and one of the other headers of each room. Returns
    the menu, and the public functions that have no comment."""
    found, without_comment = read_reference(folder)
    readme = (root / "README.md").read_text(encoding="utf-8")
    table = readme.split("## What it answers")[1].split("\n\n")[1]
    menu, shown = [], set()
    for row in table.splitlines()[2:]:
        question, cell, _ = (part.strip() for part in row.strip("|").split("|", 2))
        names = [f"gpuplan/{name}" for name in re.findall(r"`([^`]+)`", cell)]
        missing = [name for name in names if not (root / "include" / name).exists()]
        if missing:
            sys.exit(f"README.md, 'What it answers': there is no {', '.join(missing)}")
        page = "reference/" + re.sub(r"\W+", "_", re.sub(r"`", "", question).lower()).strip("_")[:60] + ".md"
        pages.write(page, page_of_headers(question.replace("`", ""), names, found))
        menu.append({question.replace("`", ""): page})
        shown.update(names)
    rooms = {}
    for header in sorted(found):
        if header not in shown and "Private." not in first_comment(header):
            parts = header.split("/")
            rooms.setdefault(parts[1] if len(parts) > 2 else "descriptions", []).append(header)
    for room, names in rooms.items():
        page = f"reference/room_{room}.md"
        pages.write(page, page_of_headers(f"Other headers: {room}", names, found))
        menu.append({f"Other headers: {room}": page})
    # A comment may stand for all functions of a name; what the table does not name is read by few.
    return menu, [f"{header}:{line}: {name}" for header, line, name in without_comment
                  if header in shown and all(one.name != name for one in found.get(header, []))]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--output", type=pathlib.Path, default=root / "build" / "site",
                         help="the folder that is written (build/site)")
    options.add_argument("--browser", type=pathlib.Path,
                         help="the page that examples/web/make makes, for docs/browser.md to have")
    options = options.parse_args()
    output = options.output.resolve()
    source = output / "source"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    pages = site(source)
    pages.add(root / "README.md")
    for path in sorted((root / "docs").rglob("*")):
        if path.is_file():
            pages.add(path)
    shutil.copyfile(root / "cmake/site/site.css", source / "site.css")
    if options.browser:
        shutil.copyfile(options.browser, source / "gpuplan.html")
        page = source / "browser.md"
        title, rest = page.read_text(encoding="utf-8").split("\n", 1)
        pages.write("browser.md", f"{title}\n\n**[Open it](gpuplan.html)**\n{rest}")
    reference, without_comment = write_reference(pages, output / "doxygen")
    if without_comment:
        sys.exit("public functions without a comment:\n" + "\n".join(without_comment))

    settings = (root / "cmake/site/mkdocs.yml").read_text(encoding="utf-8")
    menu = yaml.safe_load(settings.split("\nnav:\n")[1])
    for section in menu:
        if "Reference" in section:
            section["Reference"] = reference
        if "Five guides" in section:
            section["Five guides"] = sorted(page for page in pages.page_of.values() if page.startswith("guides/"))
    files = sorted(page for page in pages.page_of.values() if page.startswith("files/"))
    menu.append({"Files": files})
    (output / "mkdocs.yml").write_text(
        settings.split("\nnav:\n")[0] + f"\ndocs_dir: {source}\nsite_dir: {output / 'html'}\n"
        "use_directory_urls: false\n" + yaml.safe_dump({"nav": menu}, sort_keys=False, allow_unicode=True),
        encoding="utf-8")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean",
                    "--config-file", output / "mkdocs.yml"], check=True,
                   env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    print(f"{output / 'html' / 'index.html'}: {len(list((output / 'html').rglob('*.html')))} pages")


if __name__ == "__main__":
    main()
