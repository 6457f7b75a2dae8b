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


def test_a_package_that_the_tours_do_not_need_is_named_with_its_remedy(tmp_path, fresh):
    """Online or not; and a file that lies here is read without it."""
    fresh.setenv("HF_HUB_OFFLINE", "1")

    def read_hub(repository):
        import datasets_that_nobody_has  # noqa: F401

    message = "No module named 'datasets_that_nobody_has'.* Install it: pip install -r requirements"
    with pytest.raises(OSError, match=message):
        network.fetch("IMDB", ("owner/imdb", None, None), read_hub, None)
    (tmp_path / "carrier").mkdir()
    (tmp_path / "carrier" / "reviews.csv").write_text("good")
    fresh.syspath_prepend(tmp_path)
    where = "owner/imdb", "carrier", "carrier/reviews.csv"
    found, source = network.fetch("IMDB", where, read_hub, lambda file: file.read_text())
    assert found == "good" and "carrier" in source
