"""A gate that is shut lets nothing out, also in the middle of a call, and costs nothing."""

import pytest
import torch

from dfml import Gated
from dfml.apis.ledger import Ledger, Metered
from dfml.errors import BudgetExceeded
from methods.colour_apis import Flaky, colour_api


def test_shut_it_sends_nothing_and_open_it_is_the_api(tmp_path, rng):
    api, is_open = Flaky(colour_api("a")), [False]
    metered = Metered(Gated(api, lambda: is_open[0]), Ledger(tmp_path / "a.sqlite"))
    images = torch.rand(5, 3, 16, 16, generator=rng)
    with pytest.raises(BudgetExceeded, match="a: asking is switched off"):
        metered(images)
    assert (api.answered, metered.ledger.queries, metered.ledger.in_doubt) == (0, 0, 0)
    is_open[0] = True
    assert torch.equal(metered(images), colour_api("a")(images))
    is_open[0] = False
    assert torch.equal(metered(images), colour_api("a")(images)), "what is on file is not sent"
    assert (api.answered, metered.ledger.queries) == (5, 5)


def test_shut_half_way_it_keeps_what_came_and_sends_no_more(tmp_path, rng):
    api = Flaky(colour_api("a"))
    metered = Metered(Gated(api, lambda: api.answered < 256), Ledger(tmp_path / "a.sqlite"))
    images = torch.rand(600, 3, 16, 16, generator=rng)
    with pytest.raises(BudgetExceeded):
        metered(images)
    assert (api.answered, metered.ledger.queries) == (256, 256), "a local API is asked about 256 at once"


def test_by_itself_it_answers_as_the_api(rng):
    images = torch.rand(3, 3, 16, 16, generator=rng)
    assert torch.equal(Gated(colour_api("a"), lambda: True)(images), colour_api("a")(images))
    assert Gated(colour_api("a"), lambda: True)(images[:0]).shape == (0, 3)
