"""The model: no biases anywhere, the same map as with zero biases, nanoGPT's size."""

import pytest
import torch
from torch import nn

from tasks.gpt2.model import build_gpt2
from tests.support.gpt2 import settings


def built(**changes):
    torch.manual_seed(0)
    return build_gpt2(settings(**changes))


def test_model_without_bias_has_no_bias_parameter_and_no_buffer():
    model = built(bias=False)
    assert not [name for name, _ in model.named_parameters() if "bias" in name]
    assert all(
        isinstance(m, nn.Linear | nn.Embedding | nn.LayerNorm) for m in model.modules() if list(m.parameters(False))
    )
    assert list(model.buffers()) == []


def test_model_without_bias_equals_model_with_zero_biases():
    without, zero = built(bias=False), built(bias=True)
    biases = [p for name, p in zero.named_parameters() if name.endswith("bias")]
    assert len(biases) == 2 * 6 + 1
    assert all((bias == 0).all() for bias in biases)
    tokens = torch.randint(2048, (3, 32))
    logits, expected = without(tokens).logits, zero(tokens).logits
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)
    logits.logsumexp(-1).sum().backward()
    expected.logsumexp(-1).sum().backward()
    conv1d = [name for name, _ in zero.named_parameters() if ".c_" in name and name.endswith("weight")]
    for name, parameter in without.named_parameters():
        grad = zero.get_parameter(name).grad
        expected_grad = grad.T if name in conv1d else grad
        torch.testing.assert_close(parameter.grad, expected_grad, rtol=1e-4, atol=1e-5)


def test_paper_model_has_the_size_of_nanogpt_without_biases():
    with torch.device("meta"):
        model = build_gpt2(settings(tokenizer="gpt2", vocabulary=50304, context=1024, layers=12, heads=12, width=768))
    size = sum(parameter.numel() for parameter in model.parameters())
    assert size == 50304 * 768 + 1024 * 768 + 12 * (12 * 768**2 + 2 * 768) + 768 == 124_373_760
    assert size - 1024 * 768 == 123_587_328  # nanoGPT leaves positions out and prints 123.59M


def test_weights_are_tied_float32_and_follow_the_global_generator():
    model, again = built(), built()
    assert model.lm_head.weight is model.transformer.wte.weight
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert one.is_contiguous()
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    other_seed = build_gpt2(settings())
    assert (other_seed.lm_head.weight != model.lm_head.weight).any()


def test_initial_weights_are_scaled_down_into_the_residual_stream():
    model = built(width=128, layers=8, heads=2)
    assert float(model.transformer.h[0].attn.c_attn.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    assert float(model.transformer.h[7].mlp.c_proj.weight.detach().std()) == pytest.approx(0.02 / 16**0.5, rel=0.05)


def test_model_sees_no_later_token():
    model = built().eval()
    tokens = torch.randint(2048, (1, 32))
    changed = tokens.clone()
    changed[0, 20] = (tokens[0, 20] + 1) % 2048
    before, after = model(tokens).logits, model(changed).logits
    torch.testing.assert_close(before[0, :20], after[0, :20], rtol=0, atol=1e-6)
    assert (before[0, 20] - after[0, 20]).abs().max() > 1e-4


def test_dropout_acts_in_training_only():
    model = built(dropout=0.5)
    tokens = torch.randint(2048, (2, 32))
    assert (model.train()(tokens).logits != model(tokens).logits).any()
    torch.testing.assert_close(model.eval()(tokens).logits, model(tokens).logits, rtol=0, atol=0)
