import pytest
import torch
from torch import nn
from torchvision.models import resnet50
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MarianConfig, MarianMTModel

from decent_core.optim import assert_groups_cover, parameter_groups


def names_of(model, kind):
    """The names (a tied tensor's first) in the group of that kind, whose decay must be 0.1 or 0."""
    name_of = {id(p): name for name, p in model.named_parameters()}
    groups = {group["kind"]: group for group in parameter_groups(model, 0.1)}
    assert {kind: group["weight_decay"] for kind, group in groups.items()} == {"matrices": 0.1, "vectors": 0.0}
    return {name_of[id(p)] for p in groups[kind]["params"]}


def test_groups_of_resnet50_decay_kernels_and_the_classifier_only():
    model = resnet50(weights=None)
    kernels = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Conv2d | nn.Linear)}
    assert len(kernels) == 54
    assert names_of(model, "matrices") == kernels
    vectors = names_of(model, "vectors")
    assert vectors == {name for name, _ in model.named_parameters()} - kernels
    assert len(vectors) == 53 * 2 + 1
    assert {"layer1.0.downsample.1.weight", "layer1.0.downsample.1.bias", "bn1.weight", "fc.bias"} <= vectors


def test_groups_of_gpt2_decay_embeddings_and_conv1d_once():
    model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=11, n_positions=6))
    assert model.lm_head.weight is model.transformer.wte.weight
    blocks = {
        f"transformer.h.{layer}.{part}.weight"
        for layer in range(2)
        for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    }
    assert names_of(model, "matrices") == blocks | {"transformer.wte.weight", "transformer.wpe.weight"}
    assert {"transformer.ln_f.weight", "transformer.h.0.ln_1.bias", "transformer.h.1.mlp.c_fc.bias"} <= names_of(
        model, "vectors"
    )
    assert sum(p.numel() for group in parameter_groups(model, 0.1) for p in group["params"]) == sum(
        p.numel() for p in model.parameters()
    )


def test_groups_of_marian_leave_out_the_frozen_positions():
    config = MarianConfig(
        vocab_size=13,
        d_model=8,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=9,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=1,
    )
    model = MarianMTModel(config)
    for positions in (model.model.encoder.embed_positions, model.model.decoder.embed_positions):
        positions.weight.requires_grad_(False)
    linear = {id(module.weight) for module in model.modules() if isinstance(module, nn.Linear)}
    groups = {group["kind"]: group for group in parameter_groups(model, 0.1)}
    matrices = {id(p) for p in groups["matrices"]["params"]}
    assert matrices == linear | {id(model.model.shared.weight)}
    assert id(model.model.encoder.embed_positions.weight) not in matrices


def test_groups_know_normalisations_of_any_library_and_shape():
    llama = LlamaForCausalLM(
        LlamaConfig(vocab_size=7, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    )
    assert names_of(llama, "vectors") == {
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.norm.weight",
    }
    model = nn.ModuleList(
        [
            nn.LayerNorm((2, 3)),  # its parameters have the shape of a matrix
            nn.RMSNorm((2, 3)),
            nn.GroupNorm(2, 4),
            nn.BatchNorm2d(4),
            nn.InstanceNorm1d(4, affine=True),
            nn.Embedding(3, 2),
        ]
    )
    assert names_of(model, "matrices") == {"5.weight"}


def test_groups_leave_out_frozen_parameters_and_empty_groups():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2, bias=False))
    model[0].requires_grad_(False)
    groups = parameter_groups(model, 0.1)
    assert [group["kind"] for group in groups] == ["matrices"]
    assert groups[0]["params"][0] is model[1].weight
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="Sequential has no trainable parameter"):
        parameter_groups(model, 0.1)


def test_groups_proof_fails_for_a_lost_a_doubled_and_a_foreign_parameter():
    model = nn.Linear(2, 2)
    for params in (
        [model.weight],
        [model.weight, model.weight, model.bias],
        [*model.parameters(), nn.Linear(1, 1).weight],
    ):
        with pytest.raises(AssertionError):
            assert_groups_cover([{"params": params}], model)
    assert_groups_cover([{"params": [model.bias]}, {"params": [model.weight]}], model)


def test_groups_decide_what_an_optimizer_decays():
    """At gradient zero AdamW shrinks the matrices by (1 − ηλ) and leaves every other parameter as it was."""
    model = nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2), nn.LayerNorm(2))
    before = [p.detach().clone() for p in model.parameters()]
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    torch.optim.AdamW(parameter_groups(model, 0.1), lr=0.5, weight_decay=9.0).step()
    shrinks = [p is model[0].weight or p is model[3].weight for p in model.parameters()]
    for p, old, shrunk in zip(model.parameters(), before, shrinks, strict=True):
        torch.testing.assert_close(p.detach(), 0.95 * old if shrunk else old)
