"""Stand-ins for packages that are not installed, so that proofs run where numbers cannot.

After `stand_in`, an import of NumPy, qcore and the like gives an `Absent`. Whatever is computed
from it is absent too: it may be handed on, as to evidence that is not checked here, but it never
becomes a number, a truth or a formula. Where one is needed, `NeedsFullInstallation` is raised.
"""

import importlib.abc
import importlib.machinery
import sys

from sympy import SympifyError

PACKAGES = (
    "matplotlib",
    "numba",
    "numpy",
    "qcore",
    "scipy",
    "derivations.pages.diagrams",
    "derivations.pages.figures",
    "derivations.pages.sliders",
)
ORIGIN = "absent"


class NeedsFullInstallation(SympifyError):
    """Something here can only be computed where the whole project is installed.

    It is an error of SymPy's own kind, so that a formula that meets an `Absent` in a sum or a
    product leaves the result to it.
    """

    def __init__(self, name):
        super().__init__(name)
        self.name = name

    def __str__(self):
        return f"{self.name} needs the full installation: `make lab`"


def _refuse(self, *_):
    raise NeedsFullInstallation(self._name)


def _absent(self, *_, **__):
    return Absent(self._name)


class Absent:
    """What an absent package would have given, known by name only."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute in ("__all__", "__name__", "__qualname__"):
            _refuse(self)
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Absent(f"{self._name}.{attribute}")

    def __repr__(self):
        return f"<{self._name}: needs the full installation>"

    def __hash__(self):
        return hash(self._name)

    def __setitem__(self, place, value):
        pass

    def __mro_entries__(self, bases):
        _refuse(self)

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __format__ = _refuse
    __round__ = __trunc__ = __floor__ = __ceil__ = __str__ = _refuse
    __iter__ = __len__ = __contains__ = __enter__ = _sympy_ = _refuse
    __call__ = __getitem__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = (
        _absent
    )
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _absent
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = _absent
    __rpow__ = __matmul__ = __rmatmul__ = __neg__ = __pos__ = __abs__ = __invert__ = (
        _absent
    )


class _AbsentModule(Absent):
    """An absent package; its parts can be imported from it."""

    __path__ = ()

    def __init__(self, name):
        super().__init__(name)
        self.__name__ = name
        self.__file__ = None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        if f"{fullname}.".startswith(tuple(f"{package}." for package in PACKAGES)):
            return importlib.machinery.ModuleSpec(
                fullname, self, origin=ORIGIN, is_package=True
            )
        return None

    def create_module(self, spec):
        return _AbsentModule(spec.name)

    def exec_module(self, module):
        pass


def stand_in():
    """Let imports of the packages that need an installation give stand-ins from now on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
