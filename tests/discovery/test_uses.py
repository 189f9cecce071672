"""What is kept of the ints of a run."""

from growkit.discovery.taint import Attribute, Literal
from growkit.discovery.uses import Use, Uses


def test_origins_of_sizes_numbers_and_what_is_unexplained() -> None:
    heads, width = Attribute("heads", None), Attribute("width", None)
    uses = Uses([Use(heads, [], "view")], numeric=[(width, "div")], unexplained=[(Literal(3), "roll")])
    assert uses.origins() == [heads, width, Literal(3)]
