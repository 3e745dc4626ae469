"""What every launch stands on: messages, transport, recording, launch plans, hosting of nodes, simulation server."""
