"""What is known about each data set that is read from a file: its name, its citation, its public home."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set's public home, with its SHA-256 checksum."""

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """The file's name, the last part of its address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Source:
    """A data set kept as `<name>.npz`, or as `folder` with one folder of images a class.

    `home` lists what `download` fetches, in the order its reader wants.
    """

    name: str
    citation: str
    class_names: tuple[str, ...] = ()
    format: str = ""
    home: tuple[RemoteFile, ...] = ()
    folder: str = ""

    @property
    def file(self) -> str:
        """The file's name in the data folder."""
        return f"{self.name}.npz"


_FASHION = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"


def _idx(address: str, *checksums: str) -> tuple[RemoteFile, ...]:
    """The four files of a set in the format of MNIST, in the order of the arrays of an archive."""
    parts = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return tuple(RemoteFile(address + part, sha256) for part, sha256 in zip(parts, checksums, strict=True))


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="fashion_mnist",
            citation="H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine "
            "Learning Algorithms, arXiv:1708.07747 (2017).",
            class_names=(
                "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
            ),
            format="idx",
            home=_idx(
                _FASHION,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
        Source(
            name="mnist",
            citation="Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Gradient-based learning applied to document "
            "recognition, Proc. IEEE 86 (1998).",
            class_names=tuple("0123456789"),
            format="idx",
            home=_idx(
                _MNIST,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        Source(
            name="cifar10",
            citation="A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, technical report (2009).",
            class_names=(
                "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
            ),
            format="cifar",
            home=(
                RemoteFile(
                    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
        ),
        Source(
            name="histology_crc5",
            citation="Colorectal Carcinoma Classifier, a student project of Politecnico di Torino (2018).",
        ),
        Source(
            name="histology_lc25000_colon",
            citation="A. A. Borkowski et al., Lung and Colon Cancer Histopathological Image Dataset (LC25000), "
            "arXiv:1912.12142 (2019).",
        ),
        Source(
            name="nct_crc_he",
            citation="J. N. Kather, N. Halama and A. Marx, 100,000 histological images of human colorectal cancer and "
            "healthy tissue, Zenodo, doi:10.5281/zenodo.1214456 (2018).",
            folder="NCT-CRC-HE-100K",
        ),
    )
}  # fmt: skip

MOLECULE_SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="qm9",
            citation="R. Ramakrishnan, P. O. Dral, M. Rupp and O. A. von Lilienfeld, Quantum chemistry structures and "
            "properties of 134 kilo molecules, Sci. Data 1, 140022 (2014).",
        ),
        Source(
            name="qm7",
            citation="L. C. Blum and J.-L. Reymond, J. Am. Chem. Soc. 131, 8732 (2009); M. Rupp, A. Tkatchenko, K.-R. "
            "Müller and O. A. von Lilienfeld, Phys. Rev. Lett. 108, 058301 (2012).",
        ),
        Source(
            name="rmd17",
            citation="A. S. Christensen and O. A. von Lilienfeld, On the role of gradients for machine learning of "
            "molecular energies and forces, Mach. Learn.: Sci. Technol. 1, 045018 (2020).",
        ),
        Source(
            name="water_tensors",
            citation="A. Grisafi, D. M. Wilkins, G. Csányi and M. Ceriotti, Symmetry-Adapted Machine Learning for "
            "Tensorial Properties of Atomistic Systems, Phys. Rev. Lett. 120, 036002 (2018).",
        ),
    )
}
