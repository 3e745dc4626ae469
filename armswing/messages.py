"""Messages of the topics, one class per type, and their encoding as MessagePack: `encode`, `decode`."""

from nodes.messages import *  # noqa: F403
from nodes.messages.codec import decode as decode
from nodes.messages.codec import encode as encode
