"""Calling by signature."""

from collections.abc import Callable
from functools import partial

import pytest

from growkit.errors import EngineError
from growkit.train.arguments import SignatureCall

OFFERED = {"model": "M", "batch": "B", "epoch": 1, "step": 2}


class WithMethod:
    def act(self, model, step):
        return model, step


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (lambda: "nothing", "nothing"),
        (lambda model: model, "M"),
        (lambda step, model: (step, model), (2, "M")),
        (lambda *, epoch, step: (epoch, step), (1, 2)),
        (lambda **everything: everything, OFFERED),
        (lambda model, **rest: (model, rest), ("M", {"batch": "B", "epoch": 1, "step": 2})),
        (lambda model, threshold=3: (model, threshold), ("M", 3)),
        (lambda model, step=None: (model, step), ("M", 2)),
        (lambda *positional, batch: (positional, batch), ((), "B")),
        (WithMethod().act, ("M", 2)),
        (partial(lambda factor, step: factor * step, 10), 20),
    ],
)
def test_a_function_gets_what_its_signature_names(function: Callable[..., object], result: object) -> None:
    assert SignatureCall(function, OFFERED, "the callback")(OFFERED) == result


def test_an_unknown_parameter_is_refused_with_the_nearest_name() -> None:
    def adjust(modle, step):
        raise AssertionError("never called")

    with pytest.raises(EngineError) as caught:
        SignatureCall(adjust, OFFERED, "the step callback")
    assert caught.value.given == "the step callback 'adjust' asks for 'modle'"
    assert (
        caught.value.allowed == "the names model, batch, epoch, step; other parameters with a default value; **kwargs"
    )
    assert caught.value.next_step == "rename the parameter to 'model'"


def test_a_parameter_unlike_all_names_is_refused_with_another_way_out() -> None:
    with pytest.raises(EngineError, match="give 'zzz' a default value, rename it, or pass a service"):
        SignatureCall(lambda zzz: zzz, OFFERED, "the callback")


def test_a_positional_only_parameter_is_refused() -> None:
    with pytest.raises(EngineError, match="takes 'model' by position only"):
        SignatureCall(lambda model, /: model, OFFERED, "the callback")


def test_a_signature_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(EngineError, match="signature cannot be read"):
        SignatureCall(dict, OFFERED, "train_data")


def test_it_knows_what_it_takes_and_what_it_requires() -> None:
    call = SignatureCall(lambda model, step=0: None, OFFERED, "the callback")
    assert (call.takes("model"), call.takes("step"), call.takes("batch")) == (True, True, False)
    assert call.required == {"model"}
    assert SignatureCall(lambda **rest: None, OFFERED, "the callback").takes("batch")


def test_it_knows_what_is_named_and_not_only_taken() -> None:
    call = SignatureCall(lambda step, other=1, **rest: None, OFFERED, "the callback")
    assert call.named == {"step"}
