"""Found by Spark: it imports every installed module whose name begins with `pyspark_` and registers its `DefaultSource`."""

from headrace.spark.datasource import HeadraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
