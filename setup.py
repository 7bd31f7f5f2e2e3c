"""The optional compiled twin of the hot paths. Without a compiler the install still succeeds, only slower at run time."""

from setuptools import Extension, setup

try:
    from Cython.Build import cythonize
except ImportError:
    extensions = []
else:
    extensions = cythonize(
        [Extension("headrace._speed", ["src/headrace/_speed.pyx"], extra_compile_args=["-O3"], optional=True)],
        language_level=3,
    )

setup(ext_modules=extensions)
