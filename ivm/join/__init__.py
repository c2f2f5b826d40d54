"""Leapfrog Triejoin over pages and over flat tries, recording its trace on request."""
