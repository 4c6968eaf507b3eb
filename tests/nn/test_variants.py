"""The same architecture with another depth, other scales or another nonlinearity."""

import pytest

from equitangents import groups, nn
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.nn.variants import vary

cnn = nn.Sequential(
    nn.Conv(8, (3, 3)), nn.Relu(), nn.AvgPool((2, 2)), nn.Conv(4, (1, 1)), nn.Erf(), nn.GlobalAvgPool(), nn.Dense(2)
)
group_cnn = nn.Sequential(
    nn.Lift(groups.wallpaper(4, False, (4, 4)), 4, (3, 3)), nn.Relu(), nn.GroupPool(), nn.Dense(1)
)


def test_nothing_given_changes_nothing():
    assert vary(cnn) == cnn


def test_less_depth_keeps_the_first_blocks():
    assert vary(cnn, depth=1) == nn.Sequential(*cnn.layers[:2], *cnn.layers[5:])
    assert vary(cnn, depth=2) == cnn


def test_more_depth_repeats_the_last_linear_layer_and_nonlinearity():
    assert vary(cnn, depth=4) == nn.Sequential(*cnn.layers[:5], *cnn.layers[3:5] * 2, *cnn.layers[5:])


def test_residual_blocks_are_repeated_whole():
    block = nn.Residual(nn.Relu(), nn.Dense(4))
    net = nn.Sequential(nn.Dense(4), block, nn.Dense(1))
    assert vary(net, depth=2) == nn.Sequential(nn.Dense(4), block, block, nn.Dense(1))
    assert vary(net, W_std=2.0, nonlinearity="gelu") == nn.Sequential(
        nn.Dense(4, 2.0), nn.Residual(nn.Gelu(), nn.Dense(4, 2.0)), nn.Dense(1, 2.0)
    )


def test_layers_of_every_branch_are_changed():
    branches = lambda w, phi: nn.Parallel([nn.Dense(4, w), phi], nn.Residual(phi, nn.Dense(4, w)))
    net = lambda w, phi: nn.Sequential(nn.Dense(4, w), branches(w, phi), nn.Sum(), nn.Dense(1, w))
    assert repr(vary(net(1.0, nn.Relu()), W_std=2.0, nonlinearity="gelu")) == repr(net(2.0, nn.Gelu()))


def test_scales_are_those_of_every_layer_with_weights():
    varied = vary(group_cnn, W_std=1.5, b_std=0.3)
    assert [layer.W_std for layer in varied.layers if hasattr(layer, "W_std")] == [1.5, 1.5]
    assert [layer.b_std for layer in varied.layers if hasattr(layer, "b_std")] == [0.3, 0.3]


@pytest.mark.parametrize("nonlinearity", ["relu", "ReLU", nn.Relu, nn.Relu()])
def test_nonlinearities_by_name_class_or_object(nonlinearity):
    assert [vary(cnn, nonlinearity=nonlinearity).layers[i] for i in (1, 4)] == [nn.Relu(), nn.Relu()]


@pytest.mark.parametrize(
    ("net", "how", "error", "message"),
    [
        (group_cnn, {"depth": 2}, InvalidArgumentError, "that can be repeated"),
        (nn.Sequential(nn.Dense(1)), {"depth": 1}, InvalidArgumentError, "no nonlinearity"),
        (
            nn.Sequential(nn.Relu(), nn.Dense(1)),
            {"depth": 2},
            InvalidArgumentError,
            "a layer with weights",
        ),
        (cnn, {"depth": 0}, InvalidArgumentError, "depth"),
        (cnn, {"W_std": -1.0}, InvalidArgumentError, "W_std"),
        (cnn, {"nonlinearity": "tanhh"}, InvalidArgumentError, "nonlinearity is 'tanhh'"),
        (cnn, {"nonlinearity": nn.Dense}, InvalidArgumentError, "nonlinearity is"),
        ("cnn", {"depth": 1}, InvalidTypeError, "net is 'cnn'"),
    ],
)
def test_what_cannot_be_varied_is_refused(net, how, error, message):
    with pytest.raises(error, match=message):
        vary(net, **how)
