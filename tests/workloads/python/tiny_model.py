"""Writes a language model of random weights for llama.cpp: FILE. 27 million parameters, some milliseconds of one CPU a token."""
import sys

import gguf
import numpy

WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 512, 8, 8, 1536, 2048
SPECIAL, BYTES, WORDS = [b"<unk>", b"<s>", b"</s>"], [b"<0x%02X>" % byte for byte in range(256)], [b"\xe2\x96\x81w%d" % word for word in range(253)]
model, random = gguf.GGUFWriter(sys.argv[1], "llama"), numpy.random.default_rng(1)


def add(name, *shape, scale=0.05):
    model.add_tensor(name, (random.standard_normal(shape) * scale).astype(numpy.float32))


model.add_context_length(CONTEXT)
model.add_embedding_length(WIDTH)
model.add_block_count(LAYERS)
model.add_feed_forward_length(HIDDEN)
model.add_head_count(HEADS)
model.add_head_count_kv(HEADS)
model.add_layer_norm_rms_eps(1e-5)
model.add_rope_dimension_count(WIDTH // HEADS)
tokens = SPECIAL + BYTES + WORDS
model.add_vocab_size(len(tokens))
model.add_tokenizer_model("llama")
model.add_token_list(tokens)
model.add_token_scores([0.0] * len(tokens))
model.add_token_types([2, 3, 3] + [6] * len(BYTES) + [1] * len(WORDS))
model.add_bos_token_id(1)
model.add_eos_token_id(2)
model.add_unk_token_id(0)
add("token_embd.weight", len(tokens), WIDTH, scale=1.0)
model.add_tensor("output_norm.weight", numpy.ones(WIDTH, numpy.float32))
add("output.weight", len(tokens), WIDTH)
for layer in range(LAYERS):
    for norm in ("attn_norm", "ffn_norm"):
        model.add_tensor(f"blk.{layer}.{norm}.weight", numpy.ones(WIDTH, numpy.float32))
    for matrix in ("attn_q", "attn_k", "attn_v", "attn_output"):
        add(f"blk.{layer}.{matrix}.weight", WIDTH, WIDTH)
    add(f"blk.{layer}.ffn_gate.weight", HIDDEN, WIDTH)
    add(f"blk.{layer}.ffn_up.weight", HIDDEN, WIDTH)
    add(f"blk.{layer}.ffn_down.weight", WIDTH, HIDDEN)
model.write_header_to_file()
model.write_kv_data_to_file()
model.write_tensors_to_file()
model.close()
