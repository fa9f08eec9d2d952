"""Tables of results: ours beside the published value, and how far apart they are in intervals."""

from pathlib import Path

from dfml.bench.results import Line, ResultTable
from dfml.evaluation.records import Score


def markdown(table: ResultTable) -> str:
    """One table as Markdown."""
    return f"### {table.name}: {table.title} ({table.scale}, {table.dataset})\n\n{table_body(table)}"


def table_body(table: ResultTable) -> str:
    """The same without a heading."""
    titles, rows = cells_of(table)
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def cells_of(table: ResultTable) -> tuple[list[str], list[list[str]]]:
    """Titles and rows, as text."""
    if _is_about_apis(table):
        return _accuracies(table)
    if table.name == "real":
        return _real(table)
    if any(line.measures for line in table.lines):
        return _measures(table)
    titles = ["row", "what", *filter(None, [table.aside]), "queries an API", "head"]
    for shot in table.shots or [1, 5]:
        titles += [f"{shot}-shot"]
        if any(shot in line.published for line in table.lines):
            titles += ["published", "apart"]
    titles += ["seeds"]
    rows = []
    for line in table.lines:
        for head in line.heads or ["-"]:
            queries = "" if line.queries is None else f"{line.queries:,.0f}"
            row = [f"`{line.row}`", line.label, *_aside(table, line), queries, head]
            for shot in table.shots or [1, 5]:
                ours = line.value(head, shot)
                row.append(_text(ours))
                if any(shot in one.published for one in table.lines):
                    row += _beside(ours, line.beside(head, shot))
            rows.append([*row, f"{len(line.finished)} of {line.expected}"])
    return titles, rows


def _is_about_apis(table: ResultTable) -> bool:
    """fig:apiacc and fig:apiacc_all: no row learns anything."""
    return table.name.startswith("fig:apiacc")


def _aside(table: ResultTable, line: Line) -> list[str]:
    if table.aside is None:
        return []
    value = line.aside(table.aside)
    return ["-" if value is None else f"{value:,.0f}"]


def _text(score: Score | None) -> str:
    """With two decimals, as the paper prints."""
    return "-" if score is None else f"{score.mean:.2f} ± {score.ci95:.2f}"


def _beside(ours: Score | None, theirs: Score | None) -> list[str]:
    """The published value, and the difference in intervals."""
    if theirs is None:
        return ["", ""]
    return [_text(theirs), "" if ours is None else f"{ours.apart(theirs):+.1f}"]


def _accuracies(table: ResultTable) -> tuple[list[str], list[list[str]]]:
    rows = []
    for line in table.lines:
        values = [100 * value for value in _accuracies_of(line)]
        if values:
            numbers = [sum(values) / len(values), min(values), max(values)]
            rows.append([f"`{line.row}`", line.label, str(len(values)), *(f"{n:.1f} %" for n in numbers)])
    return ["row", "what", "APIs", "mean accuracy", "least", "most"], rows


def _accuracies_of(line: Line) -> list[float]:
    """What the APIs of a row report, as fractions."""
    return [value for cell in line.finished for value in cell["measures"]["accuracies"] if value is not None]


def _measures(table: ResultTable) -> tuple[list[str], list[list[str]]]:
    names = list(dict.fromkeys(name for line in table.lines for name in line.measures))
    rows = []
    for line in table.lines:
        means = [f"{line.measures[name]:.3f}" if name in line.measures else "-" for name in names]
        rows.append([f"`{line.row}`", line.label, *means, f"{len(line.finished)} of {line.expected}"])
    return ["row", "what", *names, "seeds"], rows


def _real(table: ResultTable) -> tuple[list[str], list[list[str]]]:
    """What asking costs beside what it brings, and how many of the data set's classes an API has under their names."""
    shots = table.shots or [1, 5]
    rows = []
    for line in table.lines:
        start = [f"`{line.row}`", line.label]
        if not line.finished:
            rows.append([*start, "", "-", *("-" for _ in shots), ""])
        for cell in line.finished:
            for head in dict.fromkeys(result["head"] for result in cell["results"]):
                found = {result["shot"]: result for result in cell["results"] if result["head"] == head}
                asked = dict.fromkeys(f"{result['queries_per_prediction']:.3g}" for result in found.values())
                values = [
                    Score(found[shot]["mean"], found[shot]["ci95"]).text if shot in found else "-" for shot in shots
                ]
                rows.append([*start, " / ".join(asked), head, *values, cell["knows"]])
    columns = [f"{shot}-shot" for shot in shots]
    return ["row", "what", "queries a prediction", "head", *columns, "classes known by name"], rows


def write_latex(table: ResultTable, folder: Path) -> Path:
    """One table as a LaTeX `tabular`, to be put into a document with \\input."""
    titles, rows = cells_of(table)
    body = [" & ".join(map(_latex, row)) + r" \\" for row in [titles, *rows]]
    body.insert(1, r"\midrule")
    text = "\n".join(
        [
            f"% {table.name}: {table.title} ({table.scale}, {table.dataset}); needs the package booktabs",
            r"\begin{tabular}{" + "l" * len(titles) + "}",
            r"\toprule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )
    path = folder / f"{table.stem}.tex"
    path.write_text(text + "\n")
    return path


def _latex(text: str) -> str:
    for plain, escaped in (("\\", ""), ("`", ""), ("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$"), ("&", r"\&")):
        text = text.replace(plain, escaped)
    return text


def write_figures(table: ResultTable, folder: Path) -> list[Path]:
    """A figure as PNG and SVG, for tables that have an axis or a histogram; for fig:vix the sheets of images."""
    from dfml.bench.curves import curves
    from dfml.zoo.histogram import accuracy_histogram

    if table.name == "fig:vix":
        return _sheets(table, folder)
    if table.axis is not None:
        figure = curves(table)
    elif _is_about_apis(table) and any(line.finished for line in table.lines):
        figure = accuracy_histogram({line.label: _accuracies_of(line) for line in table.lines if line.finished})
    else:
        return []
    if figure is None:
        return []
    paths = [folder / f"{table.stem}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _sheets(table: ResultTable, folder: Path) -> list[Path]:
    """Images that were learned from, above the nearest real ones; one sheet a cell."""
    made = []
    for line in table.lines:
        for cell in line.finished:
            sheet = table.folder / "images" / f"{cell['cell']}.png"
            if sheet.exists():
                made.append(folder / f"{table.stem}-{line.row}-{cell['seed']}.png")
                made[-1].write_bytes(sheet.read_bytes())
    return made
