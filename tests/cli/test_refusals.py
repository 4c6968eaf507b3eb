"""What a command cannot do is one line and status 2, and nothing is written; typos are told before JAX is imported."""

import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import equitangents as et
from equitangents.errors import InvalidArgumentError
from equitangents.foreign_files import check_model
from equitangents.nn.specification import plain_network

RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(9, 4)), RNG.normal(size=9), RNG.normal(size=(7, 4))
MODULE = """
import numpy as np
weights = np.arange(16.0)
def pooled(x):
    return np.asarray(x).sum((1, 2)) ** 2
def both(x):
    return {"moving": np.asarray(x).reshape(len(x), -1) @ weights, "still": 0.0 * x[:, 0, 0]}
"""
MLP = "--net mlp --depth 1 --W-std 1.5"
BASE = {
    "audit": "audit --data images.npz --group C4",
    "fit": f"fit --data x.npy --targets y.npy {MLP} --ridge 1e-3 --out m",
    "predict": "predict model --data new.npy --out p.npy",
    "gram": f"gram --data x.npy --out k.zarr {MLP}",
    "plan": "plan --data turned.npz --group C4",
    "systems": "systems --data turned.npz",
    "systems last": "systems",
    "reproduce": "reproduce",
    "": "",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data of every kind, good and bad, and a saved model."""
    folder = tmp_path_factory.mktemp("refusals")
    images = RNG.normal(size=(20, 4, 4, 1))
    broken = {"nan.npy": (X, (4, 1), np.nan), "new_nan.npy": (NEW, (2, 1), np.inf)}
    arrays = {"x.npy": X, "y.npy": Y, "new.npy": NEW, "wide.npy": np.ones((3, 5))}
    for name, (array, at, value) in broken.items():
        arrays[name] = array.copy()
        arrays[name][at] = value
    for name, array in arrays.items():
        np.save(folder / name, array)
    halves = np.arange(40) % 2
    archives = {
        "images": {"x": images}, "labels": {"x": X, "y": np.arange(9) % 3, "x_test": NEW},
        "turned": {"x": images[:8], "y": Y[:8]},
        "first": {"x": np.moveaxis(RNG.normal(size=(50, 3, 3, 2)), -1, 1), "y": np.arange(50) % 2},
        "without": {"x": np.zeros((40, 4, 4, 1))}, "constant": {"x": np.zeros((40, 4, 4, 1)), "y": halves},
        "flat": {"x": np.ones((40, 16)), "y": halves},
        "untested": {"x": np.ones((40, 4, 4, 1)), "y": halves, "x_test": np.ones((5, 4, 4, 1))},
        "short": {"x": images, "y": np.arange(5)}, "single": {"x": np.float64(1), "y": np.float64(2)},
        "three": {"a": np.ones((4, 3)), "b": np.ones(4), "c": np.ones(4)},
        "latin": {"x": X, "y": np.char.encode(np.array(["Ärger", "b", "c"])[np.arange(9) % 3], "latin-1")},
        "objects": {"x": X, "y": np.array(["a", "b", "c"] * 3, dtype=object)},
    }  # fmt: skip
    for name, of in archives.items():
        np.savez(folder / f"{name}.npz", **of)
    for name, content in {
        "text.npz": b"a,b\n1.0,2.0\n3.0,4.0\n", "empty.npz": b"", "bytes.npz": b"\0\1\2\3", "zip.npz": b"PK\3\4 no",
        "cut.npz": (folder / "images.npz").read_bytes()[:200], "junk.pkl": b"junk", "table.csv": b"1,2\n",
    }.items():  # fmt: skip
        (folder / name).write_bytes(content)
    (folder / "refused_models.py").write_text(MODULE)
    (folder / "refused_broken.py").write_text("1 / 0")
    (folder / "one_class" / "a").mkdir(parents=True)
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / "one_class" / "a" / "0.png")
    net = plain_network("mlp", 1, 1.5, 0.1)
    et.InfiniteEnsemble(net, ridge=1e-3, standardise=True).fit(X, Y).save(folder / "model")
    return folder


@pytest.mark.parametrize(
    ("base", "arguments", "said"),
    [
        ("audit", "refused_models:none", "has no 'none'"), ("audit", "refused_models", "package.module:object"),
        ("audit", "refused_models:weights", "f is of type ndarray"),
        ("audit", "refused_models:pooled --fail-above -1", "at least 0"),
        ("audit", "refused_models:both --output-scale moving", "a number"),
        ("audit", "refused_models:both --select logit", "expected 'moving' or 'still'"),
        ("audit", "refused_models:pooled --data text.npz", "expected an .npy or .npz file"),
        ("audit", "refused_models:pooled --data empty.npz", "expected an .npy or .npz file"),
        ("audit", "refused_models:pooled --data bytes.npz", "expected an .npy or .npz file"),
        ("audit", "refused_models:pooled --data zip.npz", "expected an .npy or .npz file"),
        ("audit", "refused_models:pooled --data cut.npz", "expected an .npy or .npz file"),
        ("audit", "refused_models:pooled --data table.csv --trust", "expected an .npy or .npz file"),
        ("audit", "refused_broken:f", "ZeroDivisionError"), ("audit", "refused_models:pooled --seed -1", "--seed"),
        ("audit", "refused_models:pooled --data short.npz --limit 3", "y has shape (5,); expected (20, ...)"),
        ("audit", "refused_models:pooled --inputs none", "an action for at least one input"),
        ("audit", "refused_models:pooled --batch-axis -1", "--batch-axis"),
        ("audit", "refused_models:pooled --outputs labels:1,0@1", "one row an input"),
        ("", "fit --data one_class --out m", "--data is 'one_class'"), ("fit", "--W-std 1e300", "--W-std is 1e+300"),
        ("fit", "--net refused_models:none", "--net is"), ("", "fit --data single.npz --out m", "x has"),
        ("fit", "--out one_class", "--out is 'one_class'"), ("gram", "--out one_class", "--out is 'one_class'"),
        ("gram", "--data single.npz --estimate", "--data has shape ()"), ("gram", "--shard ²/3", "expected I/N"),
        ("audit", "junk.pkl --trust", "expected a file that can be unpickled"), ("fit", "--ridge 0.1,0.2", "--ridge"),
        ("fit", "--memory-limit nan", "--memory-limit is 'nan'; expected a positive number of GB"),
        ("fit", "--solver out-of-core", "--store"), ("fit", "--solver magic", "solver is 'magic'"),
        ("fit", "--net VEC --depth 0", "--depth"), ("fit", "--input-shape 3,3", "expected (N, 3, 3) or (N, 9)"),
        ("fit", "--W-std -1", "equitangents: --W-std is -1"),
        ("fit", "--group SO2", "equitangents: --group is 'SO2'; expected a finite group"),
        ("fit", "--calibrate", "expected none, since the task is regression"),
        ("fit", "--data nan.npy", "x holds NaN or infinite values, the first at index (4, 1); remove or impute them"),
        ("fit", "--targets new.npy", "x has length 9; expected 7; as many rows as y"),
        ("fit", "--out .", "expected a new path, or that of a saved ensemble"),
        ("fit", "--out x.npy/model", "that can be written"),
        ("", f"fit --data latin.npz {MLP} --out m", "y holds bytes b'\\xc4rger'; expected labels of text in UTF-8"),
        ("", f"fit --data objects.npz {MLP} --out m", "y.astype(str)"),
        ("predict", "--data wide.npy", "x has inputs of shape (5,); expected (4,)"),
        ("predict", "--data new_nan.npy", "x holds NaN or infinite values, the first at index (2, 1); remove or"),
        ("predict", "--data labels.npz --array z", "expected z; it holds x, x_test, y"),
        ("predict", "--out p.csv", "ends in .npy or .npz"),
        ("predict", "--out x.npy", "a new path, or one that holds these predictions; give another path"),
        ("predict", "--rows 0", "rows is 0"),
        ("", "predict nowhere --data new.npy --out p.npy", "model is 'nowhere'; expected a file or folder"),
        ("gram", "--net resnet", "net is 'resnet'"), ("gram", "--shard one", "expected I/N"),
        ("gram", "--precision float16", "float16"),
        ("gram", "--against nothing.npz", "against is 'nothing.npz'; expected a file"),
        ("", f"gram --data x.npy {MLP}", "--out"),
        ("plan", "--data nowhere.npz", "nowhere.npz"), ("plan", "--group Q8", "'Q8'"),
        ("plan", "--json /dev/null/plan.json", "a file that can be written"), ("plan", "--time inf", "--pilot 0"),
        ("plan", "--ridge 0.1", "--pilot 0"), ("systems", "--architectures FCN", "two or more"),
        ("systems", "--groups O(7)^d", "O(7)^d"), ("systems", "--error rbf", "rbf"),
        ("systems last", "--data without.npz", "; it holds "),
        ("systems last", "--data constant.npz", "one number everywhere"),
        ("systems last", "--data flat.npz", "on a grid"),
        ("systems last", "--data untested.npz", "both x_test and y_test"),
        ("reproduce", "toy --set members", "key=value"),
        ("reproduce", "comparison --group D4 --set group=C4", "group=C4"),
        ("reproduce", "toy --out /dev/null/x", "out is"), ("reproduce", "Toy", "did you mean 'toy'?"),
        ("reproduce", "toy --preset quik", "did you mean 'quick'?"),
        ("reproduce", "toy --set member=3", "did you mean 'members'?"),
        ("reproduce", "2403.03104", "expected 'arXiv 2403.03103'"), ("", "reproduce", "study"),
        ("", "--nonsense", "--nonsense"), ("", "nonsense", "nonsense"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_2_and_nothing_is_written(made, command, monkeypatch, base, arguments, said):
    monkeypatch.chdir(made)
    monkeypatch.syspath_prepend(made)
    before = [path for path in sorted(made.iterdir()) if path.name != "__pycache__"]
    status, out, err = command(*BASE[base].split(), *arguments.split())
    *earlier, last = err.splitlines()
    assert (status, out) == (2, ""), err
    assert last.startswith("equitangents: ")
    assert said.lower() in last.lower()
    assert not earlier or "fit" in (base, arguments[:3]), err
    assert "allow_pickle" not in last
    assert [path for path in sorted(made.iterdir()) if path.name != "__pycache__"] == before


def archive(path: str, **entries: bytes) -> None:
    """A file as PyTorch writes it: entries of a folder in an archive, `__` for `/`."""
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(f"archive/{name.replace('__', '/').replace('_py', '.py').replace('_pkl', '.pkl')}", content)


POOLED = "audit refused_models:pooled --data images.npz --group C4"
TYPOS = [
    ("audit no.onnx --data images.npz --group C4", "model is 'no.onnx'; expected a file"),
    ("audit no.pt2 --data images.npz --group C4", "model is 'no.pt2'; expected a file"),
    ("audit weights.pt --data images.npz --group C4", "not weights alone"),
    ("audit model.pkl --data images.npz --group C4", "it is a pickle"),
    ("audit no_such_module:f --data images.npz --group C4", "no module named 'no_such_module'"),
    (f"{POOLED} --data no.npz", "data is 'no.npz'; expected a file"),
    (f"{POOLED} --data refused_models.py", "expected an .npy or .npz file"),
    (f"{POOLED} --html refused_models.py/a.html", "expected a file that can be written"),
    (f"{POOLED} --group Q8", "group is 'Q8'"), (f"{POOLED} --layout NCHW", "layout is 'NCHW'"),
    (f"{POOLED} --layout channels_frist", "did you mean 'channels_first'?"),
    (f"{POOLED} --relative-to mean", "relative-to is 'mean'"), (f"{POOLED} --effort fast", "effort is 'fast'"),
    (f"{POOLED} --elements 0", "--elements"), (f"{POOLED} --fail-above five", "--fail-above is 'five'"),
    (f"{POOLED} --data three.npz --inputs vectors,none", "a kind for each of"),
    ("audit-potential no.xyz --calculator refused_models:pooled", "structures is 'no.xyz'; expected a file"),
    ("audit-potential refused_models.py --calculator pooled", "calculator is 'pooled'"),
    ("fit --data tiels --out m", "--data is 'tiels'; expected a file or folder"),
    ("fit --data tiles --out m --targets lables.csv", "--targets is 'lables.csv'"),
    ("fit --data tiles --out m --solver eihg", "'nystrom'; did you mean 'eigh'?"),
    ("fit --data tiles --out m --group C4x", "--group is 'C4x'; expected C4, D4 (any number), S_n, S5 (any number)"),
    ("fit --data tiles --out m --net cn", "'FILE.json' or 'package.module:object'"),
    ("fit --data tiles --out m --input-shape 3x3", "expected sizes such as 32,32,3"),
    ("fit --data tiles --out m --precision flaot32", "did you mean 'float32'?"),
    ("predict modle --data tiles --out p.csv", "model is 'modle'; expected a file or folder"),
    ("gram --data tiles --out k.zarr --net VCE", "'package.module:object'; did you mean 'VEC'?"),
    ("gram --data tiles --out k.zarr --shard 3/3", "expected I/N"),
    ("plan --data x.npz --group C4 --measure ops", "did you mean 'osp'?"),
    ("plan --data y.npz --group C4", "--data is 'y.npz'; expected a file"),
    ("plan --data tiles --group C4", "--data is 'tiles'; expected a file"),
    ("systems --data x.npz --architectures FNC,GAP", "--architectures is 'FNC'; expected 'FCN', 'LCN'"),
    ("systems --data x.npz --architectures FCN,VECC", "did you mean 'VEC'?"),
    ("systems --data x.npz --error sqared", "expected 'classification' or 'squared'; did you mean 'squared'?"),
    ("reproduce comparison --data mien.npz", "--data is 'mien.npz'; expected a file or folder"),
    ("reproduce toi", "did you mean 'toy'?"),
]  # fmt: skip
ALL = """
import json, sys
from equitangents.cli.main import main
told = []
for line in sys.argv[1:]:
    try:
        main(line.split())
    except SystemExit as stop:
        told.append([stop.code, [m for m in ("jax", "torch", "onnxruntime", "ase", "scipy") if m in sys.modules]])
print(json.dumps(told))
"""


def test_typos_are_told_in_one_line_each_before_anything_heavy_is_imported(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiles").mkdir()
    for name in ("images.npz", "three.npz", "refused_models.py"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    (tmp_path / "labels.csv").touch()
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(3))
    archive("weights.pt", data_pkl=b"")
    np.savez("x.npz", x=np.zeros((3, 4, 4, 1)), y=np.arange(3))
    ran = subprocess.run(
        [sys.executable, "-c", ALL, *(line for line, _ in TYPOS)], capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout) == [[2, []]] * len(TYPOS)
    for (line, said), told in zip(TYPOS, ran.stderr.splitlines(), strict=True):
        assert told.startswith("equitangents: ")
        assert said in told, line


def test_programs_are_told_from_pickles_without_unpickling_anything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    archive("script.pt2", data_pkl=b"", code__net_py=b"")
    archive("exported.pt", archive_format=b"pt2", data__weights__weight_0=b"")
    archive("whole.pt", data_pkl=b"")
    assert (check_model("script.pt2"), check_model("exported.pt")) == ("script", "exported")
    for content in (Path("whole.pt").read_bytes(), b"", b"text", b"\x80\x04no pickle"):
        Path("broken.pt").write_bytes(content)
        with pytest.raises(InvalidArgumentError, match=r"not weights alone.*--trust"):
            check_model("broken.pt")
        assert check_model("broken.pt", trust=True) == "pickle"
