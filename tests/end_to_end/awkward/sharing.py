"""Modules, parameters and weights in more than one role, and weights that are made before use."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from tests.discovery.models import Small, weight
from tests.end_to_end.awkward.construct import Family, Sizes

SHARING = Family()
construct = SHARING.construct


@construct("one layer called in two places", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.mid(torch.tanh(m.enter(x)))) + torch.tanh(m.mid(m.other(x)))),
        enter=nn.Linear(s.x, s.a), other=nn.Linear(s.x, s.a), mid=nn.Linear(s.a, s.b), leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("one layer under two names", "one.weight[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    shared = nn.Linear(s.a, s.b)
    return Small(
        lambda m, x: m.leave(m.one(torch.tanh(m.enter(x))) * m.two(torch.relu(m.enter(x)))),
        enter=nn.Linear(s.x, s.a), one=shared, two=shared, leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct(
    "autoencoder with a transposed weight",
    refused={
        "enter.weight[0]": "one tensor produces and consumes it",
        "code.bias[0]": "one tensor produces and consumes it",
    },
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(F.linear(torch.tanh(m.code(torch.tanh(m.enter(x)))), m.code.weight.t())),
        enter=nn.Linear(s.x, s.a), code=nn.Linear(s.a, s.b), leave=nn.Linear(s.a, s.o),
    ), s.sequence()  # fmt: skip


@construct("masked weight, mask in a buffer", "enter.weight[0]", "w[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(F.linear(torch.tanh(m.enter(x)), m.w * m.mask))),
        enter=nn.Linear(s.x, s.a), w=weight(s.b, s.a), mask=torch.ones(s.b, s.a).tril(), leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("the first rows of a weight", "w[0].0", refused={"w[0].1": "its role in this parameter is not known"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(F.linear(x, m.w[: m.k]))), w=weight(s.a + s.n, s.x),
        leave=nn.Linear(s.a, s.o), k=s.a,
    ), s.sequence()  # fmt: skip


@construct(
    "a sliceable width (slimmable network)",
    "enter.weight[0].1",
    refused={"enter.weight[0].0": "its size 2 is written in the code"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    """Two outputs: by all units, and by the first two."""

    def run(m: Small, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(m.enter(x))
        return m.leave(h), F.linear(h[..., :2], m.leave.weight[:, :2])

    return Small(run, enter=nn.Linear(s.x, s.a), leave=nn.Linear(s.a, s.o)), s.sequence()


@construct(
    "token embedding read transposed as the output",
    refused={"embedding.weight[1]": "scaled by no parameter of this reading alone"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: torch.tanh(m.mid(m.embedding(x))) @ m.embedding.weight.t(),
        embedding=nn.Embedding(9, s.a), mid=nn.Linear(s.a, s.a),
    ), s.tokens(9)  # fmt: skip


@construct(
    "embedding, head through a projection",
    refused={"embedding.weight[1]": "has a second use", "enter.weight[0]": "one tensor produces and consumes it"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.tanh(m.enter(m.embedding(x)))
        return F.linear(h, m.embedding.weight @ m.enter.weight.t())

    return Small(run, embedding=nn.Embedding(9, s.b), enter=nn.Linear(s.b, s.a)), s.tokens(9)


@construct("low-rank adapter with a float scale", "base.weight[0]", "up[1]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh((lambda h: m.base(h) + (h @ m.down.T @ m.up.T) * m.scale)(m.enter(x)))),
        enter=nn.Linear(s.x, s.a), base=nn.Linear(s.a, s.b), down=weight(s.n, s.a), up=weight(s.b, s.n), scale=0.5,
        leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("low-rank adapter scaled by its rank", "base.weight[0]", "up[1]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.base(x) + (x @ m.down.T @ m.up.T) * (8 / m.rank))),
        base=nn.Linear(s.x, s.b), down=weight(s.n, s.x), up=weight(s.b, s.n), rank=s.n, leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("weights made from activations", "make.weight[0].0", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        made = m.make(x.mean(1)).view(x.shape[0], m.leave.in_features, m.enter.out_features)
        return m.leave(torch.tanh(torch.einsum("btc,bdc->btd", torch.tanh(m.enter(x)), made)))

    return Small(
        run, enter=nn.Linear(s.x, s.a), make=nn.Linear(s.x, s.b * s.a), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("a layer called with weights of another", "enter.weight[0]", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        tensors = {"weight": m.mid.weight * 0.5 + m.delta, "bias": m.mid.bias}
        return m.leave(torch.tanh(functional_call(m.mid, tensors, (torch.tanh(m.enter(x)),))))

    return Small(
        run, enter=nn.Linear(s.x, s.a), mid=nn.Linear(s.a, s.b), delta=weight(s.b, s.a), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("weight norm over all entries", refused={"enter.weight[0]": "no op that growkit knows"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.mid(torch.tanh(m.enter(x))))),
        enter=nn.Linear(s.x, s.a), mid=parametrizations.weight_norm(nn.Linear(s.a, s.b), dim=None),
        leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("old weight norm", "mid.weight_g[0]", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight_g, self.weight_v = nn.Parameter(torch.rand(s.b, 1)), weight(s.b, s.a)

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, torch._weight_norm(self.weight_v, self.weight_g, 0))

    return Small(
        lambda m, x: m.leave(torch.tanh(m.mid(torch.tanh(m.enter(x))))),
        enter=nn.Linear(s.x, s.a), mid=Normed(), leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct(
    "spectral norm",
    refused={"enter.weight[0]": "its largest singular value", "leave.weight[1]": "its largest singular value"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(m.mid(torch.tanh(m.enter(x))))),
        enter=nn.Linear(s.x, s.a), mid=parametrizations.spectral_norm(nn.Linear(s.a, s.b)), leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


class Symmetric(nn.Module):
    """A weight that equals its transpose."""

    def forward(self, w: Tensor) -> Tensor:
        return w.triu() + w.triu(1).transpose(-1, -2)


class Positive(nn.Module):
    """A weight above zero."""

    def forward(self, w: Tensor) -> Tensor:
        return F.softplus(w)


class Standardised(nn.Module):
    """A weight with mean zero and variance one for each output."""

    def forward(self, w: Tensor) -> Tensor:
        return (w - w.mean(1, keepdim=True)) / (w.var(1, keepdim=True) + 1e-5).sqrt()


def _parametrized(s: Sizes, parametrization: nn.Module, out: int) -> tuple[nn.Module, Tensor]:
    mid = nn.Linear(s.a, out)
    parametrize.register_parametrization(mid, "weight", parametrization)
    return Small(
        lambda m, x: m.leave(torch.tanh(m.mid(torch.tanh(m.enter(x))))),
        enter=nn.Linear(s.x, s.a), mid=mid, leave=nn.Linear(out, s.o),
    ), s.sequence()  # fmt: skip


@construct("symmetric weight", refused={"enter.weight[0]": "depends on the order of its units"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _parametrized(s, Symmetric(), s.a)


@construct("positive weight", "mid.bias[0]", refused={"enter.weight[0]": "passes softplus before it is contracted"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _parametrized(s, Positive(), s.b)


@construct("standardised weight", "mid.bias[0]", refused={"enter.weight[0]": "reduced by mean before it is used"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return _parametrized(s, Standardised(), s.b)


@construct(
    "two parametrizations on one weight",
    "mid.bias[0]",
    refused={"enter.weight[0]": "reduced by mean before it is used"},
)
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    model, x = _parametrized(s, Positive(), s.b)
    parametrize.register_parametrization(model.mid, "weight", Standardised())
    return model.double(), x


@construct("a weight cut into gates by narrow", "w[0].0")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        n = m.w.shape[0] // 2
        return m.leave(torch.sigmoid(F.linear(x, m.w.narrow(0, 0, n))) * F.linear(x, m.w.narrow(0, n, n)))

    return Small(run, w=weight(2 * s.a, s.x), leave=nn.Linear(s.a, s.o)), s.sequence()


@construct("softmaxed mixture of experts' weights", "experts[1]", refused={"route.weight[0]": "a softmax runs over it"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        w = torch.einsum("be,eoi->boi", m.route(x.mean(1)).softmax(-1), m.experts)
        return m.leave(torch.tanh(torch.bmm(x, w.transpose(1, 2))))

    return Small(
        run, route=nn.Linear(s.x, s.n), experts=weight(s.n, s.b, s.x), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip


@construct("Kronecker product of two weights", "u[0]", "v[0]", "enter.weight[0].0", "enter.weight[0].1")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(F.linear(torch.tanh(m.enter(x)), torch.kron(m.u, m.v)))),
        enter=nn.Linear(s.x, s.n * s.o), u=weight(s.a, s.n), v=weight(2, s.o), leave=nn.Linear(2 * s.a, s.o),
    ), s.sequence()  # fmt: skip


@construct("circulant weight by roll", refused={"enter.weight[0]": "depends on the order of its units"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        w = torch.stack([m.row.roll(i) for i in range(m.row.shape[0])])
        return m.leave(torch.tanh(F.linear(torch.tanh(m.enter(x)), w)))

    return Small(run, enter=nn.Linear(s.x, s.a), row=weight(s.a), leave=nn.Linear(s.a, s.o)), s.sequence()


@construct("recurrent weight with a residual to itself", "enter.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = m.enter(x)
        for _ in range(3):
            h = h + torch.tanh(m.mid(h))
        return m.leave(h)

    return Small(
        run, enter=nn.Linear(s.x, s.a), mid=nn.Linear(s.a, s.a), leave=nn.Linear(s.a, s.o)
    ), s.sequence()  # fmt: skip


@construct("weight and bias in one parameter", "w[0]", refused={"enter.weight[0]": "picked by their number"})
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    return Small(
        lambda m, x: m.leave(torch.tanh(F.linear(torch.tanh(m.enter(x)), m.w[:, :-1], m.w[:, -1]))),
        enter=nn.Linear(s.x, s.a), w=weight(s.b, s.a + 1), leave=nn.Linear(s.b, s.o),
    ), s.sequence()  # fmt: skip


@construct("ones beside the input in place of a bias", "enter.weight[0].1", "mid.weight[0]")
def _(s: Sizes) -> tuple[nn.Module, Tensor]:
    def run(m: Small, x: Tensor) -> Tensor:
        h = torch.tanh(m.enter(x))
        return m.leave(torch.tanh(m.mid(torch.cat([h, torch.ones_like(h[..., :1])], -1))))

    return Small(
        run, enter=nn.Linear(s.x, s.a), mid=nn.Linear(s.a + 1, s.b, bias=False), leave=nn.Linear(s.b, s.o)
    ), s.sequence()  # fmt: skip
