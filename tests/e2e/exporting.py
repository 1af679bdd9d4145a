"""Agents that send what they sample as OTLP profiles, and receivers of these by HTTP."""
import pytest
from profiles_receiver import ProfilesReceiver


def sets(**values):
    """Settings of otlp.*, as arguments."""
    return [text for key, value in values.items() for text in ("--set", f"otlp.{key}={value}")]


@pytest.fixture
def receiver():
    """receiver(answers..., options...): a ProfilesReceiver."""
    made = []

    def make(*answers, **options):
        made.append(ProfilesReceiver(*answers, **options))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture
def exporting(agent, workload):
    """exporting(url, ...) starts a workload, `exporting.workload`, and an agent that sends a packet a second. Its budgets are wide: nothing is dropped
    while a receiver is away, however much else runs on the node."""
    def start(url, *arguments, **options):
        start.workload = workload("threads", 600)
        return agent("--rate", "97", "--set", "budget.cpu=100%", "--set", "budget.memory=1GiB", *sets(profiles_endpoint=url, interval=1), *arguments,
                     verb="agent", **options)
    return start


@pytest.fixture
def by_grpc(exporting):
    """As exporting, by gRPC."""
    return lambda url, *arguments, **options: exporting(url, *sets(protocol="grpc"), *arguments, **options)
