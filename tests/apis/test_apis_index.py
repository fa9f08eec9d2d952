"""The index against a dictionary."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dfml.apis.ledger.index import Index

# Few different low bits, so that tags crowd around the same slots; zero, which marks a free slot; the last slot.
crowded = st.integers(0, 3) | st.builds(lambda high, low: high * 2**40 + low, st.integers(0, 5000), st.integers(0, 3))
tags = st.lists(crowded | st.integers(0, 2**64 - 1) | st.just(2**64 - 1), max_size=60, unique=True)


@settings(max_examples=50)
@given(st.lists(tags, max_size=6))
def test_it_finds_what_a_dictionary_finds(batches: list[list[int]]) -> None:
    index, truth = Index(Path(tempfile.gettempdir()), buckets=2), dict[int, int]()
    for batch in batches:
        fresh = [tag for tag in batch if max(tag, 1) not in truth and not (tag == 0 and 1 in batch)]
        places = range(len(truth), len(truth) + len(fresh))
        index.add(np.array(fresh, np.uint64), np.array(places, np.int64))
        truth |= {max(tag, 1): place for tag, place in zip(fresh, places, strict=True)}
        assert len(index) == len(truth)
        asked = np.array([*truth, *batch, 5, 2**63], np.uint64)
        expected = [truth.get(max(int(tag), 1), -1) for tag in asked]
        assert index.find(asked).tolist() == expected


def test_it_grows_without_forgetting(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    index, known = Index(tmp_path), []
    for start in range(0, 100_000, 997):
        batch = rng.integers(0, 2**64, 997, np.uint64, endpoint=False)
        assert (index.find(batch) == -1).all()
        index.add(batch, np.arange(start, start + 997))
        known.append(batch)
    everything = np.concatenate(known)
    assert (index.find(everything) == np.arange(len(everything))).all()
    assert list(tmp_path.iterdir()) == []  # its file has no name


def test_a_tag_may_come_twice(tmp_path: Path) -> None:
    index = Index(tmp_path)
    index.add(np.array([7, 7], np.uint64), np.array([0, 1]))
    index.add(np.array([7], np.uint64), np.array([2]))
    assert index.find(np.array([7], np.uint64)).item() in (0, 1, 2)
