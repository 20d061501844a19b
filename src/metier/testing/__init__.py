"""What you need to test an agent that uses Metier, without a model and without a network.

`ProviderServer` plays a provider on this machine: point the provider's own SDK at it and script what the model says.
`FakeGateway` plays the gateway that messages to the operator go through.
"""

from metier.testing.gateway import FakeGateway, Posted
from metier.testing.providers import ProviderServer, Received
from metier.testing.script import ToolCall, Turn

__all__ = ["FakeGateway", "Posted", "ProviderServer", "Received", "ToolCall", "Turn"]
