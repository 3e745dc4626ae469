"""Messages: one struct each. `topics` has the topic table, `codec` their MessagePack."""

from nodes.messages.structs import *  # noqa: F403
