"""The page's server on synthetic data (fake_page.c), in place of an agent."""
import pytest
from test_http import Server


@pytest.fixture
def synthetic_agent():
    """synthetic_agent(mode) starts one and returns its address."""
    started = []

    def start(mode):
        started.append(Server(mode))
        return f"127.0.0.1:{started[-1].port}"
    yield start
    for server in started:
        server.stop()
