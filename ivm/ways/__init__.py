"""The ways to evaluate a plan, a room each: fill it, and follow changes of what it reads."""
