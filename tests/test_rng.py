import torch

from dfml.rng import derive_seed, stream


def test_the_same_path_gives_the_same_numbers_and_another_path_others():
    first, again, other = (torch.rand(4, generator=stream(7, "api", i)) for i in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_streams_do_not_collide():
    seeds = {derive_seed(seed, "api", index, use) for seed in range(20) for index in range(50) for use in ("a", "b")}
    assert len(seeds) == 20 * 50 * 2


def test_a_stream_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    torch.rand(10, generator=stream(0, "anything"))
    assert torch.equal(before, torch.get_rng_state())
