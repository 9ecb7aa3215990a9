"""Model libraries that catis knows: `find(model)` gives one handle with all that is to be known of a model.

docs/hosts.md says how to write a host of your own.
"""

from catis.hosts.cost import BlockLinears, ModelFacts
from catis.hosts.handle import Handle
from catis.hosts.lookup import find, known_hosts, register

__all__ = ["BlockLinears", "Handle", "ModelFacts", "find", "known_hosts", "register"]
