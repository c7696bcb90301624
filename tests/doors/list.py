"""The public functions of the headers: `header<tab>name<tab>what it returns<tab>what it takes`."""

import pathlib
import re

# Where nothing stands that estimates or decides: numbers as they are, and what has tests of its own.
LEFT_OUT = ("catalog/", "detail/", "io/", "measure/", "cuda/")


def without_comments(text):
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', re.sub(r"//[^\n]*|^#[^\n]*", "", text, flags=re.M))
    return re.sub(r"'(?:[^'\\]|\\.)'", "0", text)


def in_namespaces(text):
    """Pairs: a statement or the head of a block, and the namespaces it stands in; of no class or body."""
    inside, start, found = [], 0, []
    for brace in re.finditer(r"[{};]", text):
        if None in inside:  # within a class or a body
            if brace[0] == "{":
                inside.append(None)
            elif brace[0] == "}":
                inside.pop()
            start = brace.end()
            continue
        head = " ".join(text[start : brace.start()].split())
        start = brace.end()
        if brace[0] == "{":
            namespace = re.fullmatch(r"namespace ([\w:]*)", head)
            # a default argument's braces are no body
            if not namespace and head.count("(") > head.count(")"):
                closing = text.index("}", brace.end())
                text = text[: brace.start()] + " " * (closing + 1 - brace.start()) + text[closing + 1 :]
                return in_namespaces(text)
            if not namespace:
                found.append((head, "::".join(inside)))
            inside.append(namespace[1] if namespace else None)
        elif brace[0] == "}":
            inside.pop()
        else:
            found.append((head, "::".join(inside)))
    return found


def public_functions(include):
    """Of the namespace gpuplan itself, in order."""
    found = []
    for path in sorted(pathlib.Path(include, "gpuplan").rglob("*.hpp")):
        header = str(path.relative_to(pathlib.Path(include, "gpuplan")))
        if header.startswith(LEFT_OUT):
            continue
        for head, namespace in in_namespaces(without_comments(path.read_text())):
            function = re.search(r"\[\[nodiscard\]\] (?:constexpr |inline )*(.*?)\b(\w+) ?\((.*)\)", head)
            if namespace == "gpuplan" and function and function[2] != "operator":
                found.append((header, function[2], function[1].strip(), function[3].strip()))
    return found


if __name__ == "__main__":
    for function in public_functions(pathlib.Path(__file__).parents[2] / "include"):
        print("\t".join(function))
