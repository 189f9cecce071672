"""Services by protocol."""

from typing import Any

import pytest

from growkit.errors import EngineError
from growkit.train.services import Service, check_services


def test_an_object_with_the_methods_is_a_service(service: Any) -> None:
    assert isinstance(service, Service)
    check_services({"growth": service}, taken=("model",))


def test_a_name_that_the_engine_offers_is_refused(service: Any) -> None:
    with pytest.raises(EngineError) as caught:
        check_services({"model": service}, taken=("step", "model"))
    assert (caught.value.given, caught.value.allowed) == ("a service named 'model'", "any name but model, step")


def test_missing_methods_are_named() -> None:
    class Half:
        def attach(self, runtime: object) -> None: ...

        def replay(self, model: object) -> None: ...

    with pytest.raises(EngineError) as caught:
        check_services({"growth": Half()}, taken=())
    assert caught.value.given == "the service 'growth' (Half) without take_change, state_dict, load_state_dict"


def test_a_class_in_place_of_a_service_is_refused(service: Any) -> None:
    kind = type(service)
    with pytest.raises(EngineError, match=f"the class {kind.__name__} as the service 'growth'"):
        check_services({"growth": kind}, taken=())
