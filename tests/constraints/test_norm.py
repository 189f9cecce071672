"""Norms over the units want equally many copies; batch norm treats each unit alone."""

import torch
from torch.nn.functional import group_norm, layer_norm

from growkit.constraints.norm import CONSTRAINTS
from tests.constraints.maps import MAPS, UNSCALED, admitted


def test_what_is_admitted() -> None:
    assert {kind: admitted(constraint) for kind, constraint in CONSTRAINTS.items()} == {
        "layer_norm": {"x2"},
        "rms_norm": {"x2", "padded", "scaled alike"},
        "mean_square": {"x2", "padded", "scaled alike"},
        "sum": {"x2", "padded", "scaled alike"},
        "statistic": set(MAPS),
        "reduce:mean": {"x2"},
        "reduce:variance": {"x2"},
        "reduce:amax": {"x2", "3"},
        "reduce:amin": {"x2", "3"},
        "reduce:std": set(),
        "reduce:var": set(),
        "reduce:std_mean": set(),
        "reduce:var_mean": set(),
        "reduce:argmax": set(),
        "reduce:argmin": set(),
        "group_norm": {"x2"},
        "norm_groups": UNSCALED,
        "batch_norm": UNSCALED,
    }


def test_why() -> None:
    """The norm of doubled units is the doubled norm; with one unit more often the mean moves."""
    x = torch.tensor([0.3, -1.1, 2.0], dtype=torch.float64)
    small = layer_norm(x, [3])
    torch.testing.assert_close(layer_norm(torch.cat([x, x]), [6])[:3], small, rtol=1e-12, atol=0)
    assert (layer_norm(torch.cat([x, x[:1]]), [4])[:3] - small).abs().max() > 0.01


def test_why_for_the_largest() -> None:
    """Two copies of the largest unit get half of its gradient each, whatever their shares in what reads them are."""
    x = torch.tensor([0.3, 2.0, 2.0], dtype=torch.float64, requires_grad=True)
    x.amax().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 0.5, 0.5]


def test_why_for_groups() -> None:
    """Two groups of two: whole groups copied keep what they were; copies appended to all channels mix the groups."""
    x = torch.tensor([[0.3, -1.1, 2.0, 0.5]], dtype=torch.float64)
    small = group_norm(x, 2)
    torch.testing.assert_close(group_norm(torch.cat([x, x], 1), 4)[:, :4], small, rtol=1e-12, atol=0)
    inside = x[:, [0, 1, 0, 1, 2, 3, 2, 3]]
    torch.testing.assert_close(group_norm(inside, 2)[:, [0, 1, 4, 5]], small, rtol=1e-12, atol=0)
    assert (group_norm(torch.cat([x, x], 1), 2)[:, :4] - small).abs().max() > 0.1


def test_the_refusal_lists_sizes() -> None:
    refusal = CONSTRAINTS["layer_norm"](MAPS["3"])
    assert refusal is not None
    assert refusal.admitted == (
        "method 'copy' to a multiple of 2: 4, 6, 8, ...; or 'mean_pad' to any size, if it is admitted here"
    )
