"""Answers in a notebook: light or dark as the notebook is."""

from __future__ import annotations

import re

_LIGHT = (
    "--gp-paper:#ffffff;--gp-ink:#1a1a1a;--gp-line:#d0d4da;--gp-band:#f4f6f8;"
    "--gp-good:#00684a;--gp-fair:#7a5200;--gp-bad:#b3261e"
)
_DARK = (
    "--gp-paper:#15171c;--gp-ink:#ededed;--gp-line:#383c44;--gp-band:#1d2027;"
    "--gp-good:#5fd3a8;--gp-fair:#f0b32e;--gp-bad:#ff9d94"
)
# JupyterLab and VS Code say what their theme is; where nobody does, the reader's system counts.
_SAYS_DARK = ('[data-jp-theme-light="false"] ', ".vscode-dark ", '[data-theme="dark"] ')
_IS_SYSTEMS = (
    ':root:not(:has([data-jp-theme-light="true"],.vscode-light)):not([data-theme="light"]) '
)
_STYLES = (
    ".gpuplan{background:var(--gp-paper);color:var(--gp-ink);padding:.4rem .6rem;"
    "overflow-x:auto;font-size:.9rem}"
    ".gpuplan p.caption{font-weight:600;margin:.6rem 0 .2rem}"
    ".gpuplan table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:0;"
    "color:inherit;background:none}"
    ".gpuplan th,.gpuplan td{padding:.2rem .7rem .2rem 0;border:0;"
    "border-bottom:1px solid var(--gp-line);text-align:left;vertical-align:top;"
    "color:inherit;background:none}"
    ".gpuplan tbody th{font-weight:400}"
    ".gpuplan .number{text-align:right;white-space:nowrap}.gpuplan .short{white-space:nowrap}"
    ".gpuplan tbody tr:nth-child(even){background:var(--gp-band)}"
    ".gpuplan .good{color:var(--gp-good)}.gpuplan .fair{color:var(--gp-fair)}"
    ".gpuplan .bad,.gpuplan .alarm{color:var(--gp-bad)}"
    ".gpuplan svg{display:block;max-width:100%;height:auto}.gpuplan summary{cursor:pointer}"
)
_NIGHT = re.compile(r"@media screen and \(prefers-color-scheme:dark\)\{((?:[^{}]*\{[^{}]*\})*)\}")


def _where(prefix: str, rules: str) -> str:
    return re.sub(r"([^{}]+)(\{[^{}]*\})", lambda one: f"{prefix}{one[1]}{one[2]}", rules)


def fragment(tables: str, pictures: dict[str, str]) -> str:
    """The tables, which are HTML, and below them pictures, SVG by their headings."""
    at_night = ""
    shown = ""
    for heading, picture in pictures.items():
        found = _NIGHT.search(picture)
        if found and not at_night:  # the same in all
            at_night = found[1]
        picture = picture[picture.find("<svg") :]
        opened = "" if shown else ' open=""'
        shown += f"<details{opened}><summary>{heading}</summary>"
        shown += _NIGHT.sub("", picture) + "</details>\n"
    dark = f".gpuplan{{{_DARK}}}" + re.sub(r"(^|\})\.gp-", r"\1.gpuplan .gp-", at_night)
    styles = f".gpuplan{{{_LIGHT}}}" + _STYLES
    styles += "@media screen and (prefers-color-scheme:dark){" + _where(_IS_SYSTEMS, dark) + "}"
    styles += "".join(_where(says, dark) for says in _SAYS_DARK)
    return f'<div class="gpuplan"><style>{styles}</style>\n{tables}{shown}</div>'
