"""The same work on this project and on others: random histories, queries of public benchmarks."""
