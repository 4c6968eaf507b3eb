"""What `equitangents.audit` asks of JAX, by NumPy: for a browser, where there is no JAX.

`install()` puts stand-ins for JAX, jaxtyping and what else browsers lack into `sys.modules`, before equitangents is
imported. An audit of a function of NumPy arrays computes nothing by JAX but sums and permutations of arrays; what has
no stand-in (derivatives, random keys, kernels) raises ModuleNotFoundError when it is used, and not before.
"""

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import struct
import sys
import types
import zlib

import numpy as np

ABSENT = ("cycler", "google_crc32c", "jax", "jaxlib", "jaxtyping", "lzma", "matplotlib", "PIL")


class Absent(type):
    """A name of a package that is not here: good as an annotation, a base, a decorator's argument; not to be called."""

    def __new__(cls, name, bases=(), space=None):
        return super().__new__(cls, name, bases, dict(space or {}))

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{cls.__name__}.{name}")

    def __getitem__(cls, key):
        return cls

    def __call__(cls, *args, **kwargs):
        raise ModuleNotFoundError(f"{cls.__name__} is not there: this page runs without it")


class AbsentModule(types.ModuleType):
    """A module of such a package: all of its names are absent, but those that were put in."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = Absent(f"{self.__name__}.{name}")
        setattr(self, name, found)
        return found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of absent packages."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return AbsentModule(spec.name)

    def exec_module(self, module):
        pass


def identity(function=None, **_):
    """A decorator that leaves a function as it is."""
    return function if function is not None else identity


class DefinedBy:
    """What a decorator with rules of differentiation makes of a function: the function."""

    def __init__(self, function, **_):
        self._function = function

    def __call__(self, *args):
        return self._function(*args)

    def defjvp(self, rule, **_):
        return rule

    def defvjp(self, *rules, **_):
        return None

    def def_vmap(self, rule):
        return rule


class Structure:
    """How arrays are nested in dictionaries, lists and tuples: `jax.tree_util.PyTreeDef`."""

    def __init__(self, kind, keys=(), parts=()):
        self.kind, self.keys, self.parts = kind, tuple(keys), tuple(parts)
        self.num_leaves = 1 if kind is None else sum(part.num_leaves for part in self.parts)

    def __eq__(self, other):
        return isinstance(other, Structure) and vars(self) == vars(other)

    def __hash__(self):
        return hash((self.kind, self.keys, self.parts))

    def unflatten(self, leaves):
        return self._built(iter(leaves))

    def _built(self, leaves):
        if self.kind is None:
            return next(leaves)
        parts = [part._built(leaves) for part in self.parts]
        if self.kind is type(None):
            return None
        if issubclass(self.kind, dict):
            return self.kind(zip(self.keys, parts, strict=True))
        return self.kind(*parts) if hasattr(self.kind, "_fields") else self.kind(parts)


def flatten_with_path(tree, is_leaf=None):
    """((path, array), …) of a tree, and its structure."""
    if is_leaf is not None and is_leaf(tree):
        return [((), tree)], Structure(None)
    if tree is None:
        return [], Structure(type(None))
    if isinstance(tree, dict):
        keys = sorted(tree)
        parts = [tree[key] for key in keys]
    elif isinstance(tree, (list, tuple)):
        keys, parts = range(len(tree)), tree
    else:
        return [((), tree)], Structure(None)
    below = [flatten_with_path(part, is_leaf) for part in parts]
    pairs = [((key, *path), leaf) for key, (inner, _) in zip(keys, below, strict=True) for path, leaf in inner]
    return pairs, Structure(type(tree), keys, (structure for _, structure in below))


def flatten(tree, is_leaf=None):
    """The arrays of a tree, and its structure."""
    pairs, structure = flatten_with_path(tree, is_leaf)
    return [leaf for _, leaf in pairs], structure


def leaves(tree, is_leaf=None):
    """The arrays of a tree."""
    return flatten(tree, is_leaf)[0]


def tree_map(function, tree, *others, is_leaf=None):
    """`function` of every array of a tree, and of those at its place in other trees."""
    first, structure = flatten(tree, is_leaf)
    return structure.unflatten(map(function, first, *(leaves(other, is_leaf) for other in others)))


def attach_stub(package, file):
    """`lazy_loader.attach_stub`: the names that the stub beside a package imports, each imported when asked for."""
    with open(file + "i", encoding="utf-8") as stub:
        tree = ast.parse(stub.read())
    origins = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }

    def find(name):
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, inner = origins[name]
        if module is None:
            return importlib.import_module(f"{package}.{inner}")
        return getattr(importlib.import_module(f"{package}.{module}"), inner)

    return find, lambda: sorted(origins), sorted(origins)


def imsave(stream, pixels, format="png"):
    """Write pixels in colours (H, W, 3 or 4), of 8 bits or in [0, 1], as PNG."""
    pixels = np.asarray(pixels)
    if pixels.dtype != np.uint8:
        pixels = np.round(255 * np.clip(pixels, 0, 1)).astype(np.uint8)
    height, width, channels = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(pixels))
    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    stream.write(b"\x89PNG\r\n\x1a\n")
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        stream.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def install():
    """Put the stand-ins in; before equitangents is imported."""
    sys.meta_path.insert(0, Finder())
    sys.modules["lazy_loader"] = types.ModuleType("lazy_loader")
    sys.modules["lazy_loader"].attach_stub = attach_stub
    importlib.import_module("matplotlib.image").imsave = imsave
    importlib.import_module("cycler").cycler = lambda **_: None
    jax, jnp, tree, tree_util, batching, dtypes = map(
        importlib.import_module,
        ("jax", "jax.numpy", "jax.tree", "jax.tree_util", "jax.custom_batching", "jax.dtypes"),
    )

    for name in np.__all__:
        setattr(jnp, name, getattr(np, name))
    jnp.array = lambda x, dtype=None, copy=True: np.array(x, dtype=dtype)
    jnp.asarray = lambda x, dtype=None: np.asarray(x, dtype=dtype)
    jax.jit = jax.checkpoint = tree_util.register_dataclass = tree_util.register_pytree_node_class = identity
    jax.custom_jvp = jax.custom_vjp = batching.custom_vmap = DefinedBy
    tree.map, tree.leaves, tree.flatten, tree.unflatten = tree_map, leaves, flatten, Structure.unflatten
    tree.structure = lambda x, is_leaf=None: flatten(x, is_leaf)[1]
    tree_util.PyTreeDef = Structure
    tree_util.tree_flatten_with_path = flatten_with_path
    tree_util.keystr = lambda path: "".join(f"[{key!r}]" for key in path)
    dtypes.bfloat16 = np.dtype(np.float16)
    jax.enable_x64 = jax.numpy_rank_promotion = lambda *_: contextlib.nullcontext()
    jax.device_put = lambda x, *_: x
