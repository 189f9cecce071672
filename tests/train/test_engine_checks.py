"""Arguments that are refused at once."""

from typing import Any

import pytest

from growkit.errors import EngineError
from growkit.train.runtime import Runtime


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
        ({"run_dir": 3}, "run_dir of type int"),
        ({"stateful": [1]}, "stateful of type list"),
        ({"flow": 3}, "flow of type int"),
        ({"loops": [3]}, "a loop of type int"),
        ({"console": 3}, "console of type int"),
        ({"optimizers": lambda: 1}, r"optimizers <lambda>\(\): too many positional arguments"),
        ({"optimizers": lambda model, rate: 1}, r"optimizers <lambda>\(model, rate\): missing a required argument"),
        ({"optimizers": 3}, "a int as optimizers"),
        ({"runtime": Runtime(schedulers=[lambda: 1])}, r"a scheduler <lambda>\(\): too many positional arguments"),
        ({"runtime": Runtime(schedulers=[3])}, "a int as a scheduler"),
    ],
)
def test_arguments_of_another_kind_are_refused(make_engine: Any, arguments: dict[str, Any], given: str) -> None:
    with pytest.raises(EngineError, match=given):
        make_engine(**arguments)


@pytest.mark.parametrize("resume", [3, True, ["auto"]])
def test_a_place_to_resume_from_that_is_no_path_is_refused(make_engine: Any, resume: Any) -> None:
    with pytest.raises(EngineError, match="resume of type"):
        make_engine().fit(epochs=1, resume=resume)
