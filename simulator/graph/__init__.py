"""Operators of a model, described once: parameters, memory, traffic, launches and time are sums over them.

`layers_of(model)` gives one `Layer` per layer group of a record: `count` equal layers, each with a mixer and a
feed-forward part (`MixerOperators`, `FeedForwardOperators`, either may be None). For both,

- `matrices` are the weights as engines fuse them: `Matrix.elements` whole, `Matrix.held(tp)` on one of tp ranks (also
  over an array of degrees), `local(tp)` the matmuls that one rank computes (columns, depth, format class);
- `MixerOperators.attention` describes attention (heads, cache, windows, flop per pair), `.recurrence(tp)` the traffic
  of a constant state; exactly the mixers with a cache have the one, and those with a state the other;
- `FeedForwardOperators.experts` are the routed experts, which are split apart from everything else;
- the times that depend on kernels of the kind (`decode_lines`, `prefill_line`, `sequence_s`) are in the file of the
  kind: `mixers/<kind>.py`, found by the `kind` of the record.

`weights.py` has matrices, `operator.py` the other records and the protocol, `feed_forward.py` the feed-forward parts,
`model.py` the sums that depend on no device, `work.py` flop and bytes of a step, `forward_pass.py` its time on one
accelerator; `backward.py` the tensors kept for a backward pass, `training.py` their sums. Code outside this folder
never asks which kind a mixer is.

A new mixer is its record in `catalog/schema/model.py`, its reader in `catalog/hf_*.py`, and `mixers/<kind>.py`;
without `kept` it serves and is refused in training.
"""
