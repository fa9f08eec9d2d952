"""The page: everything gathered, drawn and put into one file that loads nothing else."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

import dfml
from dfml.bench.results import ResultTable, is_bench, read_tables
from dfml.errors import ConfigError
from dfml.evaluation.records import Evaluation, Score, shots
from dfml.report.figures import accuracy_against_asking, accuracy_against_queries, bench_figures, learning_curves
from dfml.report.pictures import shelves
from dfml.report.story import RunStory, is_run, read_run

_SECRET = re.compile(r"key$|token|secret|password|authori[sz]ation|cookie|credential", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w:/.])(?:~|[A-Za-z]:)?(?:[/\\][^/\\\s\"']+)+[/\\]")


def report(*folders: Path) -> str:
    """A page in HTML about run folders, folders that hold runs, and what `dfml bench` wrote."""
    runs, tables = [], []
    for folder in folders:
        inside = sorted(f for f in folder.iterdir() if is_run(f)) if folder.is_dir() else []
        if is_run(folder):
            runs.append(read_run(folder))
        elif is_bench(folder):
            tables += read_tables(folder)
        elif inside:
            found = [read_run(f) for f in inside]
            runs += sorted(found, key=lambda run: float(run.events[0]["time"]) if run.events else 0.0)
        else:
            raise ConfigError(
                f"{folder} holds neither a run of dfml learn nor results of dfml bench; name one that does"
            )
    return render(runs, tables)


def render(runs: Sequence[RunStory], tables: Sequence[ResultTable]) -> str:
    """The page of what was read already."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise ConfigError("a report needs jinja2; install it with `pip install 'dfml[report]'`") from None

    environment = Environment(
        loader=PackageLoader("dfml", "report"),
        autoescape=True,  # names of APIs and of their classes are strangers' text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "duration": duration, "toml": config_text, "signed": signed}
    evaluations = [e for run in runs for e in run.evaluations]
    return environment.get_template("page.html").render(
        title=_title(runs),
        style=(Path(__file__).parent / "page.css").read_text(),
        version=dfml.__version__,
        runs=[(run, learning_curves(run), *shelves(run.folder / "recovered")) for run in runs],
        columns=shots(evaluations),
        rows=[row for run in runs for row in accuracy_rows(run)],
        comparison=[*accuracy_against_queries(runs), *accuracy_against_asking(runs)],
        tables=[(table, bench_figures(table)) for table in tables],
    )


def accuracy_rows(run: RunStory) -> list[tuple[RunStory, Evaluation, dict[str, Score]]]:
    """One for each head and data set a run was tested with: the first evaluation of it, and all scores by shots."""
    rows: dict[tuple[object, ...], list[Evaluation]] = {}
    for e in run.evaluations:
        rows.setdefault((e.dataset, e.part, e.way, e.head, e.tasks), []).append(e)
    return [(run, found[0], {e.column: e.score for e in found}) for found in rows.values()]


def config_text(config: Mapping[str, Any]) -> str:
    """The config as TOML, without what could be a secret."""
    return tomli_w.dumps({key: presentable(value, key) for key, value in config.items()})


def presentable(value: Any, key: str = "") -> Any:
    """`value` without secrets, and with files named but not where this machine keeps them."""
    if isinstance(value, Mapping):
        return {inner: presentable(item, inner) for inner, item in value.items()}
    if isinstance(value, list):
        return [presentable(item, key) for item in value]
    if isinstance(value, str):
        if _SECRET.search(key):
            return "hidden"
        without_user = re.sub(r"://[^/@\s]*@", "://", value)
        return _PATH.sub("", re.sub(r"(://[^\s?]*)\?\S*", r"\1", without_user))
    return value


def count(value: float | None) -> str:
    """1234.5 as `1,234`; nothing for what is not known."""
    return "" if value is None else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """3700 as `1 h 2 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def signed(value: float) -> str:
    """With a sign that is as wide as a digit."""
    return f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")


def _title(runs: Sequence[RunStory]) -> str:
    if len(runs) == 1:
        return f"What {runs[0].method} learned from {len(runs[0].apis)} APIs"
    if runs:
        return f"What {len(runs)} runs learned from APIs"
    return "What the bench found"
