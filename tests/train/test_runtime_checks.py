"""Arguments of a Runtime that are refused at once."""

from typing import Any

import pytest

from growkit.errors import EngineError
from growkit.train.runtime import Runtime


@pytest.mark.parametrize("name", ["wrap", "unwrap", "shard", "schedulers", "followers"])
def test_arguments_of_a_runtime_of_another_kind_are_refused(name: str) -> None:
    arguments: dict[str, Any] = {name: 3}
    with pytest.raises(EngineError, match=f"{name} of type int"):
        Runtime(**arguments)


def test_a_device_that_torch_does_not_know_is_refused() -> None:
    with pytest.raises(EngineError, match="device='nope'"):
        Runtime(device="nope")
