"""Makes one file of the page: pack.py WASM PAGE-FOLDER OUT. It needs no server, so it opens from a disk."""

import base64
import gzip
import html
import pathlib
import sys


def main() -> None:
    wasm, folder, out = map(pathlib.Path, sys.argv[1:])
    page = (folder / "index.html").read_text()
    packed = base64.b64encode(gzip.compress(wasm.read_bytes(), 9, mtime=0)).decode()
    examples = folder.parent.parent
    notices = [examples.parent / "LICENSE", examples / "THIRD_PARTY.txt"]
    for name, text in {
        "notices": html.escape("\n\n".join(file.read_text() for file in notices)),
        "styles": (folder / "page.css").read_text(),
        "wasi": (folder / "wasi.js").read_text(),
        "page": (folder / "page.js").read_text(),
        "program": packed,
    }.items():
        page = page.replace(f"@{name}@", text)
    out.write_text(page)


main()
