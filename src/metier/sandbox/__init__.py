"""Run it with nothing but what was granted. So far: the one way out to the network."""
