"""Types of the Python interface. `python tools/api_stub.py` writes this file from the records of the options."""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from advisor.api import Result as Result
from advisor.catalog.errors import AdvisorError as AdvisorError

__version__: str

def recommend(
    model: str | None = ...,
    *,
    models: str | Sequence[str] | None = ...,
    workload: Literal['serve', 'train', 'finetune', 'distill', 'rl', 'diffusion', 'embed', 'rerank', 'speech', 'vision', 'batch'] | None = ...,
    fast: bool | None = ...,
    use_case: str | None = ...,
    users: float | str | None = ...,
    requests_per_user: float | str | None = ...,
    rate: float | str | None = ...,
    concurrency: float | str | None = ...,
    input_tokens: int | str | None = ...,
    output_tokens: int | str | None = ...,
    trace: str | Path | None = ...,
    trace_speed: float | str | None = ...,
    profile: str | None = ...,
    shared_prefix_tokens: int | str | None = ...,
    shared_prefixes: int | str | None = ...,
    sessions: float | str | None = ...,
    turn_gap: float | str | None = ...,
    length_dist: str | None = ...,
    levers: str | Sequence[str] | None = ...,
    acceptance: float | str | None = ...,
    adapters: float | str | None = ...,
    adapter_rank: int | str | None = ...,
    adapter_slots: int | str | None = ...,
    ttft_p99: float | str | None = ...,
    tpot_p99: float | str | None = ...,
    ttft_p95: float | str | None = ...,
    ttft_p50: float | str | None = ...,
    tpot_p95: float | str | None = ...,
    tpot_p50: float | str | None = ...,
    itl_p99: float | str | None = ...,
    e2e_p99: float | str | None = ...,
    headroom: float | str | None = ...,
    redundancy: Literal['none', 'n+1'] | None = ...,
    budget: float | str | None = ...,
    goal: str | Path | None = ...,
    gpu: str | Sequence[str] | None = ...,
    provider: str | Sequence[str] | None = ...,
    engine: str | Sequence[str] | None = ...,
    precision: str | Sequence[str] | None = ...,
    kv_precision: str | None = ...,
    own: str | None = ...,
    term: str | Sequence[str] | None = ...,
    tenancy: str | Sequence[str] | None = ...,
    region: str | Sequence[str] | None = ...,
    residency: str | None = ...,
    max_price_age: int | str | None = ...,
    max_gpus: int | str | None = ...,
    price_file: str | Path | None = ...,
    max_context: float | str | Sequence[float | str] | None = ...,
    power_budget: float | str | None = ...,
    storage_tb: float | str | None = ...,
    egress_tb: float | str | None = ...,
    top: int | str | None = ...,
    explain: bool | None = ...,
    plan: str | Path | None = ...,
    tokens: float | str | None = ...,
    compute_optimal: bool | None = ...,
    sequence: int | str | None = ...,
    mean_length: int | str | None = ...,
    global_batch: int | str | None = ...,
    method: Literal['full', 'lora', 'qlora', 'dora', 'ia3'] | None = ...,
    lora_rank: int | str | None = ...,
    optimizer: Literal['adamw', 'adamw_bf16', 'adamw_8bit', 'adafactor', 'lion', 'muon', 'sgd'] | None = ...,
    teacher: str | None = ...,
    framework: str | Sequence[str] | None = ...,
    framework_version: str | None = ...,
    tp: int | str | None = ...,
    pp: int | str | None = ...,
    vpp: int | str | None = ...,
    cp: int | str | None = ...,
    ep: int | str | None = ...,
    etp: int | str | None = ...,
    dp: int | str | None = ...,
    micro_batch: int | str | None = ...,
    sharding: Literal['none', 'zero1', 'zero2', 'zero3'] | None = ...,
    recompute: Literal['none', 'selective', 'full', 'modules'] | None = ...,
    schedule: Literal['1f1b', 'interleaved', 'zbv', 'dualpipe'] | None = ...,
    network: str | None = ...,
    host_memory: float | str | None = ...,
    power_cap_w: float | str | None = ...,
    gpus: int | str | None = ...,
    deadline: float | str | None = ...,
    from_plan: str | Path | None = ...,
    checkpoints: Literal['async', 'sync'] | None = ...,
    storage_gb_s: float | str | None = ...,
    mtbf_hours: float | str | None = ...,
    restart: float | str | None = ...,
    spot_losses_per_day: float | str | None = ...,
    elastic: bool | None = ...,
    stragglers: float | str | None = ...,
    algorithm: Literal['grpo', 'rloo', 'ppo', 'dpo', 'kto', 'orpo', 'reward'] | None = ...,
    prompts: int | str | None = ...,
    samples: int | str | None = ...,
    rl_steps: int | str | None = ...,
    placement: Literal['colocated', 'disaggregated', 'both'] | None = ...,
    off_policy: int | str | None = ...,
    reward_time: float | str | None = ...,
    reward_model: str | None = ...,
    steps: int | str | None = ...,
    image_size: str | None = ...,
    guidance: bool | None = ...,
    query_tokens: int | str | None = ...,
    runtime: str | None = ...,
    max_batch: int | str | None = ...,
    latency_p99: float | str | None = ...,
    images: int | str | None = ...,
    image_scheme: str | None = ...,
    items: float | str | None = ...,
    emit: Literal['command', 'docker', 'compose', 'k8s', 'skypilot', 'slurm', 'dynamo', 'llm-d', 'kserve', 'ray'] | None = ...,
    emit_dir: str | Path | None = ...,
    what_if: bool | None = ...,
    question: str | None = ...,
    offline: bool | None = ...,
    seed: int | str | None = ...,
    as_of: datetime.date | str | None = ...,
    calibration: str | Path | None = ...,
) -> Result:
    """Rank every accelerator on the market for a model: layout, latencies or days, dollars.

    Args:
        model: Id, size (70b), Hugging Face id or config.json.
        models: Several models on one fleet, each with its load: 8b@20,70b@2:profile=rag.
        workload: What the hardware is for.
        fast: Screen only: a third of the time, nothing confirmed.
        use_case: Published lengths and objectives: chatbot, rag, code, agent, summarise, voice.
        users: People who use it, instead of a rate: 1000, 50k.
        requests_per_user: Requests of one of them, with --users: 20/h, 10/day.
        rate: Requests per second: 10, 10/s or 600/min.
        concurrency: Clients that each wait for one answer before the next request.
        input_tokens: Mean prompt.
        output_tokens: Mean answer.
        trace: Recorded requests: CSV or JSON lines, own, Azure or Mooncake columns.
        trace_speed: Replay the trace K times as fast.
        profile: Published lengths: chat, rag, code, agent, batch, reasoning.
        shared_prefix_tokens: Tokens of the shared prefix, counted in the mean prompt.
        shared_prefixes: Number of shared prefixes, equally often.
        sessions: Turns of a conversation on average; lengths are then those of a turn, whose prompt sends all
            before it.
        turn_gap [s]: From a prompt to the next of its conversation, on average.
        length_dist: How lengths spread: fixed, uniform:0.8, lognormal:SIGMA.
        levers: none; auto: reuse of prompts, others tried on what is shown; or those to search with: prefix, kv-
            fp8, kv-int8, kv-nvfp4, speculation (mtp or eagle), mtp, eagle, ngram, draft:MODEL, pools, split,
            power-cap.
        acceptance: Chance that a guess is accepted.
        adapters: LoRA adapters, one a request; or their folder.
        adapter_rank: Their rank, with --adapters.
        adapter_slots: Adapters in memory at once.
        ttft_p99 [s]: Largest p99 time to first token.
        tpot_p99 [s]: Largest p99 time per output token.
        ttft_p95 [s]: Largest p95 time to first token.
        ttft_p50 [s]: Largest median time to first token.
        tpot_p95 [s]: Largest p95 time per output token.
        tpot_p50 [s]: Largest median time per output token.
        itl_p99 [s]: Largest p99 gap between two tokens of a request.
        e2e_p99 [s]: Largest p99 time of a whole request.
        headroom: Fraction of the confirmed capacity kept free; 0 for benchmarks.
        redundancy: n+1: one replica more than the load needs.
        budget: At most so much: 13.7/h or 10000/month; the whole job for training. Without a load: how much
            traffic it buys.
        goal: Rank hardware families by your weights of fit, cost, ecosystem, team.
        gpu: Only these accelerators; 2xh100-sxm: at most 2.
        provider: Only these providers.
        engine: Only these engines, such as vllm@0.24.0.
        precision: Weight formats; fp8 and wider by default.
        kv_precision: KV cache, e.g. fp8.
        own: Hardware that you own: 8xh100-sxm, or what nvidia-smi -L prints.
        term: on-demand, spot, reserved-1y, reserved-3y, community.
        tenancy: dedicated, shared, unknown (hosts of other people).
        region: Where machines stand: a country (de), a place (sweden, eu), a region's beginning (us-east).
        residency: Where data may stay: eu, or countries: de,fr.
        max_price_age: Ignore prices older than this many days.
        max_gpus: Accelerators of one replica at most.
        price_file: Your own prices, which win over the catalog's.
        max_context: Context windows that each get an answer: 64k,256k,1M.
        power_budget [W]: Power that your own machines may draw, hosts included: 5kW.
        storage_tb: Weights, checkpoints and data kept, at the provider's price.
        egress_tb: Sent out a month, at the provider's price.
        top: Accelerators to rank.
        explain: Also show the calculation and why each accelerator was rejected.
        plan: Keep question and answer for `advisor replay`.
        tokens: Tokens to train on, e.g. 1T.
        compute_optimal: As many as Chinchilla says: 20 a parameter.
        sequence: Tokens of a sequence.
        mean_length: Mean tokens of sequences that are padded.
        global_batch: Sequences of one step.
        method: Fine-tuning: all weights, or adapters.
        lora_rank: Rank of adapters.
        optimizer: Optimizer.
        teacher: Distillation: the model that writes --items answers.
        framework: megatron, torchtitan, fsdp, deepspeed, maxtext, peft.
        framework_version: Release of the --framework: 2024-06, 25.04, 0.15.0.
        tp: Tensor parallelism.
        pp: Pipeline stages.
        vpp: Chunks per stage (interleaved).
        cp: Context parallelism.
        ep: Expert parallelism.
        etp: Tensor parallelism inside experts.
        dp: Data parallelism.
        micro_batch: Sequences of one pass.
        sharding: State sharded over data-parallel ranks (ZeRO stage).
        recompute: Activations computed again.
        schedule: Order of passes.
        network: Network between nodes, e.g. 'RoCE 8x400Gb'.
        host_memory [B]: Host memory for each accelerator, e.g. 128GB.
        power_cap_w: Power limit of an accelerator.
        gpus: Exact number of accelerators.
        deadline [s]: Done within, e.g. 30d.
        from_plan: A plan's question again, within other limits.
        checkpoints: Written behind the computation or not.
        storage_gb_s: What the storage takes from all nodes.
        mtbf_hours: Between failures of one accelerator.
        restart [s]: From a failure to the next step.
        spot_losses_per_day: Spot machines taken back, per machine.
        elastic: Go on without the replica that failed.
        stragglers: Spread of machines' speed, e.g. 0.01.
        algorithm: Algorithm.
        prompts: Prompts of one step; their lengths: --input-tokens.
        samples: Answers per prompt; their lengths: --output-tokens.
        rl_steps: Steps of the whole run.
        placement: Generation on the training machines, or apart.
        off_policy: Steps that answers may lag behind the weights.
        reward_time [s]: Judging one step's answers.
        reward_model: A model that judges.
        steps: Denoising steps of an image.
        image_size: Pixels of an image.
        guidance: Classifier-free guidance: every step runs twice.
        query_tokens: Of a reranker's query, read with every text.
        runtime: tensorrt, torch-compile or torch-eager.
        max_batch: Largest batch.
        latency_p99 [s]: From arrival to the finished item, that 99 % keep.
        images: Images of one request.
        image_scheme: How images become tokens: llava-1.5, qwen3-vl, ...
        items: Requests of a batch, or images, texts or audio, e.g. 1M.
        emit: Files that start the first option, printed or in a folder.
        emit_dir: Where they go; -o FOLDER says the same.
        what_if: Controls on the page of -o FILE.html: other loads, limits, prices, terms.
        question: The question in words; other keywords count first.
        offline: Never use the network.
        seed: Seed of everything random: same seed, same answer.
        as_of: Prices and availability as known on that day.
        calibration: Measured figures of one machine, from `advisor calibrate`.
    """

def replay(
    file: str | Path,
    *,
    plan: str | Path | None = ...,
    explain: bool | None = ...,
    offline: bool | None = ...,
    seed: int | str | None = ...,
    as_of: datetime.date | str | None = ...,
    calibration: str | Path | None = ...,
) -> Result:
    """Ask the question of a saved plan again, with its day, seed and limits.

    Args:
        file: What `advisor recommend --plan` wrote.
        plan: Keep question and answer for `advisor replay`.
        explain: Also show the calculation and why each accelerator was rejected.
        offline: Never use the network.
        seed: Seed of everything random: same seed, same answer.
        as_of: Prices and availability as known on that day.
        calibration: Measured figures of one machine, from `advisor calibrate`.
    """

def cost(
    model: str,
    *,
    tokens_per_day: float | str | None = ...,
    shape: str | None = ...,
    use_case: str | None = ...,
    users: float | str | None = ...,
    requests_per_user: float | str | None = ...,
    rate: float | str | None = ...,
    concurrency: float | str | None = ...,
    input_tokens: int | str | None = ...,
    output_tokens: int | str | None = ...,
    trace: str | Path | None = ...,
    profile: str | None = ...,
    shared_prefix_tokens: int | str | None = ...,
    shared_prefixes: int | str | None = ...,
    sessions: float | str | None = ...,
    turn_gap: float | str | None = ...,
    levers: str | Sequence[str] | None = ...,
    acceptance: float | str | None = ...,
    adapters: float | str | None = ...,
    adapter_rank: int | str | None = ...,
    adapter_slots: int | str | None = ...,
    ttft_p99: float | str | None = ...,
    tpot_p99: float | str | None = ...,
    ttft_p95: float | str | None = ...,
    ttft_p50: float | str | None = ...,
    tpot_p95: float | str | None = ...,
    tpot_p50: float | str | None = ...,
    itl_p99: float | str | None = ...,
    e2e_p99: float | str | None = ...,
    headroom: float | str | None = ...,
    redundancy: Literal['none', 'n+1'] | None = ...,
    budget: float | str | None = ...,
    gpu: str | Sequence[str] | None = ...,
    provider: str | Sequence[str] | None = ...,
    engine: str | Sequence[str] | None = ...,
    precision: str | Sequence[str] | None = ...,
    kv_precision: str | None = ...,
    term: str | Sequence[str] | None = ...,
    tenancy: str | Sequence[str] | None = ...,
    region: str | Sequence[str] | None = ...,
    residency: str | None = ...,
    max_price_age: int | str | None = ...,
    max_gpus: int | str | None = ...,
    price_file: str | Path | None = ...,
    power_budget: float | str | None = ...,
    own: str | None = ...,
    purchase_price: float | str | None = ...,
    years: float | str | None = ...,
    electricity: float | str | None = ...,
    api: str | Sequence[str] | None = ...,
    api_price_file: str | Path | None = ...,
    assumptions: str | Path | None = ...,
    storage_tb: float | str | None = ...,
    egress_tb: float | str | None = ...,
    top: int | str | None = ...,
    what_if: bool | None = ...,
    question: str | None = ...,
    offline: bool | None = ...,
    seed: int | str | None = ...,
    as_of: datetime.date | str | None = ...,
    calibration: str | Path | None = ...,
) -> Result:
    """Dollars per million prompt, cached and answer tokens: rented, owned, by API; fleets, break-evens, carbon.

    Args:
        model: Id, size (70b), Hugging Face id or config.json.
        tokens_per_day: Prompt and answer tokens of a mean day: 50M, 5B.
        shape: How the day's load is spread: flat, chat, chat-large, reasoning, or your own levels.
        use_case: Published lengths and objectives: chatbot, rag, code, agent, summarise, voice.
        users: People who use it, instead of a rate: 1000, 50k.
        requests_per_user: Requests of one of them, with --users: 20/h, 10/day.
        rate: Requests per second: 10, 10/s or 600/min.
        concurrency: Clients that each wait for one answer before the next request.
        input_tokens: Mean prompt.
        output_tokens: Mean answer.
        trace: Recorded requests: CSV or JSON lines, own, Azure or Mooncake columns.
        profile: Published lengths: chat, rag, code, agent, batch, reasoning.
        shared_prefix_tokens: Tokens of the shared prefix, counted in the mean prompt.
        shared_prefixes: Number of shared prefixes, equally often.
        sessions: Turns of a conversation on average; lengths are then those of a turn, whose prompt sends all
            before it.
        turn_gap [s]: From a prompt to the next of its conversation, on average.
        levers: none; auto: reuse of prompts, others tried on what is shown; or those to search with: prefix, kv-
            fp8, kv-int8, kv-nvfp4, speculation (mtp or eagle), mtp, eagle, ngram, draft:MODEL, pools, split,
            power-cap.
        acceptance: Chance that a guess is accepted.
        adapters: LoRA adapters, one a request; or their folder.
        adapter_rank: Their rank, with --adapters.
        adapter_slots: Adapters in memory at once.
        ttft_p99 [s]: Largest p99 time to first token.
        tpot_p99 [s]: Largest p99 time per output token.
        ttft_p95 [s]: Largest p95 time to first token.
        ttft_p50 [s]: Largest median time to first token.
        tpot_p95 [s]: Largest p95 time per output token.
        tpot_p50 [s]: Largest median time per output token.
        itl_p99 [s]: Largest p99 gap between two tokens of a request.
        e2e_p99 [s]: Largest p99 time of a whole request.
        headroom: Fraction of the confirmed capacity kept free; 0 for benchmarks.
        redundancy: n+1: one replica more than the load needs.
        budget: At most so much: 13.7/h or 10000/month; the whole job for training. Without a load: how much
            traffic it buys.
        gpu: Only these accelerators; 2xh100-sxm: at most 2.
        provider: Only these providers.
        engine: Only these engines, such as vllm@0.24.0.
        precision: Weight formats; fp8 and wider by default.
        kv_precision: KV cache, e.g. fp8.
        term: on-demand, spot, reserved-1y, reserved-3y, community.
        tenancy: dedicated, shared, unknown (hosts of other people).
        region: Where machines stand: a country (de), a place (sweden, eu), a region's beginning (us-east).
        residency: Where data may stay: eu, or countries: de,fr.
        max_price_age: Ignore prices older than this many days.
        max_gpus: Accelerators of one replica at most.
        price_file: Your own prices, which win over the catalog's.
        power_budget [W]: Power that your own machines may draw, hosts included: 5kW.
        own: Hardware to own: 8xh100-sxm.
        purchase_price: What one accelerator of --own costs you.
        years: Years until owned hardware is sold.
        electricity: Dollars per kWh where owned hardware stands.
        api: API providers, all or none.
        api_price_file: Your own API prices, which win over the catalog's.
        assumptions: Your own figures of ownership: electricity_usd_per_kwh = 0.09.
        storage_tb: Weights, checkpoints and data kept, at the provider's price.
        egress_tb: Sent out a month, at the provider's price.
        top: Accelerators to rank.
        what_if: Controls on the page of -o FILE.html: other volumes, hours, prices, years.
        question: The question in words; other keywords count first.
        offline: Never use the network.
        seed: Seed of everything random: same seed, same answer.
        as_of: Prices and availability as known on that day.
        calibration: Measured figures of one machine, from `advisor calibrate`.
    """

class _Build:
    def __call__(
        self,
        model: str | None = ...,
        *,
        budget: float | str | None = ...,
        target_tokens_per_s: float | str | None = ...,
        have: str | Path | None = ...,
        upgrade: float | str | None = ...,
        gpu: str | Sequence[str] | None = ...,
        max_gpus: int | str | None = ...,
        top: int | str | None = ...,
        explain: bool | None = ...,
        what_if: bool | None = ...,
        workload: Literal['serve', 'finetune'] | None = ...,
        min_lanes: int | str | None = ...,
        ecc: bool | None = ...,
        used: bool | None = ...,
        price_file: str | Path | None = ...,
        circuit: str | None = ...,
        room_cooling: float | str | None = ...,
        max_noise: float | str | None = ...,
        concurrency: int | str | None = ...,
        input_tokens: int | str | None = ...,
        output_tokens: int | str | None = ...,
        precision: str | None = ...,
        engine: str | None = ...,
        hours_per_day: float | str | None = ...,
        years: float | str | None = ...,
        electricity: float | str | None = ...,
        resale: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Plan a workstation: the best parts for a budget or a speed, each machine priced, checked and simulated.

        Args:
            model: Id, size (70b), Hugging Face id or config.json.
            budget: At most so much for the machine.
            target_tokens_per_s: Least speed in output tokens per second, e.g. 20; then the cheapest.
            have: A list of parts that you have: they cost nothing.
            upgrade: Best next parts for the machine of --have, for so much.
            gpu: Only cards with these accelerators.
            max_gpus: Cards at most; 0 plans a CPU alone.
            top: Machines to show.
            explain: Also every rule, and power limits, of each machine.
            what_if: Controls on the page of -o FILE.html: other hours, years, electricity, rents.
            workload: What the machine is for; finetune is QLoRA of the model.
            min_lanes: Electrical PCIe lanes that each card needs.
            ecc: Memory, board and CPU must correct errors.
            used: Second-hand parts where their price is known.
            price_file: Your own prices (part, usd, observed_on), which win.
            circuit: Wall circuit: 120V/15A, 120V/20A, 230V/16A, 240V/20A.
            room_cooling [W]: Heat that the room loses without getting hot.
            max_noise: Noise at one metre, dB(A).
            concurrency: Streams at once.
            input_tokens: Tokens of a prompt.
            output_tokens: Tokens of an answer.
            precision: Weight format.
            engine: Only this engine.
            hours_per_day: Hours of work a day.
            years: Years until it is sold.
            electricity: Dollars per kWh.
            resale: Resale value after --years, as a fraction of the price.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def check(
        self,
        model: str | None = ...,
        *,
        file: str | Path | None = ...,
        part: str | Sequence[str] | None = ...,
        better: bool | None = ...,
        workload: Literal['serve', 'finetune'] | None = ...,
        min_lanes: int | str | None = ...,
        ecc: bool | None = ...,
        used: bool | None = ...,
        price_file: str | Path | None = ...,
        circuit: str | None = ...,
        room_cooling: float | str | None = ...,
        max_noise: float | str | None = ...,
        concurrency: int | str | None = ...,
        input_tokens: int | str | None = ...,
        output_tokens: int | str | None = ...,
        precision: str | None = ...,
        engine: str | None = ...,
        hours_per_day: float | str | None = ...,
        years: float | str | None = ...,
        electricity: float | str | None = ...,
        resale: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Judge a list of parts: what does not fit, what is missing, what it runs, and what else the money buys.

        Args:
            model: Id, size (70b), Hugging Face id or config.json.
            file: A list of parts, free text or fields; or the list itself.
            part: A part, e.g. '2x RTX 5090 $4500'; repeat it.
            better: Also look for a better machine for the money.
            workload: What the machine is for; finetune is QLoRA of the model.
            min_lanes: Electrical PCIe lanes that each card needs.
            ecc: Memory, board and CPU must correct errors.
            used: Second-hand parts where their price is known.
            price_file: Your own prices (part, usd, observed_on), which win.
            circuit: Wall circuit: 120V/15A, 120V/20A, 230V/16A, 240V/20A.
            room_cooling [W]: Heat that the room loses without getting hot.
            max_noise: Noise at one metre, dB(A).
            concurrency: Streams at once.
            input_tokens: Tokens of a prompt.
            output_tokens: Tokens of an answer.
            precision: Weight format.
            engine: Only this engine.
            hours_per_day: Hours of work a day.
            years: Years until it is sold.
            electricity: Dollars per kWh.
            resale: Resale value after --years, as a fraction of the price.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """

build: _Build

def roofline(
    model: str | None = ...,
    *,
    gpu: str,
    shape: str | None = ...,
    op: str | None = ...,
    dtype: str | None = ...,
    kv_heads: int | str | None = ...,
    causal: bool | None = ...,
    tile: str | None = ...,
    gpus: int | str | None = ...,
    trace: str | Path | None = ...,
    batch: int | str | None = ...,
    context: int | str | None = ...,
    weight_dtype: str | None = ...,
    occupancy: bool | None = ...,
    threads: int | str | None = ...,
    registers: int | str | None = ...,
    shared_memory: float | str | None = ...,
    offline: bool | None = ...,
    seed: int | str | None = ...,
    as_of: datetime.date | str | None = ...,
    calibration: str | Path | None = ...,
) -> Result:
    """Operators on the roofline, of a model or one alone: intensity, bound, time; without either, a card's ridges.

    Args:
        model: Id, size (70b), Hugging Face id or config.json.
        gpu: Accelerator id or short name: h100.
        shape: Shape of --op in this order, or by name (heads=32,batch=8,...): gemm rows x columns x depth;
            attention batch x heads x tokens x head_dim, decode-attention with context for tokens; mlp tokens x
            hidden x inner; embedding tokens x hidden; all-reduce a size, e.g. 1GiB; others rows x columns.
        op: gemm, attention, decode-attention, mlp, layernorm, rmsnorm, softmax, gelu, silu, swiglu, transpose,
            embedding or all-reduce.
        dtype: Number format of the operator.
        kv_heads: Heads of keys and values.
        causal: Whether a token attends to earlier ones only.
        tile: Tile of a gemm, e.g. 128x128.
        gpus: Ranks of an all-reduce.
        trace: A profile: torch.profiler's Chrome JSON, or an SQLite export of nsys.
        batch: Sequences of the decode step.
        context: Tokens of each sequence and of the prompt.
        weight_dtype: Weights.
        occupancy: Blocks of a kernel per SM instead.
        threads: Threads per block.
        registers: Registers per thread.
        shared_memory [B]: Shared memory per block, e.g. 48KiB.
        offline: Never use the network.
        seed: Seed of everything random: same seed, same answer.
        as_of: Prices and availability as known on that day.
        calibration: Measured figures of one machine, from `advisor calibrate`.
    """

def memory(
    model: str,
    *,
    gpu: str,
    context: float | str | None = ...,
    concurrency: int | str | None = ...,
    link: str | None = ...,
    tp: int | str | None = ...,
    pp: int | str | None = ...,
    dp: int | str | None = ...,
    ep: int | str | None = ...,
    precision: str | None = ...,
    kv_precision: str | None = ...,
    engine: str | None = ...,
    max_num_seqs: int | str | None = ...,
    max_num_batched_tokens: int | str | None = ...,
    gpu_memory_utilization: float | str | None = ...,
    kv_cache_bytes: float | str | None = ...,
    block_size: int | str | None = ...,
    ubatch_size: int | str | None = ...,
    enforce_eager: bool | None = ...,
    enable_dp_attention: bool | None = ...,
    enable_expert_parallel: bool | None = ...,
    language_model_only: bool | None = ...,
    gpu_layers: float | str | None = ...,
    host_experts: float | str | None = ...,
    tensor_split: str | Sequence[str] | None = ...,
    cpu_offload_gb: float | str | None = ...,
    engine_version: str | None = ...,
    offline: bool | None = ...,
    seed: int | str | None = ...,
    as_of: datetime.date | str | None = ...,
    calibration: str | Path | None = ...,
) -> Result:
    """Memory of a model on an accelerator: weights, cache, state, activations, reserve, and the sequences that fit.

    Args:
        model: Id, size (70b), Hugging Face id or config.json.
        gpu: Accelerator id or short name: h100.
        context: Tokens of each sequence, prompt and output together: 8192, 32k.
        concurrency: Sequences that are held at once.
        link: Links that a sequence's cache could cross: nvlink, pcie, network, or rates such as 50GB/s.
        tp: Tensor parallelism.
        pp: Pipeline stages.
        dp: Attention data parallelism inside a replica.
        ep: Expert parallelism, over the same accelerators.
        precision: Weights.
        kv_precision: KV cache; auto is the default.
        engine: Serving engine.
        max_num_seqs: Sequences of one iteration.
        max_num_batched_tokens: Tokens of one iteration.
        gpu_memory_utilization: Fraction of memory that the engine may use, as it counts it.
        kv_cache_bytes [B]: KV cache of each accelerator, instead of a fraction: 20GiB.
        block_size: Tokens of a cache block (page).
        ubatch_size: Prompt tokens of a micro-batch (llama.cpp's -ub).
        enforce_eager: No decode graphs.
        enable_dp_attention: --dp divides the accelerators of --tp, as SGLang counts.
        enable_expert_parallel: Experts over all accelerators of a replica.
        language_model_only: No towers of images and audio.
        gpu_layers: Layers in the accelerators' memory, the output layer counted; the rest on the host.
        host_experts: First layers whose routed experts stay with the host: 20, all, or PATTERN=CPU.
        tensor_split: Layers of each stage of --pp, in proportion: 3,1.
        cpu_offload_gb: GiB of each accelerator's weights in main memory, as vLLM and SGLang count.
        engine_version: Release of the engine: 0.11.0.
        offline: Never use the network.
        seed: Seed of everything random: same seed, same answer.
        as_of: Prices and availability as known on that day.
        calibration: Measured figures of one machine, from `advisor calibrate`.
    """

def calibrate(
    file: str | Path,
    *,
    model: str | None = ...,
    gpu: str | None = ...,
    engine: str | None = ...,
    engine_version: str | None = ...,
    tp: int | str | None = ...,
    pp: int | str | None = ...,
    dp: int | str | None = ...,
    ep: int | str | None = ...,
    precision: str | None = ...,
    kv_precision: str | None = ...,
    max_num_seqs: int | str | None = ...,
    max_num_batched_tokens: int | str | None = ...,
    gpu_memory_utilization: float | str | None = ...,
    enforce_eager: bool | None = ...,
    power_cap: float | str | None = ...,
    concurrency: int | str | None = ...,
    rate: float | str | None = ...,
    input_tokens: int | str | None = ...,
    output_tokens: int | str | None = ...,
    shared_prefix_tokens: int | str | None = ...,
    offline: bool | None = ...,
    seed: int | str | None = ...,
    as_of: datetime.date | str | None = ...,
    calibration: str | Path | None = ...,
) -> Result:
    """Turn a probe, or a benchmark of your own server, into figures that every command takes with --calibration.

    Args:
        file: What `advisor probe -o` wrote, a recording of the catalog (h200-sxm-x8), or what a benchmark client
            wrote: see `advisor validate file`.
        model: Model: id, Hugging Face id or config.json.
        gpu: Accelerator.
        engine: Serving engine.
        engine_version: Release of the engine, e.g. 0.11.0.
        tp: Tensor parallelism.
        pp: Pipeline stages.
        dp: Attention data parallelism.
        ep: Expert parallelism.
        precision: Weights.
        kv_precision: KV cache.
        max_num_seqs: Sequences that may run at once.
        max_num_batched_tokens: Tokens of one engine step.
        gpu_memory_utilization: Fraction of memory that the engine may use.
        enforce_eager: The engine captures no decode graphs.
        power_cap [W]: Power limit of each accelerator: 300W.
        concurrency: Clients that each wait for their output.
        rate: Requests per second: 10, 10/s or 600/min.
        input_tokens: Mean prompt.
        output_tokens: Mean output.
        shared_prefix_tokens: Tokens of each prompt that all share.
        offline: Never use the network.
        seed: Seed of everything random: same seed, same answer.
        as_of: Prices and availability as known on that day.
        calibration: Measured figures of one machine, from `advisor calibrate`.
    """

def compare(
    first: str | Path,
    second: str | Path,
    *,
    offline: bool | None = ...,
    seed: int | str | None = ...,
    as_of: datetime.date | str | None = ...,
    calibration: str | Path | None = ...,
) -> Result:
    """Show what changed between two plans, reports or probes, and why; or two accelerators or models.

    Args:
        first: A plan, report or probe, a recording's name, an accelerator or a model.
        second: Another one of the same kind.
        offline: Never use the network.
        seed: Seed of everything random: same seed, same answer.
        as_of: Prices and availability as known on that day.
        calibration: Measured figures of one machine, from `advisor calibrate`.
    """

def kernel(
    name: Literal['gemm', 'attention', 'rms_norm', 'layer_norm', 'softmax', 'gelu', 'swiglu', 'transpose', 'attention_backward', 'attention_packed', 'decode_attention', 'decode_attention_fp8', 'mla_decode', 'rms_norm_backward', 'layer_norm_backward', 'softmax_backward', 'gelu_backward', 'swiglu_backward', 'rope', 'linear_gelu_backward', 'linear_cross_entropy', 'linear_cross_entropy_backward', 'gemm_layouts', 'fp8_block_gemm', 'w8a8', 'w4a16', 'grouped_gemm', 'grouped_gemm_fp8', 'mxfp4', 'nvfp4', 'ssd', 'gated_delta', 'selective_scan', 'causal_conv1d'],
    *,
    shape: str | None = ...,
    dtype: Literal['bf16', 'fp16', 'fp8'] | None = ...,
    gpu: str | None = ...,
    against: str | Sequence[str] | None = ...,
    sweep: Literal['tiles'] | None = ...,
    offline: bool | None = ...,
    seed: int | str | None = ...,
    as_of: datetime.date | str | None = ...,
    calibration: str | Path | None = ...,
) -> Result:
    """One operator: its rate, its roof and its error against fp64 beside the vendor's; without a GPU, its model.

    The model shows the roof, the tiles, their waves and how many programs an SM holds, for any GPU.

    Args:
        name: Operator; attention is causal.
        shape: Sizes, as 8192x8192; a wrong number of them names the operator's.
        dtype: Number format; fp8 of gemm only.
        gpu: Accelerator to model.
        against: Peers: torch (cuBLAS, FlashAttention 2), cudnn, fa3, marlin, deep-gemm, liger, fla, mamba-ssm.
        sweep: Every tile shape of gemm.
        offline: Never use the network.
        seed: Seed of everything random: same seed, same answer.
        as_of: Prices and availability as known on that day.
        calibration: Measured figures of one machine, from `advisor calibrate`.
    """

class _Simulate:
    def adapters(
        self,
        model: str,
        *,
        gpu: str,
        adapters: int | str | None = ...,
        rank: int | str | None = ...,
        slots: int | str | None = ...,
        popularity: float | str | None = ...,
        tp: int | str | None = ...,
        replicas: int | str | None = ...,
        precision: str | None = ...,
        engine: str | None = ...,
        rate: float | str | None = ...,
        concurrency: float | str | None = ...,
        input_tokens: int | str | None = ...,
        output_tokens: int | str | None = ...,
        profile: str | None = ...,
        length_dist: str | None = ...,
        requests: int | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Simulate many LoRA adapters on one model: memory, slower steps, cold loads, beside the same run without.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            adapters: How many there are.
            rank: Rank of each.
            slots: In the accelerators' memory at once.
            popularity: Zipf's exponent; 0 is uniform.
            tp: Tensor parallelism.
            replicas: Equal replicas behind a router.
            precision: Weights.
            engine: Serving engine.
            rate: Requests per second: 10, 10/s or 600/min.
            concurrency: Clients that each wait for one answer before the next request.
            input_tokens: Mean prompt.
            output_tokens: Mean answer.
            profile: Published lengths: chat, rag, code, agent, batch, reasoning.
            length_dist: How lengths spread: fixed, uniform:0.8, lognormal:SIGMA.
            requests: How many are simulated.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def afd(
        self,
        model: str,
        *,
        gpu: str,
        attention_gpus: int | str | None = ...,
        expert_gpus: int | str | None = ...,
        expert_gpu: str | None = ...,
        context: int | str | None = ...,
        tpot: float | str | None = ...,
        micro_batches: int | str | None = ...,
        balanced: bool | None = ...,
        precision: str | None = ...,
        kv_precision: str | None = ...,
        engine: str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Attention/FFN disaggregation: decode with attention and experts apart, and together on every accelerator.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            attention_gpus: Accelerators that attend and hold the cache.
            expert_gpus: Accelerators that hold the experts.
            expert_gpu: Accelerator of the experts.
            context: Tokens of each sequence.
            tpot [s]: Longest time per output token.
            micro_batches: Micro-batches in turns.
            balanced: Experts equally loaded, by copies or a balancer; else as popularity usually varies.
            precision: Weights.
            kv_precision: KV cache; auto is the default.
            engine: Serving engine.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def checkpoints(
        self,
        *,
        gpus: int | str,
        checkpoint: float | str | None = ...,
        mtbf_hours: float | str | None = ...,
        restart: float | str | None = ...,
        interval: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Simulate failures of a training run: time between them, best checkpoint interval, goodput.

        Args:
            gpus: Accelerators of the run.
            checkpoint [s]: How long a checkpoint stops training, e.g. 120s.
            mtbf_hours: Between failures of one accelerator.
            restart [s]: From a failure to the next step.
            interval [s]: Time between checkpoints.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def collective(
        self,
        *,
        op: Literal['all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'broadcast', 'send_recv'] | None = ...,
        bytes: float | str | None = ...,
        gpu: str | None = ...,
        gpus: int | str | None = ...,
        nodes: int | str | None = ...,
        algorithm: Literal['engine', 'vllm', 'sglang', 'tensorrt-llm', 'nccl'] | None = ...,
        network: str | None = ...,
        oversubscription: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Predict a collective: time, algorithm, bus bandwidth, and where another algorithm takes over.

        Args:
            op: Which collective.
            bytes [B]: Message size as nccl-tests counts it, e.g. 1GiB.
            gpu: Accelerator id or short name: h100.
            gpus: Ranks in all, one per accelerator.
            nodes: Nodes they stand in.
            algorithm: Whose algorithms may be chosen: any engine's, one engine's, or NCCL's alone.
            network: Links in words: 'EFA 32x100Gb', 'RoCE 8x400Gb', 'NDR 8x400 SHARP', 'PCIe4 no P2P'.
            oversubscription: Of a fat tree, above leaves of 32 nodes: 2 for half uplinks.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def diffusion(
        self,
        model: str,
        *,
        gpu: str,
        steps: int | str | None = ...,
        image_size: str | None = ...,
        guidance: bool | None = ...,
        runtime: str | None = ...,
        max_batch: int | str | None = ...,
        latency_p99: float | str | None = ...,
        parallel: int | str | None = ...,
        split: Literal['ulysses', 'ring', 'patch', 'pipefusion'] | None = ...,
        tp: int | str | None = ...,
        decoder_parallel: int | str | None = ...,
        frames: int | str | None = ...,
        guidance_parallel: bool | None = ...,
        skip_steps: float | str | None = ...,
        offload: Literal['none', 'components', 'layers'] | None = ...,
        precision: str | None = ...,
        rate: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Images or videos from a diffusion model: time by batch size, and how many accelerators a load takes.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            steps: Denoising steps of an image.
            image_size: Pixels of an image.
            guidance: Classifier-free guidance: every step runs twice.
            runtime: tensorrt, torch-compile or torch-eager.
            max_batch: Largest batch.
            latency_p99 [s]: From arrival to the finished item, that 99 % keep.
            parallel: Accelerators that share the tokens of one batch.
            split: How they share it.
            tp: Tensor parallelism of the transformer.
            decoder_parallel: Accelerators that share the tiles of the decoder.
            frames: Frames of a video.
            guidance_parallel: The two halves of guidance on accelerators of their own.
            skip_steps: Fraction of the steps that a step cache (TeaCache and its kind) skips: 0.4.
            offload: Weights in host memory: components come once a batch, layers in each step.
            precision: Weights.
            rate: Requests per second: 10, 10/s or 600/min.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def embed(
        self,
        model: str,
        *,
        gpu: str,
        tokens: int | str | None = ...,
        query_tokens: int | str | None = ...,
        runtime: str | None = ...,
        max_batch: int | str | None = ...,
        latency_p99: float | str | None = ...,
        precision: str | None = ...,
        rate: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Embeddings, or pairs of query and text to rerank: time by batch size, and how many a load takes.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            tokens: Tokens of a text or of 30 s of speech.
            query_tokens: Of a reranker's query, read with every text.
            runtime: tensorrt, torch-compile or torch-eager.
            max_batch: Largest batch.
            latency_p99 [s]: From arrival to the finished item, that 99 % keep.
            precision: Weights.
            rate: Requests per second: 10, 10/s or 600/min.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def experts(
        self,
        model: str,
        *,
        gpu: str,
        ep: int | str | None = ...,
        redundant: int | str | None = ...,
        skew: float | str | None = ...,
        tokens: int | str | None = ...,
        precision: str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Balance of routed experts over ranks: load of the fullest by popularity, and what redundant copies give.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            ep: Expert parallelism: ranks that the experts of a layer lie on.
            redundant: Copies of popular experts, in all ranks together.
            skew: Zipf's exponent of popularity; 0 is even.
            tokens: Tokens of an iteration, over all ranks.
            precision: Weights.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def fleet(
        self,
        description: str,
        *,
        show: bool | None = ...,
        processes: int | str | None = ...,
        step_by_step: bool | None = ...,
        records: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Simulate a fleet: pools, router, scaling, failures and load of a file; latencies, goodput, cost over time.

        Args:
            description: A fleet file, or an example: autoscaling, failures, reserved-spot, tenants.
            show: Print the file instead, to start one's own from.
            processes: Processes, where replicas do not depend on each other.
            step_by_step: Process every engine step; same records, slower.
            records: Write one row per request.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def long_context(
        self,
        model: str,
        *,
        gpu: str,
        context: float | str | None = ...,
        tp: int | str | None = ...,
        precision: str | None = ...,
        engine: str | None = ...,
        keep: str | None = ...,
        window: str | None = ...,
        hit_rate: float | str | None = ...,
        usd_per_gpu_hour: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Simulate one long prompt: prefill by context parallelism, cache by format and eviction, memory tiers.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            context: Tokens of the prompt: 131072, 128k, 1M.
            tp: Tensor parallelism.
            precision: Weights.
            engine: Serving engine.
            keep: Cache budgets as fractions of the tokens, by H2O: 0.5,0.2.
            window: Cache windows in tokens: 2048,16k.
            hit_rate: Fraction of prompts that find their cache in a tier.
            usd_per_gpu_hour: What saved accelerator time is worth.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def offload(
        self,
        model: str,
        *,
        gpu: str,
        tp: int | str | None = ...,
        precision: str | None = ...,
        engine: str | None = ...,
        batch: int | str | None = ...,
        host_memory: float | str | None = ...,
        host_bandwidth: float | str | None = ...,
        host: str | None = ...,
        context: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Decode a mixture of experts whose experts stay in host memory: read over the link, or multiplied by the host.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100; none: the host runs all.
            tp: Accelerators that share what does not stay with the host.
            precision: Weights.
            engine: Engine.
            batch: Sequences that decode together.
            host_memory [B]: Of the host, e.g. 512GB.
            host_bandwidth [B/s]: Of the host's memory, e.g. 300GB/s.
            host: Its processors: '2x Xeon Gold 6454S'.
            context: Tokens of each sequence: 4096, 32k.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def serve(
        self,
        model: str,
        *,
        gpu: str,
        tp: int | str | None = ...,
        pp: int | str | None = ...,
        ep: int | str | None = ...,
        dp: int | str | None = ...,
        replicas: int | str | None = ...,
        router: Literal['round_robin', 'least_outstanding', 'prefix_affinity', 'share'] | None = ...,
        precision: str | None = ...,
        kv_precision: str | None = ...,
        engine: str | None = ...,
        nodes: int | str | None = ...,
        network: str | None = ...,
        max_num_seqs: int | str | None = ...,
        max_num_batched_tokens: int | str | None = ...,
        batching: Literal['continuous', 'static'] | None = ...,
        prefix_caching: bool | None = ...,
        gpu_memory_utilization: float | str | None = ...,
        kv_cache_bytes: float | str | None = ...,
        max_model_len: int | str | None = ...,
        block_size: int | str | None = ...,
        ubatch_size: int | str | None = ...,
        enforce_eager: bool | None = ...,
        enable_dp_attention: bool | None = ...,
        enable_expert_parallel: bool | None = ...,
        language_model_only: bool | None = ...,
        gpu_layers: float | str | None = ...,
        host_experts: float | str | None = ...,
        tensor_split: str | Sequence[str] | None = ...,
        host_bandwidth: float | str | None = ...,
        cpu_offload_gb: float | str | None = ...,
        engine_version: str | None = ...,
        power_cap: float | str | None = ...,
        swap_space: float | str | None = ...,
        urgent: float | str | None = ...,
        speculative: str | None = ...,
        draft_tokens: int | str | None = ...,
        acceptance: float | str | None = ...,
        draft_branches: int | str | None = ...,
        adapters: int | str | None = ...,
        adapter_rank: int | str | None = ...,
        adapter_slots: int | str | None = ...,
        prefill_workers: int | str | None = ...,
        decode_workers: int | str | None = ...,
        prefill_gpu: str | None = ...,
        prefill_tp: int | str | None = ...,
        long_prompts: str | None = ...,
        other_replicas: str | Sequence[str] | None = ...,
        rate: float | str | None = ...,
        concurrency: float | str | None = ...,
        ramp: float | str | None = ...,
        input_tokens: int | str | None = ...,
        output_tokens: int | str | None = ...,
        trace: str | Path | None = ...,
        trace_speed: float | str | None = ...,
        profile: str | None = ...,
        shared_prefix_tokens: int | str | None = ...,
        shared_prefixes: int | str | None = ...,
        sessions: float | str | None = ...,
        turn_gap: float | str | None = ...,
        length_dist: str | None = ...,
        requests: int | str | None = ...,
        burstiness: float | str | None = ...,
        gaps: Literal['gamma', 'weibull'] | None = ...,
        seeds: float | str | Sequence[float | str] | None = ...,
        ttft: float | str | None = ...,
        tpot: float | str | None = ...,
        step_by_step: bool | None = ...,
        records: str | Path | None = ...,
        chrome_trace: str | Path | None = ...,
        what_if: bool | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Simulate one deployment under one load: latencies, rates, cache and memory.

        Args:
            model: Id, size (70b), Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            tp: Tensor parallelism.
            pp: Pipeline stages.
            ep: Expert parallelism, over the same accelerators.
            dp: Attention data parallelism inside a replica.
            replicas: Equal replicas behind a router.
            router: Replica that gets a request; share: one replica with its share of the load.
            precision: Weights.
            kv_precision: KV cache; auto is the default.
            engine: Serving engine.
            nodes: Machines over which a replica is spread.
            network: Network between them: 'InfiniBand 8x400Gb', 'TCP 100Gb'.
            max_num_seqs: Sequences that may run at once.
            max_num_batched_tokens: Tokens of one engine step.
            batching: static: a batch runs until its longest answer ends; continuous: requests join and leave at
                any step.
            prefix_caching: Keep the cache of prompts for others that begin alike.
            gpu_memory_utilization: Fraction of memory that the engine may use, as it counts it.
            kv_cache_bytes [B]: KV cache of each accelerator, instead of a fraction: 20GiB.
            max_model_len: Longest request that the server takes.
            block_size: Tokens of a cache block (page).
            ubatch_size: Prompt tokens of a micro-batch (llama.cpp's -ub).
            enforce_eager: No decode graphs.
            enable_dp_attention: --dp divides the accelerators of --tp, as SGLang counts.
            enable_expert_parallel: Experts over all accelerators of a replica.
            language_model_only: No towers of images and audio.
            gpu_layers: Layers in the accelerators' memory, the output layer counted; the rest on the host.
            host_experts: First layers whose routed experts stay with the host: 20, all, or PATTERN=CPU.
            tensor_split: Layers of each stage of --pp, in proportion: 3,1.
            host_bandwidth [B/s]: Bandwidth of the host's memory, with such layers.
            cpu_offload_gb: GiB of each accelerator's weights in main memory, as vLLM and SGLang count.
            engine_version: Release of the engine: 0.11.0.
            power_cap [W]: Power limit of each accelerator: 300W.
            swap_space [B]: Host memory of each accelerator for the cache of preempted requests, where the engine
                can: 16GiB.
            urgent: Part of the requests that the engine's scheduling by priority serves first: 0.2.
            speculative: Guess ahead: mtp, eagle, medusa, ngram, lookahead, draft:MODEL, self:LAYERS.
            draft_tokens: Guesses in a row, with --speculative.
            acceptance: Chance that a guess is accepted, with --speculative.
            draft_branches: Alternatives at each position of a tree, with --speculative; 1 is a chain.
            adapters: LoRA adapters, of which each request uses one.
            adapter_rank: Rank of each, with --adapters.
            adapter_slots: Adapters in memory at once, with --adapters.
            prefill_workers: Workers for prompts alone; the others decode.
            decode_workers: Workers that decode, with --prefill-workers.
            prefill_gpu: Accelerator of prefill workers.
            prefill_tp: Tensor parallelism of a prefill worker.
            long_prompts: Replicas for long prompts, and where they differ:
                from=30465:gpu=h200-sxm:tp=8:replicas=2.
            other_replicas: Replicas of other kinds behind the same router, and where they differ:
                share=0.4:gpu=l4:replicas=2.
            rate: Requests per second: 10, 10/s or 600/min.
            concurrency: Clients that each wait for one answer before the next request.
            ramp [s]: Over how long the clients begin, one after the other.
            input_tokens: Mean prompt.
            output_tokens: Mean answer.
            trace: Recorded requests: CSV or JSON lines, own, Azure or Mooncake columns.
            trace_speed: Replay the trace K times as fast.
            profile: Published lengths: chat, rag, code, agent, batch, reasoning.
            shared_prefix_tokens: Tokens of the shared prefix, counted in the mean prompt.
            shared_prefixes: Number of shared prefixes, equally often.
            sessions: Turns of a conversation on average; lengths are then those of a turn, whose prompt sends all
                before it.
            turn_gap [s]: From a prompt to the next of its conversation, on average.
            length_dist: How lengths spread: fixed, uniform:0.8, lognormal:SIGMA.
            requests: How many are simulated.
            burstiness: Standard deviation over mean of the gaps between requests: 0.5 even, 1 Poisson, 3 bursty
                (vLLM's --burstiness B is 1/CV²).
            gaps: Distribution of these gaps, with --burstiness.
            seeds: Seeds of several runs whose figures are pooled: 8,9,10.
            ttft [s]: Time to the first token that still counts as good, e.g. 1s.
            tpot [s]: Time per output token that still counts as good, e.g. 50ms.
            step_by_step: Process every engine step; same records, slower.
            records: Write one row per request.
            chrome_trace: Write the run as a trace that Perfetto opens.
            what_if: Controls on the page of -o FILE.html: other loads, lengths, prices, hours.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def speech(
        self,
        model: str | None = ...,
        *,
        gpu: str,
        tokens: int | str | None = ...,
        runtime: str | None = ...,
        max_batch: int | str | None = ...,
        latency_p99: float | str | None = ...,
        precision: str | None = ...,
        rate: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Speech to text in segments of 30 s: time by batch size, and how many accelerators a load takes.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            tokens: Tokens of a text or of 30 s of speech.
            runtime: tensorrt, torch-compile or torch-eager.
            max_batch: Largest batch.
            latency_p99 [s]: From arrival to the finished item, that 99 % keep.
            precision: Weights.
            rate: Requests per second: 10, 10/s or 600/min.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def trace(
        self,
        file: str | Path,
        *,
        speed: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Describe a trace: rate, burstiness, lengths, common beginnings; and traffic like it for a fleet file.

        Args:
            file: Recorded requests, as for --trace.
            speed: As if replayed K times as fast.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def train(
        self,
        model: str | None = ...,
        *,
        plan: str | Path | None = ...,
        gpu: str | None = ...,
        gpus: int | str | None = ...,
        global_batch: int | str | None = ...,
        sequence: int | str | None = ...,
        precision: str | None = ...,
        framework: str | None = ...,
        framework_version: str | None = ...,
        compile: bool | None = ...,
        features: str | Sequence[str] | None = ...,
        power_cap_w: float | str | None = ...,
        gpu_memory: float | str | None = ...,
        gpu_bandwidth_tb_s: float | str | None = ...,
        host_memory: float | str | None = ...,
        host_operator_us: float | str | None = ...,
        method: Literal['full', 'lora', 'qlora', 'dora', 'ia3'] | None = ...,
        lora_rank: int | str | None = ...,
        optimizer: Literal['adamw', 'adamw_bf16', 'adamw_8bit', 'adafactor', 'lion', 'muon', 'sgd'] | None = ...,
        gradients: Literal['fp32', 'bf16'] | None = ...,
        mean_length: int | str | None = ...,
        tokens: float | str | None = ...,
        network: str | None = ...,
        network_gbps: float | str | None = ...,
        gpus_per_node: int | str | None = ...,
        tp: int | str | None = ...,
        pp: int | str | None = ...,
        vpp: int | str | None = ...,
        cp: int | str | None = ...,
        ep: int | str | None = ...,
        etp: int | str | None = ...,
        dp: int | str | None = ...,
        micro_batch: int | str | None = ...,
        sharding: Literal['none', 'zero1', 'zero2', 'zero3'] | None = ...,
        shard_group: int | str | None = ...,
        recompute: Literal['none', 'selective', 'full', 'modules'] | None = ...,
        recompute_layers: int | str | None = ...,
        schedule: Literal['gpipe', '1f1b', 'interleaved', 'zb_h1', 'zbv', 'dualpipe'] | None = ...,
        first_stage_layers: int | str | None = ...,
        last_stage_layers: int | str | None = ...,
        sequence_parallel: bool | None = ...,
        offload_optimizer: bool | None = ...,
        offload_parameters: bool | None = ...,
        offload_activations: bool | None = ...,
        data: Literal['tokens', 'text'] | None = ...,
        storage: float | str | None = ...,
        tokenizer: float | str | None = ...,
        sites: int | str | None = ...,
        between_gbps: float | str | None = ...,
        inner_steps: int | str | None = ...,
        beside: str | None = ...,
        beside_gbps: float | str | None = ...,
        across: Literal['dp', 'pp'] | None = ...,
        chrome_trace: str | Path | None = ...,
        memory_snapshot: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Simulate one step of one training plan: time by part, utilisation, memory by stage, the pipeline.

        Args:
            model: Id, size (70b), Hugging Face id or config.json.
            plan: Options in a TOML file, a plan of `advisor recommend`, or settings of Axolotl, TRL, ...
            gpu: Accelerator id or short name: h100.
            gpus: In all; data parallelism takes what the rest leaves.
            global_batch: Sequences of one step.
            sequence: Tokens of a sequence.
            precision: bf16, fp16, fp8, mxfp8, nvfp4.
            framework: megatron, torchtitan, fsdp, deepspeed, maxtext, peft.
            framework_version: Its release: a month (2022-06), a container (25.11) or a version (0.15.0, torch
                2.9).
            compile: PyTorch's layers compiled (torch.compile).
            features: Switches of the run: liger, tiled_mlp, ulysses_sp, act_offload, chunked_ce, ...
            power_cap_w: Power limit of an accelerator.
            gpu_memory [B]: Memory of an accelerator's variant, e.g. 96GB.
            gpu_bandwidth_tb_s: Memory bandwidth of an accelerator's variant.
            host_memory [B]: Host memory for each accelerator, e.g. 128GB.
            host_operator_us: Host time of one PyTorch operator, e.g. 10.
            method: full, lora, qlora, dora, ia3.
            lora_rank: Rank of adapters.
            optimizer: adamw, adamw_8bit, adafactor, ...
            gradients: Format in which Megatron sums gradients: fp32, bf16.
            mean_length: Mean tokens of sequences that are padded.
            tokens: Tokens of the whole run, for its days.
            network: Network between nodes, e.g. 'RoCE 8x400Gb'.
            network_gbps: Network per accelerator, Gb/s.
            gpus_per_node: Accelerators that the fast fabric of a node joins.
            tp: Tensor parallelism.
            pp: Pipeline stages.
            vpp: Chunks per stage (interleaved).
            cp: Context parallelism.
            ep: Expert parallelism.
            etp: Tensor parallelism inside experts.
            dp: Data parallelism.
            micro_batch: Sequences of one pass.
            sharding: State that data ranks divide (ZeRO stage).
            shard_group: Ranks that a shard spans (HSDP).
            recompute: Activations computed again.
            recompute_layers: Layers of a stage with full recomputation.
            schedule: Order of passes.
            first_stage_layers: Layers of the first stage.
            last_stage_layers: Layers of the last stage.
            sequence_parallel: Norms divided along the sequence.
            offload_optimizer: States in host memory.
            offload_parameters: Weights in host memory.
            offload_activations: Inputs of layers in host memory.
            data: What is read: token ids of 4 bytes, or text that is tokenised on the way.
            storage [B/s]: Rate at which a node reads its data: 200MB/s.
            tokenizer [B/s]: Rate at which a node tokenises text: 50MB/s.
            sites: Such clusters far apart, each with this plan and its own batch.
            between_gbps: Network between a site, or cluster, and the others, Gb/s.
            inner_steps: Steps apart before parameters are averaged.
            beside: A second cluster, of the same or other accelerators: 256xa100; --gpus is the first's.
            beside_gbps: Its network per accelerator, Gb/s.
            across: What lies on both sides: replicas (dp) or stages (pp).
            chrome_trace: Write the run as a trace that Perfetto opens.
            memory_snapshot: Write memory over the step with the fields of PyTorch's snapshots.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def vision(
        self,
        model: str,
        *,
        gpu: str,
        images: int | str | None = ...,
        image_size: str | None = ...,
        image_scheme: str | None = ...,
        encoder_gpus: int | str | None = ...,
        tp: int | str | None = ...,
        replicas: int | str | None = ...,
        precision: str | None = ...,
        engine: str | None = ...,
        rate: float | str | None = ...,
        concurrency: float | str | None = ...,
        input_tokens: int | str | None = ...,
        output_tokens: int | str | None = ...,
        profile: str | None = ...,
        length_dist: str | None = ...,
        requests: int | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Simulate a vision-language model: tokens of an image, its encoder, and serving under a load.

        Args:
            model: Id, Hugging Face id or config.json.
            gpu: Accelerator id or short name: h100.
            images: Images of one request.
            image_size: Pixels of an image.
            image_scheme: How images become tokens: llava-1.5, qwen3-vl, ...
            encoder_gpus: Accelerators that only encode images.
            tp: Tensor parallelism.
            replicas: Equal replicas behind a router.
            precision: Weights.
            engine: Serving engine.
            rate: Requests per second: 10, 10/s or 600/min.
            concurrency: Clients that each wait for one answer before the next request.
            input_tokens: Mean prompt.
            output_tokens: Mean answer.
            profile: Published lengths: chat, rag, code, agent, batch, reasoning.
            length_dist: How lengths spread: fixed, uniform:0.8, lognormal:SIGMA.
            requests: How many are simulated.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """

simulate: _Simulate

class _Validate:
    def collectives(
        self,
        cases: str | Path,
        *,
        predictions: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Predict collectives and compare them with nccl-tests results.

        Args:
            cases: Table of cases; measured columns are only compared.
            predictions: Write one prediction per row, with its 80 % interval.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def file(
        self,
        file: str | Path,
        *,
        model: str | None = ...,
        gpu: str | None = ...,
        engine: str | None = ...,
        engine_version: str | None = ...,
        tp: int | str | None = ...,
        pp: int | str | None = ...,
        dp: int | str | None = ...,
        ep: int | str | None = ...,
        precision: str | None = ...,
        kv_precision: str | None = ...,
        max_num_seqs: int | str | None = ...,
        max_num_batched_tokens: int | str | None = ...,
        gpu_memory_utilization: float | str | None = ...,
        enforce_eager: bool | None = ...,
        power_cap: float | str | None = ...,
        concurrency: int | str | None = ...,
        rate: float | str | None = ...,
        input_tokens: int | str | None = ...,
        output_tokens: int | str | None = ...,
        shared_prefix_tokens: int | str | None = ...,
        network: str | None = ...,
        op: Literal['all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'broadcast', 'send_recv'] | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Is what I measured normal? Judge a benchmark, a server's log or metrics, or a report about links.

        Read are results of vllm bench serve, SGLang, GuideLLM, AIPerf, GenAI-Perf, InferenceX and llama-bench;
                start-up
        logs of vLLM, SGLang and TensorRT-LLM; Prometheus metrics; nccl-tests, nvbandwidth, nvidia-smi topo -m,
                dcgmi diag.

        Args:
            file: What the program wrote; - is stdin.
            model: Model: id, Hugging Face id or config.json.
            gpu: Accelerator.
            engine: Serving engine.
            engine_version: Release of the engine, e.g. 0.11.0.
            tp: Tensor parallelism.
            pp: Pipeline stages.
            dp: Attention data parallelism.
            ep: Expert parallelism.
            precision: Weights.
            kv_precision: KV cache.
            max_num_seqs: Sequences that may run at once.
            max_num_batched_tokens: Tokens of one engine step.
            gpu_memory_utilization: Fraction of memory that the engine may use.
            enforce_eager: The engine captures no decode graphs.
            power_cap [W]: Power limit of each accelerator: 300W.
            concurrency: Clients that each wait for their output.
            rate: Requests per second: 10, 10/s or 600/min.
            input_tokens: Mean prompt.
            output_tokens: Mean output.
            shared_prefix_tokens: Tokens of each prompt that all share.
            network: Links of nccl-tests in words: 'RoCE 8x400Gb'.
            op: Which collective it was, where the output does not say.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def images(
        self,
        cases: str | Path,
        *,
        predictions: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Predict timings of images and videos and compare them with published measurements.

        Args:
            cases: Table of cases; measured columns are only compared.
            predictions: Write one prediction per row, with its 80 % interval.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def nccl_tests(
        self,
        file: str | Path,
        *,
        gpu: str | None = ...,
        network: str | None = ...,
        op: Literal['all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'broadcast', 'send_recv'] | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Is my bus bandwidth normal? Hold nccl-tests output against what its machine should reach.

        Args:
            file: What all_reduce_perf and the like printed; - is stdin.
            gpu: Accelerator.
            network: Links in words: 'EFA 32x100Gb', 'RoCE 8x400Gb', 'PCIe4 no P2P'.
            op: Which collective it was, where the output does not say.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def offload(
        self,
        cases: str | Path,
        *,
        predictions: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Predict runs with weights in the host's memory and compare them with published measurements.

        Args:
            cases: Table of cases; measured columns are only compared.
            predictions: Write one prediction per row, with its 80 % interval.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def serving(
        self,
        cases: str | Path,
        *,
        predictions: str | Path | None = ...,
        view: Literal['replay', 'stranger'] | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Predict serving runs and compare them with published measurements.

        Args:
            cases: Table of cases; measured columns are only compared.
            predictions: Write one prediction per row, with its 80 % interval.
            view: What the predictions file holds: runs replayed as their scripts say, or as a stranger's.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def training(
        self,
        cases: str | Path,
        *,
        predictions: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Predict training runs and compare them with published measurements.

        Args:
            cases: Table of cases; measured columns are only compared.
            predictions: Write one prediction per row, with its 80 % interval.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """

validate: _Validate

class _Probe:
    def read(
        self,
        files: str | Sequence[str],
        *,
        expect: str | None = ...,
        network: str | None = ...,
        strict: bool | None = ...,
        report: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Judge pasted reports of a machine on which nothing can be installed; several files make one verdict.

        Read are nvidia-smi, its -q, -L, nvlink -s, topo -m and --query-gpu as CSV, nvbandwidth, dcgmi diag, nccl-
                tests,
        ib_write_bw, ibstat and lspci -nn.
        Two reports of nvidia-smi -q, before and after work, also show what error counters did.

        Args:
            files: What the programs printed; - is stdin.
            expect: What was ordered, e.g. h100-sxm or 8xh100-sxm.
            network: Network that was ordered, e.g. 'InfiniBand 8x400Gb'.
            strict: Exit code 5 for WARN.
            report: A report to send to the provider: .md or .html.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """

probe: _Probe

class _Catalog:
    def bits(
        self,
        model: str | None = ...,
        *,
        bits: float | str | None = ...,
        group: int | str | None = ...,
        scale_bits: float | str | None = ...,
        zero_bits: float | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List bits per element of number formats; or of a width of yours with its groups, scales and zero points.

        Args:
            model: Show the weights of this model too.
            bits: Bits of an element alone, e.g. 4.
            group: Elements that share a scale.
            scale_bits: Bits of a scale.
            zero_bits: Bits of a zero point.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def coverage(
        self,
        *,
        gpu: str | None = ...,
        provider: str | Sequence[str] | None = ...,
        price_file: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List what is priced, supported and measured, and which prices are stale, from one provider only, or missing.

        Args:
            gpu: Only this accelerator.
            provider: Only these providers.
            price_file: Your own prices, which win.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def efficiency(
        self,
        model: str | None = ...,
        *,
        gpu: str | Sequence[str] | None = ...,
        precision: str | None = ...,
        batch: int | str | None = ...,
        context: int | str | None = ...,
        region: str | Sequence[str] | None = ...,
        sort: Literal['bf16', 'fp8', 'fp4', 'int8'] | None = ...,
        top: int | str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List dense TFLOP/s per watt of accelerators and, for a model, tokens per joule and their carbon.

        Args:
            model: Decode this model, on one accelerator each.
            gpu: Only these accelerators.
            precision: Weights.
            batch: Sequences that decode together.
            context: Tokens of each.
            region: Grids of the carbon table.
            sort: Format of the order, without a model.
            top: Rows shown; JSON has all.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def gpus(
        self,
        *,
        vendor: str | None = ...,
        family: str | None = ...,
        engine: str | None = ...,
        min_memory: float | str | None = ...,
        sort: Literal['id', 'memory', 'bandwidth', 'bf16', 'fp8', 'fp4', 'power', 'released'] | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List accelerators: memory, bandwidth, dense peaks, power, links.

        Args:
            vendor: Only this vendor, e.g. nvidia.
            family: Only this architecture, e.g. hopper.
            engine: Only what this engine runs on, e.g. vllm.
            min_memory [B]: At least so much, e.g. 80GB.
            sort: Order; numbers come largest first.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def show(
        self,
        name: str,
        *,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """Show everything about one record, each figure with its source.

        Args:
            name: An accelerator, a model or an engine; h100 and 70b will do.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def models(
        self,
        *,
        family: str | None = ...,
        mixer: str | None = ...,
        moe: bool | None = ...,
        max_parameters: float | str | None = ...,
        sort: Literal['id', 'parameters', 'active', 'context', 'kv'] | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List models: parameters, layers, context, KV cache per token.

        Args:
            family: Only this family, e.g. qwen3.
            mixer: Only with such layers: gqa, mla, gdn, mamba2.
            moe: Only mixtures of experts, or none.
            max_parameters: Largest number of parameters, e.g. 70B.
            sort: Order; numbers come largest first.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def prices(
        self,
        *,
        gpu: str | Sequence[str] | None = ...,
        provider: str | Sequence[str] | None = ...,
        term: str | Sequence[str] | None = ...,
        region: str | None = ...,
        sort: Literal['accelerator', 'price', 'provider', 'age'] | None = ...,
        price_file: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List rental prices as known on a day, with their age.

        Args:
            gpu: Only these accelerators.
            provider: Only these providers.
            term: Terms, or all.
            region: Only regions that begin so, e.g. us.
            sort: Order; cheapest or newest first.
            price_file: Your own prices, which win.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def parts(
        self,
        *,
        category: str | None = ...,
        name: str | None = ...,
        max_price: float | str | None = ...,
        price_file: str | Path | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List parts of workstations with their figures and prices.

        Args:
            category: Only gpu, cpu, board, ram, psu, case, cooler, storage, system, ...
            name: Only names that hold these words.
            max_price: At most so much.
            price_file: Your own prices (part, usd, observed_on), which win.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def engines(
        self,
        model: str | None = ...,
        *,
        vendor: str | None = ...,
        precision: str | None = ...,
        gpu: str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List serving engines: scheduler, defaults, formats, and stated support by architecture.

        Args:
            model: Which engines load this model's class, e.g. gemma-2-9b or a config.json.
            vendor: Only what runs on this vendor's accelerators.
            precision: Only what serves weights in this format, e.g. fp8.
            gpu: What sources state that they support on this accelerator.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """
    def interconnects(
        self,
        *,
        kind: str | None = ...,
        network: str | None = ...,
        offline: bool | None = ...,
        seed: int | str | None = ...,
        as_of: datetime.date | str | None = ...,
        calibration: str | Path | None = ...,
    ) -> Result:
        """List links between accelerators and between nodes by generation, and what names of networks mean.

        Args:
            kind: Only this kind, e.g. nvlink, pcie, infiniband, efa, ici.
            network: What this name stands for, e.g. 'EFA 32x100Gb'.
            offline: Never use the network.
            seed: Seed of everything random: same seed, same answer.
            as_of: Prices and availability as known on that day.
            calibration: Measured figures of one machine, from `advisor calibrate`.
        """

catalog: _Catalog
