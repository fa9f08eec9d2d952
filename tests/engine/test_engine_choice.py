"""Engines by name, what is said without Ray, errors that travel, and a ledger whose asker is lost."""

import inspect
import pickle
import sys
from typing import Any

import pytest
import torch

import dfml
from dfml import errors
from dfml.apis.blackbox import ApiSpec
from dfml.apis.ledger import Ledger, Metered, ledger
from dfml.apis.remote import patience
from dfml.cli import main
from dfml.engine.choice import Local, open_engine
from dfml.errors import BudgetExceeded, ConfigError, DfmlError, Lost
from dfml.runtime import cores

SPEC = ApiSpec(name="dim", classes=("dark", "bright"), image=(1, 2, 2))


def test_the_local_engine_asks_here_and_has_this_machines_cores():
    with open_engine() as engine:
        assert isinstance(engine, Local)
        assert engine.workers == cores()
        apis: list[Any] = [object(), object()]
        assert engine.spread(apis) == apis


def test_mistaken_engines_are_one_sentence():
    with pytest.raises(ConfigError, match=r"unknown engine 'rya'; .*ray"), open_engine("rya"):
        pass
    with pytest.raises(ConfigError, match="address auto is for --engine ray"), open_engine("local", "auto"):
        pass


@pytest.mark.parametrize("verb", [("learn", "zoo"), ("zoo", "build"), ("bench", "fig:apiacc")], ids=" ".join)
def test_without_ray_every_verb_says_how_to_install_it(verb, tmp_path, tiny_zoo, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    verb = [str(tiny_zoo) if word == "zoo" and verb[0] == "learn" else word for word in verb]
    assert main([*verb, "--engine", "ray", "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err.strip()
    assert error == "dfml: --engine ray needs the package ray; install it with `pip install 'dfml[ray]'`"
    assert not (tmp_path / "out").exists()


def test_the_white_box_stays_at_home(tiny_zoo, tmp_path):
    with pytest.raises(ConfigError, match=r"white-box works on the APIs' weights .* --engine local"):
        dfml.learn(tiny_zoo, tmp_path / "run", method="white-box", engine="ray")


def every_error():
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DfmlError)]
    return [*found, patience.TooLarge, patience.NotSent, patience.AskedToWait]


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_every_error_travels_between_processes(kind):
    there = pickle.loads(pickle.dumps(kind("it answered 503; wait")))
    assert type(there) is kind
    assert str(there) == "it answered 503; wait"


class Leaving:
    """Answers one image at a time, in one process after the other: each of `lives` answers so many, then is lost."""

    spec = SPEC

    def __init__(self, *lives):
        self.lives, self.sent = list(lives), []

    def __call__(self, images):
        raise AssertionError("it streams")

    def answers_in_parts(self, images):
        self.sent.append(len(images))
        life = self.lives.pop(0) if self.lives else len(images)
        for row in range(min(life, len(images))):
            bright = images[row].mean()
            yield [row], torch.stack([1 - bright, bright])[None]
        if life < len(images):
            raise Lost(f"dim: lost after {life}")


def test_what_a_lost_asker_did_not_bring_is_in_doubt_and_asked_again(tmp_path, rng):
    """10 images: 3 come, 7 are in doubt; of those 2 come, 5 more are in doubt; then all 5 come."""
    images = torch.rand(10, 1, 2, 2, generator=rng)
    api = Leaving(3, 2)
    with Ledger(tmp_path / "dim.sqlite", budget=22) as book:
        answers = Metered(api, book)(images)
        assert torch.equal(answers[:, 1], images.mean((1, 2, 3)))
        assert api.sent == [10, 7, 5]
        assert (book.queries, book.in_doubt, book.hits, book.remaining) == (10, 12, 0, 0)
        assert torch.equal(Metered(api, book)(images), answers)
        assert (book.hits, api.sent) == (10, [10, 7, 5])
        with pytest.raises(BudgetExceeded):
            Metered(api, book)(images / 2)


def test_an_asker_that_is_lost_again_and_again_is_given_up(tmp_path, rng):
    images = torch.rand(4, 1, 2, 2, generator=rng)
    api = Leaving(1, *[0] * 100)
    with Ledger(tmp_path / "dim.sqlite") as book:
        with pytest.raises(Lost, match="lost after 0"):
            Metered(api, book)(images)
        assert api.sent == [4] + [3] * ledger.LOSSES
        assert (book.queries, book.in_doubt) == (1, 3 + 3 * ledger.LOSSES)
