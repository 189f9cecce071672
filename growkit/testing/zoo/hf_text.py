"""Language models of transformers, without weights of anyone."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

from growkit.discovery.inputs import Inputs
from growkit.testing.zoo.entry import Entry, Size, either

Built = tuple[nn.Module, Any]

SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def _ids(size: Size, time: int = 7) -> Tensor:
    return torch.randint(0, 4, (size(2), size(time)))


def _causal(model: nn.Module, size: Size) -> Built:
    return model, Inputs(_ids(size), use_cache=False)


def _llama_like(size: Size, hidden: int = 24, head_dim: int = 0) -> dict[str, Any]:
    """Entries that decoders after Llama share: six query heads, two key heads; `head_dim` 0 follows from the others."""
    head_dim = either(size, head_dim, 4)
    return {
        "vocab_size": size(37),
        "hidden_size": size(hidden),
        "num_hidden_layers": 2,
        "num_attention_heads": either(size, 6, 4),
        "num_key_value_heads": 2,
        "intermediate_size": size(19),
        "max_position_embeddings": either(size, 23, 8),
        **({"head_dim": head_dim} if head_dim else {}),
        **SPECIAL,
    }


def gpt2(size: Size) -> Built:
    """GPT-2: learned positions, one matrix for queries, keys and values, a tied head."""
    config = transformers.GPT2Config(
        vocab_size=size(37),
        n_positions=size(23),
        n_embd=either(size, 15, 4),
        n_head=either(size, 3, 2),
        n_inner=size(21),
        n_layer=2,
        **SPECIAL,
    )
    return _causal(transformers.GPT2LMHeadModel(config), size)


def gpt_neox(size: Size) -> Built:
    """GPT-NeoX: queries, keys and values of a head lie together; half of each head is rotated; parallel blocks."""
    config = transformers.GPTNeoXConfig(
        vocab_size=size(37),
        hidden_size=either(size, 24, 16),
        num_hidden_layers=2,
        num_attention_heads=either(size, 3, 2),
        intermediate_size=size(19),
        max_position_embeddings=23,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
        **SPECIAL,
    )
    return _causal(transformers.GPTNeoXForCausalLM(config), size)


def bert(size: Size) -> Built:
    """BERT for masked words: post-norm, token types, a head tied to the embedding through a transform."""
    config = transformers.BertConfig(
        vocab_size=size(37),
        hidden_size=either(size, 15, 4),
        num_hidden_layers=2,
        num_attention_heads=either(size, 3, 2),
        intermediate_size=size(21),
        max_position_embeddings=either(size, 23, 8),
        type_vocab_size=either(size, 3, 4),
        pad_token_id=0,
    )
    ids = _ids(size)
    return transformers.BertForMaskedLM(config), Inputs(ids, attention_mask=torch.ones_like(ids))


def llama(size: Size) -> Built:
    """Llama: RMS norms, rotary positions, gated units, grouped key heads."""
    return _causal(transformers.LlamaForCausalLM(transformers.LlamaConfig(**_llama_like(size))), size)


def qwen3(size: Size) -> Built:
    """Qwen3: queries and keys are normalised; the width of heads is free."""
    return _causal(transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**_llama_like(size, 21, 10))), size)


def gemma2(size: Size) -> Built:
    """Gemma 2: four norms a block, soft-capped scores and outputs, windows in every other block, a tied head."""
    config = transformers.Gemma2Config(**_llama_like(size, head_dim=10), sliding_window=5, attn_implementation="eager")
    return _causal(transformers.Gemma2ForCausalLM(config), size)


def phi3(size: Size) -> Built:
    """Phi-3: one matrix for queries, keys and values, one for the two halves of gated units."""
    entries = _llama_like(size)
    if "head_dim" in entries:  # at equal sizes: it follows from the others here
        entries |= {"hidden_size": 16, "head_dim": 4}
    return _causal(transformers.Phi3ForCausalLM(transformers.Phi3Config(**entries)), size)


def falcon(size: Size) -> Built:
    """Falcon: one key head for all query heads."""
    config = transformers.FalconConfig(
        vocab_size=size(37),
        hidden_size=either(size, 24, 16),
        num_hidden_layers=2,
        num_attention_heads=either(size, 6, 4),
        multi_query=True,
        ffn_hidden_size=size(19),
        max_position_embeddings=23,
        alibi=False,
        **SPECIAL,
    )
    return _causal(transformers.FalconForCausalLM(config), size)


def mixtral(size: Size) -> Built:
    """Mixtral: two of five experts for each token."""
    config = transformers.MixtralConfig(
        **_llama_like(size),
        num_local_experts=either(size, 5, 4),
        num_experts_per_tok=2,
        experts_implementation="eager",
    )
    return _causal(transformers.MixtralForCausalLM(config), size)


def t5(size: Size) -> Built:
    """T5: an encoder and a decoder, relative positions by bucket, gated units."""
    config = transformers.T5Config(
        vocab_size=size(37),
        d_model=size(15),
        d_kv=size(5),
        d_ff=size(19),
        num_layers=2,
        num_decoder_layers=2,
        num_heads=either(size, 3, 4),
        relative_attention_num_buckets=either(size, 8, 4),
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    inputs = Inputs(input_ids=_ids(size), decoder_input_ids=_ids(size, 9), use_cache=False)
    return transformers.T5ForConditionalGeneration(config), inputs


def mamba(size: Size) -> Built:
    """Mamba: a state space whose steps depend on the input, by a scan in python."""
    config = transformers.MambaConfig(
        vocab_size=size(37),
        hidden_size=size(11),
        state_size=size(5),
        num_hidden_layers=2,
        expand=either(size, 2, 1),
        conv_kernel=4,
        time_step_rank=either(size, 3, 4),
        **SPECIAL,
    )
    return _causal(transformers.MambaForCausalLM(config), size)


def deepseek(size: Size) -> Built:
    """DeepSeek-V3: latent attention, of which a part is rotated; one dense block and one of experts in groups."""
    config = transformers.DeepseekV3Config(
        vocab_size=size(37),
        hidden_size=size(21),
        intermediate_size=size(19),
        moe_intermediate_size=size(13),
        num_hidden_layers=2,
        num_attention_heads=either(size, 3, 4),
        num_key_value_heads=either(size, 3, 4),
        n_shared_experts=1,
        n_routed_experts=either(size, 6, 4),
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        q_lora_rank=size(11),
        kv_lora_rank=size(9),
        qk_rope_head_dim=either(size, 6, 4),
        qk_nope_head_dim=size(5),
        v_head_dim=size(7),
        max_position_embeddings=23,
        experts_implementation="eager",
        **SPECIAL,
    )
    return _causal(transformers.DeepseekV3ForCausalLM(config), size)


ENTRIES = (
    Entry("GPT-2", gpt2),
    Entry("GPT-NeoX", gpt_neox),
    Entry("BERT", bert),
    Entry("Llama", llama),
    Entry("Qwen3", qwen3),
    Entry("Gemma 2", gemma2),
    Entry("Phi-3", phi3),
    Entry("Falcon", falcon),
    Entry("Mixtral", mixtral),
    Entry("T5", t5),
    Entry("Mamba", mamba),
    Entry("DeepSeek-V3", deepseek),
)
