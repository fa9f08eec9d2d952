"""The page's own modules, one by one, in a real Chromium: what they say of given numbers, and how they order work."""

from urllib.parse import urlsplit

import pytest

from dfml.play.app import PAGE


@pytest.fixture(scope="module")
def page(browser):
    """An empty page beside the modules; no server is needed for them."""

    def give(route):
        file = PAGE / urlsplit(route.request.url).path.rpartition("/")[2]
        if file.is_file():
            route.fulfill(path=file)
        else:
            route.fulfill(body="<!doctype html><title>modules</title>", content_type="text/html")

    opened = browser.new_page()
    opened.route("http://modules.test/**", give)
    opened.goto("http://modules.test/")
    return opened


@pytest.fixture
def call(page):
    """`call(module, function, *arguments)` imports a module of the page and calls one of its functions."""
    script = "([module, name, args]) => import(`${location.href}page/${module}`).then(m => m[name](...args))"
    return lambda module, name, *arguments: page.evaluate(script, [module, name, list(arguments)])


def test_words(call):
    assert call("words.js", "percent", 0.954) == "95 %"
    assert call("words.js", "plural", 1, "picture") == "1 picture"
    assert call("words.js", "plural", 1200, "query", "queries") == "1,200 queries"
    assert call("words.js", "money", 0.0123) == "0.0123 USD"
    assert call("words.js", "money", 1.5) == "1.50 USD"
    assert call("words.js", "megabytes", 50 << 20) == "50 MB"
    assert call("words.js", "leftOutTold", {"of": 15, "wrong": {"3": 1, "4": 2, "9": 1}}) == (
        "12 of 15 recognised when left out (80 %)"
    )
    assert call("words.js", "leftOutTold", {"of": 0, "wrong": {}}) == ""


def test_costs_are_told_with_the_budget_that_bounds_them(call):
    cost = {"queries": 7, "usd": 0.014, "budget": 100, "examples": 12, "picture": 2, "usd_query": 0.002, "priced": True}
    assert call("words.js", "costTold", cost) == "7 queries, 0.0140 USD of 100 allowed"
    told = call("words.js", "consentTold", cost, 6, 10)
    assert told == "About 6 examples and 10 pictures to try: at most 32 queries (0.0640 USD)."
    told = call("words.js", "consentTold", cost, 6, 1000)
    assert told == "About 6 examples and 1,000 pictures to try: at most 93 queries (0.19 USD)."
    free = cost | {"priced": False, "budget": None}
    assert call("words.js", "costTold", free) == "7 queries so far"
    assert call("words.js", "consentTold", free, 1, 0) == "About 1 example: at most 12 queries."


JUDGED = {
    "classes": [4, 7],
    "said": {"1": [0.9, 0.1], "2": [0.45, 0.55], "3": [0.2, 0.8]},
    "heard": {"classes": [7, 4], "said": {"2": [0.1, 0.9], "3": [0.8, 0.2]}, "asked": {"2": 3, "3": 0}},
}


def test_a_verdict_is_the_apis_too_where_they_were_asked(call):
    alone = call("opinion.js", "verdict", JUDGED, 1)
    assert (alone["final"], alone["joint"], alone["changed"]) == ({"number": 4, "certainty": 0.9}, None, False)
    changed = call("opinion.js", "verdict", JUDGED, 2)
    assert changed["alone"] == {"number": 7, "certainty": 0.55}
    assert (changed["final"], changed["changed"]) == ({"number": 4, "certainty": 0.9}, True)
    assert call("opinion.js", "verdict", JUDGED, 3)["joint"] is None, "no API had to be asked"
    assert call("opinion.js", "verdict", JUDGED, 99) is None
    assert [row["number"] for row in call("opinion.js", "ranked", JUDGED, 2)] == [4, 7]


def test_the_tray_is_ordered_by_certainty_and_what_is_unknown_comes_last(page):
    script = """([numbers, shares, how]) => import(`${location.href}page/opinion.js`)
      .then(m => m.ordered(numbers, n => shares[n] ?? null, how))"""

    def ordered(**how):
        defaults = {"unsureFirst": False, "onlyUnsure": False, "unsure": 0.6}
        return page.evaluate(script, [[1, 2, 3, 4], {"1": 0.9, "2": 0.3, "4": 0.5}, defaults | how])

    assert ordered() == [1, 2, 3, 4]
    assert ordered(unsureFirst=True) == [2, 4, 1, 3]
    assert ordered(onlyUnsure=True) == [2, 4]


def test_a_queue_does_a_few_at_a_time_in_order_and_tells_when_all_is_done(page):
    script = """async () => {
      const { Queue } = await import(`${location.href}page/queue.js`);
      let now = 0, most = 0;
      const begun = [], ended = [];
      const queue = new Queue(3, async (item) => {
        begun.push(item);
        most = Math.max(most, ++now);
        await new Promise((done) => setTimeout(done, 5 - (item % 3)));
        now--;
        ended.push(item);
      });
      const first = queue.add([1, 2, 3, 4, 5]);
      await queue.add([6, 7]);
      await first;
      await queue.add([]);
      return { begun, most, left: queue.left, ended: ended.length };
    }"""
    assert page.evaluate(script) == {"begun": [1, 2, 3, 4, 5, 6, 7], "most": 3, "left": 0, "ended": 7}


def test_what_is_wanted_often_is_done_seldom_and_never_twice_at_a_time(page):
    script = """async () => {
      const { soon } = await import(`${location.href}page/queue.js`);
      let calls = 0, now = 0, most = 0, wish = 0, seen;
      const call = soon(async () => {
        calls++;
        most = Math.max(most, ++now);
        seen = wish;
        await new Promise((done) => setTimeout(done, 30));
        now--;
      }, { wait: 10, longest: 40 });
      for (wish = 1; wish < 30; wish++) { call(); await new Promise((done) => setTimeout(done, 3)); }
      call();
      while (seen !== 30 || now > 0) await new Promise((done) => setTimeout(done, 20));
      return { fewer: calls < 30, most };
    }"""
    assert page.evaluate(script) == {"fewer": True, "most": 1}


def test_elements_are_arranged_with_as_few_moves_as_it_takes(page):
    script = """async () => {
      const { arrange, h } = await import(`${location.href}page/dom.js`);
      const parent = h("ul"), items = [..."abcd"].map((letter) => h("li", {}, letter));
      arrange(parent, items);
      let moves = 0;
      const seen = new MutationObserver((records) => (moves += records.length));
      seen.observe(parent, { childList: true });
      arrange(parent, items);
      await null;
      const still = moves;
      arrange(parent, [items[3], items[0], items[2]]);
      return [still, parent.textContent];
    }"""
    assert page.evaluate(script) == [0, "dac"]


def test_text_stays_text(page):
    script = """async () => {
      const { h } = await import(`${location.href}page/dom.js`);
      const made = h("p", { title: "<i>" }, "<b>bold</b>", null, false, h("i", {}, "&amp;"));
      return [made.children.length, made.textContent, made.title];
    }"""
    assert page.evaluate(script) == [1, "<b>bold</b>&amp;", "<i>"]
