"""What a model does, described once: parameters, memory, traffic, launches and time are sums over its operators.

`layers_of(model)` gives one `Layer` per layer group of a record: `count` equal layers, each with a mixer and a
feed-forward part (`MixerOperators`, `FeedForwardOperators`, either may be None). Of both,

- `matrices` are the weights as engines fuse them: `Matrix.elements` whole, `Matrix.held(tp)` on one of tp ranks (also
  over an array of degrees), `local(tp)` the products that one rank multiplies (columns, depth, format class);
- `MixerOperators.attention` says what queries meet (heads, cache, windows, flop per pair), `.recurrence(tp)` what a
  constant state moves; exactly the mixers with a cache have the one, and those with a state the other;
- `FeedForwardOperators.experts` are the routed experts, which are split apart from everything else;
- the times that depend on kernels of the kind (`decode_lines`, `prefill_line`, `sequence_s`) stand in the file of the
  kind: `mixers/<kind>.py`, found by the `kind` of the record.

`weights.py` has matrices, `operator.py` the other records and the protocol, `feed_forward.py` the feed-forward parts,
`model.py` the sums that no device enters, `work.py` flop and bytes of a step, `forward_pass.py` its time on one
accelerator; `backward.py` what a backward pass finds again, `training.py` the sums of it. Nothing outside this folder
asks which kind a mixer is.

A new mixer is its record in `catalog/schema/model.py`, its reader in `catalog/hf_*.py`, and `mixers/<kind>.py`;
without `kept` it serves and is refused in training.
"""
