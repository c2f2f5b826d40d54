"""`format("pagestore")`: relations and views of a store as DataFrames and streams, read and
written by Spark.
"""
