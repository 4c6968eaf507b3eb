"""Every kind of file under attack: kills, several writers, flipped bits, a full disk, a read-only folder, a link.

`stranger` cells are tests/**/test_strangers*.py. The table in docs/guide/saved-files.md is compared with this.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import threading
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import kills
from equitangents.actions import permutations
from equitangents.ensembles import saved_objects
from equitangents.ensembles.saved_folder import read_about, write_folder
from equitangents.files import atomic_file
from equitangents.groups import symmetric, wallpaper
from permissions import public_folder, without_permission
from storage.every_call import kills as kill_at_every_call
from storage.every_call import listed
from storage.kinds import ARRAYS, KINDS, Kind, outcome, path_of, read_arrays, write_arrays
from strangers.kinds_of_files import KINDS as FILES

ALL = list(KINDS)
KEPT_OUT = ("another process", "of other predictions", "is predicted is kept", "is in the way")
QUICK = ["arrays of a model", "stage.npz", "page.html"]
MODELS = ["model.means", "model.turned", "model.classes", "deep"]  # whose bits are flipped, too
MARKS = (b"PK", b"descr", b"shape", b"crc32", b"sha256", b"number")  # of headers, directories and checksums


def some(quick: list[str], names: list[str] = ALL) -> list[object]:
    """The kinds as parameters; those that are not quick are slow tests."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.fixture
def kind(request):
    if request.param in KINDS:
        return KINDS[request.param]
    file, whole = FILES[request.param], []

    def read(path):
        found = file.use(path)
        whole[:] = whole or found
        assert len(found) == len(whole)
        assert all(map(np.array_equal, found, whole))
        return 1

    return Kind(request.param, lambda path, which: file.make(path), read)


class TestKills:
    """20 in the fast tests, 500 and more in the slow ones."""

    @pytest.mark.slow
    @pytest.mark.parametrize("fresh", [True, False])
    def test_of_a_model_leave_the_old_or_the_new_one(self, tmp_path, fresh):
        assert kill_at_every_call(KINDS["arrays of a model"], tmp_path / "f", 6, fresh) == 6

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ALL)
    def test_at_every_call_leave_the_old_or_the_new_whole(self, tmp_path, name):
        most = 12 if name == "checkpoints" else 60
        assert kills.run("storage.every_call", tmp_path, name, most) >= min(most, 16) - 2


class TestSeveral:
    @pytest.mark.parametrize("reads", [100, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_writers_and_readers_of_a_model_see_one_save_each(self, tmp_path, reads):
        path, ended, written = tmp_path / "m", threading.Event(), [0, 0]
        write_arrays(path, 0)

        def write(which):
            while not ended.is_set():
                write_arrays(path, which)
                written[which] += 1

        with ThreadPoolExecutor(2) as pool:
            writers = [pool.submit(write, which) for which in (0, 1)]
            try:
                seen = [read_arrays(path) for _ in range(reads)]
                while min(written) < 3 and not any(writer.done() for writer in writers):
                    time.sleep(0.01)
            finally:
                ended.set()
        assert [writer.result() for writer in writers] == [None, None]
        assert len(seen) == reads  # each of which compared all arrays
        write_arrays(path, 1)
        assert len(list(path.iterdir())) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ALL, indirect=True)
    def test_writers_at_once_leave_one_state_whole(self, tmp_path, kind):
        """Four processes, each of which saves both states; one may be kept out by another's lock, in one line."""
        path = path_of(kind, tmp_path)
        for _ in range(3):
            children = []
            for turn in range(4):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of forking beside threads: none of them computes
                    child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        for which in (turn % 2, 1 - turn % 2):
                            line = outcome(partial(kind.write, path, which))[1]
                            assert not line or any(words in line for words in KEPT_OUT), line
                        status = 0
                    except BaseException:
                        traceback.print_exc()
                    finally:
                        os._exit(status)
                children.append(child)
            assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
            kind.write(path, 1)
            assert kind.read(path) == 1

    def test_a_reader_that_has_begun_ends_with_the_save_it_began_with(self, tmp_path):
        path = tmp_path / "m"
        write_arrays(path, 0)
        about = read_about(path)
        for which in (1, 0, 1):
            write_arrays(path, which)
        assert np.array_equal(about.array(0), ARRAYS[0])
        shutil.rmtree(path)
        assert np.array_equal(about.array(2), ARRAYS[2])


class TestDamage:
    @pytest.mark.parametrize(
        ("kind", "flips"),
        [("arrays of a model", 12), ("stage.npz", 12), ("deep", 4)]
        + [
            pytest.param(name, 40 if name == "checkpoints" else 200, marks=pytest.mark.slow)
            for name in [*ALL, *MODELS]
            if name not in ("page.html", "predictions.npy")
        ],
        indirect=["kind"],
    )
    def test_of_one_bit_is_said_or_does_no_harm(self, tmp_path, kind, flips):
        """Random bits, and aimed ones: at the beginning and end of each file, and in its largest numbers."""
        path, rng = path_of(kind, tmp_path), np.random.default_rng(0)
        kind.write(path, 1)
        assert kind.read(path) == 1
        names = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        good = {file: file.read_bytes() for file in names}
        sizes = np.array([len(content) for content in good.values()], float)
        places = []
        for _ in range(flips):
            file = names[rng.choice(len(names), p=sizes / sizes.sum())]
            places.append((file, int(rng.integers(8 * len(good[file])))))
        for _ in range(flips * 3 // 20 + 1):  # aimed: the first and last bytes, what says how the rest is read
            file = names[rng.integers(len(names))]
            end, marks = 8 * len(good[file]), [good[file].rfind(word) for word in MARKS]
            near = rng.integers(min(end, 1024)), end - 1 - rng.integers(min(end, 1024))
            after = 8 * max(0, rng.choice(marks)) + rng.integers(-32, 480)
            places += [(file, int(at)) for at in (*near, np.clip(after, 0, end - 1))]
        seen = 0
        for file, at in places:
            content = bytearray(good[file])
            content[at // 8] ^= 1 << at % 8
            file.write_bytes(content)
            found, line = outcome(partial(kind.read, path))
            # never numbers that are others, never a raw error
            assert found in ((None, 1, 0) if kind.earlier else (None, 1)), (file.name, at)
            assert found is not None or kind.flips != "refused" or not line.startswith("nothing"), (file.name, at)
            assert not {"\n", "ridge"} & {line, *line.split()}, line
            seen += found != 1
            for each, content in good.items():
                if not each.is_file() or each.read_bytes() != content:
                    each.parent.mkdir(parents=True, exist_ok=True)
                    each.write_bytes(content)
        assert seen or kind.flips == "computed again"


@contextmanager
def full_after(size):
    """Meanwhile no file of this process grows beyond so many bytes, as where a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestTheDisk:
    @pytest.mark.parametrize("kind", some(QUICK), indirect=True)
    def test_that_is_full_is_one_line_and_keeps_what_was_there(self, tmp_path, kind):
        path = path_of(kind, tmp_path)
        for size in (0, 64):
            if not kind.grows:
                kind.write(path, 0)
            before = listed(tmp_path)
            with full_after(size):
                line = outcome(partial(kind.write, path, 1))[1]
            assert "File too large" in line or (kind.lost and not line)
            assert "\n" not in line
            if not kind.grows:
                assert kind.read(path) == 0
                if not kind.name.startswith("predictions"):  # which keep what was predicted
                    assert listed(tmp_path) == before
            kind.write(path, 1)
            assert kind.read(path) == 1
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    @pytest.mark.parametrize("kind", some(QUICK), indirect=True)
    def test_that_may_not_be_written_is_one_line_and_is_read(self, kind):
        with public_folder() as folder:
            path = path_of(kind, folder)
            kind.write(path, 0)
            assert kind.read(path) == int(kind.grows)
            with without_permission(folder):
                line = outcome(partial(kind.write, path, 1))[1]
                assert "\n" not in line
                # what is complete needs nothing to be written
                assert "Permission denied" in line or ((kind.lost or kind.grows) and not line)
                assert kind.read(path) == int(kind.grows)

    @pytest.mark.parametrize("kind", some(QUICK), indirect=True)
    def test_another_one_to_which_a_link_points_is_written_and_the_link_stays(self, tmp_path, kind):
        shared = Path("/dev/shm")
        other = shared if shared.is_dir() and os.access(shared, os.W_OK) else tmp_path
        with tempfile.TemporaryDirectory(dir=other) as place:
            link, target = path_of(kind, tmp_path), path_of(kind, Path(place) / "there")
            target.parent.mkdir()
            link.symlink_to(target)
            for which in (0, 1):
                kind.write(link, which)
                assert kind.read(link) == kind.read(target) == (1 if kind.grows else which)
                assert link.is_symlink()
                assert not target.is_symlink()
            assert [path.name for path in tmp_path.iterdir()] == [link.name]


COLUMNS = {  # what is said of kinds that grow, and of others
    "kill at every call": ("resumes", "old or new"),
    "two writers": ("the same numbers", "one of them"),
    "flips": (None, None),
    "full disk": ("one line, resumes", "one line, old stays"),
    "read-only": ("read", "one line, read"),
    "symbolic link": ("stays a link", "stays a link"),
}


def test_the_table_of_the_guide_is_that_of_these_tests():
    page = Path(__file__).parents[2] / "docs" / "guide" / "saved-files.md"
    table = [line.strip("|").split("|") for line in page.read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in row] for row in table]
    head = next(number for number, row in enumerate(rows) if row[0] == "kind of file")
    assert rows[head][1:] == ["malicious file", *COLUMNS]
    found = {row[0]: row[1:] for row in rows[head + 2 :]}
    for kind in KINDS.values():
        cells = [grows if kind.grows else other for grows, other in COLUMNS.values()]
        cells[2] = kind.flips
        assert found.pop(kind.name) == ["refused", *cells]
    assert not found


def test_no_device_is_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with atomic_file(tmp_path / "pipe") as partial:
        partial.write_text("through it")
    assert os.read(read, 100) == b"through it"
    os.close(read)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    with atomic_file(Path(os.devnull)) as partial:
        partial.write_text("nothing")
    assert Path(os.devnull).is_char_device()


def test_images_of_whole_numbers_take_less_than_half_and_come_back_as_they_were(tmp_path):
    rng = np.random.default_rng(0)
    arrays = [
        (rng.integers(0, 256, (50, 16, 16, 3)) / 255).astype(np.float32),
        np.asfortranarray(rng.normal(size=(300, 40))),
        np.zeros((0, 3)),
        np.array(2.5),
    ]
    write_folder(tmp_path / "model", {"class": "X"}, arrays)
    about = read_about(tmp_path / "model")
    packed = [about.zip.getinfo(f"{i}.npy").compress_size for i in range(4)]
    assert packed[0] < arrays[0].nbytes / 2
    assert packed[1] > arrays[1].nbytes
    for i, array in enumerate(arrays):
        found = about.array(i)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("entry", [10**8, -(10**8), 0])
def test_tables_of_positions_that_are_no_permutations_are_refused(entry):
    group = symmetric(3)
    described = saved_objects.EncodedValue(permutations(group, group.table))
    arrays = [np.array(array) for array in described.arrays]
    table = [array for array in arrays if array.ndim == 2][-1]  # the group's own comes before it
    table[-1, -1] = entry or table[-1, 0]
    with pytest.raises(ValueError, match="do not fit"):
        saved_objects.build(described.tree, arrays.__getitem__)


def test_tables_that_groups_compute_are_not_taken_from_files():
    group = wallpaper(rotations=4, reflections=False, shape=(2, 2))
    known = group.table.copy(), group.grid_table.copy()
    described = saved_objects.EncodedValue(group)
    state = {key: value for key, value in described.tree["state"]}
    assert not {"table", "grid_table", "inverses"} & set(state)
    described.tree["state"] += [["grid_table", {"is": "array", "number": len(described.arrays)}]]
    made = saved_objects.build(described.tree, [*described.arrays, np.full(known[1].shape, 10**8)].__getitem__)
    np.testing.assert_array_equal(made.table, known[0])
    np.testing.assert_array_equal(made.grid_table, known[1])
