"""GPT-2 as transformers has it, built from a configuration, with or without biases."""

from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.pytorch_utils import Conv1D

from tasks.gpt2.settings import Settings


def build_gpt2(settings: Settings) -> GPT2LMHeadModel:
    """GPT-2 with tied embeddings and its own initialisation from torch's global generator; float32, on the CPU."""
    config = GPT2Config(
        vocab_size=settings.vocabulary,
        n_positions=settings.context,
        n_embd=settings.width,
        n_layer=settings.layers,
        n_head=settings.heads,
        resid_pdrop=settings.dropout,
        embd_pdrop=settings.dropout,
        attn_pdrop=settings.dropout,
        activation_function="gelu_pytorch_tanh",  # GPT-2's gelu_new in one kernel
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)
    if not settings.bias:
        remove_biases(model)
    return model


def remove_biases(model: nn.Module) -> None:
    """Takes the biases out of layer norms and linear layers: no parameter and no buffer is left in their place."""
    for module in list(model.modules()):
        if isinstance(module, nn.LayerNorm):
            module.register_parameter("bias", None)
        for name, child in module.named_children():
            if isinstance(child, Conv1D):
                setattr(module, name, _linear(child))


def _linear(layer: Conv1D) -> nn.Linear:
    """The same map without its bias; Conv1D [inputs, outputs] has a transposed weight and can't do without one."""
    inputs, outputs = layer.weight.shape
    linear = nn.Linear(inputs, outputs, bias=False, device="meta")  # meta: draws no random numbers
    linear.weight = nn.Parameter(layer.weight.detach().T.contiguous())
    return linear
