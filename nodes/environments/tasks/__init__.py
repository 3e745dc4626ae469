"""Tasks of the environments that armswing registers."""
