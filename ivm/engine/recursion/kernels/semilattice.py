"""Join values of a semilattice by the operator that a user registered."""

from pagestore.compiled import call_operator, kernel


@kernel
def join_runs(address, values, starts, joined):
    """Join each run of values, run r being values[starts[r] : starts[r + 1]], into joined[r]; no run is empty."""
    runs = starts.shape[0]
    for r in range(runs):
        end = starts[r + 1] if r + 1 < runs else values.shape[0]
        value = values[starts[r]]
        for i in range(starts[r] + 1, end):
            value = call_operator(address, value, values[i])
        joined[r] = value
