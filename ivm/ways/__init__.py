"""The ways to evaluate a plan, a room each: fill it from scratch, and follow changes of what it
reads.
"""
