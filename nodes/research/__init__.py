"""Studies of the papers, sweeps over launches, and their pages."""
