"""The nearest known name."""

from growkit.train.nearest import nearest_name


def test_a_misspelt_name_finds_its_neighbour_and_a_strange_one_none() -> None:
    known = ["learning_rate", "log_every", "batch_size"]
    assert nearest_name("learing_rate", known) == "learning_rate"
    assert nearest_name("batchsize", known) == "batch_size"
    assert nearest_name("zzz", known) is None
