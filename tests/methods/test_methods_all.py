"""What every method promises before it runs."""

from dataclasses import replace

import pytest

from dfml.apis.blackbox import Terms
from dfml.methods import METHODS, find_method


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_would_ask_and_heeds_the_budgets_of_the_apis(apis, name):
    apis[1].spec = replace(apis[1].spec, terms=Terms(budget=100))
    method, specs = find_method(name), [api.spec for api in apis]
    config = method.plan(method.PRESETS["default"], specs, budget=None, budget_per_api=None)
    costs = method.cost(config, specs)
    assert costs == [0, 0] or (costs[0] > 100 and costs[1] == 100)
