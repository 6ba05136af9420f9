/* test_arch.c - model architectures from config.json files: published parameter counts, tensors and their shares per
 * rank, and invalid files. */
#include "proxies/workloads/transformer/arch/arch.h"
#include "tests/check.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- files ---- */

static int memory = -1; /* memfd of the config file */

static int load_text(const char *text, size_t n, struct bb_arch *arch)
{
    char path[64];

    assert_int_equal(ftruncate(memory, 0), 0);
    assert_int_equal(pwrite(memory, text, n, 0), (int)n);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", memory);
    return bb_arch_load(path, arch);
}

static int load(const char *text, struct bb_arch *arch)
{
    return load_text(text, strlen(text), arch);
}

/* ---- counts ---- */

static void profiles_match_published_counts(void **state)
{
    static const struct {
        const char *name;
        double all, active, layer; /* active 0: same as all; layer: the last layer */
    } rows[] = {
        {"gpt2_small", 124439808, 0, 7087872},
        {"gpt2_medium", 354823168, 0, 12596224},
        {"gpt2_large", 774030080, 0, 19677440},
        {"gpt2_xl", 1557611200, 0, 30740800},
        {"gpt3_175b", 174604259328, 0, 1812099072},
        {"bert_large", 335141888, 0, 12596224},
        {"llama2_7b", 6738415616, 0, 202383360},
        {"llama2_13b", 13015864320, 0, 317204480},
        {"llama2_70b", 68976648192, 0, 855654400},
        {"llama3_8b", 8030261248, 0, 218112000},
        {"llama3_70b", 70553706496, 0, 855654400},
        {"llama3_405b", 405853388800, 0, 3187703808},
        {"mixtral_8x7b", 46702792704, 12879925248, 1451270144},
        {"deepseek_v3", 671026419200, 37552297472, 11507286272},
        {"deepseek_v4_flash", 284332240471, 13799632471, 6595558902},
        {"deepseek_v4_pro", 1572997201763, 49779081059, 25768646838},
        {"mistral_7b", 7241732096, 0, 218112000},
        {"qwen2_7b", 7615616512, 0, 233057792},
        {"qwen3_30b_a3b", 30532122624, 3353032704, 623120640},
        {"qwen3_235b_a22b", 235093634560, 22190763520, 2487755008},
        {"gpt_oss_20b", 20914757184, 4187440704, 823186976},
        {"gpt_oss_120b", 116829156672, 5711982912, 3213080192},
        {"nemotron3_nano", 31577940288, 3580076352, 1297468160},
        {"nemotron3_super", 120668707840, 12770237440, 2873102848},
    };
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(bb_arch_load(rows[i].name, &a), 0);
        assert_string_equal(a.name, rows[i].name);
        assert_true(bb_arch_parameters(&a) == rows[i].all);
        assert_true(bb_arch_active(&a) == (rows[i].active > 0 ? rows[i].active : rows[i].all));
        assert_true(bb_arch_layer_parameters(&a, a.layers - 1) == rows[i].layer);
    }
}

/* 12 h^2 + 13 h per layer, plus V h + s h + 2 h; sizes of Brown et al. 2020. */
static void gpt3_sizes_match_the_formula(void **state)
{
    static const struct {
        const char *name;
        double layers, h;
    } rows[] = {{"gpt3_125m", 12, 768},  {"gpt3_350m", 24, 1024}, {"gpt3_760m", 24, 1536}, {"gpt3_1_3b", 24, 2048},
                {"gpt3_2_7b", 32, 2560}, {"gpt3_6_7b", 32, 4096}, {"gpt3_13b", 40, 5120}};
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        double h = rows[i].h;

        assert_int_equal(bb_arch_load(rows[i].name, &a), 0);
        assert_true(bb_arch_parameters(&a) == rows[i].layers * (12 * h * h + 13 * h) + 50257 * h + 2048 * h + 2 * h);
    }
}

/* Config files that contain some fields and leave the others at their defaults. Counts are those of the published
 * weights. */
static void reads_published_configs(void **state)
{
    static const struct {
        const char *text, *type;
        double all;
    } rows[] = {
        {"{\"model_type\": \"llama\"}", "llama", 6738415616},
        {"{\"model_type\": \"bert\"}", "bert", 109482240},
        {"{\"architectures\": [\"GPT2LMHeadModel\"], \"n_ctx\": 1024, \"activation_function\": \"gelu_new\", "
         "\"task_specific_params\": {\"text-generation\": {\"do_sample\": true}}}",
         "gpt2", 124439808},
        {"{\"model_type\": \"mixtral\"}", "mixtral", 46702792704},
        {"{\"model_type\": \"qwen2_moe\"}", "qwen2_moe", 14315784192},
        {"{\"architectures\": [\"DeepseekV3ForCausalLM\"], \"model_type\": \"kimi_like\"}", "deepseek_v3",
         671026419200},
        {"{\"model_type\": \"deepseek_v2\", \"num_hidden_layers\": 60, \"hidden_size\": 5120, \"intermediate_size\": "
         "12288, \"moe_intermediate_size\": 1536, \"num_attention_heads\": 128, \"n_routed_experts\": 160, "
         "\"num_experts_per_tok\": 6, \"first_k_dense_replace\": 1, \"vocab_size\": 102400}",
         "deepseek_v2", 235741434880},
        {"{\"model_type\": \"deepseek_v2\", \"num_hidden_layers\": 27, \"hidden_size\": 2048, \"intermediate_size\": "
         "10944, \"moe_intermediate_size\": 1408, \"num_attention_heads\": 16, \"n_routed_experts\": 64, "
         "\"num_experts_per_tok\": 6, \"first_k_dense_replace\": 1, \"vocab_size\": 102400, \"q_lora_rank\": null}",
         "deepseek_v2", 15706484224},
        {"{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"num_hidden_layers\": 48, \"head_dim\": 128, "
         "\"mlp_only_layers\": []}",
         "qwen3_moe", 30532122624},
        {"{\"model_type\": \"qwen3\", \"num_hidden_layers\": 36, \"num_key_value_heads\": 8, \"intermediate_size\": "
         "12288}",
         "qwen3", 8190735360},
        {"{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, \"num_attention_heads\": 14, "
         "\"num_hidden_layers\": 24, \"num_key_value_heads\": 2, \"tie_word_embeddings\": true}",
         "qwen2", 494032768},
    };
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(load(rows[i].text, &a), 0);
        assert_string_equal(a.type, rows[i].type);
        assert_true(bb_arch_parameters(&a) == rows[i].all);
    }
}

/* A rate in the file decides; without a rate the model class does. */
static void dropout_follows_the_file_then_the_class(void **state)
{
    static const struct {
        const char *text;
        bool dropout;
    } rows[] = {
        {"{\"model_type\": \"gpt2\"}", true},
        {"{\"model_type\": \"gpt2\", \"attn_pdrop\": 0, \"resid_pdrop\": 0.0}", false},
        {"{\"model_type\": \"gpt2\", \"attn_pdrop\": 0, \"resid_pdrop\": 0.1}", true},
        {"{\"model_type\": \"bert\"}", true},
        {"{\"model_type\": \"bert\", \"hidden_dropout_prob\": 0, \"attention_probs_dropout_prob\": 0}", false},
        {"{\"model_type\": \"gpt_neox\"}", false},
        {"{\"model_type\": \"bloom\", \"hidden_dropout\": 0.1}", true},
        {"{\"model_type\": \"llama\", \"attention_dropout\": 0.0}", false},
        {"{\"model_type\": \"mpt\"}", false},
    };
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(load(rows[i].text, &a), 0);
        assert_int_equal(a.dropout, rows[i].dropout);
    }
    assert_true(load("{\"model_type\": \"gpt2\", \"attn_pdrop\": 1.5}", &a) < 0);
    assert_true(load("{\"model_type\": \"gpt2\", \"attn_pdrop\": \"no\"}", &a) < 0);
}

/*
 * Parameter counts of published weights. P: the number that the model's page on Hugging Face shows, or total_size of
 * its safetensors index divided by the bytes of an element. D: derived by hand from the shapes, where the published
 * number includes more than the layers (vision, prediction modules, scales); the comment contains the derivation.
 */
#define TEXT(x) #x
#define T5(hidden, width, heads, ffn, layers)                                                                          \
    "{\"model_type\": \"t5\", \"d_model\": " TEXT(hidden) ", \"d_kv\": " TEXT(width) ", \"num_heads\": " TEXT(         \
        heads) ", \"d_ff\": " TEXT(ffn) ", \"num_layers\": " TEXT(layers)
#define T5_GATED ", \"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false}"

static const struct {
    const char *text;
    double all, active; /* active 0: same as all */
} weights[] = {
    /* P google/gemma-2b, gemma-7b */
    {"{\"model_type\": \"gemma\", \"hidden_size\": 2048, \"intermediate_size\": 16384, \"num_hidden_layers\": 18, "
     "\"num_attention_heads\": 8, \"num_key_value_heads\": 1, \"hidden_act\": \"gelu\"}",
     2506172416, 0},
    {"{\"model_type\": \"gemma\"}", 8537680896, 0},
    /* P google/gemma-2-2b, gemma-2-9b */
    {"{\"model_type\": \"gemma2\", \"hidden_activation\": \"gelu_pytorch_tanh\"}", 2614341888, 0},
    {"{\"model_type\": \"gemma2\", \"hidden_size\": 3584, \"intermediate_size\": 14336, \"num_hidden_layers\": "
     "42, \"num_attention_heads\": 16, \"num_key_value_heads\": 8}",
     9241705984, 0},
    /* P google/gemma-3-1b-pt */
    {"{\"architectures\": [\"Gemma3ForCausalLM\"], \"model_type\": \"gemma3_text\", \"hidden_size\": 1152, "
     "\"intermediate_size\": 6912, \"num_attention_heads\": 4, \"num_key_value_heads\": 1, \"sliding_window\": "
     "512, "
     "\"vocab_size\": 262144}",
     999885952, 0},
    /* D text part of google/gemma-3-4b-pt: 34 x (15728640 + 78643200 + 10752) + 262208 x 2560 + 2560 */
    {"{\"architectures\": [\"Gemma3ForConditionalGeneration\"], \"model_type\": \"gemma3\", \"text_config\": "
     "{\"hidden_size\": 2560, \"intermediate_size\": 10240, \"model_type\": \"gemma3_text\", "
     "\"num_hidden_layers\": "
     "34, \"sliding_window\": 1024}, \"vision_config\": {\"hidden_size\": 1152, \"model_type\": "
     "\"siglip_vision_model\"}}",
     3880263168, 0},
    /* P microsoft/Phi-3-mini-4k-instruct */
    {"{\"model_type\": \"phi3\", \"architectures\": [\"Phi3ForCausalLM\"], \"sliding_window\": 2047}", 3821079552, 0},
    /* P allenai/OLMo-2-1124-7B; D OLMo-3-7B: the vocabulary has 74 entries fewer, 2 x 74 x 4096 parameters */
    {"{\"model_type\": \"olmo2\", \"vocab_size\": 100352}", 7298617344, 0},
    {"{\"model_type\": \"olmo3\", \"vocab_size\": 100278}", 7298011136, 0},
    /* P HuggingFaceTB/SmolLM3-3B */
    {"{\"model_type\": \"smollm3\", \"use_sliding_window\": false}", 3075098624, 0},
    /* P mosaicml/mpt-7b; D nvidia/Minitron-4B-Base (shown as 4.19B): 32 x (25165824 + 56623104 + 12288) + 2 x 256000 x
     * 3072 + 2 x 3072 */
    {"{\"model_type\": \"mpt\", \"d_model\": 4096, \"n_heads\": 32, \"n_layers\": 32, \"vocab_size\": 50432}",
     6649286656, 0},
    {"{\"model_type\": \"nemotron\", \"hidden_size\": 3072, \"intermediate_size\": 9216, \"num_attention_heads\": 24, "
     "\"num_key_value_heads\": 8, \"hidden_act\": \"relu2\"}",
     4190509056, 0},
    /* D ibm-granite/granite-3.1-8b-base (shown as 8.17B): 40 x 199237632 + 49155 x 4096 + 4096 */
    {"{\"model_type\": \"granite\", \"intermediate_size\": 12800, \"num_hidden_layers\": 40, "
     "\"num_key_value_heads\": 8, \"vocab_size\": 49155, \"tie_word_embeddings\": true}",
     8170848256, 0},
    /* P mistralai/Mistral-Small-24B-Base-2501, as the text part of a mistral3 */
    {"{\"architectures\": [\"Mistral3ForConditionalGeneration\"], \"model_type\": \"mistral3\", \"text_config\": "
     "{\"model_type\": \"mistral\", \"hidden_size\": 5120, \"intermediate_size\": 32768, \"num_hidden_layers\": "
     "40, "
     "\"head_dim\": 128, \"vocab_size\": 131072, \"sliding_window\": null}}",
     23572403200, 0},
    /* D text part of Qwen/Qwen2.5-VL-3B-Instruct: Qwen2.5-3B (P 3085938688) with tied embeddings as set outside
     * text_config; the second row has the layout of the first release, without text_config */
    {"{\"architectures\": [\"Qwen2_5_VLForConditionalGeneration\"], \"model_type\": \"qwen2_5_vl\", "
     "\"tie_word_embeddings\": true, \"text_config\": {\"model_type\": \"qwen2_5_vl_text\", \"hidden_size\": 2048, "
     "\"intermediate_size\": 11008, \"num_attention_heads\": 16, \"num_hidden_layers\": 36, \"num_key_value_heads\": "
     "2, \"vocab_size\": 151936}}",
     3085938688, 0},
    {"{\"architectures\": [\"Qwen2_5_VLForConditionalGeneration\"], \"model_type\": \"qwen2_5_vl\", "
     "\"tie_word_embeddings\": true, \"hidden_size\": 2048, \"intermediate_size\": 11008, \"num_attention_heads\": 16, "
     "\"num_hidden_layers\": 36, \"num_key_value_heads\": 2, \"vocab_size\": 151936, \"vision_config\": {\"depth\": "
     "32}}",
     3085938688, 0},
    /* P Qwen/Qwen2-72B (72706203648), whose shape is the default of Qwen2-VL-72B; Qwen/Qwen3-8B for Qwen3-VL-8B */
    {"{\"model_type\": \"qwen2_vl_text\"}", 72706203648, 0},
    {"{\"model_type\": \"qwen3_vl_text\", \"num_hidden_layers\": 36, \"num_key_value_heads\": 8, "
     "\"intermediate_size\": 12288}",
     8190735360, 0},
    /* P openai/gpt-oss-20b, gpt-oss-120b. Active: without all but 4 experts of each layer (the model card's 3.61e9
     * and 5.13e9 also exclude the 579133440 of the embedding table) */
    {"{\"model_type\": \"gpt_oss\", \"num_hidden_layers\": 24, \"num_local_experts\": 32}", 20914757184,
     20914757184 - 24 * 28 * (3 * 2880.0 * 2880 + 3 * 2880)},
    {"{\"model_type\": \"gpt_oss\"}", 116829156672, 116829156672 - 36 * 124 * (3 * 2880.0 * 2880 + 3 * 2880)},
    /* P MiniMaxAI/MiniMax-M2: 228703644928 less 13880064 scales, one for each 128 x 128 block of 62 x (44040192 +
     * 3623878656) 8-bit weights */
    {"{\"model_type\": \"minimax_m2\", \"architectures\": [\"MiniMaxM2ForCausalLM\"]}", 228703644928 - 13880064, 0},
    /* P zai-org/GLM-4.5-Air: 110468824832 less the multi-token-prediction layer, which has its own embedding, head,
     * input projection and three norms */
    {"{\"model_type\": \"glm4_moe\", \"attention_bias\": true}",
     110468824832 - (4096.0 * 12288 * 2 + 4096.0 * 1024 * 2 + 12288 + 2048 + 2 * 4096) -
         (129 * 3 * 4096.0 * 1408 + 128 * 4096 + 128) - 2 * 151552.0 * 4096 - 2 * 4096.0 * 4096 - 3 * 4096,
     0},
    /* P meta-llama/Llama-4-Scout-17B-16E: 108641793536 less the 871932416 of the vision part, whose size is that of
     * Maverick; 17B active */
    {"{\"architectures\": [\"Llama4ForConditionalGeneration\"], \"model_type\": \"llama4\", \"text_config\": "
     "{\"model_type\": \"llama4_text\", \"num_hidden_layers\": 48}}",
     108641793536 - 871932416, 107769861120 - 48 * 15 * 3 * 5120.0 * 8192},
    /* P Maverick: 128 experts in every second layer */
    {"{\"model_type\": \"llama4_text\", \"num_local_experts\": 128, \"interleave_moe_layer_step\": 2}",
     401583781376 - 871932416, 0},
    /* D deepseek-ai/DeepSeek-V3.2-Exp: DeepSeek-V3 and 61 indexers */
    {"{\"model_type\": \"deepseek_v32\", \"architectures\": [\"DeepseekV32ForCausalLM\"]}",
     671026419200 + 61.0 * (1536 * 8192 + 7168 * 128 + 2 * 128 + 7168 * 64),
     37552297472 + 61.0 * (1536 * 8192 + 7168 * 128 + 2 * 128 + 7168 * 64)},
    /* P moonshotai/Kimi-K2-Instruct */
    {"{\"model_type\": \"kimi_k2\", \"architectures\": [\"DeepseekV3ForCausalLM\"]}", 1026408232448, 0},
    /* P Qwen/Qwen3-Coder-Next. Qwen3-Next-80B-A3B shows 81324862720, including a multi-token-prediction module of
     * 1650471424: 2 x 2048^2 of the input projection, three norms, one layer with attention */
    {"{\"model_type\": \"qwen3_next\", \"architectures\": [\"Qwen3NextForCausalLM\"], \"mlp_only_layers\": []}",
     81324862720 - 2.0 * 2048 * 2048 - 3 * 2048 - 27263488 - 1614813184.0, 79674391296 - 48 * 502 * 3.0 * 512 * 2048},
    /* D ai21labs/Jamba-v0.1 ("52B", "12B active") and AI21-Jamba-1.5-Large ("398B", "94B active"): scans of (h x 4 h) + (2 h x (h / 16 +
     * 32)) + (2 h x h / 16) + (2 h x h), the state 2 h x 16, convolution with bias 2 h x 5, two vectors of 2 h, norms of h / 16 + 32;
     * attention 2 h x (h + 1024); MLPs 3 h f; experts 16 of these and a router; two norms a layer, two tables, a norm */
    {"{\"model_type\": \"jamba\"}",
     28 * (6 * 4096.0 * 4096 + 8192.0 * (288 + 256 + 16 + 5 + 2) + 288) + 4 * 2 * 4096.0 * 5120 +
         16 * 17 * 3 * 4096.0 * 14336 + 16 * 16 * 4096.0 + 65 * 4096.0 + 2 * 65536.0 * 4096,
     28 * (6 * 4096.0 * 4096 + 8192.0 * (288 + 256 + 16 + 5 + 2) + 288) + 4 * 2 * 4096.0 * 5120 +
         16 * 3 * 3 * 4096.0 * 14336 + 16 * 16 * 4096.0 + 65 * 4096.0 + 2 * 65536.0 * 4096},
    {"{\"model_type\": \"jamba\", \"hidden_size\": 8192, \"intermediate_size\": 24576, \"num_hidden_layers\": 72, "
     "\"num_attention_heads\": 64, \"mamba_dt_rank\": \"auto\"}",
     63 * (6 * 8192.0 * 8192 + 16384.0 * (544 + 512 + 16 + 5 + 2) + 544) + 9 * 2 * 8192.0 * 9216 +
         36 * 17 * 3 * 8192.0 * 24576 + 36 * 16 * 8192.0 + 145 * 8192.0 + 2 * 65536.0 * 8192,
     63 * (6 * 8192.0 * 8192 + 16384.0 * (544 + 512 + 16 + 5 + 2) + 544) + 9 * 2 * 8192.0 * 9216 +
         36 * 3 * 3 * 8192.0 * 24576 + 36 * 16 * 8192.0 + 145 * 8192.0 + 2 * 65536.0 * 8192},
    /* P mistralai/Mamba-Codestral-7B-v0.1 */
    {"{\"model_type\": \"mamba2\"}", 7285403648, 0},
    /* D state-spaces/mamba2-2.7b, mamba2-130m ("2.7B", "130M"): layers of 27074560 + 26880 + 240 + 5120 + 13107200 +
     * 2560 and 2574336 + 8960 + 72 + 1536 + 1179648 + 768, embedding table, a norm */
    {"{\"architectures\": [\"Mamba2ForCausalLM\"], \"hidden_size\": 2560, \"num_heads\": 80, \"n_groups\": 1, "
     "\"vocab_size\": 50288, \"tie_word_embeddings\": true}",
     64 * 40216560.0 + 50288 * 2560 + 2560, 0},
    {"{\"model_type\": \"mamba2\", \"hidden_size\": 768, \"num_hidden_layers\": 24, \"num_heads\": 24, \"n_groups\": "
     "1, \"vocab_size\": 50288, \"tie_word_embeddings\": true}",
     24 * 3765320.0 + 50288 * 768 + 768, 0},
    /* P t5-small, t5-base, t5-large, t5-3b, t5-11b; google/t5-v1_1-small, -base, -large, -xl, -xxl (also flan-t5),
     * which have gated MLPs and untied heads */
    {"{\"architectures\": [\"T5ForConditionalGeneration\"], \"model_type\": \"t5\", \"n_positions\": 512}", 60506624,
     0},
    {T5(768, 64, 12, 3072, 12) "}", 222903552, 0},
    {T5(1024, 64, 16, 4096, 24) "}", 737668096, 0},
    {T5(1024, 128, 32, 16384, 24) "}", 2851598336, 0},
    {T5(1024, 128, 128, 65536, 24) ", \"num_decoder_layers\": 24}", 11307321344, 0},
    {T5(512, 64, 6, 1024, 8) T5_GATED, 76961152, 0},
    {T5(768, 64, 12, 2048, 12) T5_GATED, 247577856, 0},
    {T5(1024, 64, 16, 2816, 24) T5_GATED, 783150080, 0},
    {T5(2048, 64, 32, 5120, 24) T5_GATED, 2849757184, 0},
    {T5(4096, 64, 64, 10240, 24) T5_GATED, 11135332352, 0},
    /* P bigcode/starcoder2-3b */
    {"{\"model_type\": \"starcoder2\", \"sliding_window\": 4096, \"max_position_embeddings\": 16384}", 3030371328, 0},
    /* P tiiuae/falcon-7b: 7217189760 less the copy of the embedding table that its index contains as the head;
     * falcon-40b in the same way (D); falcon-rw-1b (P: 1311625216) with separate key-value heads and biases */
    {"{\"model_type\": \"falcon\"}", 7217189760 - 65024.0 * 4544, 0},
    {"{\"model_type\": \"falcon\", \"architectures\": [\"FalconForCausalLM\"], \"hidden_size\": 8192, "
     "\"new_decoder_architecture\": true, \"num_attention_heads\": 128, \"num_hidden_layers\": 60, "
     "\"num_kv_heads\": "
     "8}",
     41303293952, 0},
    {"{\"model_type\": \"falcon\", \"alibi\": true, \"bias\": true, \"hidden_size\": 2048, \"multi_query\": false, "
     "\"num_attention_heads\": 32, \"num_hidden_layers\": 24, \"parallel_attn\": false, \"vocab_size\": 50304}",
     1311625216, 0},
    /* P EleutherAI/pythia-6.9b */
    {"{\"model_type\": \"gpt_neox\", \"hidden_size\": 4096, \"intermediate_size\": 16384, \"num_attention_heads\": "
     "32, \"num_hidden_layers\": 32}",
     6857302016, 0},
    /* P facebook/opt-6.7b */
    {"{\"model_type\": \"opt\", \"hidden_size\": 4096, \"ffn_dim\": 16384, \"num_attention_heads\": 32, "
     "\"num_hidden_layers\": 32, \"word_embed_proj_dim\": 4096, \"activation_function\": \"relu\"}",
     6658473984, 0},
    /* P bigscience/bloom-7b1; bloom (176247271424) */
    {"{\"model_type\": \"bloom\", \"hidden_size\": 4096, \"n_head\": 32, \"n_layer\": 30}", 7069016064, 0},
    {"{\"architectures\": [\"BloomForCausalLM\"], \"n_embed\": 14336, \"num_attention_heads\": 112, \"n_layer\": "
     "70}",
     176247271424, 0},
};

/* Sizes of published hybrids, counted by kinds of layers: NVIDIA/Megatron-LM examples/post_training/modelopt/conf/nvidia (of
 * 12B v2: NVIDIA-NeMo/Megatron-Bridge recipes/nemotronh), and config.json of Nemotron 3. P: exact published numbers: Nano 3
 * (32B on its page, 31577940288 in llama.cpp's), Nano 9B v2; Super's layer of multi-token prediction has
 * 5884651520 bytes, with 4 for each bias of the router.
 * billions: names and reports of the models; active parameters with and without the two tables. */
static const struct {
    const char *kinds;
    double h, scan_heads, scan_dim, state, heads, kv, ffn, experts, top_k, expert_ffn, shared, latent, exact, billions,
        active;
} hybrids[] = {
    {"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", 4096, 128, 64, 128, 32, 8, 21504, 0, 0, 0, 0, 0, 0, 8.1,
     0},
    {"M-M-M-M-M-M-M-M-M*-M-M-M-M-M-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-M-M---MM---M-M*-M-M-M-M-M-", 8192, 256,
     64, 256, 64, 8, 30720, 0, 0, 0, 0, 0, 0, 47, 0},
    {"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-"
     "M-M-M-",
     8192, 256, 64, 256, 64, 8, 32768, 0, 0, 0, 0, 0, 0, 56, 0},
    {"M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", 4480, 128, 80, 128, 40, 8, 15680, 0, 0, 0, 0, 0,
     8888227328, 8.9, 0},
    {"M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-", 5120, 128, 80, 128, 40, 8, 20480, 0, 0, 0, 0, 0,
     0, 12.3, 0},
    {"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", 2688, 64, 64, 128, 32, 2, 0, 128, 6, 1856, 3712, 0,
     31577940288, 31.6, 3.5},
    {"MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME", 4096, 128, 64, 128, 32,
     2, 0, 512, 22, 2688, 5376, 1024, 0, 120.6, 12.7},
    {"MEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
     8192, 256, 64, 128, 64, 2, 0, 512, 22, 5120, 10240, 2048, 0, 550, 55},
};

static void hybrids_match_their_sizes(void **state)
{
    char text[2048];
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(hybrids); i++) {
        const double h = hybrids[i].h, inner = hybrids[i].scan_heads * hybrids[i].scan_dim,
                     mixed = inner + 16 * hybrids[i].state;
        const double width = hybrids[i].latent > 0 ? hybrids[i].latent : h, expert = 2 * width * hybrids[i].expert_ffn;
        double all = 2 * 131072 * h + h, experts = 0;

        for (const char *kind = hybrids[i].kinds; *kind; kind++) {
            all += h + (*kind == 'M' ? h * (inner + mixed + hybrids[i].scan_heads) + 5 * mixed +
                                           3 * hybrids[i].scan_heads + inner + inner * h
                        : *kind == '*' ? 256 * h * (hybrids[i].heads + hybrids[i].kv)
                        : *kind == '-'
                            ? 2 * h * hybrids[i].ffn
                            : hybrids[i].experts * (expert + h + 1) + 2 * h * (hybrids[i].shared + hybrids[i].latent));
            experts += *kind == 'E';
        }
        snprintf(text, sizeof(text),
                 "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"%s\", \"hidden_size\": %.0f, "
                 "\"mamba_num_heads\": %.0f, \"mamba_head_dim\": %.0f, \"ssm_state_size\": %.0f, "
                 "\"num_attention_heads\": %.0f, "
                 "\"num_key_value_heads\": %.0f, \"intermediate_size\": %.0f, \"n_routed_experts\": %.0f, "
                 "\"num_experts_per_tok\": %.0f, \"moe_intermediate_size\": %.0f, "
                 "\"moe_shared_expert_intermediate_size\": %.0f, "
                 "\"moe_latent_size\": %.0f}",
                 hybrids[i].kinds, h, hybrids[i].scan_heads, hybrids[i].scan_dim, hybrids[i].state, hybrids[i].heads,
                 hybrids[i].kv, hybrids[i].ffn > 0 ? hybrids[i].ffn : 1856, experts > 0 ? hybrids[i].experts : 8,
                 experts > 0 ? hybrids[i].top_k : 2, experts > 0 ? hybrids[i].expert_ffn : 7688, hybrids[i].shared,
                 hybrids[i].latent);
        assert_int_equal(load(text, &a), 0);
        assert_true(bb_arch_parameters(&a) == all);
        assert_true(hybrids[i].exact == 0 || hybrids[i].exact == all);
        assert_true(fabs(all / 1e9 / hybrids[i].billions - 1) < 0.01);
        all -= experts * (hybrids[i].experts - hybrids[i].top_k) * expert;
        assert_true(bb_arch_active(&a) == all);
        if (hybrids[i].active > 0)
            assert_true((all - 2 * 131072 * h) / 1e9 < hybrids[i].active && all / 1e9 > hybrids[i].active * 0.99);
        a.mtp = 1;
        if (hybrids[i].latent == 1024)
            assert_true(2 * bb_arch_layer_parameters(&a, BB_ARCH_MTP) + 2 * 512 == 5884651520);
    }
}

static void counts_match_published_weights(void **state)
{
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(weights); i++) {
        assert_int_equal(load(weights[i].text, &a), 0);
        if (bb_arch_parameters(&a) != weights[i].all)
            fail_msg("%s: %.0f, expected %.0f", a.type, bb_arch_parameters(&a), weights[i].all);
        if (weights[i].active > 0 && bb_arch_active(&a) != weights[i].active)
            fail_msg("%s: %.0f active, expected %.0f", a.type, bb_arch_active(&a), weights[i].active);
    }
}

/* Which layers have experts: Qwen counts layers from 1, DeepSeek from 0. */
static void finds_layers_with_experts(void **state)
{
    struct bb_arch a;

    (void)state;
    assert_int_equal(
        load("{\"model_type\": \"qwen3_moe\", \"decoder_sparse_step\": 2, \"mlp_only_layers\": [0, 1]}", &a), 0);
    assert_false(bb_arch_has_experts(&a, 1));
    assert_false(bb_arch_has_experts(&a, 2));
    assert_true(bb_arch_has_experts(&a, 3));
    assert_false(bb_arch_has_experts(&a, 4));
    assert_int_equal(bb_arch_load("deepseek_v3", &a), 0);
    assert_false(bb_arch_has_experts(&a, 2));
    assert_true(bb_arch_has_experts(&a, 3));
    assert_true(bb_arch_layer_parameters(&a, 2) == 187107328.0 + 396361728 + 2 * 7168);
    assert_int_equal(bb_arch_with_layers(&a, 2), 0);
    assert_false(bb_arch_has_experts(&a, 1));
    assert_int_equal(bb_arch_with_layers(&a, 0), -BB_EUSAGE);
}

/* Which layers attend to all keys of a sample of 8192 tokens ('.'), and the number of keys of the others ('w'). */
static void finds_windowed_layers(void **state)
{
    static const struct {
        const char *text, *layers;
        int keys;
    } rows[] = {
        {"{\"model_type\": \"llama\"}", "......", 8192},
        {"{\"model_type\": \"mistral\"}", "wwwwww", 4096},
        {"{\"model_type\": \"mistral\", \"sliding_window\": null}", "......", 8192},
        {"{\"model_type\": \"gemma2\"}", "w.w.w.", 4096},
        {"{\"model_type\": \"gemma3_text\", \"sliding_window\": 512}", "wwwww.wwwww.w", 512},
        {"{\"model_type\": \"gemma3_text\", \"_sliding_window_pattern\": 3}", "ww.ww.", 4096},
        {"{\"model_type\": \"gpt_oss\"}", "w.w.w.", 128},
        {"{\"model_type\": \"llama4_text\", \"attention_chunk_size\": 2048}", "www.www.", 2048},
        {"{\"model_type\": \"llama4_text\"}", "........", 8192}, /* the sample is within one chunk */
        {"{\"model_type\": \"deepseek_v32\"}", "wwww", 2048},
        {"{\"model_type\": \"olmo3\", \"num_hidden_layers\": 4, \"layer_types\": [\"sliding_attention\", "
         "\"full_attention\", \"sliding_attention\", \"full_attention\"]}",
         "w.w.", 4096},
        {"{\"model_type\": \"olmo3\", \"num_hidden_layers\": 2, \"layer_types\": [\"sliding_attention\", "
         "\"sliding_attention\"]}",
         "ww", 4096},
        {"{\"model_type\": \"gemma2\", \"num_hidden_layers\": 2, \"layer_types\": [\"full_attention\", "
         "\"full_attention\"]}",
         "..", 8192},
    };
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(load(rows[i].text, &a), 0);
        for (int layer = 0; rows[i].layers[layer]; layer++)
            assert_int_equal(bb_arch_attended_keys(&a, layer, 8192),
                             rows[i].layers[layer] == 'w' ? rows[i].keys : 8192);
        assert_int_equal(bb_arch_attended_keys(&a, 0, 100), 100);
    }
}

/* DeepSeek-V4, by the classes of Hugging Face's modeling_deepseek_v4.py: parameters of a layer with `counted` experts. */
static double v4_layer(double h, double heads, double q, double groups, double ffn, double experts, double counted,
                       int ratio, bool hashed)
{
    const double attention =
        h * q + q + q * heads * 512 + h * 512 + 512 + heads * 512 * 1024 + groups * 1024 * h + heads;
    const double compressor = ratio == 4     ? 2 * h * 1024 + 4 * 1024 + 512
                              : ratio == 128 ? 2 * h * 512 + 128 * 512 + 512
                                             : 0;
    const double indexer = ratio == 4 ? 2 * h * 256 + 4 * 256 + 128 + q * 64 * 128 + h * 64 : 0;
    const double connections = 2 * (24 * 4 * h + 24 + 3), router = experts * h + (hashed ? 0 : experts);

    return attention + compressor + indexer + connections + 2 * h + router + 3 * h * ffn * (1 + counted);
}

/* The model cards give 284B, 13B active, and 1.6T, 49B active (without the table of the embedding), and no layer of
 * multi-token prediction, whose attention has a window only. */
static void counts_deepseek_v4(void **state)
{
    static const struct {
        const char *name;
        int layers, first;
        double h, heads, q, groups, ffn, experts, all, active;
    } rows[] = {{"deepseek_v4_flash", 43, 0, 4096, 64, 1024, 8, 2048, 256, 284e9, 13e9},
                {"deepseek_v4_pro", 61, 128, 7168, 128, 1536, 16, 3072, 384, 1.6e12, 49e9}};
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const double h = rows[i].h, head = h + 4 * 4 * h + 4 + 1, table = 129280 * h;
        double all = 2 * table + head, active = all;

        for (int l = 0; l < rows[i].layers; l++) {
            const int ratio = l < 2 ? rows[i].first : l % 2 ? 128 : 4;

            all += v4_layer(h, rows[i].heads, rows[i].q, rows[i].groups, rows[i].ffn, rows[i].experts, rows[i].experts,
                            ratio, l < 3);
            active +=
                v4_layer(h, rows[i].heads, rows[i].q, rows[i].groups, rows[i].ffn, rows[i].experts, 6, ratio, l < 3);
        }
        assert_int_equal(bb_arch_load(rows[i].name, &a), 0);
        assert_true(bb_arch_parameters(&a) == all && bb_arch_active(&a) == active);
        assert_true(fabs(all / rows[i].all - 1) < 0.02 && fabs((active - table) / rows[i].active - 1) < 0.03);
        assert_true(bb_arch_layer_parameters(&a, BB_ARCH_MTP) == v4_layer(h, rows[i].heads, rows[i].q, rows[i].groups,
                                                                          rows[i].ffn, rows[i].experts, rows[i].experts,
                                                                          0, false) +
                                                                     2 * h * h + 2 * h + head);
    }
}

/* Keys of each query by enumeration: the window, and of the compressed keys that end before it at most index_topk. */
static void finds_compressed_keys(void **state)
{
    static const int keys[] = {128, 128, 128 + 512, 128 + 32, 128 + 512};
    struct bb_arch a;

    (void)state;
    assert_int_equal(bb_arch_load("deepseek_v4_flash", &a), 0);
    for (int layer = 0; layer < 5; layer++) {
        const int ratio = layer < 2 ? 0 : layer % 2 ? 128 : 4;
        double seen = 0, indexed = 0, pair = 4.0 * 64 * 512;

        for (int i = 1; i <= 4096; i++) {
            const int done = ratio ? i / ratio : 0;

            seen += (i < 128 ? i : 128) + (ratio == 4 && done > 512 ? 512 : done);
            indexed += ratio == 4 ? done : 0;
        }
        assert_int_equal(bb_arch_attended_keys(&a, layer, 4096), keys[layer]);
        assert_int_equal(bb_arch_attended_keys(&a, layer, 64), 64 + (ratio == 4 ? 16 : 0));
        assert_true(fabs((bb_arch_core_flops(&a, layer, 4096) - bb_arch_masked_flops(&a, layer, 4096)) /
                             (seen * pair + indexed * 2 * 64 * 128) -
                         1) < 0.005);
    }
    assert_int_equal(bb_arch_attended_keys(&a, a.layers, 4096), 128);
    assert_false(bb_arch_equal_layers(&a, 2, 3) || bb_arch_equal_layers(&a, 2, 4)); /* a table routes layer 2 */
    assert_true(bb_arch_equal_layers(&a, 0, 1) && bb_arch_equal_layers(&a, 4, 42));
    assert_int_equal(bb_arch_with_layers(&a, 400), 0);
    assert_true(bb_arch_equal_layers(&a, 4, 398) && bb_arch_equal_layers(&a, 5, 399));
    assert_int_equal(load("{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 3, \"layer_types\": "
                          "[\"sliding_attention\", \"compressed_sparse_attention\", \"heavily_compressed_attention\"], "
                          "\"mlp_layer_types\": [\"hash_moe\", \"moe\", \"moe\"]}",
                          &a),
                     0);
    assert_true(bb_arch_ratio(&a, 0) == 0 && bb_arch_ratio(&a, 1) == 4 && bb_arch_ratio(&a, 2) == 128 &&
                a.hash_layers == 1);
    assert_int_equal(load("{\"model_type\": \"deepseek_v4\"}", &a), 0);
    assert_true(bb_arch_ratio(&a, 2) == 128 && bb_arch_ratio(&a, 3) == 4 && bb_arch_ratio(&a, 42) == 128);
}

/* Which layers have a scan: 's'. */
static void finds_layers_with_a_scan(void **state)
{
    static const struct {
        const char *text, *layers;
    } rows[] = {
        {"{\"model_type\": \"qwen3_next\"}", "sss.sss."},
        {"{\"model_type\": \"qwen3_next\", \"full_attention_interval\": 2}", "s.s."},
        {"{\"model_type\": \"qwen3_next\", \"num_hidden_layers\": 3, \"layer_types\": [\"linear_attention\", "
         "\"linear_attention\", \"full_attention\"]}",
         "ss."},
        {"{\"model_type\": \"qwen3_next\", \"num_hidden_layers\": 1, \"layer_types\": [\"linear_attention\"]}", "s"},
        {"{\"model_type\": \"mamba2\"}", "ssss"},
        {"{\"model_type\": \"qwen3_moe\"}", "...."},
        {"{\"model_type\": \"jamba\"}", "ssss.sssssss.sss"},
    };
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(load(rows[i].text, &a), 0);
        for (int layer = 0; rows[i].layers[layer]; layer++)
            assert_int_equal(bb_arch_is_scan(&a, layer), rows[i].layers[layer] == 's');
        assert_int_equal(bb_arch_has_mlp(&a, 0), strcmp(a.type, "mamba2") != 0);
    }
}

/* What layers have: scan, attention, MLP, experts; of the kinds as a text, as lists with older and newer names, and with more
 * and fewer layers than kinds. Jamba's layers have experts, or an MLP, after their scan or attention. */
static void layers_have_the_parts_of_their_kind(void **state)
{
    static const struct {
        const char *text;
        int layers;
        const char *kinds;
    } rows[] = {
        {"{\"model_type\": \"nemotron_h\"}", 0, "ME*-"},
        {"{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M-M*EM\", \"num_hidden_layers\": 6}", 0,
         "M-M*EM"},
        {"{\"model_type\": \"nemotron_h\", \"layers_block_type\": [\"mamba\", \"linear_attention\", \"moe\", \"mlp\", "
         "\"full_attention\", \"attention\"], \"hybrid_override_pattern\": null}",
         0, "MME-**"},
        {"{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M-*E\"}", 2, "M-"},
        {"{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M-*E\"}", 7, "M-*EM-*"},
    };
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(load(rows[i].text, &a), 0);
        if (rows[i].layers)
            assert_int_equal(bb_arch_with_layers(&a, rows[i].layers), 0);
        assert_int_equal(a.layers, strlen(rows[i].kinds));
        for (int layer = 0; layer < a.layers; layer++) {
            const char kind = rows[i].kinds[layer];

            assert_int_equal(bb_arch_is_scan(&a, layer), kind == 'M');
            assert_int_equal(bb_arch_has_mixer(&a, layer), kind == 'M' || kind == '*');
            assert_int_equal(bb_arch_has_mlp(&a, layer), kind == '-' || kind == 'E');
            assert_int_equal(bb_arch_has_experts(&a, layer), kind == 'E');
            assert_int_equal(bb_arch_core_flops(&a, layer, 64) > 0, kind == 'M' || kind == '*');
            assert_int_equal(bb_arch_masked_flops(&a, layer, 64) > 0, kind == '*');
            assert_int_equal(bb_arch_equal_layers(&a, 0, layer), kind == rows[i].kinds[0]);
        }
    }
    assert_int_equal(load("{\"model_type\": \"jamba\"}", &a), 0);
    for (int layer = 0; layer < 32; layer++)
        assert_int_equal(bb_arch_has_experts(&a, layer), layer % 2 == 1);
    assert_true(bb_arch_core_flops(&a, 0, 64) == 0 && bb_arch_has_mlp(&a, 0) && bb_arch_has_mixer(&a, 0));
}

/* FLOPs between the projections for 1000 tokens: Mamba 2 in 4 chunks of 256 with 8 groups of keys; Gated DeltaNet in
 * 16 chunks of 64 with 32 heads of 128 x 128 (scores twice, corrections, context, three state updates); attention. */
static void core_flops_match_the_formula(void **state)
{
    const double mamba = 4 * (8 * 2.0 * 256 * 256 * 128 + 128 * (2.0 * 256 * 256 * 64 + 2 * 2.0 * 256 * 128 * 64));
    const double delta = 16 * 32 * 2.0 * 64 * (64 * 128 * 2 + 64 * 256 + 64 * 128 + 3 * 128 * 128);
    struct bb_arch a;

    (void)state;
    assert_int_equal(load("{\"model_type\": \"mamba2\"}", &a), 0);
    assert_true(bb_arch_core_flops(&a, 0, 1000) == mamba);
    assert_true(bb_arch_core_flops(&a, 0, 256) == mamba / 4);
    assert_int_equal(load("{\"model_type\": \"qwen3_next\"}", &a), 0);
    assert_true(bb_arch_core_flops(&a, 2, 1000) == delta);
    assert_true(bb_arch_core_flops(&a, 3, 1000) == 4.0 * 1000 * 1000 * 16 * 256);
}

/* An encoder of 6 layers and its decoder. The first layer of a stack also has the position biases, the last layer of
 * the encoder also a norm. */
static void encoder_decoder_stacks_have_their_own_ends(void **state)
{
    const double encoder_layer = 4 * 512.0 * 512 + 2 * 512 * 2048 + 2 * 512, cross_attention = 4 * 512.0 * 512 + 512,
                 position_biases = 32 * 8;
    struct bb_arch a;

    (void)state;
    assert_int_equal(load("{\"model_type\": \"t5\"}", &a), 0);
    assert_int_equal(a.layers, 12);
    assert_false(bb_arch_is_decoder(&a, 5));
    assert_true(bb_arch_is_decoder(&a, 6));
    assert_true(bb_arch_layer_parameters(&a, 0) == encoder_layer + position_biases);
    assert_true(bb_arch_layer_parameters(&a, 1) == encoder_layer);
    assert_true(bb_arch_layer_parameters(&a, 5) == encoder_layer + 512);
    assert_true(bb_arch_layer_parameters(&a, 6) == encoder_layer + cross_attention + position_biases);
    assert_true(bb_arch_layer_parameters(&a, 11) == encoder_layer + cross_attention);
    assert_int_equal(bb_arch_layer_share(&a, 6, 2, 1, 1).replicated, 3 * 512);
    assert_int_equal(bb_arch_layer_share(&a, 6, 2, 1, 1).dense,
                     (size_t)(encoder_layer + cross_attention + position_biases - 3 * 512) / 2 + 3 * 512);
    assert_true(bb_arch_core_flops(&a, 5, 100) == 4 * 100.0 * 100 * 512);
    assert_true(bb_arch_core_flops(&a, 6, 100) == 8 * 100.0 * 100 * 512);
    assert_int_equal(bb_arch_with_layers(&a, 5), 0);
    assert_true(a.encoder_layers == 2 && a.layers == 5);
    assert_int_equal(bb_arch_with_layers(&a, 2), 0);
    assert_true(a.encoder_layers == 1 && bb_arch_is_decoder(&a, 1));
    assert_int_equal(bb_arch_with_layers(&a, 1), -BB_EUSAGE);
}

/* ---- tensors and shares ---- */

/* Parameters that tp replicates: GPT 4h of norms and 2h of biases, LLaMA 2h of norms, Mixtral also the router. */
static void tp_replicates_norms_biases_and_routers(void **state)
{
    struct bb_arch a;
    struct bb_arch_rank_parameters share;

    (void)state;
    assert_int_equal(bb_arch_load("gpt3_175b", &a), 0);
    share = bb_arch_layer_share(&a, 0, 8, 1, 1);
    assert_int_equal(share.replicated, 6 * 12288);
    assert_int_equal(share.dense, (1812099072 - 6 * 12288) / 8 + 6 * 12288);
    assert_int_equal(bb_arch_load("llama2_7b", &a), 0);
    share = bb_arch_layer_share(&a, 5, 4, 1, 1);
    assert_int_equal(share.replicated, 2 * 4096);
    assert_int_equal(share.dense, (202383360 - 2 * 4096) / 4 + 2 * 4096);
    assert_int_equal(bb_arch_load("mixtral_8x7b", &a), 0);
    share = bb_arch_layer_share(&a, 0, 2, 1, 4);
    assert_int_equal(share.replicated, 2 * 4096 + 8 * 4096);
    assert_int_equal(share.dense, 41943040 / 2 + 2 * 4096 + 8 * 4096);
    assert_int_equal(share.expert, 2 * 176160768);
    share = bb_arch_layer_share(&a, 0, 2, 2, 8);
    assert_int_equal(share.expert, 176160768 / 2);
}

/* LoRA checkpoints that Megatron Bridge verified: adapters of attention of Moonlight 16B-A3B (no query latent; 27 layers) have
 * 216 tensors, those of GLM-5.2 (an indexer; 78 layers and one of multi-token prediction) 790. tp shards the matrices next to the
 * up projections and before the output. */
static void adapters_of_latent_attention(void **state)
{
    struct bb_arch_tensor tensors[BB_ARCH_TENSORS];
    struct bb_arch a;

    (void)state;
    for (int has_query_latent = 0; has_query_latent < 2; has_query_latent++) {
        const size_t down = has_query_latent ? 1536 + 7168 : 0, up = has_query_latent ? 1536 : 7168;
        const size_t whole = down + up + 7168 + 576 + 512 + 7168, shared = 128 * (192 + 256 + 128);

        assert_int_equal(load("{\"model_type\": \"deepseek_v32\"}", &a), 0);
        a.q_lora = has_query_latent ? 1536 : 0;
        a.lora_rank = 8;
        a.lora_attention = true;
        a = bb_arch_trained(&a);
        assert_int_equal(bb_arch_tensors(&a, 3, tensors), has_query_latent ? 790 / 79 : 216 / 27);
        assert_int_equal(bb_arch_layer_share(&a, 3, 8, 1, 8).dense, 8 * (whole + shared / 8));
        assert_int_equal(bb_arch_layer_share(&a, 3, 8, 1, 8).expert, 0);
    }
}

/* tp shards wide norms, attention sinks and experts' biases; it replicates the indexer of small heads and the biases
 * of the down projections. */
static void tp_replication_of_newer_architectures(void **state)
{
    struct bb_arch a;
    struct bb_arch_rank_parameters share;

    (void)state;
    assert_int_equal(load("{\"model_type\": \"olmo2\"}", &a), 0);
    assert_int_equal(bb_arch_layer_share(&a, 0, 4, 1, 1).replicated, 2 * 4096);
    assert_int_equal(load("{\"model_type\": \"gemma2\"}", &a), 0);
    assert_int_equal(bb_arch_layer_share(&a, 0, 4, 1, 1).replicated, 4 * 2304);
    assert_int_equal(load("{\"model_type\": \"gpt_oss\"}", &a), 0);
    share = bb_arch_layer_share(&a, 0, 4, 1, 8);
    assert_int_equal(share.replicated, 2 * 2880 + 2880 + 128 * 2881);
    assert_int_equal(share.expert, 16 * (3 * 2880 * 2880 + 3 * 2880));
    assert_int_equal(bb_arch_layer_share(&a, 0, 4, 2, 8).expert, 16 * (3 * 1440 * 2880 + 2 * 1440 + 2880));
    assert_int_equal(load("{\"model_type\": \"deepseek_v32\"}", &a), 0);
    share = bb_arch_layer_share(&a, 0, 8, 1, 1);
    assert_int_equal(share.replicated, 7168 * (1536 + 576) + 1536 + 512 + 2 * 7168 + 1536 * 8192 + 7168 * 192 + 256);
    assert_int_equal(load("{\"model_type\": \"qwen3_next\"}", &a), 0);
    assert_int_equal(bb_arch_layer_share(&a, 0, 4, 1, 8).replicated, 2 * 2048 + 128 + 2048 + 512 * 2048);
    assert_int_equal(load("{\"model_type\": \"mamba2\"}", &a), 0);
    share = bb_arch_layer_share(&a, 0, 8, 1, 1);
    assert_int_equal(share.replicated, 4096);
    assert_int_equal(share.dense, (109640064 - 4096) / 8 + 4096);
    assert_int_equal(load("{\"model_type\": \"opt\"}", &a), 0);
    assert_int_equal(bb_arch_layer_share(&a, BB_ARCH_EMBEDDING, 1, 1, 1).dense, (50272 + 2048 + 2) * 768);
}

/* A vocabulary of 50,257 on 2, 4, 8 ranks: rows are rounded up. */
static void vocabulary_is_padded_to_tp(void **state)
{
    struct bb_arch a;

    (void)state;
    assert_int_equal(bb_arch_load("gpt2_small", &a), 0);
    assert_int_equal(bb_arch_layer_share(&a, BB_ARCH_EMBEDDING, 1, 1, 1).dense, (50257 + 1024) * 768);
    assert_int_equal(bb_arch_layer_share(&a, BB_ARCH_EMBEDDING, 4, 1, 1).dense, (12565 + 1024) * 768);
    assert_int_equal(bb_arch_layer_share(&a, BB_ARCH_HEAD, 4, 1, 1).dense, 2 * 768);
}

static void assert_shares_sum_to_the_layer(const struct bb_arch *a, int layer, int tp, int etp, int ep)
{
    struct bb_arch_rank_parameters share = bb_arch_layer_share(a, layer, tp, etp, ep);
    double whole = ((double)share.dense - (double)share.replicated) * tp + (double)share.replicated +
                   (double)share.expert * etp * ep;

    assert_true(whole == bb_arch_layer_parameters(a, layer));
}

static void shares_sum_to_the_model(void **state)
{
    static const char *const names[] = {"gpt2_medium", "bert_large", "llama3_405b", "mixtral_8x7b", "deepseek_v3"};
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(names); i++) {
        assert_int_equal(bb_arch_load(names[i], &a), 0);
        for (int tp = 1; tp <= 8; tp *= 2)
            for (int ep = 1; ep <= 8; ep *= 2)
                for (int layer = 0; layer < 4; layer++)
                    assert_shares_sum_to_the_layer(&a, layer, tp, tp > 2 ? 2 : 1, ep);
    }
}

static void tensors_are_in_order(void **state)
{
    static const char *const gpt2[] = {"norm1.weight",       "norm1.bias",           "attention.qkv.weight",
                                       "attention.qkv.bias", "attention.out.weight", "attention.out.bias",
                                       "norm2.weight",       "norm2.bias",           "mlp.up.weight",
                                       "mlp.up.bias",        "mlp.down.weight",      "mlp.down.bias"};
    static const char *const llama[] = {"attention.query.weight", "attention.key.weight", "attention.value.weight",
                                        "attention.out.weight",   "mlp.gate.weight",      "mlp.up.weight",
                                        "mlp.down.weight",        "norm1.weight",         "norm2.weight"};
    struct bb_arch_tensor t[BB_ARCH_TENSORS];
    struct bb_arch a;

    (void)state;
    assert_int_equal(bb_arch_load("gpt2_small", &a), 0);
    assert_int_equal(bb_arch_tensors(&a, 0, t), 12);
    for (int i = 0; i < 12; i++)
        assert_string_equal(t[i].name, gpt2[i]);
    assert_int_equal(bb_arch_load("llama2_70b", &a), 0);
    assert_int_equal(bb_arch_tensors(&a, 0, t), 9);
    for (int i = 0; i < 9; i++)
        assert_string_equal(t[i].name, llama[i]);
    assert_int_equal(t[1].count, 8192 * 1024);
    bb_err_mute(1);
    bb_err_mute(0);
}

/* First letters of the tensors of a layer: attention, mlp, norms, scan, router, experts. */
static void parts_of_a_layer_are_in_order(void **state)
{
    static const struct {
        const char *text, *order;
    } rows[] = {
        {"{\"model_type\": \"gemma2\"}", "aaaammmnnnn"},
        {"{\"model_type\": \"olmo2\"}", "aaaaaammmnn"},
        {"{\"model_type\": \"phi3\"}", "aammmnn"},
        {"{\"model_type\": \"falcon\"}", "aammnn"},
        {"{\"model_type\": \"falcon\", \"parallel_attn\": false}", "aammnnnn"},
        {"{\"model_type\": \"gpt_neox\"}", "nnnnaaaammmm"},
        {"{\"model_type\": \"opt\"}", "aaaaaaaannmmmmnn"},
        {"{\"model_type\": \"bloom\"}", "nnaaaannmmmm"},
        {"{\"model_type\": \"starcoder2\"}", "aaaaaaaammmmnnnn"},
        {"{\"model_type\": \"mamba2\"}", "nssssssss"},
        {"{\"model_type\": \"qwen3_next\", \"num_experts\": 1, \"num_experts_per_tok\": 1}", "sssssssreeessssnn"}};
    struct bb_arch_tensor t[BB_ARCH_TENSORS];
    struct bb_arch a;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(load(rows[i].text, &a), 0);
        assert_int_equal(bb_arch_tensors(&a, 0, t), strlen(rows[i].order));
        for (size_t k = 0; rows[i].order[k]; k++)
            assert_int_equal(t[k].name[0], rows[i].order[k]);
    }
}

/* ---- invalid files ---- */

static const char *const invalid_files[] = {
    "",
    "[]",
    "{}",
    "{\"model_type\": \"mamba\"}",
    "{\"model_type\": 5}",
    "{\"architectures\": [\"LlamaTokenizer\"]}",
    "{\"model_type\": \"llama\", \"model_type\": \"gpt2\"}",
    "{\"model_type\": \"llama\", \"hidden_size\": 4100}",      /* not divisible by 32 heads */
    "{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", /* 32 heads are not divisible by 5 */
    "{\"model_type\": \"llama\", \"hidden_size\": -4096}",
    "{\"model_type\": \"llama\", \"hidden_size\": 0}",
    "{\"model_type\": \"llama\", \"hidden_size\": 4096.5}",
    "{\"model_type\": \"llama\", \"hidden_size\": \"4096\"}",
    "{\"model_type\": \"llama\", \"hidden_size\": [4096]}",
    "{\"model_type\": \"llama\", \"hidden_size\": 1e300}",
    "{\"model_type\": \"llama\", \"hidden_size\": 99999999999999999999999}",
    "{\"model_type\": \"llama\", \"hidden_size\": 1048576, \"num_hidden_layers\": 1000000}", /* 3e19 parameters */
    "{\"model_type\": \"llama\", \"tie_word_embeddings\": \"yes\"}",
    "{\"model_type\": \"llama\", \"attention_bias\": 1}",
    "{\"model_type\": \"mixtral\", \"num_experts_per_tok\": 9}", /* only 8 experts */
    "{\"model_type\": \"deepseek_v2\"}",                         /* num_experts_per_tok has no default */
    "{\"model_type\": \"deepseek_v3\", \"first_k_dense_replace\": 62}",
    "{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [3]}",
    "{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": 3}",
    "{\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [\"a\"]}",
    "{\"model_type\": \"qwen3_next\", \"linear_num_key_heads\": 5}", /* 32 value heads are not divisible by 5 */
    "{\"model_type\": \"qwen3_next\", \"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
    "{\"model_type\": \"mamba2\", \"num_heads\": 64}", /* 64 heads of 64 are not 2 x 4096 */
    "{\"model_type\": \"mamba2\", \"n_groups\": 3}",
    "{\"model_type\": \"t5\", \"feed_forward_proj\": \"gated\"}",
    "{\"model_type\": \"t5\", \"feed_forward_proj\": 3}",
    "{\"model_type\": \"jamba\", \"attn_layer_offset\": 8}", /* every 8th layer */
    "{\"model_type\": \"jamba\", \"mamba_dt_rank\": \"all\"}",
    "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"M*|M\"}",
    "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": \"\"}",
    "{\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": 3}",
    "{\"model_type\": \"nemotron_h\", \"layers_block_type\": [\"mamba\", \"sliding_attention\"]}",
    "{\"model_type\": \"nemotron_h\", \"layers_block_type\": []}",
    "{\"model_type\": \"nemotron_h\", \"mtp_layers_block_type\": [3]}",
    "{\"model_type\": \"deepseek_v4\", \"compress_ratios\": [4]}",
    "{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 1, \"compress_ratios\": [8]}",
    "{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 1, \"compress_ratios\": [4, 4]}",
    "{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 1, \"layer_types\": [\"full_attention\"]}",
    "{\"model_type\": \"deepseek_v4\", \"num_hidden_layers\": 1, \"layer_types\": "
    "[\"compressed_sparse_attention\"], "
    "\"compress_rates\": {\"compressed_sparse_attention\": 8}}",
    "{\"model_type\": \"deepseek_v4\", \"num_key_value_heads\": 2}",
    "{\"model_type\": \"deepseek_v4\", \"qk_rope_head_dim\": 513}",
    "{\"model_type\": \"deepseek_v4\", \"o_groups\": 3}",
    "{\"model_type\": \"llama\", \"architectures\": [\"Qwen2ForCausalLM\"]}",
    "{\"model_type\": \"llava\", \"text_config\": {\"model_type\": \"llava_text\"}}",
    "{\"model_type\": \"llama\", \"text_config\": {\"model_type\": \"llama\", \"hidden_size\": 4100}}",
    "{\"model_type\": \"qwen2\", \"use_sliding_window\": true}",
    "{\"model_type\": \"opt\", \"do_layer_norm_before\": false}",
    "{\"model_type\": \"opt\", \"do_layer_norm_before\": 1}",
    "{\"model_type\": \"opt\", \"word_embed_proj_dim\": 512}",
    "{\"model_type\": \"llama\", \"hidden_act\": \"sillu\"}",
    "{\"model_type\": \"llama\", \"hidden_act\": 3}",
    "{\"model_type\": \"deepseek_v32\", \"q_lora_rank\": null}",
    "{\"model_type\": \"gemma2\", \"layer_types\": [\"full_attention\"]}", /* the model has 26 layers */
    "{\"model_type\": \"gemma2\", \"layer_types\": 3}",
    "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 1, \"layer_types\": [\"linear_attention\"]}",
    "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 1, \"layer_types\": [3]}",
    "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"layer_types\": [\"sliding_attention\"]}",
    "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 3, \"layer_types\": [\"full_attention\", "
    "\"full_attention\", \"sliding_attention\"]}",
    "{\"schema\": \"busbar.model/1\", \"family\": \"transformer\"}",
    "{\"schema\": \"busbar.model/1\", \"family\": 7}",
    "{\"schema\": \"busbar.model/1\", \"family\": \"transformer\", \"config\": {\"model_type\": \"gpt2\"}}",
    ("{\"schema\": \"busbar.model/1\", \"family\": \"transformer\", \"config\": {\"model_type\": \"gpt2\"}, "
     "\"totals\": {\"parameters\": 124439809, \"last_layer\": 7087872}}"),
    "{\"schema\": \"busbar.model/1\", \"transformer\": 3}",
};

static void rejects_invalid_files(void **state)
{
    struct bb_arch a;

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(invalid_files); i++)
        assert_int_equal(load(invalid_files[i], &a), -BB_EUSAGE);
    assert_int_equal(bb_arch_load("gpt3", &a), -BB_EUSAGE); /* a model of another family */
    assert_int_equal(bb_arch_load("llama9", &a), -BB_EUSAGE);
    assert_int_equal(bb_arch_load("/nowhere/config.json", &a), -BB_EUSAGE);
    bb_err_mute(0);
}

/* The largest allowed values are accepted. */
static void accepts_boundary_values(void **state)
{
    struct bb_arch a;

    (void)state;
    assert_int_equal(load("{\"model_type\": \"deepseek_v3\", \"first_k_dense_replace\": 61}", &a), 0);
    assert_true(a.layers == 61 && a.dense_layers == 61);
    assert_int_equal(load("{\"model_type\": \"mixtral\", \"num_experts_per_tok\": 8}", &a), 0);
    assert_true(a.experts == 8 && a.top_k == 8);
}

/* Every known activation name is accepted under every key that models use; the name changes no count. */
static void accepts_known_activation_names(void **state)
{
    static const char *const keys[] = {"hidden_act", "hidden_activation", "activation_function", "activation"};
    static const char *const names[] = {"silu",        "swish",      "gelu",   "gelu_new", "gelu_pytorch_tanh",
                                        "gelu_fast",   "quick_gelu", "relu",   "relu2",    "relu_squared",
                                        "gelu_python", "tanh",       "sigmoid"};
    struct bb_arch plain, a;

    (void)state;
    assert_int_equal(load("{\"model_type\": \"llama\"}", &plain), 0);
    for (size_t k = 0; k < ROWS(keys); k++)
        for (size_t n = 0; n < ROWS(names); n++) {
            char text[128];

            snprintf(text, sizeof(text), "{\"model_type\": \"llama\", \"%s\": \"%s\"}", keys[k], names[n]);
            assert_int_equal(load(text, &a), 0);
            assert_true(a.hidden == plain.hidden && a.ffn == plain.ffn && a.gated == plain.gated);
        }
}

static unsigned next(unsigned *seed)
{
    return *seed = *seed * 1664525u + 1013904223u;
}

/* Loads the file or rejects it; a loaded model has a valid parameter count. */
static void assert_loads_or_rejects(const char *text, size_t n)
{
    struct bb_arch a;
    int rc = load_text(text, n, &a);

    if (rc == 0)
        assert_true(bb_arch_parameters(&a) > 0 && bb_arch_parameters(&a) <= 0x1p53);
    else
        assert_int_equal(rc, -BB_EUSAGE);
}

static const char *const samples[] = {
    "{\"model_type\": \"deepseek_v3\", \"num_hidden_layers\": 61, \"q_lora_rank\": 1536, \"n_shared_experts\": 1}",
    "{\"architectures\": [\"Qwen2MoeForCausalLM\"], \"num_experts\": 60, \"mlp_only_layers\": [0], \"qkv_bias\": true}",
    "{\"model_type\": \"gpt2\", \"n_embd\": 1280, \"n_head\": 20, \"n_layer\": 36, \"n_inner\": null}",
};

static void handles_truncated_and_modified_files(void **state)
{
    unsigned seed = 7;
    char text[256];

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(samples); i++) {
        size_t n = strlen(samples[i]);

        for (size_t cut = 0; cut < n; cut++)
            assert_loads_or_rejects(samples[i], cut);
        for (int round = 0; round < 400; round++) {
            memcpy(text, samples[i], n);
            for (unsigned change = 0; change < 1 + round % 3u; change++)
                text[(next(&seed) >> 8) % n] = (char)(next(&seed) >> 24);
            assert_loads_or_rejects(text, n);
        }
    }
    bb_err_mute(0);
}

/* Every field with every type of value. */
static void handles_values_of_any_type(void **state)
{
    static const char *const keys[] = {"vocab_size",
                                       "hidden_size",
                                       "intermediate_size",
                                       "num_hidden_layers",
                                       "num_attention_heads",
                                       "head_dim",
                                       "num_key_value_heads",
                                       "n_routed_experts",
                                       "max_position_embeddings",
                                       "moe_intermediate_size",
                                       "q_lora_rank",
                                       "num_experts_per_tok",
                                       "n_shared_experts",
                                       "first_k_dense_replace",
                                       "moe_layer_freq",
                                       "kv_lora_rank",
                                       "qk_nope_head_dim",
                                       "qk_rope_head_dim",
                                       "v_head_dim",
                                       "tie_word_embeddings",
                                       "mlp_bias",
                                       "attention_bias",
                                       "num_local_experts",
                                       "mlp_only_layers",
                                       "text_config",
                                       "layer_types",
                                       "sliding_window",
                                       "sliding_window_pattern",
                                       "index_topk",
                                       "num_kv_heads",
                                       "num_ln_in_parallel_attn",
                                       "new_decoder_architecture",
                                       "use_qk_norm",
                                       "n_embed",
                                       "hidden_act",
                                       "linear_num_key_heads",
                                       "num_layers",
                                       "num_decoder_layers",
                                       "d_kv",
                                       "feed_forward_proj",
                                       "full_attention_interval",
                                       "expand",
                                       "chunk_size",
                                       "compress_ratios",
                                       "compress_rates",
                                       "mlp_layer_types",
                                       "hc_mult",
                                       "o_groups",
                                       "architectures"};
    static const char *const values[] = {
        "null", "true", "\"7\"", "[]", "{}", "-1", "0", "1", "2147483647", "1e9", "1.5", "1e40", "9007199254740993"};
    static const char *const types[] = {"llama",       "mixtral", "deepseek_v3", "qwen3_moe",  "gemma3_text",
                                        "llama4_text", "falcon",  "bloom",       "glm4_moe",   "deepseek_v32",
                                        "qwen3_next",  "mamba2",  "t5",          "deepseek_v4"};
    char text[256];

    (void)state;
    bb_err_mute(1);
    for (size_t t = 0; t < ROWS(types); t++)
        for (size_t k = 0; k < ROWS(keys); k++)
            for (size_t v = 0; v < ROWS(values); v++) {
                int n =
                    snprintf(text, sizeof(text), "{\"model_type\": \"%s\", \"%s\": %s}", types[t], keys[k], values[v]);

                assert_loads_or_rejects(text, (size_t)n);
            }
    bb_err_mute(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_match_published_counts),
        cmocka_unit_test(gpt3_sizes_match_the_formula),
        cmocka_unit_test(reads_published_configs),
        cmocka_unit_test(dropout_follows_the_file_then_the_class),
        cmocka_unit_test(counts_match_published_weights),
        cmocka_unit_test(hybrids_match_their_sizes),
        cmocka_unit_test(layers_have_the_parts_of_their_kind),
        cmocka_unit_test(finds_layers_with_experts),
        cmocka_unit_test(finds_windowed_layers),
        cmocka_unit_test(counts_deepseek_v4),
        cmocka_unit_test(finds_compressed_keys),
        cmocka_unit_test(finds_layers_with_a_scan),
        cmocka_unit_test(encoder_decoder_stacks_have_their_own_ends),
        cmocka_unit_test(core_flops_match_the_formula),
        cmocka_unit_test(tp_replicates_norms_biases_and_routers),
        cmocka_unit_test(tp_replication_of_newer_architectures),
        cmocka_unit_test(adapters_of_latent_attention),
        cmocka_unit_test(vocabulary_is_padded_to_tp),
        cmocka_unit_test(shares_sum_to_the_model),
        cmocka_unit_test(tensors_are_in_order),
        cmocka_unit_test(parts_of_a_layer_are_in_order),
        cmocka_unit_test(rejects_invalid_files),
        cmocka_unit_test(accepts_known_activation_names),
        cmocka_unit_test(accepts_boundary_values),
        cmocka_unit_test(handles_truncated_and_modified_files),
        cmocka_unit_test(handles_values_of_any_type),
    };

    memory = memfd_create("config.json", 0);
    return memory < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
