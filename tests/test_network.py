import os
import socket

import pytest

from aot_helpers.offline import network


@pytest.fixture
def fresh(monkeypatch):
    """The probe as in a new process that is not told to stay offline."""
    for name in ("HF_HUB_OFFLINE", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "")  # so that the old value comes back
        monkeypatch.delenv(name)
    network.probe.cache_clear()
    yield monkeypatch
    network.probe.cache_clear()


def test_offline_by_choice_opens_no_connection(fresh):
    fresh.setenv("HF_HUB_OFFLINE", "1")
    fresh.setattr(socket, "create_connection", lambda *_: pytest.fail("a connection was opened"))
    assert network.probe() is False


def test_a_hub_that_answers_is_within_reach(fresh):
    with socket.create_server(("127.0.0.1", 0)) as server:
        fresh.setattr(network, "HUB", f"http://127.0.0.1:{server.getsockname()[1]}")
        assert network.probe() is True
    assert "HF_HUB_OFFLINE" not in os.environ


def test_a_hub_that_does_not_answer_switches_to_offline_and_is_asked_once(fresh):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # free again, so nobody listens there
    fresh.setattr(network, "HUB", f"http://127.0.0.1:{port}")
    assert network.probe() is False and os.environ["HF_HUB_OFFLINE"] == "1"
    fresh.setattr(socket, "create_connection", lambda *_: pytest.fail("asked again"))
    assert network.probe() is False
