"""Messages: one struct per type. Module `topics` has the topic table, `codec` encodes and decodes MessagePack."""

from nodes.framework.messages.structs import *  # noqa: F403
