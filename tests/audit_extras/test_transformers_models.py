"""Models of transformers with random weights: their outputs by name, the entries that are None, caches among them."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
import torch
from transformers import (
    BatchEncoding,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    ViTConfig,
    ViTForImageClassification,
)

import equitangents as et
from equitangents.errors import EquitangentsError

QUIET = {"off_data": False, "resamples": 50}
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(6, 1, 8, 8)).astype(np.float32)
WORDS = RNG.integers(1, 20, size=(6, 5))


def vision(**settings: bool) -> ViTForImageClassification:
    torch.manual_seed(0)
    config = ViTConfig(**SIZES, image_size=8, patch_size=4, num_channels=1, num_labels=3, **settings)
    return ViTForImageClassification(config)


def test_an_image_classifier_is_audited_as_it_is() -> None:
    model = vision()
    report = et.audit(model, "C4", IMAGES, layout="channels_first", **QUIET)
    assert [o.name for o in report.contract.outputs] == ["logits"], "what is None is no output"
    assert report.float_floor.method == "float64"
    assert report.layers.layers
    model.eval()
    with torch.inference_mode():
        y, moved = (model(torch.from_numpy(a.copy())).logits.numpy() for a in (IMAGES, np.rot90(IMAGES, 1, (2, 3))))
    np.testing.assert_allclose(
        report.errors[0], np.linalg.norm(moved - y, axis=1) / np.linalg.norm(y, axis=1), rtol=1e-3
    )
    averaged = report.remedy("average")
    assert et.audit(averaged, "C4", IMAGES, layout="channels_first", effort="quick").verdict == "equivariant"


def test_the_batches_of_tokenizers_are_inputs() -> None:
    torch.manual_seed(0)
    model = BertModel(BertConfig(**SIZES, vocab_size=20, max_position_embeddings=8), add_pooling_layer=False)
    x = BatchEncoding({"input_ids": WORDS, "attention_mask": np.ones_like(WORDS)})
    given = {"inputs": {"input_ids": "points", "attention_mask": "points"}, "elements": 3, "effort": "quick"}
    assert et.audit(model, "S_n", x, "points", **given).verdict == "broken", "words have positions"
    with torch.no_grad():
        model.embeddings.position_embeddings.weight.zero_()
    report = et.audit(model, "S_n", x, {"last_hidden_state": "points"}, **given)
    assert (report.verdict, [o.name for o in report.contract.outputs]) == ("equivariant", ["last_hidden_state"])


def test_a_cache_is_no_array_and_matters_only_if_it_is_audited() -> None:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20, n_positions=8))
    given = {"inputs": "sequences", "elements": 1, "effort": "quick"}
    report = et.audit(model, "reversal", WORDS, "sequences", select="logits", layout="channels_last", **given)
    assert report.verdict == "broken", "it reads from left to right"
    with pytest.raises(EquitangentsError, match=r"f\(x\)\['past_key_values'\].*select="):
        et.audit(model, "reversal", WORDS, layout="channels_last", **given)
