"""Methods of other people, as files and as entry points."""

import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

import dfml
from dfml.apis.ledger import spending
from dfml.errors import ConfigError
from dfml.methods import find_method

IDLE = """
from dfml.methods.random_init import PRESETS, plan, run

def cost(config, specs):
    return [7] * len(specs)
"""


def written(folder, text):
    path = folder / "idle.py"
    path.write_text(text)
    return str(path)


def test_what_a_file_leaves_out_is_filled_in(tmp_path, apis):
    method, specs = find_method(written(tmp_path, IDLE)), [api.spec for api in apis]
    config = method.plan(method.PRESETS["default"], specs, budget=None, budget_per_api=None)
    assert method.expected(config, specs) == [7] * len(specs)
    assert not method.NEEDS_WEIGHTS
    learned = dfml.learn(apis, tmp_path / "run", method=written(tmp_path, IDLE))
    assert learned.provenance["method"].endswith("idle.py")
    assert spending(tmp_path / "run")["queries"] == 0


def test_an_installed_package_offers_one_by_name(tmp_path, monkeypatch):
    written(tmp_path, IDLE + "ASKS_TOGETHER = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    offers = EntryPoints([EntryPoint("my-idle", "idle", "dfml.methods")])
    monkeypatch.setattr("dfml.methods.foreign.entry_points", lambda **wanted: offers.select(**wanted))
    try:
        assert find_method("my-idle").ASKS_TOGETHER
    finally:
        sys.modules.pop("idle", None)
    with pytest.raises(ConfigError, match="unknown method 'my-idl'"):
        find_method("my-idl")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import nothing_of_that_name", r"cannot be imported \(ModuleNotFoundError: .*nothing_of_that_name"),
        ("PRESETS = {}", "is no method: it has no plan and no cost and no run; docs/methods.md"),
        (IDLE + "PRESETS = {}", 'is no method: it has no preset "default"'),
    ],
)
def test_what_is_no_method_gets_one_sentence(tmp_path, text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        find_method(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no file .*none\.py with a method"):
        find_method(str(tmp_path / "none.py"))
