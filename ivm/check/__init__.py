"""Whether all that is kept for rules follows from relations, and how it is made anew."""
