"""Fixtures: agents that export their samples as OTLP profiles, and HTTP receivers of those profiles."""
import pytest
from harness.agents import NO_REQUESTS
from otlp_receiver import receivers
from profiles_receiver import ProfilesReceiver


def sets(**values):
    """Command-line arguments that set otlp.* options."""
    return [text for key, value in values.items() for text in ("--set", f"otlp.{key}={value}")]


@pytest.fixture
def receiver():
    """receiver(answers..., options...): a ProfilesReceiver."""
    yield from receivers(ProfilesReceiver)


@pytest.fixture
def exporting(agent, workload):
    """exporting(url, ...) starts a workload, `exporting.workload`, and an agent that exports one packet per second. Its budgets are so wide that
    nothing is dropped while the receiver is down, even on a busy node."""
    def start(url, *arguments, **options):
        start.workload = workload("threads", 600)
        return agent(*NO_REQUESTS, "--rate", "97", "--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB", *sets(profiles_endpoint=url, interval=1), *arguments,
                     verb="agent", **options)
    return start


@pytest.fixture
def by_grpc(exporting):
    """Like exporting, over gRPC."""
    return lambda url, *arguments, **options: exporting(url, *sets(protocol="grpc"), *arguments, **options)
