"""Messages of the topics, one class per type, and their encoding as MessagePack: `encode`, `decode`."""

from nodes.framework.messages import *  # noqa: F403
from nodes.framework.messages.codec import decode as decode
from nodes.framework.messages.codec import encode as encode
