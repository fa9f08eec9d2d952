"""The model card of a run, with what was measured since it was learned."""

from pathlib import Path

from dfml.cards import Measured, Teacher, run_card, write_card
from dfml.initialisation import Initialisation
from dfml.report.story import read_run


def refresh_card(folder: Path) -> None:
    """Write the card of a finished run anew, from the files of its folder."""
    run = read_run(folder)
    teachers = [Teacher(api.name, len(api.classes), api.queries, api.money) for api in run.apis]
    measured = [Measured(e.dataset, e.part, e.way, e.shot, e.tasks, e.head, *e.score) for e in run.evaluations]
    write_card(folder, run_card(Initialisation.load(folder).provenance, teachers, measured))
