"""Output error: positions of the model, simulated with recorded commands, are compared with measured ones."""
