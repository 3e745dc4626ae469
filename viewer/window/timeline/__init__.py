"""Time slider, playback and event marks of the run that is shown."""
