/*
 * foreign_names.c - names of options and programs of other tools, with the name in busbar. Sources: MPI4DL
 * (src/torchgems/parser.py and benchmarks/), DNN-cpp-proxies, Megatron-LM (megatron/training/arguments.py), NeMo,
 * DeepSpeed, torchtitan, nanotron, PyTorch FSDP, Hugging Face, Horovod's synthetic benchmark, torchrun.
 */
#include "proxies/workloads/registry/registry.h"

#include "bootstrap/base/units.h"

#include <string.h>

#define IN_FILE    "in the model file"
#define MODEL_FILE "in the model file: --model config.json, a file of Hugging Face or your own with the same keys"

const struct bb_foreign_name bb_foreign_options[] = {
    {"num-spatial-parts", "--spatial-parts", "--spatial-parts 4", NULL},
    {"slice-method", "--slice", "--slice vertical", NULL},
    {"split-size", "--splits", "--splits 5", NULL},
    {"spatial-size", "--spatial-splits", "--spatial-splits 1", NULL},
    {"parts", "--micro-batches", "--micro-batches 4", NULL},
    {"batch-size bs", "--micro-batch-size (per GPU, as in PyTorch) or --global-batch-size", "--micro-batch-size 4",
     NULL},
    {"algo algorithm nccl-algo proto protocol nccl-proto", NULL,
     "NCCL chooses; a chosen one: NCCL_ALGO=Ring NCCL_PROTO=Simple with busbar bench, all: bench --sweep-algorithms "
     "(without GPUs: busbar-emulated bench)",
     NULL},
    {"sweep-algorithms sweep-variants expect min-busbw device max-ctas min-ctas w c t m z p a R y T C D "
     "warmup-iters check nthreads agg-iters average blocking cudagraph local-register timeout",
     NULL, "busbar bench has this option (without GPUs: busbar-emulated bench)", NULL},
    {"num-filters", "--filters", "--filters 416", NULL},
    {"times", "--replications", "--replications 4", "*2"},
    {"enable-master-comm-opt", "--comm-opt", "--comm-opt", NULL},
    {"precision mixed-precision", "--dtype", "--dtype half",
     "bf16=bfloat16 bf16-mixed=bfloat16 16-mixed=half fp16=half fp32=float 32=float 16=half"},
    {"dtype=fp8 dtype=float8 precision=fp8 precision=8 mixed-precision=fp8",
     "--fp8 (of a collective: --datatype f8e4m3)", "--fp8", NULL},
    {"dtype=fp4 dtype=nvfp4 precision=fp4 precision=nvfp4", "--gemm-precision nvfp4", "--gemm-precision nvfp4", NULL},
    {"size bytes message-size msg-size message-sizes", "--sizes (of a collective)", "--sizes 1G", NULL},
    {"type", "--datatype (of a collective) or --dtype", "--dtype half", NULL},
    {"in-place", "--placement in_place", "--placement in_place", NULL},
    {"enable-evaluation eval-interval eval-iters val-check-interval limit-val-batches skip-train", NULL,
     "a step is a training step", NULL},
    {"backend distributed-backend", NULL, "all measured traffic goes through NCCL", NULL},
    {"app datapath num-workers", NULL, "a step reads no data set", NULL},
    {"max-position-embeddings", NULL, IN_FILE, "max_position_embeddings"},
    {"swiglu", NULL, IN_FILE, "swiglu true"},
    {"group-query-attention", NULL, IN_FILE, "num_key_value_heads 1"}, /* num-query-groups replaces it */
    {"kv-channels", NULL, IN_FILE, "head_dim"},
    {"normalization", NULL, IN_FILE, "layer_norm layernorm=true rmsnorm=false"},
    {"position-embedding-type", NULL, IN_FILE,
     "learned_positions learned_absolute=true rope=false yarn=false mrope=false none=false"},
    {"use-rotary-position-embeddings no-position-embedding", NULL, IN_FILE, "learned_positions false"},
    {"untie-embeddings-and-output-weights", NULL, IN_FILE, "tie_word_embeddings false"},
    {"disable-bias-linear", NULL, IN_FILE, "add_bias_linear false"},
    {"add-qkv-bias", NULL, IN_FILE, "add_qkv_bias true"},
    {"qk-layernorm", NULL, IN_FILE, "qk_layernorm true"},
    {"attention-dropout", NULL, IN_FILE, "attention_dropout"},
    {"hidden-dropout", NULL, IN_FILE, "hidden_dropout"},
    {"multi-latent-attention", NULL, IN_FILE, "kv_lora_rank 32"}, /* kv-lora-rank replaces it */
    {"q-lora-rank", NULL, IN_FILE, "q_lora_rank"},
    {"kv-lora-rank", NULL, IN_FILE, "kv_lora_rank"},
    {"qk-head-dim", NULL, IN_FILE, "qk_nope_head_dim"},
    {"qk-pos-emb-head-dim", NULL, IN_FILE, "qk_rope_head_dim"},
    {"v-head-dim", NULL, IN_FILE, "v_head_dim"},
    {"moe-ffn-hidden-size", NULL, IN_FILE, "moe_intermediate_size"},
    {"moe-shared-expert-intermediate-size", NULL, IN_FILE, "shared_expert_intermediate_size"},
    {"moe-layer-freq", NULL, IN_FILE, "moe_layer_freq"},
    {"make-vocab-size-divisible-by", NULL, IN_FILE, "vocab_size padded"},
    {"rotary-base rotary-percent norm-epsilon use-rope-scaling rope-scaling-factor rotary-interleaved squared-relu "
     "rotary-seq-len-interpolation-factor apply-layernorm-1p apply-query-key-layer-scaling lr min-lr lr-decay-style "
     "lr-decay-iters lr-warmup-iters lr-warmup-fraction clip-grad adam-beta1 adam-beta2 init-method-std "
     "tokenizer-type tokenizer-model data-path split log-interval save load vocab-file merge-file transformer-impl "
     "use-mcore-models no-load-optim exit-duration-in-mins distributed-timeout-minutes moe-aux-loss-coeff "
     "moe-router-load-balancing-type tensorboard-dir wandb-project wandb-exp-name wandb-save-dir log-throughput "
     "log-params-norm log-num-zeros-in-grad log-progress log-timers-to-tensorboard log-memory-to-tensorboard "
     "timing-log-level adam-eps sgd-momentum start-weight-decay end-weight-decay weight-decay-incr-style "
     "override-opt-param-scheduler use-checkpoint-opt-param-scheduler use-checkpoint-args ckpt-format ckpt-step "
     "async-save dist-ckpt-format use-dist-ckpt use-persistent-ckpt-worker auto-detect-ckpt-format "
     "ckpt-fully-parallel-save ckpt-fully-parallel-load no-load-rng no-save-optim no-save-rng exit-interval "
     "exit-signal-handler mock-data data-cache-path train-data-path valid-data-path test-data-path dataloader-type "
     "eod-mask-loss reset-position-ids reset-attention-mask no-create-attention-mask-in-dataloader "
     "no-mmap-bin-files manual-gc manual-gc-interval loss-scale initial-loss-scale min-loss-scale loss-scale-window "
     "hysteresis use-cpu-initialization local-rank finetune pretrained-checkpoint calculate-per-token-loss "
     "check-weight-hash-across-dp-replicas-interval profile profile-ranks profile-step-start profile-step-end "
     "use-pytorch-profiler log-straggler disable-straggler-on-startup moe-z-loss-coeff moe-router-dtype "
     "moe-router-pre-softmax moe-router-score-function moe-router-topk-scaling-factor moe-router-enable-expert-bias "
     "moe-router-bias-update-rate moe-input-jitter-eps moe-per-layer-logging gradient-clipping max-norm master-addr "
     "master-port steps-per-print wall-clock-breakdown prescale-gradients max-time fp8-margin fp8-interval "
     "fp8-amax-history-len fp8-amax-compute-algo dataset dataset-path tokenizer-path dump-folder lora-alpha module "
     "rdzv-backend rdzv-id rdzv-endpoint standalone node-rank max-restarts tee redirects role local-ranks-filter "
     "machine-rank main-process-ip main-process-port "
     "do-train packing fsdp-auto-wrap-policy use-deepspeed",
     NULL, "without influence on the time and memory of a step", NULL},
    {"rampup-batch-size", NULL, "a step has the full batch, --global-batch-size", NULL},
    {"transformer-impl=local", "--software megatron-plain", "--software megatron-plain", NULL},
    {"lora use-peft", "--lora-rank 16", "--lora-rank 16", NULL},
    {"lora-dim lora-r peft peft-method peft-scheme adapter finetuning-type", "--lora-rank", "--lora-rank 16",
     "lora=16"},
    {"target-modules lora-target lora-target-modules", "--lora-targets", "--lora-targets attention",
     "all=all all-linear=all"},
    {"qlora load-in-4bit load-in-8bit quantization quantization-bit", NULL,
     "weights of 4 or 8 bits are not modelled (LoRA: --lora-rank 16)", NULL},
    {"num-classes", NULL, "the model file contains the number of classes", NULL},
    {"num-epochs", NULL, "a run consists of steps (proxy scaling: --epochs)", NULL},
    {"num-train-epochs max-epochs", "--tokens (plan: the tokens of all epochs)", "--tokens 1B", NULL},
    {"train-samples max-samples num-samples", "--tokens (plan: samples times the sequence length)", "--tokens 1B",
     NULL},
    {"num-tokens total-tokens train-tokens training-tokens max-tokens dataset-size", "--tokens", "--tokens 15T", NULL},
    {"learning-rate learning-rate-decay weight-decay", NULL, "a step trains no weights", NULL},
    {"num-layers n-layers n-layer num-hidden-layers", "--layers", "--layers 24", NULL},
    {"tensor-model-parallel-size model-parallel-size autotp-size tensor-parallel-degree tensor-parallel-size "
     "tensor-parallel tp-size tensor-parallelism tp-degree mp-size",
     "--tp", "--tp 8", NULL},
    {"pipeline-model-parallel-size pipe-parallel-size pipeline-parallel-degree pipeline-parallel-size "
     "pipeline-parallel pp-size pipeline-parallelism pp-degree num-stages num-pipeline-stages",
     "--pp", "--pp 4", NULL},
    {"context-parallel-size context-parallel-degree cp-size context-parallel cp-degree", "--cp", "--cp 2", NULL},
    {"expert-model-parallel-size expert-parallel-degree ep-size expert-parallel-size expert-parallel ep-degree", "--ep",
     "--ep 8", NULL},
    {"expert-tensor-parallel-size expert-tensor-model-parallel-size expert-tensor-parallel-degree", "--etp", "--etp 1",
     NULL},
    {"data-parallel-size data-parallel-replicate-degree dp-size data-parallel dp-degree", "--dp", "--dp 8", NULL},
    {"num-virtual-stages-per-pipeline-rank virtual-pipeline-model-parallel-size virtual-stages vp", "--vpp", "--vpp 2",
     NULL},
    {"num-layers-per-virtual-pipeline-stage", "--vpp (the layers of a stage divided by this number)", "--vpp 2",
     "layers"},
    {"microbatch-group-size-per-virtual-pipeline-stage", "--microbatch-group-size", "--microbatch-group-size 4", NULL},
    {"num-layers-in-first-pipeline-stage", "--decoder-first-pipeline-num-layers",
     "--decoder-first-pipeline-num-layers 2", NULL},
    {"num-layers-in-last-pipeline-stage", "--decoder-last-pipeline-num-layers", "--decoder-last-pipeline-num-layers 2",
     NULL},
    {"recompute-granularity activations-checkpoint-granularity", "--recompute", "--recompute full", NULL},
    {"activation-checkpoint.mode", "--recompute", "--recompute ops", "selective=ops"},
    {"selective-ac-option activation-checkpoint.selective-ac-option", NULL,
     "--recompute ops is option op; --recompute full --recompute-num-layers N recomputes N layers of a chunk", NULL},
    {"recompute-activations", "--recompute selective", "--recompute selective", NULL},
    {"recompute-method activations-checkpoint-method", NULL,
     "--recompute full recomputes all layers (method uniform), with --recompute-num-layers N the first N of each chunk "
     "(method block)",
     NULL},
    {"checkpoint-activations gradient-checkpointing deepspeed-activation-checkpointing recompute-layer "
     "activation-checkpointing fsdp-activation-checkpointing remat",
     "--recompute full", "--recompute full", NULL},
    {"optim=onebitadam optim=zerooneadam", NULL,
     "the compressed reductions of 1-bit Adam are not modelled; other reductions: --optimizer adam", NULL},
    {"optim", "--optimizer", "--optimizer adam",
     "adam=adam adamw=adam fusedadam=adam adamw_torch=adam adamw_torch_fused=adam adamw_bnb_8bit=adam-8bit "
     "adamw_8bit=adam-8bit sgd=sgd"},
    {"use-distributed-optimizer", "--dp-sync distributed", "--dp-sync distributed", NULL},
    {"use-torch-fsdp2 use-megatron-fsdp use-custom-fsdp use-fsdp", "--dp-sync zero3 (data_parallel: --sync zero3)",
     "--dp-sync zero3", NULL},
    {"data-parallel-sharding-strategy sharding-strategy fsdp-sharding-strategy strategy fsdp", "--dp-sync",
     "--dp-sync zero3",
     "no_shard=all_reduce optim_grads_params=zero3 optim_grads=zero2 optim=zero1 full_shard=zero3 "
     "shard_grad_op=zero2 "
     "hybrid_shard=hsdp ddp=all_reduce fsdp=zero3"},
    {"overlap-grad-reduce overlap-comm", NULL,
     "gradients are reduced during the backward pass unless --no-overlap is given", NULL},
    {"accumulate-allreduce-grads-in-fp32", "--grad-dtype float", "--grad-dtype float", NULL},
    {"grad-reduce-in-bf16 megatron-amp-o2", "--grad-dtype bfloat16", "--grad-dtype bfloat16", NULL},
    {"cp-comm-type context-parallel-rotate-method", "--cp-comm", "--cp-comm ring",
     "p2p=ring allgather=all_gather alltoall=ring"},
    {"moe-enable-deepep", NULL, "part of --moe-token-dispatcher-type flex: --moe-dispatch dedup", NULL},
    {"window-size", NULL, "in the model file: sliding_window", NULL},
    {"no-gradient-accumulation-fusion", NULL,
     "a kernel of its own then adds the gradients of a micro-batch, which is not modelled", NULL},
    {"moe-token-dispatcher-type", "--moe-dispatch", "--moe-dispatch alltoall", "allgather=all_gather flex=dedup"},
    {"moe-expert-capacity-factor moe-capacity-factor", "--capacity-factor", "--capacity-factor 1.25", NULL},
    {"bf16 amp", "--dtype bfloat16", "--dtype bfloat16", NULL},
    {"fp16", "--dtype half", "--dtype half", NULL},
    {"fp8-format fp8-hybrid fp8-e4m3 enable-float8-linear", "--fp8", "--fp8", NULL},
    {"fp8-recipe quantize.linear.mx.recipe-name", "--gemm-precision", "--gemm-precision mxfp8",
     "delayed=fp8 tensorwise=fp8 blockwise=fp8 mxfp8_cublas=mxfp8"},
    {"converters=float8 converters=quantize.linear.float8", "--fp8", "--fp8", NULL},
    {"fp4-format fp4-recipe", "--gemm-precision nvfp4", "--gemm-precision nvfp4", NULL},
    {"cross-entropy-loss-fusion", "--loss fused", "--loss fused", NULL},
    {"use-flash-attn flash-attention flash-attn", "--attention fused", "--attention fused", NULL},
    {"attention-backend", "--attention", "--attention fused", "flash=fused local=unfused"},
    {"framework", "--software", "--software torch", "pytorch=torch megatron-lm=megatron torchtitan=torch-compile"},
    {"compile torch-compile compile.enable", "--software torch-compile", "--software torch-compile", NULL},
    {"train-iters iters steps max-steps num-steps train-steps iterations num-iters niters",
     "--steps (proxy) or --tokens N (plan of a step; that of a collective has no iterations)", "--tokens 15T", NULL},
    {"warmup", NULL, "a plan predicts one step or operation; busbar proxy and busbar bench have a warm-up", NULL},
    {"hidden-size hidden-dim d-model n-embd dim", NULL, MODEL_FILE, "hidden_size"},
    {"ffn-hidden-size intermediate-size ffn-dim d-ff", NULL, MODEL_FILE, "intermediate_size"},
    {"vocab-size", NULL, MODEL_FILE, "vocab_size"},
    {"num-attention-heads num-heads n-heads n-head", NULL, MODEL_FILE, "num_attention_heads"},
    {"num-query-groups num-key-value-heads num-kv-heads n-kv-heads", NULL, MODEL_FILE, "num_key_value_heads"},
    {"num-experts num-moe-experts experts n-experts", NULL, MODEL_FILE, "num_experts"},
    {"moe-router-topk topk moe-topk num-experts-per-tok", NULL, MODEL_FILE, "num_experts_per_tok"},
    {"price cost gpu-price cost-per-hour price-per-gpu-hour", NULL, "with --tokens 15T, plan prints the GPU hours",
     NULL},
    {"fp4 nvfp4", "--gemm-precision nvfp4", "--gemm-precision nvfp4", NULL},
    {"mxfp8", "--gemm-precision mxfp8", "--gemm-precision mxfp8", NULL},
    {"mfu", NULL, "plan with --cluster, and proxy with --peak-tflops, report the MFU", NULL},
    {"sequence-length seq-len encoder-seq-length max-seq-len max-seq-length model-max-length cutoff-len seq ctx "
     "context-length max-length block-size",
     "--seq-length", "--seq-length 8192", NULL},
    {"zero zero-stage stage deepspeed-stage zero-optimization", "--dp-sync", "--dp-sync zero3",
     "0=all_reduce 1=zero1 2=zero2 3=zero3"},
    {"ulysses-sequence-parallel-size ds-sequence-parallel-size", "--cp", "--cp 2 --cp-comm a2a", NULL},
    {"train-batch-size gbs global-batch", "--global-batch-size", "--global-batch-size 512", NULL},
    {"train-micro-batch-size-per-gpu local-batch-size per-device-train-batch-size mbs micro-batch "
     "batch-size-per-gpu",
     "--micro-batch-size", "--micro-batch-size 1", NULL},
    {"gradient-accumulation-steps num-microbatches batch-accumulation-per-replica grad-accum grad-accum-steps "
     "gradient-accumulation accumulate-grad-batches accumulation-steps gas",
     "--micro-batches", "--micro-batches 8", NULL},
    {"ddp", NULL, "DDP is the default of --dp-sync and --sync (all_reduce)", NULL},
    {"memory gpu-mem hbm vram", "--gpu-memory", "--gpu-memory 80G", NULL},
    {"list-models", "busbar list models", "busbar list models", NULL},
    {"deepspeed", "--dp-sync zero1, zero2 or zero3", "--dp-sync zero3", NULL},
    {"deepspeed-config deepspeed-config-file", NULL,
     "the file is not read; give its values, for example: --zero-stage 3 --train-micro-batch-size-per-gpu 1 "
     "--gradient-accumulation-steps 8",
     NULL},
    {"job.config-file", NULL,
     "the file is not read; give its values, for example: --model.name llama3 --model.flavor 8B --training.seq_len "
     "8192 "
     "--training.local_batch_size 1 --parallelism.tensor_parallel_degree 8",
     NULL},
    {"config-file", NULL, "the file is not read; give its values, for example: --num-processes 8 --fsdp full_shard",
     NULL},
    {"offload cpu-offload offload-param enable-cpu-offload", NULL,
     "offload of parameters is not modelled; of the optimizer with --dp-sync distributed: --optimizer-cpu-offload",
     NULL},
    {"offload-optimizer zero-offload", NULL, "not modelled; --optimizer-cpu-offload requires --dp-sync distributed",
     NULL},
    {"cpu-offloading", NULL, "Megatron-LM's number of layers: --cpu-offloading-num-layers 16", NULL},
    {"ulysses", "--cp-comm a2a", "--cp 2 --cp-comm a2a", NULL},
    {"data-parallel-shard-degree", "--dp-sync zero3, or hsdp with --shard-size,", "--dp-sync zero3", NULL},
    {"pipeline-parallel-schedule", "--schedule", "--schedule 1f1b",
     "1f1b=1f1b interleaved1f1b=interleaved dualpipev=dualpipe interleavedzerobubble=zb-h1"},
    {"pp-engine", "--schedule", "--schedule 1f1b", "afab=gpipe"},
    {"hsdp hybrid-shard", "--dp-sync hsdp", "--dp-sync hsdp", NULL},
    {"bucket-cap-mb", "--bucket-mb", "--bucket-mb 25", NULL},
    {"ddp-bucket-size", "--bucket-mb", "--bucket-mb 153 (MiB, with 4 bytes per parameter)", "/262144"},
    {"reduce-bucket-size allgather-bucket-size zero-reduce-bucket-size zero-allgather-bucket-size "
     "stage3-prefetch-bucket-size stage3-param-persistence-threshold stage3-max-live-parameters "
     "stage3-max-reuse-distance",
     NULL, "the bucket sizes of DeepSpeed are not modelled", NULL},
    {"zero-hpz-partition-size", NULL, "secondary partitions are not modelled; similar: --dp-sync hsdp --shard-size 8",
     NULL},
    {"num-distributed-optimizer-instances", "--shard-size (the data-parallel size divided by this number)",
     "--shard-size 8", NULL},
    {"ub-tp-comm-overlap enable-async-tensor-parallel", "--tp-comm-overlap",
     "--tp-comm-overlap --sequence-parallel --tp 8", NULL},
    {"tp-comm-overlap-cfg", NULL, "--tp-comm-overlap assumes as many chunks as --tp", NULL},
    {"moe-grouped-gemm moe-use-legacy-grouped-gemm moe-permute-fusion no-masked-softmax-fusion no-bias-gelu-fusion "
     "no-bias-swiglu-fusion no-bias-dropout-fusion no-rope-fusion no-persist-layer-norm cross-entropy-fusion-impl "
     "attention-softmax-in-fp32 deterministic-mode enable-compiled-autograd precompute-float8-dynamic-scale-for-fsdp",
     NULL, "this choice of kernels is not modelled (those of a framework: --software)", NULL},
    {"hostfile include", NULL, "the hosts are not read; their number is --num-nodes, with --num-gpus GPUs each", NULL},
    {"account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split", NULL,
     "plan counts embedding and head as a layer each, if pp times vpp does not divide the layers; otherwise: "
     "--pipeline-layout",
     NULL},
    {"conf-dir", NULL, "the folder of files that are not read", NULL},
    {"bert-no-binary-head", NULL, "the small heads of BERT are not modelled", NULL},
    {"pipeline-model-parallel-layout", "--pipeline-layout", "--pipeline-layout \"Et*3|(tt|)*29,L\"", NULL},
    {"mtbf mtbf-gpu node-mtbf failure-rate", "--mtbf-node (with a unit)",
     "--mtbf-node 1500d --checkpoint 40s --restart 10m --tokens 15T", NULL},
    {"checkpoint-time checkpoint-seconds", "--checkpoint",
     "--checkpoint 40s --mtbf-node 1500d --restart 10m --tokens 15T", NULL},
    {"restart-time recovery-time", "--restart", "--restart 10m --mtbf-node 1500d --checkpoint 40s --tokens 15T", NULL},
    {"save-interval checkpoint-interval ckpt-interval save-steps", NULL,
     "plan --tokens with --mtbf-node and --checkpoint predicts the best interval", NULL},
    {"pipeline-parallel-microbatch-size", "--micro-batch-size", "--micro-batch-size 1", NULL},
    {"activations-checkpoint-num-layers", "--recompute-num-layers", "--recompute-num-layers 1 --recompute full", NULL},
    {"external-cuda-graph enable-cuda-graph", "--graph", "--graph", NULL},
    {"cuda-graph-impl", "--graph (the step) or --cuda-graph-modules (modules of layers)", "--cuda-graph-modules attn",
     NULL},
    {"cuda-graph-scope", "--cuda-graph-modules", "--cuda-graph-modules attn", NULL},
    {"enable-fsdp-float8-all-gather", "--fp8-param-gather", "--fp8-param-gather --fp8", NULL},
    {"main-grads-dtype reduce-dtype communication-data-type", "--grad-dtype", "--grad-dtype bfloat16",
     "fp32=float float32=float bf16=bfloat16 bfp16=bfloat16 fp16=half float16=half"},
    {"mics-shard-size", "--shard-size", "--shard-size 8 --dp-sync hsdp", NULL},
    {"zero-quantized-weights zero-quantized-nontrainable-weights zero-quantized-gradients", NULL,
     "the quantized messages of ZeRO++ are not modelled", NULL},
    {"partition-activations cpu-checkpointing", NULL, "this storage of activations is not modelled", NULL},
    {"grad-accum-dtype", NULL, "sums of gradients in another type than that of their reductions are not modelled",
     NULL},
    {"main-params-dtype exp-avg-dtype exp-avg-sq-dtype", NULL,
     "--use-precision-aware-optimizer has 4 bytes per state; states of 16 bits are modelled only without --dp-sync "
     "distributed: --optimizer adam-bf16",
     NULL},
    {"moe-router-group-topk moe-router-num-groups", NULL,
     "the limit of nodes per token is --moe-node-limit with --moe-dispatch dedup", NULL},
    {"moe-router-force-load-balancing", NULL, "experts have equal load unless --moe-imbalance is given", NULL},
    {"delay-wgrad-compute overlap-param-gather-with-optimizer-step "
     "defer-embedding-wgrad-compute moe-shared-expert-overlap",
     NULL, "this overlap is not modelled", NULL},
    {"no-overlap-p2p-communication overlap-p2p-comm batch-p2p-comm", NULL,
     "messages between stages are concurrent with compute where the schedule allows it", NULL},
    {"hierarchical-context-parallel-sizes use-tp-pp-dp-mapping "
     "standalone-embedding-stage lora-dropout distribute-saved-activations pipeline-parallel-split-points",
     NULL, "not modelled", NULL},
    {"nccl-communicator-config-path", NULL, "bench --max-ctas measures the effect of NCCL's CTA limit", NULL},
    {"ddp-num-buckets ddp-average-in-collective ddp-pad-buckets-for-high-nccl-busbw align-grad-reduce "
     "gradient-as-bucket-view",
     NULL, "not modelled; --bucket-mb sets the bucket size", NULL},
    {"flavor model-name model-type model-path model-name-or-path model-size arch", "--model", "--model llama3_8b",
     NULL},
    {"params parameters num-params", "--model (a name of `busbar list models`)", "--model llama3_8b", NULL},
    {"days deadline", NULL,
     "plan --tokens prints the days of one number of GPUs; of several: busbar sweep of this command with a list of "
     "ranks",
     NULL},
    {"topology fabric oversubscription oversubscription-ratio leaf leaf-size spine pods pod-size",
     "--set fabric (leaf switches and pods, with --cluster)",
     "--set fabric.nodes_per_leaf=16 --set fabric.leaf_oversubscription=4", NULL},
    {"rails rail rail-optimized", "--set fabric.rails (a leaf switch per NIC of a node, with --cluster)",
     "--set fabric.nodes_per_leaf=16 --set fabric.rails=true", NULL},
    {"nic network bandwidth nic-bandwidth ib-bandwidth inter-bandwidth",
     "--set inter.gbps (GB/s that a NIC achieves, with --cluster)", "--set inter.gbps=48.5 (400 Gbit/s)", NULL},
    {"latency alpha network-latency inter-latency", "--set inter.latency_us (microseconds, with --cluster)",
     "--set inter.latency_us=5", NULL},
    {"nics num-nics nics-per-node", "--set nics_per_node (with --cluster)", "--set nics_per_node=4", NULL},
    {"nvlink nvlink-bandwidth intra-bandwidth", "--set intra.gbps (GB/s of a GPU, with --cluster)",
     "--set intra.gbps=450", NULL},
    {"interconnect transport", "--set transport (with --cluster)", "--set transport=roce", NULL},
    {"memory-bandwidth hbm-bandwidth", "--set memory_gbps (GB/s, with --cluster)", "--set memory_gbps=3350", NULL},
    {"efficiency gemm-efficiency", "--set achieved.gemm (part of the peak rate, with --cluster)",
     "--set achieved.gemm=0.6", NULL},
    {"flops gpu-flops tflops-per-gpu peak-flops", "--tflops", "--tflops 400", NULL},
    {"straggler stragglers slow-node slow-nodes slow-rank slow-gpu", "--slow (with --cluster)", "--slow node3:0.5",
     NULL},
    {"nvls sharp collnet", NULL,
     "NCCL chooses the algorithm; without NVLS: NCCL_NVLS_ENABLE=0 with busbar bench (without GPUs: busbar-emulated "
     "bench)",
     NULL},
    {"gpu gpu-type gpu-model gpu-name accelerator hardware machine system instance-type", "--cluster",
     "--cluster h100-sxm-ib", NULL},
    {"config", "--model (of a model; for a file of DeepSpeed: --dp-sync, --micro-batch-size ...)",
     "--model ./config.json", NULL},
    {"search auto-tune autotuning optimize", "--best-layout",
     "--best-layout --global-batch-size 64 --cluster h100-sxm-ib --model llama3_8b", NULL},
    {"timeline chrome-trace", "--trace", "--trace trace.json --cluster h100-sxm-ib", NULL},
    {"replay kineto kineto-trace import-trace from-trace trace-in chakra et execution-trace", NULL,
     "a recorded trace is not read; the step of a model is written with plan --trace FILE and --export chakra FILE",
     NULL},
    {"output output-file", "--json", "--json plan.json", NULL},
    {"fp16-allreduce", "--grad-dtype half", "--grad-dtype half", NULL},
    {"world-size gpus ngpus num-gpus np num-processes ntasks g", "--ranks", "--ranks 64", NULL},
    {"n", "--ranks (of mpirun; a plan has no iterations)", "--ranks 64", NULL},
    {"nodes nnodes num-nodes hosts num-hosts num-machines", "--ranks",
     "--ranks 64 (if a node has 8 GPUs); with --ranks, leave it out", "*8"},
    {"nproc-per-node devices gpus-per-host ppn tasks-per-node ntasks-per-node", "--gpus-per-node", "--gpus-per-node 8",
     NULL},
    {"gpus-per-rank", NULL, "a rank is one GPU", NULL},
    {"ranks", "mpirun -n", "mpirun -n 8 busbar proxy ...", NULL}, /* --ranks of plan, given to proxy */
    {"tokens", NULL, "busbar plan has --tokens, for the time of a training run", NULL},
    {"best-layout", NULL, "busbar plan has --best-layout, which needs no GPU", NULL},
    {"jitter", NULL, "busbar plan has --jitter; the kernels of a run have that of its GPUs", NULL},
    {"mtbf-node", NULL, "busbar plan has --mtbf-node, for the time of a training run with failures", NULL},
    {"gpu-memory", NULL, "busbar plan has --gpu-memory; a run has the memory of its GPUs", NULL},
    {"dp-sync", NULL, "data_parallel has --sync", NULL}, /* this and the next: options that some proxies do not have */
    {"sync", NULL, "data_parallel has it (data_parallel --model resnet50 --sync zero3), transformer has --dp-sync",
     NULL},
    {"epochs", NULL, "scaling has it, plan transformer has --tokens", NULL},
    {"dp-sync=deepspeed dp-sync=fsdp dp-sync=fsdp2 dp-sync=stage3", "--dp-sync zero3", "--dp-sync zero3", NULL},
    {"software=huggingface software=transformers software=peft software=trl software=deepspeed", "--software torch",
     "--software torch", NULL},
    {"format=json", "--json FILE (-: stdout)", "--json -", NULL}, /* a value of --format */
    {"plot chart charts", NULL, "busbar report draws charts: --json a.json, then busbar report a.json -o page.html",
     NULL},
    {NULL, NULL, NULL, NULL},
};

const struct bb_foreign_name bb_foreign_programs[] = {
    {"gpt-2", "gpt2_large", "gpt2_large 48 2", NULL},
    {"gpt-3", "gpt3", "gpt3 4", NULL},
    {"gpt-3-moe", "gpt3_moe", "gpt3_moe 4", NULL},
    {"bert", "bert_large", "bert_large 24 2", NULL},
    {"mpi4dl now-dl", "spatial or gems", "spatial --model amoebanet_d", NULL},
    {"amoebanet", "a model of spatial and gems", "spatial --model amoebanet_d", NULL},
    {"amoebanet_run benchmark_amoebanet_sp", "spatial", "spatial --model amoebanet_d", NULL},
    {"resnet110", "a model of spatial and gems", "spatial --model resnet110_v2", NULL},
    {"resnet_run benchmark_resnet_sp preactivated_resnet", "spatial", "spatial --model resnet110_v2", NULL},
    {"layered amoebanet_lp benchmark_amoebanet_lp", "layer_parallel", "layer_parallel --model amoebanet_d", NULL},
    {"resnet_lp benchmark_resnet_lp", "layer_parallel", "layer_parallel --model resnet110_v2", NULL},
    {"benchmark_sp_halo_exchange", "spatial", "spatial --compute none", NULL},
    {"master_amoebanet_run benchmark_amoebanet_gems_master", "gems", "gems MASTER --model amoebanet_d", NULL},
    {"benchmark_amoebanet_gems", "gems", "gems MAST --model amoebanet_d", NULL},
    {"benchmark_resnet_gems", "gems", "gems MAST --model resnet110_v2", NULL},
    {"benchmark_amoebanet_gems_master_with_sp", "gems", "gems MASTER --model amoebanet_d --spatial-parts 2", NULL},
    {"benchmark_resnet_gems_master", "gems", "gems MASTER --model resnet110_v2", NULL},
    {"benchmark_resnet_gems_master_with_sp", "gems", "gems MASTER --model resnet110_v2 --spatial-parts 4", NULL},
    {"mast gems-mast", "gems MAST", "gems MAST", NULL},
    {"master gems-master", "gems MASTER", "gems MASTER", NULL},
    {"comm-opt", "gems comm-opt", "gems comm-opt", NULL},
    {"hybrid gems-hybrid", "gems Hybrid", "gems Hybrid", NULL},
    {"bash sh sbatch", NULL, "a script is not read; in it, replace torchrun by busbar plan torchrun, and run it",
     "launcher"},
    {"torchrun python python3 accelerate srun mpirun mpiexec",
     "transformer (a model of Megatron-LM, DeepSpeed, torchtitan or Hugging Face)", "transformer --model llama3_8b",
     "launcher"},
    {"deepspeed", "transformer --dp-sync zero3", "transformer --model llama3_8b --dp-sync zero3", "launcher"},
    {"deepy llamafactory-cli axolotl", "transformer (a model of GPT-NeoX, LLaMA-Factory or axolotl)",
     "transformer --model llama3_8b", "launcher"},
    {"pretrain_t5 pretrain_retro pretrain_ict megatron_t5_pretraining", NULL,
     "models with an encoder and a decoder of different sequence lengths are not modelled (a T5 with one length: "
     "--model config.json of Hugging Face)",
     NULL},
    {"pretrain_mamba pretrain_hybrid", NULL,
     "the pattern of a hybrid is not an option; give a model: --model config.json of nemotron_h, with its "
     "hybrid_override_pattern (for example --model nemotron3_nano)",
     NULL},
    {"fsdp zero torchtitan", "transformer --dp-sync zero3", "transformer --model llama3_8b --dp-sync zero3", NULL},
    {"megatron megatron-lm nemo nanotron", "transformer", "transformer --model llama3_8b", NULL},
    {"llama llama3", "transformer", "transformer --model llama3_8b", NULL},
    {"gpt", "transformer", "transformer --model gpt2_xl", NULL},
    {"moe mixtral", "transformer", "transformer --model mixtral_8x7b", NULL},
    {"ddp", "transformer --dp-sync all_reduce, and for images data_parallel,",
     "transformer --model llama3_8b --dp-sync all_reduce", NULL},
    {"finetune finetuning sft", "transformer, with or without --lora-rank,", "transformer --model llama3_8b", NULL},
    {"lora peft", "transformer --lora-rank", "transformer --model llama3_8b --lora-rank 16", NULL},
    {"qlora", "transformer --lora-rank, with frozen weights of 16 bits (those of QLoRA are not modelled)",
     "transformer --model llama3_8b --lora-rank 16", NULL},
    {"horovod resnet residual_network replicas sync", "data_parallel", "data_parallel --model resnet50", NULL},
    {"seeds pipeline", "gpt2_large, bert_large, resnet50, dlrm or gpt3", "gpt2_large 48 2", NULL},
    {"pytorch_synthetic_benchmark", "scaling", "scaling --format synthetic", NULL},
    {"plot chart charts", NULL, "busbar report draws charts; try: busbar report a.json -o page.html", NULL},
    {"goal et json", NULL,
     "busbar reads no files of steps; the steps are those of busbar list proxies, or of a model: plan transformer "
     "--model "
     "config.json",
     NULL},
    {NULL, NULL, NULL, NULL},
};

int bb_reject_foreign_program(const char *word, const char *command)
{
    const char *base = bb_base_name(word), *extension = strrchr(base, '.');
    const struct bb_foreign_name *of_file =
        extension ? bb_foreign_find(bb_foreign_programs, extension + 1, strlen(extension + 1)) : NULL;
    const struct bb_foreign_name *row =
        of_file && !of_file->ours ? of_file : bb_foreign_find(bb_foreign_programs, base, strcspn(base, "."));

    return !row        ? 0
           : row->ours ? bb_err(BB_EUSAGE, "%s is %s here; try: %s%s", word, row->ours, command, row->text)
                       : bb_err(BB_EUSAGE, "%s: %s", word, row->text);
}
