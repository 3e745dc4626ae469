"""Maps of how far the motions from a grid of initial states move away from an equilibrium: `armswing robot map`."""
