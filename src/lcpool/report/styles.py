"""How tables are written: as Markdown, as LaTeX."""

from __future__ import annotations

import re

from lcpool.report.words import figure

# Characters that LaTeX gives a meaning.
LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"{\char34}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    # After the end of a row, [ and * belong to it; hyphens and quotes would join.
    **{character: f"{{{character}}}" for character in "[]*-`'"},
}  # fmt: skip
# What fits a line of the class article: a digit is 4.25 pt wide in \footnotesize.
LATEX_WIDTH = 345 / 4.25
LATEX_GAP = 1.5  # between two columns
# Of characters that are narrower or wider than a digit.
WIDTHS = {**dict.fromkeys("fijlrt.,:;'|!()[] ", 0.65), **dict.fromkeys("mw±", 1.7)}


class Markdown:
    """GitHub's Markdown."""

    agree, differ = " ✓", " ✗"
    marks = "with ✓ where the two agree and ✗ where they do not"
    sizes = True  # Tables of accuracies end with the sizes of the test sets.

    def escape(self, name: str) -> str:
        """A name as it is, whatever is in it."""
        plain = name.replace("&", "&amp;").replace("<", "&lt;")
        return re.sub(r"([\\`*_{}\[\]()#+!|~$:>-])", r"\\\1", " ".join(plain.split()))

    def figure(self, mean: float, std: float) -> str:
        """Mean ± std."""
        return figure(mean, std)

    def bold(self, text: str) -> str:
        """Highlighted."""
        return f"**{text}**"

    def above(self, text: str, small: str) -> str:
        """Two lines in one cell, the second small."""
        return f"{text}<br><sub>{small}</sub>"

    def lines(self, *texts: str) -> str:
        """A name of several parts."""
        return ", ".join(texts)

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> str:
        """A heading and a table."""
        return f"## {title}\n\n{self.grid(header, rows)}"

    def grid(self, header: list[str], rows: list[list[str]]) -> str:
        """The table alone."""
        lines = [header, ["---"] * len(header), *rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def note(self, text: str) -> str:
        """A paragraph."""
        return text

    def sentence(self, text: str) -> str:
        """A paragraph of plain text."""
        return self.escape(text)


class Latex:
    """A floating ``table``; where columns are many, several."""

    agree, differ = "", r"$^\dagger$"
    marks = "with a dagger where the two do not agree"
    sizes = False

    def escape(self, name: str) -> str:
        """A name as it is; what pdfLaTeX has no character for, by its number (U+6570)."""
        return "".join(_character(character) for character in " ".join(name.split()))

    def figure(self, mean: float, std: float) -> str:
        """Mean ± std, the latter small."""
        return re.sub(r" ± (.*)", r"{\\tiny$\\pm$\1}", figure(mean, std)).replace("–", "--")

    def bold(self, text: str) -> str:
        """Highlighted."""
        return rf"\textbf{{{text}}}"

    def above(self, text: str, small: str) -> str:
        """Two lines in one cell, the second small."""
        return rf"\shortstack{{{text}\\{{\tiny {small}}}}}"

    def lines(self, *texts: str) -> str:
        """A name of several parts, one a line."""
        return r"\shortstack[l]{" + r"\\".join(texts) + "}"

    def table(self, title: str, header: list[str], rows: list[list[str]]) -> str:
        """Floating tables with captions, each with as many columns as fit."""
        columns = [[head, *(row[i] for row in rows)] for i, head in enumerate(header)]
        parts = _that_fit(columns)
        return "\n\n".join(_float(title, columns[:1] + part) for part in parts)

    def note(self, text: str) -> str:
        """A comment."""
        return f"% {text}"

    def sentence(self, text: str) -> str:
        """A comment of plain text."""
        return f"% {' '.join(text.split())}"


def _character(character: str) -> str:
    if character.isascii() and character.isprintable():
        return LATEX.get(character, character)
    # Of others, LaTeX knows the letters of Western Europe without a package, but for four.
    known = "À" <= character <= "ÿ" and character not in "ÐÞðþ×÷"
    return character if known else f"U+{ord(character):04X}"


def _that_fit(columns: list[list[str]]) -> list[list[list[str]]]:
    """The columns but for the first, in parts that are not too wide beside it."""
    names, *rest = columns
    parts: list[list[list[str]]] = [[]]
    for column in rest:
        if parts[-1] and sum(map(_width, [names, *parts[-1], column])) > LATEX_WIDTH:
            parts.append([])
        parts[-1].append(column)
    return parts


def _width(column: list[str]) -> float:
    """About, in digits."""
    return LATEX_GAP + max(_line(line) for text in column for line in text.split(r"\\"))


def _line(text: str) -> float:
    seen = re.sub(r"\\text[a-z]+{}|\\char34|\\pm", "±", text)  # A character each.
    normal, *tiny = seen.split(r"\tiny")
    return sum(
        (1.4 if character.isupper() else WIDTHS.get(character, 1.0)) * size
        for part, size in ((normal, 1.0), ("".join(tiny), 0.8))
        for character in re.sub(r"\\[a-z]+(\[l\])?|[{}$\\]", "", part)
    )


def _float(title: str, columns: list[list[str]]) -> str:
    header, *rows = zip(*columns, strict=True)
    body = "\n".join(" & ".join(row) + r" \\" for row in rows)
    return (
        f"\\begin{{table}}[htbp]\n\\caption{{{title}}}\n"
        "\\footnotesize\n\\setlength{\\tabcolsep}{3pt}\n\\centering\n"
        f"\\begin{{tabular}}{{{'l' + 'c' * (len(columns) - 1)}}}\n\\hline\n"
        f"{' & '.join(header)} \\\\ \\hline\n{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}"
    )
