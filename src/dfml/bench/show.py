"""Tables of results: ours beside the published value, and how far apart they are in intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dfml.bench.cells import Results, read_json
from dfml.errors import ConfigError
from dfml.report.accuracy import Score, mean_score

HEADS = ("finetune", "prototype", "prototype+finetune", "answers", "direct", "class-means")


@dataclass(frozen=True)
class Line:
    """One row of a table with what has come in for it."""

    row: str
    label: str
    series: str
    x: float | None
    finished: Sequence[dict[str, Any]]
    expected: int
    published: Mapping[int, Score]

    @property
    def queries(self) -> float | None:
        """Queries an API, mean over seeds."""
        found = [cell["queries_per_api"] for cell in self.finished]
        return sum(found) / len(found) if found else None

    @property
    def heads(self) -> list[str]:
        present = {result["head"] for cell in self.finished for result in cell["results"]}
        return sorted(present, key=lambda head: HEADS.index(head) if head in HEADS else len(HEADS))

    @property
    def shots(self) -> list[int]:
        return sorted({result["shot"] for cell in self.finished for result in cell["results"]})

    def value(self, head: str, shot: int) -> Score | None:
        """Over the seeds that are there."""
        found = [r for cell in self.finished for r in cell["results"] if (r["head"], r["shot"]) == (head, shot)]
        if not found:
            return None
        return mean_score([Score(result["mean"], result["ci95"]) for result in found])


@dataclass(frozen=True)
class Loaded:
    """A table file and the cells it names."""

    name: str
    title: str
    scale: str
    dataset: str
    axis: Mapping[str, Any] | None
    lines: Sequence[Line]
    folder: Path

    @property
    def stem(self) -> str:
        return f"{self.scale}-{self.dataset}-{self.name.replace(':', '-')}"

    @property
    def shots(self) -> list[int]:
        return sorted({shot for line in self.lines for shot in line.shots})


def load_table(content: Mapping[str, Any], folder: Path) -> Loaded:
    """A table with those of its cells that are finished."""
    results = Results(folder)
    lines = [
        Line(
            row["row"],
            row["label"],
            row["series"],
            row["x"],
            [results.load(stem) for stem in row["cells"] if results.finished(stem)],
            len(row["cells"]),
            {entry["shot"]: Score(entry["mean"], entry["ci95"]) for entry in row["published"]},
        )
        for row in content["rows"]
    ]
    return Loaded(
        content["table"], content["title"], content["scale"], content["dataset"], content["axis"], lines, folder
    )


def all_tables(folder: Path) -> list[Loaded]:
    """Every table that was begun in a folder of results."""
    files = sorted((folder / "tables").glob("*.json"))
    if not files:
        raise ConfigError(f"{folder} holds no tables; run `dfml bench tab:ss --out {folder}` first")
    return [load_table(read_json(file), folder) for file in files]


def markdown(table: Loaded) -> str:
    """One table as Markdown."""
    return f"### {table.name}: {table.title} ({table.scale}, {table.dataset})\n\n{table_body(table)}"


def table_body(table: Loaded) -> str:
    """The same without a heading."""
    titles, rows = cells_of(table)
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def cells_of(table: Loaded) -> tuple[list[str], list[list[str]]]:
    """Titles and rows, as text."""
    if any(cell["measures"] for line in table.lines for cell in line.finished):
        return _measures(table)
    titles = ["row", "what", "queries an API", "head"]
    for shot in table.shots or [1, 5]:
        titles += [f"{shot}-shot"]
        if any(shot in line.published for line in table.lines):
            titles += ["published", "apart"]
    titles += ["seeds"]
    rows = []
    for line in table.lines:
        for head in line.heads or ["-"]:
            queries = "" if line.queries is None else f"{line.queries:,.0f}"
            row = [f"`{line.row}`", line.label, queries, head]
            for shot in table.shots or [1, 5]:
                ours = line.value(head, shot)
                row.append(_text(ours))
                if f"{shot}-shot" in titles and any(shot in one.published for one in table.lines):
                    row += _beside(ours, line.published.get(shot), head)
            rows.append([*row, f"{len(line.finished)} of {line.expected}"])
    return titles, rows


def _text(score: Score | None) -> str:
    """With two decimals, as the paper prints."""
    return "-" if score is None else f"{score.mean:.2f} ± {score.ci95:.2f}"


def _beside(ours: Score | None, theirs: Score | None, head: str) -> list[str]:
    """The published value, and the difference in intervals; the paper has no other head than fine-tuning."""
    if theirs is None or head in ("prototype", "answers"):
        return ["", ""]
    return [_text(theirs), "" if ours is None else f"{ours.apart(theirs):+.1f}"]


def _measures(table: Loaded) -> tuple[list[str], list[list[str]]]:
    names = [
        name
        for name in dict.fromkeys(n for line in table.lines for cell in line.finished for n in cell["measures"])
        if name != "accuracies"
    ]
    if not names:  # fig:apiacc
        titles = ["row", "what", "APIs", "mean accuracy", "least", "most"]
        rows = []
        for line in table.lines:
            for cell in line.finished:
                values = [100 * value for value in cell["measures"]["accuracies"] if value is not None]
                numbers = [sum(values) / len(values), min(values), max(values)]
                rows.append([f"`{line.row}`", line.label, str(len(values)), *(f"{n:.1f} %" for n in numbers)])
        return titles, rows
    rows = []
    for line in table.lines:
        seeds = max(1, len(line.finished))
        sums = [sum(cell["measures"][name] for cell in line.finished) for name in names]
        means = [f"{total / seeds:.3f}" if line.finished else "-" for total in sums]
        rows.append([f"`{line.row}`", line.label, *means, f"{len(line.finished)} of {line.expected}"])
    return ["row", "what", *names, "seeds"], rows


def write_latex(table: Loaded, folder: Path) -> Path:
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


def write_figures(table: Loaded, folder: Path) -> list[Path]:
    """A figure as PNG and SVG, for tables that have an axis or a histogram; for fig:vix the sheets of images."""
    from dfml.report.curves import curves, histogram

    if table.name == "fig:vix":
        return _sheets(table, folder)
    if table.axis is not None:
        figure = curves(table)
    elif table.name == "fig:apiacc":
        figure = histogram(table)
    else:
        return []
    if figure is None:
        return []
    paths = [folder / f"{table.stem}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths


def _sheets(table: Loaded, folder: Path) -> list[Path]:
    """Images that were learned from, above the nearest real ones; one sheet a cell."""
    made = []
    for line in table.lines:
        for cell in line.finished:
            sheet = table.folder / "images" / f"{cell['cell']}.png"
            if sheet.exists():
                made.append(folder / f"{table.stem}-{line.row}-{cell['seed']}.png")
                made[-1].write_bytes(sheet.read_bytes())
    return made
