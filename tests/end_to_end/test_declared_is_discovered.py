"""The layouts declared beside the Conformer's blocks against what one traced run finds: the same axes."""

import pytest
import torch

from growkit.axes.table import AxisTable
from growkit.constraints.table import annotate
from growkit.discovery.discover import discover
from growkit.nn import ConformerClassifier, ConformerEncoder, declared_table

ODD = dict(input_dim=5, model_dim=6, ffn_dim=10, num_heads=2, num_layers=3, kernel_size=7, head_dim=9, conv_channels=11)
EQUAL = dict(input_dim=4, model_dim=4, ffn_dim=4, num_heads=4, num_layers=4, kernel_size=5, head_dim=4, conv_channels=4)


TRACED = ("attention.query.weight[0].1", "attention.position.weight[1]")
"""Axes of which a run shows more: what takes the temperature when they grow, or that nothing does."""


def facts(table: AxisTable) -> dict[str, tuple[object, ...]]:
    """All that is known of each axis; taps of kernels are no axis of the declared table."""
    return {
        axis.name: (
            axis.size,
            axis.kind,
            frozenset(axis.occurrences),
            frozenset(passage.kind for passage in axis.passages if not passage.kind.endswith("centred")),
            axis.admits,
            axis.locked,
        )
        for axis in table
        if not axis.name.endswith(("depthwise.weight[2]", *TRACED))
    }


@pytest.mark.parametrize("sizes", [ODD, EQUAL], ids=["odd", "equal"])
@pytest.mark.parametrize("whole", [True, False], ids=["classifier", "encoder"])
def test_same_axes_numbers_and_blocks(sizes: dict[str, int], whole: bool) -> None:
    torch.manual_seed(0)
    encoder = ConformerEncoder(**sizes, position_dim=8)
    model = ConformerClassifier(encoder, 4) if whole else encoder
    inputs = (torch.randn(4, 4, sizes["input_dim"]), torch.tensor([4, 3, 2, 4]))
    declared, found = annotate(declared_table(model)), discover(model, inputs)
    assert facts(declared) == facts(found)
    assert set(declared.numbers) == set(found.numbers)
    assert declared.blocks == found.blocks
    assert declared.modules == found.modules
    assert not found.equalities
    assert not found.unreached


def test_only_what_no_method_can_grow_is_locked() -> None:
    """Of each block: the taps of the kernel; of the whole: features and the table of sinusoids."""
    torch.manual_seed(0)
    model = ConformerClassifier(ConformerEncoder(**ODD, position_dim=8), 4)
    table = discover(model, (torch.randn(2, 6, 5), torch.tensor([6, 4])))
    assert {axis.name for axis in table if axis.locked} == {
        "encoder.input_projection.weight[1]",
        "encoder.layers.0.attention.position.weight[1]",
        *(f"encoder.layers.{i}.convolution.depthwise.weight[2]" for i in range(3)),
    }
