"""The gallery: pipelines that do what people use event streams for. One folder a business, one file a pipeline.

Every pipeline has the same form, easy to copy:

    '''One line that says what it computes (`headrace pipeline list` shows it).'''

    SHOWS = [Shown("topic", "Title", plots=(Plot(...),))]   # how a console shows what it writes (`showing`)

    def something(events: DataFrame) -> DataFrame: ...      # the computation, plain PySpark, tested by itself

    def pipeline(spark: SparkSession, *, bootstrap: str = ..., checkpoint: str = ..., tables: str = ...) -> StreamingQuery: ...

    if __name__ == "__main__":                              # spark-submit file.py
        submit(pipeline)

`events.py` of each folder makes realistic events: an endless, seeded stream of `Happening`s.
"""
