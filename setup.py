"""The optional compiled twins of the hot paths. Without a compiler the install still succeeds, only slower at run time."""

from setuptools import Extension, setup

PARTS = (
    *("native.h", "kinesis.h", "_cursor.pxi"),
    *("_kinesis_lists.pxi", "_kinesis_puts.pxi", "_kinesis_scan.pxi"),
)

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    extensions = cythonize(
        [
            Extension(
                f"headrace.{name}",
                [f"src/headrace/{name}.pyx"],
                include_dirs=["src/headrace"],
                depends=[f"src/headrace/{part}" for part in PARTS],
                extra_compile_args=["-O3"],
                optional=True,
            )
            for name in ("_speed", "_compact", "_amqp", "_columns", "_multicast", "_zeromq", "_kinesis", "_direct")
        ],
        language_level=3,
    )

setup(ext_modules=extensions)
