"""The Transformer: sizes, architecture, initial weights."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tasks.wmt14.binarised import EOS, PAD
from tasks.wmt14.model import MarianTransformer, sinusoids
from tests.support import wmt14

BASE = {"layers": 6, "heads": 8, "width": 512, "feed_forward": 2048, "vocabulary": 37_120}
BIG = {"layers": 6, "heads": 16, "width": 1024, "feed_forward": 4096, "vocabulary": 32_000}


def parameters(sizes: dict[str, int]) -> int:
    """Counted by hand: the embedding, encoder layers, decoder layers."""
    d, f = sizes["width"], sizes["feed_forward"]
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    return sizes["vocabulary"] * d + sizes["layers"] * (encoder + decoder)


@pytest.mark.parametrize(("sizes", "published"), [(BASE, 65e6), (BIG, 213e6)])
def test_model_has_the_published_size_and_one_embedding(sizes, published):
    with torch.device("meta"):
        model = MarianTransformer(wmt14.plain_settings(**sizes))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained == parameters(sizes)
    assert trained == pytest.approx(published, rel=0.03)


def test_model_is_the_post_norm_transformer_of_the_paper():
    """Equal to equations written out with torch alone."""
    torch.manual_seed(0)
    settings = wmt14.plain_settings(dropout=0.0)
    model = MarianTransformer(settings).double().eval()
    source = torch.tensor([[5, 6, 7, 8, EOS], [9, 10, EOS, PAD, PAD]])
    previous = torch.tensor([[EOS, 11, 12, 13], [EOS, 14, 15, 16]])
    core, scale = model.transformer.model, math.sqrt(settings.width)
    embedding = core.shared.weight
    positions = sinusoids(16, settings.width).double()

    def attend(layer, x, memory, mask):
        def heads(y):
            return y.unflatten(-1, (settings.heads, -1)).transpose(1, 2)

        q, k, v = heads(layer.q_proj(x)), heads(layer.k_proj(memory)), heads(layer.v_proj(memory))
        weights = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(~mask, -torch.inf).softmax(-1)
        return layer.out_proj((weights @ v).transpose(1, 2).flatten(2))

    def feed_forward(layer, x):
        return layer.final_layer_norm(x + layer.fc2(F.relu(layer.fc1(x))))

    seen = (source != PAD)[:, None, None, :]
    x = embedding[source] * scale + positions[: source.shape[1]]
    for layer in core.encoder.layers:
        x = feed_forward(layer, layer.self_attn_layer_norm(x + attend(layer.self_attn, x, x, seen)))
    y = embedding[previous] * scale + positions[: previous.shape[1]]
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    for layer in core.decoder.layers:
        y = layer.self_attn_layer_norm(y + attend(layer.self_attn, y, y, causal))
        y = feed_forward(layer, layer.encoder_attn_layer_norm(y + attend(layer.encoder_attn, y, x, seen)))
    torch.testing.assert_close(model(source, previous), y @ embedding.T, rtol=1e-6, atol=1e-6)


def test_model_trains_all_but_the_positions():
    model = MarianTransformer(wmt14.plain_settings(dropout=0.0))
    source = torch.tensor([[5, 6, EOS]])
    model(source, torch.tensor([[EOS, 7, 8]])).log_softmax(-1)[..., 9].sum().backward()
    without = {name for name, p in model.named_parameters() if p.grad is None}
    assert without == {f"transformer.model.{part}.embed_positions.weight" for part in ("encoder", "decoder")}
    assert model.transformer.lm_head.weight is model.transformer.model.shared.weight


def test_model_starts_from_fairseqs_distributions():
    torch.manual_seed(0)
    settings = wmt14.plain_settings(width=64, feed_forward=128, vocabulary=2048)
    core = MarianTransformer(settings).transformer.model
    assert float(core.shared.weight[4:].detach().std()) == pytest.approx(64**-0.5, rel=0.02)
    assert not core.shared.weight[PAD].any()
    attention = core.decoder.layers[1].encoder_attn
    bound = math.sqrt(6 / 128)
    assert float(attention.out_proj.weight.detach().abs().max()) == pytest.approx(bound, rel=0.01)
    assert float(attention.q_proj.weight.detach().abs().max()) == pytest.approx(bound / math.sqrt(2), rel=0.01)
    biases = [p for name, p in core.named_parameters() if name.endswith("bias")]
    assert len(biases) == 2 * 2 * 4 + 2 * 4 + 2 * 2 * 2 + 2 * (2 + 3)
    assert not any(bias.any() for bias in biases)


def test_sinusoids_have_the_papers_wavelengths():
    table = sinusoids(50, 8).numpy()
    positions = np.arange(2, 52)[:, None]
    frequencies = 10_000.0 ** -(np.arange(4) / 3)
    np.testing.assert_allclose(
        table, np.hstack([np.sin(positions * frequencies), np.cos(positions * frequencies)]), atol=1e-5
    )


def test_model_reads_padding_as_nothing():
    torch.manual_seed(0)
    model = MarianTransformer(wmt14.plain_settings(dropout=0.0)).eval()
    short, long = torch.tensor([[5, 6, EOS]]), torch.tensor([[5, 6, EOS, PAD, PAD]])
    previous = torch.tensor([[EOS, 7, 8]])
    torch.testing.assert_close(model(short, previous), model(long, previous), rtol=1e-5, atol=1e-5)
