"""Arguments that are refused at once."""

from typing import Any

import pytest

from growkit.errors import EngineError


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ({"callbacks": print}, "callbacks=<built-in function print>"),
        ({"epoch_callbacks": print}, "epoch_callbacks="),
        ({"loops": print}, "loops=<built-in function print>"),
        ({"services": [1]}, "services of type list"),
        ({"settings": {"learning_rate": 0.1}}, "settings of type dict"),
        ({"settings": {}}, "settings of type dict"),
        ({"runtime": "cpu"}, "runtime of type str"),
    ],
)
def test_arguments_of_another_kind_are_refused(make_engine: Any, arguments: dict[str, Any], given: str) -> None:
    with pytest.raises(EngineError, match=given):
        make_engine(**arguments)
