/* foreign_line.c - translates command lines with options of other tools (see foreign_line.h). */
#include "bootstrap/cli/foreign_line_internal.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/err.h"
#include "bootstrap/base/units.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- reading ---- */

/* Returns the option of busbar with the same name but for separators and sections: "training.global_batch_size". */
static const struct bb_opt *find_same_name(const struct bb_opts *set, const char *name, size_t length)
{
    const char *section = memrchr(name, '.', length);
    const char *key = section ? section + 1 : name;

    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++)
            if (bb_is_same_name(o->name, key, length - (size_t)(key - name)))
                return o;
    return NULL;
}

/* Whether a word is an option of NeMo, as "model.context_parallel_size=2". */
static bool is_assignment(const struct bb_opts *set, const char *word)
{
    const size_t length = strcspn(word, "=");

    return word[0] != '-' && word[length] &&
           (bb_opts_find_foreign(set, word, length) ||
            (memchr(word, '.', length) && find_same_name(set, word, length)));
}

static bool is_value(const struct bb_opts *set, const char *word)
{
    return word && !is_assignment(set, word) && (word[0] != '-' || isdigit((unsigned char)word[1]) || word[1] == '.');
}

/* Whether a row has one meaning, with or without a value: "--bf16", "--bf16 True". */
static bool is_switch(const struct bb_foreign_name *row)
{
    const size_t length = row && row->ours ? strcspn(row->ours, "(") : 0;

    return length > 1 && strncmp(row->ours, row->text, strlen(row->text)) == 0 &&
           (length == strlen(row->text) || length == strlen(row->text) + 1);
}

/* Megatron-LM separates the values of a list by blanks: "--recompute-modules mla_up_proj moe_act". */
static bool is_list(const struct item *item)
{
    return item->n_words > 1 && item->opt->arg && strcmp(item->opt->arg, "LIST") == 0;
}

/* Sets the value and the number of words. named: the line has its proxy or mode already, so that all words that follow an
 * option of another tool are its values. */
static void read_values(const struct bb_opts *set, struct item *item, char **word, bool named)
{
    const bool is_short = item->typed[0] == '-' && item->typed[1] != '-';
    const char *equals = is_short ? NULL : strchr(item->typed, '=');
    const bool takes_one = item->opt ? item->opt->kind != BB_OPT_FLAG && !(is_short && item->typed[2])
                                     : !named && item->row && !is_switch(item->row);

    if (equals)
        item->value = equals + 1;
    else if (takes_one && word[1] && (item->opt || is_value(set, word[1])))
        item->n_words = 2;
    if (!equals && named && (!item->opt || is_list(item)))
        while (is_value(set, word[item->n_words]))
            item->n_words++;
    if (!equals && item->n_words > 1)
        item->value = word[1];
}

/* Returns the row of a program, from its path; NULL: none. */
static const struct bb_foreign_name *find_program(const struct bb_opts *set, const char *path)
{
    const char *base = bb_base_name(path);

    return bb_foreign_find(set->programs, base, strcspn(base, "."));
}

static bool is_subject(const struct bb_opts *set, const char *word)
{
    struct bb_opt_subject subject;

    return set->find_subject && set->find_subject(word, &subject);
}

static bool has_extension(const char *word, const char *extensions)
{
    const char *extension = strrchr(word, '.');
    const struct bb_foreign_name names[] = {{.name = extensions}, {.name = NULL}};

    return extension && bb_foreign_find(names, extension + 1, strlen(extension + 1));
}

/* Whether a word is a file of settings of LLaMA-Factory, axolotl, GPT-NeoX and others. */
static bool is_settings(const char *word)
{
    return has_extension(word, "yaml yml toml");
}

/* Notes a launcher, script or program of another tool: "torchrun", "pretrain_gpt.py", "megatron". Python starts scripts without
 * a row. Letters after a script are the script's, unless it is a launcher itself: "deepy.py train.py -d configs". */
static void read_program(struct line *l, const char *word)
{
    const struct bb_foreign_name *row = find_program(l->set, word);
    const bool is_script = has_extension(word, "py sh"), is_launcher = row && row->values;

    if (!l->set->programs || is_subject(l->set, word))
        return;
    l->is_launched |= is_script || is_launcher;
    if (l->program && !l->unread && is_settings(word))
        l->unread = word;
    if (is_launcher)
        l->launcher = bb_base_name(word);
    else if (is_script && !(l->launcher && has_extension(l->launcher, "py")))
        l->launcher = NULL;
    if (row && row->ours)
        l->program = row->text;
    else if (is_script && !l->program && (row = find_program(l->set, "python")))
        l->program = row->text;
}

/* Replaces a letter by the name of the option: "-N" of srun is --nodes. A number may follow the letter: "-N4". */
static void expand_letter(const struct line *l, struct item *item)
{
    static const struct {
        const char *launchers; /* NULL: any, or none */
        char letter;
        const char *name;
    } letters[] = {{"srun", 'N', "nodes"},
                   {"srun mpirun mpiexec", 'n', "world-size"},
                   {"mpirun", 'N', "ppn"},
                   {"deepy.py", 'd', "conf-dir"},
                   {NULL, 'm', "module"}};

    const char *const number = item->name + 1;
    const bool is_letter = number[strspn(number, "0123456789")] == '\0';

    for (size_t i = 0; i < sizeof(letters) / sizeof(*letters) && l->set->programs && is_letter; i++) {
        const struct bb_foreign_name launchers[] = {{.name = letters[i].launchers}, {.name = NULL}};

        if (*item->name != letters[i].letter ||
            (letters[i].launchers && !(l->launcher && bb_foreign_find(launchers, l->launcher, strlen(l->launcher)))))
            continue;
        item->value = *number ? number : NULL;
        item->name = letters[i].name;
        item->length = strlen(item->name);
        item->row = bb_opts_find_foreign(l->set, item->name, item->length);
        item->opt = NULL;
        return;
    }
}

static struct item read_item(const struct line *l, char **word, bool named)
{
    const struct bb_opts *set = l->set;
    struct item item = {.typed = *word, .name = "", .words = word, .n_words = 1};
    const bool assigns = is_assignment(set, *word), is_long = bb_begins_with(*word, "--") && (*word)[2],
               is_short = !is_long && (*word)[0] == '-' && isalpha((unsigned char)(*word)[1]);
    const struct bb_foreign_name *of_value;
    const char *section;
    size_t at;

    if (!assigns && !is_long && !is_short)
        return item;
    item.name = *word + (assigns ? 0 : is_long ? 2 : 1);
    item.length = strcspn(item.name, "=");
    item.opt = assigns ? NULL : bb_opts_find(set, is_short ? item.name[0] : 0, item.name, item.length, &at);
    item.row = item.opt ? NULL : bb_opts_find_foreign(set, item.name, item.length);
    if (is_short)
        expand_letter(l, &item);
    item.is_renamed = !item.opt && !item.row && !is_short && (item.opt = find_same_name(set, item.name, item.length));
    section = memrchr(item.name, '.', item.length);
    if (section) {
        item.length -= (size_t)(section + 1 - item.name);
        item.name = section + 1;
    }
    if (!item.value)
        read_values(set, &item, word, named);
    of_value = bb_opts_find_value(set, item.name, item.length, item.value);
    if (of_value) {
        item.row = of_value;
        item.opt = NULL;
        item.is_renamed = false;
    }
    return item;
}

/* Returns the first word that may be a program: a positional argument, or a word after the value of another tool's option. */
static int first_program(const struct item *item)
{
    return !*item->name ? 0 : item->opt ? item->n_words : 2;
}

static void read_line(struct line *l, char **argv)
{
    bool named = false;

    for (char **word = argv + 1; *word; word += l->items[l->n_items++].n_words) {
        struct item *item;

        BB_GROW(l->items, l->n_items);
        item = &l->items[l->n_items];
        *item = read_item(l, word, named);
        named |= !*item->name;
        l->has_subject |= !*item->name && is_subject(l->set, *word);
        for (int i = first_program(item); i < item->n_words; i++)
            read_program(l, word[i]);
    }
}

/* Returns the last item of one of the names, separated by blanks, because later options override earlier ones and those of a
 * file; NULL: none. */
static const struct item *find_item(const struct line *l, const char *names)
{
    const struct bb_foreign_name name[] = {{.name = names}, {.name = NULL}};

    for (size_t i = l->n_items; i-- > 0;)
        if (l->items[i].length && bb_foreign_find(name, l->items[i].name, l->items[i].length))
            return &l->items[i];
    return NULL;
}

/* Returns the last value of an option of busbar or of another tool with the same meaning; "": not given. */
static const char *value_of(const struct line *l, const char *ours)
{
    for (size_t i = l->n_items; i-- > 0;) {
        const struct item *item = &l->items[i];

        if (item->value && (item->opt   ? strcmp(item->opt->name, ours + 2) == 0
                            : item->row ? item->row->ours && strcmp(item->row->ours, ours) == 0 && !item->row->values
                                        : false))
            return item->value;
    }
    return "";
}

/* ---- writing ---- */

static void add_fragment(struct line *l, char *option, char *text, enum rank rank)
{
    BB_GROW(l->fragments, l->n_fragments);
    l->fragments[l->n_fragments++] = (struct fragment){option, text, rank};
}

/* Adds the options of a text: "--tp-comm-overlap --sequence-parallel". All but the first yield to options that are given.
 * A remark in parentheses ends the text. */
static void add_options(struct line *l, const char *text, enum rank rank)
{
    while (bb_begins_with(text, "--")) {
        const char *next = strstr(text, " --"), *remark = strstr(text, " (");
        const char *end = next && (!remark || next < remark) ? next : remark ? remark : text + strlen(text);

        add_fragment(l, bb_format("%.*s", (int)strcspn(text, " "), text), bb_format("%.*s", (int)(end - text), text),
                     rank);
        rank = COMPANION;
        text = end == next ? next + 1 : "";
    }
}

/* Whether another value of the same option replaces this fragment. */
static bool is_replaced(const struct line *l, size_t i)
{
    const struct fragment *f = &l->fragments[i];

    for (size_t j = 0; j < l->n_fragments && *f->option; j++)
        if (j != i && strcmp(l->fragments[j].option, f->option) == 0 &&
            (l->fragments[j].rank > f->rank || (l->fragments[j].rank == f->rank && j > i)))
            return true;
    return false;
}

/* Returns the value that an option has in the translated line; "": not given. */
static const char *translated_value(const struct line *l, const char *option)
{
    for (size_t i = 0; i < l->n_fragments; i++) {
        const char *text = l->fragments[i].text;

        if (strcmp(l->fragments[i].option, option) == 0 && !is_replaced(l, i))
            return text[strcspn(text, " =")] ? text + strcspn(text, " =") + 1 : "";
    }
    return "";
}

/* Returns whether the translated line has an option. */
static bool has_option(const struct line *l, const char *option)
{
    bool has = false;

    for (size_t i = 0; i < l->n_fragments; i++)
        has |= strcmp(l->fragments[i].option, option) == 0;
    return has;
}

/* Returns whether the translated line has one of these modes of --dp-sync, whose default is all_reduce. */
static bool has_sync(const struct line *l, const char *modes)
{
    const struct bb_foreign_name names[] = {{.name = modes}, {.name = NULL}};
    const char *mode = translated_value(l, "--dp-sync");

    return bb_foreign_find(names, *mode ? mode : "all_reduce", *mode ? strlen(mode) : strlen("all_reduce"));
}

void bb_line_add_note(struct line *l, const char *head, const struct item *item, const char *reason)
{
    const int length = item ? (int)strcspn(item->typed, "=") : 0;
    char *names;
    size_t i = 0;

    while (i < l->n_notes && (strcmp(l->notes[i].head, head) != 0 || strcmp(l->notes[i].reason, reason) != 0))
        i++;
    if (i == l->n_notes) {
        BB_GROW(l->notes, l->n_notes);
        l->notes[l->n_notes++] = (struct note){head, bb_format("%s", ""), bb_format("%s", reason)};
    }
    names = l->notes[i].names;
    l->notes[i].names = bb_format("%s %.*s", names, length, item ? item->typed : "");
    free(names);
}

/* Returns the word, quoted for a shell if it has special characters, owned by the caller. */
static char *quoted(const char *word)
{
    return word[strcspn(word, " \t|*?[]()<>&;$`\"'\\!#~{}")] ? bb_format("'%s'", word) : bb_format("%s", word);
}

/* ---- options that depend on others ---- */

#define CONFIG_FILE                                                                                                    \
    "the file is not readable; give its values, for example: --zero-stage 3 --train-micro-batch-size-per-gpu 1 "       \
    "--gradient-accumulation-steps 8"

#define SETTINGS                                                                                                       \
    "give its values, for example: --model config.json --ranks 8 --dtype bfloat16 --dp-sync zero3 --micro-batch-size " \
    "1 --micro-batches 8 --seq-length 4096"

/* Returns the number at the begin of a text, at most 2^20 in magnitude, so that products of two fit in long; 0: NULL, or no number. */
static long read_number(const char *text)
{
    const long limit = 1 << 20, value = text ? strtol(text, NULL, 10) : 0;

    return value > limit ? limit : value < -limit ? -limit : value;
}

/* Returns whether the line has a program of one of these names, which are separated by blanks. */
static bool starts(const struct line *l, const char *names)
{
    const struct bb_foreign_name name[] = {{.name = names}, {.name = NULL}};
    bool is_started = false;

    for (size_t i = 0; i < l->n_items; i++)
        for (int w = first_program(&l->items[i]); w < l->items[i].n_words; w++) {
            const char *program = bb_base_name(l->items[i].words[w]);

            is_started |= bb_foreign_find(name, program, strlen(program)) != NULL;
        }
    return is_started;
}

static bool starts_torchrun(const struct line *l)
{
    const struct item *module = find_item(l, "module");

    return (module && module->value && bb_begins_with(module->value, "torch.distributed")) || starts(l, "torchrun");
}

/* Returns the number of ranks; 0: unknown. */
static long ranks_of(const struct line *l)
{
    const struct item *nodes = find_item(l, "nodes nnodes num-nodes hosts num-hosts num-machines");
    const struct item *gpus = find_item(l, "num-gpus"); /* DeepSpeed: of each node */
    const long given = read_number(value_of(l, "--gpus-per-node"));
    const long n_nodes = nodes ? read_number(nodes->value) : given > 0 && starts_torchrun(l);
    const long ranks = gpus && n_nodes > 0 ? 0 : read_number(value_of(l, "--ranks"));
    const long per_node = gpus && gpus->value ? read_number(gpus->value) : given;

    return ranks > 0 ? ranks : n_nodes * (per_node > 0 ? per_node : 8);
}

static long degree(const struct line *l, const char *ours)
{
    const long value = read_number(value_of(l, ours));

    return value > 0 ? value : 1;
}

static bool translate_nodes(struct line *l, const struct item *item)
{
    const long ranks = ranks_of(l);
    size_t at;

    if (!item->value || ranks <= 0 || item->value[strspn(item->value, "0123456789")] ||
        !bb_opts_find(l->set, 0, "ranks", 5, &at))
        return false;
    add_fragment(l, bb_format("--ranks"), bb_format("--ranks %ld", ranks), COMPANION);
    return true;
}

/* Returns the data-parallel size of all ranks; 0: unknown. */
static long data_parallel_size(const struct line *l)
{
    return ranks_of(l) / degree(l, "--tp") / degree(l, "--pp") / degree(l, "--cp");
}

static bool is_megatron(const struct line *l, bool is_script);
static bool is_torchtitan(const struct line *l);
static bool is_off(const char *value);

#define ACCOUNT_EMBEDDING "account-for-embedding-in-pipeline-split"
#define ACCOUNT_LOSS      "account-for-loss-in-pipeline-split"

/* Returns whether the line has Megatron-FSDP, PyTorch's FSDP or the like as a switch. */
static bool has_fsdp(const struct line *l)
{
    const struct item *item = find_item(l, "use-megatron-fsdp use-torch-fsdp2 use-custom-fsdp use-fsdp fsdp");

    return item && !is_off(item->value);
}

/* Megatron-LM: the optimizer's shards, with FSDP also those of the parameters, are stored by dp / N ranks. */
static bool translate_instances(struct line *l, const struct item *item)
{
    const struct item *strategy = find_item(l, "data-parallel-sharding-strategy");
    const long n = read_number(item->value), dp = data_parallel_size(l);
    const bool shards_all = !strategy || (strategy->value && strcmp(strategy->value, "optim_grads_params") == 0);
    char *text;

    if (n < 1 || dp < n || dp % n || (n > 1 && has_fsdp(l) && !shards_all))
        return false;
    if (n == 1)
        return true;
    text = bb_format("--shard-size %ld%s", dp / n, has_fsdp(l) ? "" : " --dp-sync distributed");
    add_options(l, text, TRANSLATED);
    if (has_fsdp(l))
        add_options(l, "--dp-sync hsdp", OWN);
    free(text);
    return true;
}

/* Megatron-LM reads the strategy only with --use-megatron-fsdp. */
static bool translate_strategy(struct line *l, const struct item *item)
{
    if (has_fsdp(l) || !is_megatron(l, false))
        return false;
    bb_line_add_note(l, "left out", item, "without influence, because the line has no --use-megatron-fsdp");
    return true;
}

/* torchtitan: "--model.name llama3 --model.flavor 8B" is llama3_8b. */
static bool translate_flavor(struct line *l, const struct item *item)
{
    static const char only[] = "deepseek_v3_671b"; /* the published DeepSeek-V3; torchtitan has smaller ones, too */
    const struct item *name = find_item(l, "name"), *flavor = find_item(l, "flavor");
    char *model, *reason;

    if (!name || !name->value || !flavor || !flavor->value || !name->row || !l->set->layers_of)
        return false;
    model = bb_format("%s_%s", name->value, flavor->value);
    for (char *at = model; *at; at++)
        *at = (char)(*at == '-' || *at == '.' ? '_' : tolower((unsigned char)*at));
    if (strcmp(model, only) == 0)
        *strrchr(model, '_') = '\0';
    if (item == flavor && l->set->layers_of(model, NULL) > 0)
        add_fragment(l, bb_format("--model"), bb_format("--model %s", model), TRANSLATED);
    else if (l->set->layers_of(model, NULL) <= 0) {
        reason = bb_format("busbar list models has no %s; give --model config.json", model);
        bb_line_add_note(l, "by hand", item, reason);
        free(reason);
    }
    free(model);
    return true;
}

/* torchtitan: "--config llama3_8b" has the name of a model. */
static bool translate_config(struct line *l, const struct item *item)
{
    char *reason;

    if (!is_torchtitan(l) || !item->value || !l->set->layers_of)
        return false;
    if (l->set->layers_of(item->value, NULL) > 0) {
        add_fragment(l, bb_format("--model"), bb_format("--model %s", item->value), TRANSLATED);
        return true;
    }
    reason = bb_format("busbar list models has no %s; give --model config.json", item->value);
    bb_line_add_note(l, "by hand", item, reason);
    free(reason);
    return true;
}

/* torchtitan's batch of a rank has micro-batches only in a pipeline: of one sample, unless another option has their size. */
static bool translate_local_batch(struct line *l, const struct item *item)
{
    const struct item *given = find_item(l, "pipeline-parallel-microbatch-size");
    const long local = read_number(item->value), micro = given ? read_number(given->value) : 1;
    char *text;

    if (degree(l, "--pp") == 1 || micro < 1 || local < micro || local % micro)
        return false;
    text = *value_of(l, "--global-batch-size")
               ? bb_format("--micro-batch-size %ld", micro)
               : bb_format("--micro-batch-size %ld --micro-batches %ld", micro, local / micro);
    add_options(l, text, TRANSLATED);
    free(text);
    return true;
}

/* torchtitan: replicate degree (default 1) and shard degree (default -1: all other ranks) */
static bool translate_shards(struct line *l, const struct item *item)
{
    const struct item *shards = find_item(l, "data-parallel-shard-degree"),
                      *copies = find_item(l, "data-parallel-replicate-degree");
    const long replicate = copies && copies->value ? read_number(copies->value) : 1;
    const long rest = data_parallel_size(l) / (replicate > 0 ? replicate : 1);
    long shard = shards && shards->value ? read_number(shards->value) : -1;
    char *text;

    if (item != (shards ? shards : copies))
        return true;
    if (shard == 1)
        text = bb_format("--dp %ld", replicate);
    else if (replicate <= 1)
        text = shard > 0 ? bb_format("--dp-sync zero3 --dp %ld", shard) : bb_format("--dp-sync zero3");
    else {
        shard = shard > 0 ? shard : rest;
        text = shard > 0 ? bb_format("--dp-sync hsdp --dp %ld --shard-size %ld", replicate * shard, shard)
                         : bb_format("--dp-sync hsdp");
    }
    add_options(l, text, TRANSLATED);
    free(text);
    return true;
}

/* Returns whether a switch is given, and not switched off. */
static bool is_on(const struct line *l, const char *name)
{
    const struct item *item = find_item(l, name);

    return item && !is_off(item->value);
}

/* Returns the layers that the pipeline's stages divide; 0: unknown. Megatron-LM counts embedding and head on demand. */
static long count_layers(const struct line *l)
{
    const char *model = value_of(l, "--model");
    const long given = read_number(value_of(l, "--layers"));
    const long layers = given || !*model || !l->set->layers_of ? given : l->set->layers_of(model, NULL);

    return layers > 0 ? layers + is_on(l, ACCOUNT_EMBEDDING) + is_on(l, ACCOUNT_LOSS) : 0;
}

/* Returns the chunks of a pipeline stage, from the layers of a chunk; 0: unknown. */
static long count_chunks(const struct line *l, const struct item *item)
{
    const long pp = read_number(value_of(l, "--pp")), layers = count_layers(l), chunk = read_number(item->value);

    return pp > 0 && chunk > 0 && layers % (pp * chunk) == 0 ? layers / (pp * chunk) : 0;
}

static bool translate_chunks(struct line *l, const struct item *item)
{
    const long chunks = count_chunks(l, item);

    if (chunks)
        add_fragment(l, bb_format("--vpp"), bb_format("--vpp %ld", chunks), TRANSLATED);
    return chunks > 0;
}

/* plan counts embedding and head, both, as a layer each, if the stages do not divide the layers. */
static bool translate_account(struct line *l, const struct item *item)
{
    const struct item *of_chunk = find_item(l, "num-layers-per-virtual-pipeline-stage");
    const bool embedding = is_on(l, ACCOUNT_EMBEDDING), loss = is_on(l, ACCOUNT_LOSS);
    const long vpp = of_chunk ? count_chunks(l, of_chunk) : degree(l, "--vpp"), stages = degree(l, "--pp") * vpp,
               n = stages > 0 && count_layers(l) % stages == 0 ? count_layers(l) / stages : 0;
    char *middle = stages > 2 ? bb_format("(t*%ld|)*%ld", n, stages - 2) : bb_format("%s", ""),
         *text = bb_format("--pipeline-layout 'Et*%ld|%st*%ldL'", n - embedding, middle, n - loss);

    if (embedding == loss || stages == 1)
        bb_line_add_note(l, "left out", item,
                         "plan counts embedding and head as a layer each, if pp times vpp does not divide the layers");
    else if (n < 2)
        bb_line_add_note(l, "by hand", item, "is --pipeline-layout here (for example 'Et*7|(t*8|)*2t*8L')");
    else
        add_options(l, text, TRANSLATED);
    free(middle);
    free(text);
    return true;
}

static bool is_uniform(const struct line *l)
{
    const struct item *method = find_item(l, "recompute-method activations-checkpoint-method");

    return method && method->value && strcasecmp(method->value, "uniform") == 0;
}

static bool translate_recompute_layers(struct line *l, const struct item *item)
{
    if (is_uniform(l))
        bb_line_add_note(l, "left out", item, "method uniform recomputes all layers, in units of this number");
    return is_uniform(l);
}

static bool translate_recompute_method(struct line *l, const struct item *item)
{
    if (!is_uniform(l))
        return false;
    bb_line_add_note(l, "left out", item, "--recompute full alone is method uniform");
    return true;
}

/* DeepEP sends a token once to each node, here counted with 8 GPUs each. Megatron-LM limits the nodes of a token by
 * --moe-router-group-topk. */
static bool translate_dispatcher(struct line *l, const struct item *item)
{
    const struct item *topk = find_item(l, "moe-router-group-topk");
    const long nodes = (degree(l, "--ep") + 7) / 8, groups = topk ? read_number(topk->value) : 0;

    if (!item->value || strcasecmp(item->value, "flex") != 0 || *value_of(l, "--moe-node-limit"))
        return false;
    if (nodes < 2)
        bb_line_add_note(l, "left out", item, "--moe-dispatch dedup requires experts on several nodes");
    else
        add_fragment(l, bb_format("--moe-dispatch"),
                     groups > 0 && groups < nodes ? bb_format("--moe-dispatch dedup --moe-node-limit %ld", groups)
                                                  : bb_format("--moe-dispatch dedup"),
                     TRANSLATED);
    return true;
}

/* DeepSpeed's MiCS stores the shards in groups of this number of ranks. */
static bool translate_mics(struct line *l, const struct item *item)
{
    const long size = read_number(item->value);
    char *text = bb_format("--shard-size %ld", size);

    if (size > 0) {
        add_options(l, text, TRANSLATED);
        add_options(l, "--dp-sync hsdp", OWN);
    }
    free(text);
    return size != 0;
}

/* DeepSpeed's switch or file; Hugging Face's switch has the file as its value. */
static bool translate_deepspeed(struct line *l, const struct item *item)
{
    static const char stages[] = "zero zero-stage stage deepspeed-stage zero-optimization dp-sync";
    const bool has_stage = find_item(l, stages);

    if (item->value && !l->config)
        l->unread = item->value;
    if (item->value && l->config)
        bb_line_note_deepspeed(l, item);
    else if (item->value)
        bb_line_add_note(l, "left out", item, CONFIG_FILE);
    else if (has_stage)
        bb_line_add_note(l, "left out", item, "the ZeRO stage is --dp-sync");
    else if (find_item(l, DEEPSPEED_FILE_OPTIONS))
        bb_line_add_note(l, "left out", item, "in the file");
    return item->value || has_stage || find_item(l, DEEPSPEED_FILE_OPTIONS);
}

static bool translate_file(struct line *l, const struct item *item)
{
    l->unread = item->value;
    return false;
}

/* The vocabulary of a model without --vocab-size is that of the tokenizer. */
static bool translate_tokenizer(struct line *l, const struct item *item)
{
    if (!l->model || json_object_get(l->model, "vocab_size"))
        return false;
    bb_line_add_note(l, "by hand", item,
                     "the tokenizer has the vocabulary of the model; add --vocab-size N (Llama 3: 128256)");
    return true;
}

/* Returns the samples of a step; 0: unknown. */
static double samples_of_step(const struct line *l)
{
    const long batch = read_number(value_of(l, "--global-batch-size"));

    return batch > 0 ? (double)batch
                     : (double)read_number(value_of(l, "--micro-batch-size")) * (double)degree(l, "--micro-batches") *
                           (double)data_parallel_size(l);
}

/* Samples, and steps with a known batch, are tokens of a training run. */
static bool translate_tokens(struct line *l, const struct item *item)
{
    const bool is_samples = memmem(item->name, item->length, "samples", strlen("samples"));
    const double count = item->value ? strtod(item->value, NULL) * (is_samples ? 1 : samples_of_step(l)) : 0,
                 tokens = count * (double)read_number(value_of(l, "--seq-length"));
    char *text;
    size_t at;

    if (!(tokens >= 1 && tokens < 1e18) || !bb_opts_find(l->set, 0, "tokens", 6, &at))
        return false;
    text = bb_format("--tokens %.0f", tokens);
    if (*value_of(l, "--cluster"))
        add_options(l, text, TRANSLATED);
    else
        bb_line_add_note(l, "with --cluster, add", NULL, text);
    free(text);
    return true;
}

static bool is_off(const char *value)
{
    return value && (strcasecmp(value, "false") == 0 || strcasecmp(value, "no") == 0 || strcasecmp(value, "off") == 0 ||
                     strcasecmp(value, "none") == 0 || strcmp(value, "0") == 0);
}

/* Returns whether a word of the value of an item, which may be NULL, is `word`. */
static bool has_word(const struct item *item, const char *word)
{
    bool has = item && item->value && strcmp(item->value, word) == 0;

    for (int i = 1; item && i < item->n_words; i++)
        has |= strcmp(item->words[i], word) == 0;
    return has;
}

/* Megatron-LM captures the step (full_iteration), modules of layers or, without a list of modules, whole layers. */
static bool translate_graphs(struct line *l, const struct item *item)
{
    static const char full[] = "full_iteration";
    const struct item *impl = find_item(l, "cuda-graph-impl"),
                      *list = find_item(l, "cuda-graph-modules cuda-graph-scope");
    char *text, *before;

    if (impl && is_off(impl->value)) {
        bb_line_add_note(l, "left out", item, "switched off");
    } else if (!list || has_word(impl, full) || has_word(list, full)) {
        add_options(l, "--graph", TRANSLATED);
    } else if (item == list) {
        text = bb_format("--cuda-graph-modules %s", item->value ? item->value : "attn");
        for (int i = 2; i < item->n_words; i++) {
            before = text;
            text = bb_format("%s,%s", before, item->words[i]);
            free(before);
        }
        add_options(l, text, OWN);
        free(text);
    }
    return true;
}

/* Other tools have a seed of weights and data, busbar of random durations and loads. */
static bool translate_seed(struct line *l, const struct item *item)
{
    if (find_item(l, "jitter moe-imbalance"))
        return false;
    bb_line_add_note(l, "left out", item, "without influence on the time and memory of a step");
    return true;
}

/* torchtitan: a number is every n-th layer, which add_recompute() translates, and "op" operations. */
static bool translate_every_layer(struct line *l, const struct item *item)
{
    const bool is_op = item->value && strcmp(item->value, "op") == 0;

    if (is_torchtitan(l) && item->value && !is_op && read_number(item->value) < 1)
        bb_line_add_note(l, "by hand", item, "expected op, or N of 1 or more for every n-th layer");
    return is_torchtitan(l) && item->value;
}

static const struct {
    const char *names;
    bool (*translate)(struct line *l, const struct item *item); /* returns false if the general rule applies */
} rules[] = {
    {"nodes nnodes num-nodes hosts num-hosts num-machines", translate_nodes},
    {"num-gpus", translate_nodes},
    {"data-parallel-shard-degree data-parallel-replicate-degree", translate_shards},
    {"flavor name", translate_flavor},
    {"config", translate_config},
    {"local-batch-size", translate_local_batch},
    {"selective-ac-option", translate_every_layer},
    {"seed", translate_seed},
    {"num-distributed-optimizer-instances", translate_instances},
    {"data-parallel-sharding-strategy", translate_strategy},
    {"num-layers-per-virtual-pipeline-stage", translate_chunks},
    {ACCOUNT_EMBEDDING " " ACCOUNT_LOSS, translate_account},
    {"recompute-num-layers activations-checkpoint-num-layers", translate_recompute_layers},
    {"recompute-method activations-checkpoint-method", translate_recompute_method},
    {"moe-token-dispatcher-type", translate_dispatcher},
    {"deepspeed " DEEPSPEED_FILE_OPTIONS, translate_deepspeed},
    {"config-file", translate_file},
    {"mics-shard-size", translate_mics},
    {"tokenizer-type tokenizer-model vocab-file merge-file", translate_tokenizer},
    {"train-samples max-samples num-samples train-iters iters steps max-steps num-steps train-steps iterations "
     "num-iters niters",
     translate_tokens},
    {"cuda-graph-impl cuda-graph-modules cuda-graph-scope enable-cuda-graph external-cuda-graph", translate_graphs},
};

static bool translate_by_rule(struct line *l, const struct item *item)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        const struct bb_foreign_name name[] = {{.name = rules[i].names}, {.name = NULL}};

        if (bb_foreign_find(name, item->name, item->length))
            return rules[i].translate(l, item);
    }
    return false;
}

/* ---- the line ---- */

/* Translates an option of another tool with a counterpart. */
static void translate_option(struct line *l, const struct item *item)
{
    const struct bb_foreign_name *row = item->row;
    const struct bb_opt *opt = NULL;
    char *value = item->value ? bb_format("%.*s", (int)strcspn(item->value, " "), item->value) : NULL;
    char *ours = bb_opts_translate(l->set, &row, value), *reason, *word;
    /* modes that any other mode replaces: of the optimizer, and of a switch whose strategy is another option */
    const bool weak = strcmp(row->text, "--dp-sync distributed") == 0 ||
                      (is_switch(row) && bb_begins_with(row->text, "--dp-sync") &&
                       find_item(l, "data-parallel-sharding-strategy sharding-strategy fsdp-sharding-strategy"));
    size_t at;

    if (bb_begins_with(row->ours, "--"))
        opt = bb_opts_find(l->set, 0, row->ours + 2, strlen(row->ours + 2), &at);
    if ((is_switch(row) || (opt && opt->kind == BB_OPT_FLAG)) && is_off(value)) {
        bb_line_add_note(l, "left out", item, "switched off");
    } else if (ours && bb_begins_with(ours, "--")) {
        add_options(l, ours, weak ? COMPANION : TRANSLATED);
    } else if (!ours && (is_switch(row) || (opt && (opt->kind == BB_OPT_FLAG || (row->values && !value))))) {
        add_options(l, row->text, weak ? COMPANION : TRANSLATED);
    } else if (!ours && opt && opt->kind == BB_OPT_STRING && item->value) {
        word = quoted(item->value);
        add_fragment(l, bb_format("%s", row->ours), bb_format("%s %s", row->ours, word), TRANSLATED);
        free(word);
    } else {
        reason = bb_format("is %s here (for example %s)", row->ours, row->text);
        bb_line_add_note(l, "by hand", item, reason);
        free(reason);
    }
    free(ours);
    free(value);
}

/* Adds an option of busbar or a positional argument as it is. */
static void add_own(struct line *l, const struct item *item)
{
    const bool repeats = !item->opt || item->opt->kind == BB_OPT_TEXTS;
    char *text = item->is_renamed ? bb_format("--%s", item->opt->name) : quoted(item->typed), *before, *word;

    if (item->is_renamed && item->value && item->n_words == 1 && item->opt->kind != BB_OPT_FLAG) {
        before = text;
        word = quoted(item->value);
        text = bb_format("%s %s", before, word);
        free(before);
        free(word);
    }
    for (int i = 1; i < item->n_words; i++) {
        before = text;
        word = quoted(item->words[i]);
        text = bb_format("%s%s%s", before, i == 1 ? " " : ",", word);
        free(before);
        free(word);
    }
    add_fragment(l, repeats ? bb_format("%s", "") : bb_format("--%s", item->opt->name), text, OWN);
}

/* Adds an example of --cluster for options that only forecasts have. Returns whether the line has --cluster. */
static bool add_cluster(struct line *l)
{
    static const struct bb_foreign_name forecasts[] = {
        {.name = "graph cuda-graph-modules fp8 gemm-precision software tokens optimizer-cpu-offload "
                 "cpu-offloading-num-layers"},
        {.name = NULL}};
    const char *precision = NULL, *needs = NULL;
    size_t at;

    if (*value_of(l, "--cluster") || !bb_opts_find(l->set, 0, "cluster", 7, &at))
        return *value_of(l, "--cluster");
    for (size_t i = 0; i < l->n_fragments; i++) {
        const struct fragment *f = &l->fragments[i];

        if (*f->option && bb_foreign_find(forecasts, f->option + 2, strlen(f->option + 2)))
            needs = f->option;
        precision = strcmp(f->option, "--gemm-precision") == 0 ? f->text : precision;
    }
    if (needs) {
        const bool is_blackwell = precision && !bb_begins_with(precision, "--gemm-precision fp8");
        char *text = bb_format("--cluster %s", is_blackwell ? "b200-sxm-ib" : "h100-sxm-ib"),
             *reason = bb_format("%s, an example (busbar list clusters), which %s requires", text, needs);

        add_options(l, text, OWN);
        bb_line_add_note(l, "added", NULL, reason);
        free(text);
        free(reason);
    }
    return needs;
}

/* Returns whether the line has an option that only Megatron-LM and tools on top of it have. is_script: spelled as
 * Megatron-LM's own scripts do. */
static bool is_megatron(const struct line *l, bool is_script)
{
    static const struct bb_foreign_name names[] = {
        {.name = "tensor-model-parallel-size pipeline-model-parallel-size expert-model-parallel-size "
                 "expert-tensor-parallel-size num-layers-per-virtual-pipeline-stage pipeline-model-parallel-layout "
                 "use-distributed-optimizer num-distributed-optimizer-instances use-mcore-models transformer-impl "
                 "train-iters lr-decay-iters lr-decay-style lr-warmup-fraction init-method-std tokenizer-type "
                 "rampup-batch-size recompute-granularity recompute-method moe-token-dispatcher-type moe-grouped-gemm "
                 "max-position-embeddings swiglu squared-relu normalization position-embedding-type rotary-percent "
                 "group-query-attention num-query-groups kv-channels qk-layernorm ffn-hidden-size "
                 "untie-embeddings-and-output-weights disable-bias-linear add-qkv-bias multi-latent-attention "
                 "make-vocab-size-divisible-by moe-router-topk moe-ffn-hidden-size moe-layer-freq "
                 "moe-shared-expert-intermediate-size accumulate-allreduce-grads-in-fp32 use-megatron-fsdp "
                 "use-torch-fsdp2 data-parallel-sharding-strategy overlap-grad-reduce grad-reduce-in-bf16 "
                 "megatron-amp-o2"},
        {.name = NULL}};

    for (size_t i = 0; i < l->n_items; i++) {
        const struct item *item = &l->items[i];
        const bool is_typed = item->typed[0] == '-' && !memchr(item->name, '_', item->length);

        if (item->row && (is_typed || !is_script) && bb_foreign_find(names, item->name, item->length))
            return true;
    }
    return false;
}

static bool is_torchtitan(const struct line *l)
{
    static const char *const sections[] = {"--training.",   "--parallelism.", "--activation_checkpoint.",
                                           "--job.",        "--float8.",      "--model.name",
                                           "--model.flavor"};
    const struct item *module = find_item(l, "module");

    if (module &&
        (bb_begins_with(module->typed, "--module") ? find_item(l, "config") != NULL
                                                   : module->value && bb_begins_with(module->value, "torchtitan")))
        return true;
    for (size_t i = 0; i < l->n_items; i++)
        for (size_t s = 0; s < sizeof(sections) / sizeof(*sections); s++)
            if (bb_begins_with(l->items[i].typed, sections[s]))
                return true;
    return false;
}

static bool is_deepspeed(const struct line *l)
{
    return l->config || find_item(l, "deepspeed zero-stage " DEEPSPEED_FILE_OPTIONS);
}

/* Returns whether the line has a launcher or an option of DeepSpeed, Hugging Face or nanotron. */
static bool is_torch(const struct line *l)
{
    static const char names[] =
        "deepspeed deepspeed-config zero-stage train-micro-batch-size-per-gpu mixed-precision "
        "per-device-train-batch-size gradient-checkpointing use-fsdp fsdp fsdp-sharding-strategy "
        "model-name-or-path optim peft lora-r lora-target lora-target-modules load-in-4bit qlora "
        "batch-accumulation-per-replica pp-engine";

    return is_torchtitan(l) || starts(l, "deepspeed accelerate") || find_item(l, names);
}

/* Adds the training framework, whose default depends on --dp-sync and --no-overlap. Megatron-LM's model code runs its kernels
 * also with DeepSpeed or PyTorch's FSDP. */
static void add_software(struct line *l, bool has_cluster)
{
    const char *text = !is_torchtitan(l) && is_megatron(l, false) ? "--software megatron" : "--software torch";
    size_t at;

    if ((!is_torch(l) && !is_megatron(l, false)) || *translated_value(l, "--software") ||
        !bb_opts_find(l->set, 0, "software", 8, &at))
        return;
    if (has_cluster)
        add_options(l, text, COMPANION);
    else
        bb_line_add_note(l, "with --cluster, add", NULL, text);
}

/* Megatron-LM reduces gradients after the backward pass, unless it gets --overlap-grad-reduce. */
static void add_overlap(struct line *l)
{
    size_t at;

    if (!is_megatron(l, true) || find_item(l, "overlap-grad-reduce overlap-param-gather dp-sync") ||
        has_option(l, "--no-overlap") ||
        !has_sync(l, "all_reduce zero1 distributed") || /* those that accept the option (dp_config.c) */
        !bb_opts_find(l->set, 0, "no-overlap", 10, &at))
        return;
    add_options(l, "--no-overlap", COMPANION);
    bb_line_add_note(l, "added", NULL,
                     "--no-overlap: Megatron-LM overlaps reductions of gradients only with --overlap-grad-reduce");
}

/* Adds the sharding of DeepSpeed's BF16_Optimizer (_do_optimizer_sanity_check of engine.py): float parameters and optimizer
 * states are shards, as of ZeRO-1, and gradients are all-reduced after the backward pass. DeepSpeed has it with bfloat16, for
 * stages 0 and 1 if gradients are added in float, and for stage 0 in a pipeline, which Megatron-DeepSpeed always has unless it
 * gets --no-pipeline-parallel; before 0.17.6 (commit 889f0ead) stage 0 always added in float. */
static void add_bf16_optimizer(struct line *l)
{
    const struct item *sums = find_item(l, "grad-accum-dtype");
    const bool in_float = sums && sums->value && (strstr(sums->value, "32") || strcmp(sums->value, "float") == 0),
               is_pipe = degree(l, "--pp") > 1 || (is_megatron(l, true) && !find_item(l, "no-pipeline-parallel"));
    size_t at;

    if (!is_deepspeed(l) || (!l->config && !*translated_value(l, "--dp-sync")) || find_item(l, "dp-sync") ||
        strcmp(translated_value(l, "--dtype"), "bfloat16") != 0 || !bb_opts_find(l->set, 0, "dp-sync", 7, &at))
        return;
    if ((has_sync(l, "all_reduce") && (in_float || is_pipe)) ||
        (has_sync(l, "zero1") && in_float && !find_item(l, "offload-optimizer"))) {
        add_options(l, "--dp-sync zero1", OWN);
        add_options(l, "--zero-reduce allreduce --bucket-rule deepspeed --no-overlap", COMPANION);
        bb_line_add_note(l, "added", NULL,
                         "--dp-sync zero1 --zero-reduce allreduce --bucket-rule deepspeed --no-overlap: DeepSpeed's "
                         "BF16_Optimizer shards optimizer states and float parameters, also with ZeRO stage 0");
    } else if (has_sync(l, "all_reduce")) {
        bb_line_add_note(l, "by hand", NULL,
                         "DeepSpeed before 0.17.6 shards the optimizer also with ZeRO stage 0 (BF16_Optimizer): "
                         "--dp-sync zero1 --zero-reduce allreduce");
    }
}

/* DeepSpeed overlaps reductions with overlap_comm, whose default is true only for stage 3. */
static void add_deepspeed_overlap(struct line *l)
{
    const json_t *given = json_object_get(json_object_get(l->config, "zero_optimization"), "overlap_comm");
    size_t at;

    if (!l->config || json_is_true(given) || is_megatron(l, true) || find_item(l, "overlap-comm dp-sync") ||
        has_option(l, "--no-overlap") || !bb_opts_find(l->set, 0, "no-overlap", 10, &at))
        return;
    if (has_sync(l, "all_reduce zero1")) {
        add_options(l, "--no-overlap", COMPANION);
        bb_line_add_note(l, "added", NULL,
                         "--no-overlap: DeepSpeed overlaps reductions of ZeRO 0 to 2 only with overlap_comm");
    } else if (json_is_false(given) || has_sync(l, "zero2")) {
        bb_line_add_note(l, "not modelled", NULL, "overlap_comm false: zero2 and zero3 overlap their reductions here");
    }
}

/* Megatron-LM stores float copies of the logits, unless it gets --cross-entropy-loss-fusion. */
static void add_loss(struct line *l)
{
    size_t at;

    if (!is_megatron(l, true) || *translated_value(l, "--loss") || !bb_opts_find(l->set, 0, "loss", 4, &at))
        return;
    add_options(l, "--loss unfused", COMPANION);
    bb_line_add_note(l, "added", NULL,
                     "--loss unfused: Megatron-LM fuses the loss only with --cross-entropy-loss-fusion");
}

/* DeepSpeed reduces gradients in the 16-bit type of the parameters without communication_data_type (engine.py). */
static void add_gradients(struct line *l)
{
    const char *type = translated_value(l, "--dtype");
    char *text, *reason;
    size_t at;

    if (!is_deepspeed(l) || (strcmp(type, "bfloat16") != 0 && strcmp(type, "half") != 0) ||
        *translated_value(l, "--grad-dtype") || !bb_opts_find(l->set, 0, "grad-dtype", 10, &at))
        return;
    text = bb_format("--grad-dtype %s", type);
    reason = bb_format("%s: DeepSpeed's default of communication_data_type", text);
    add_options(l, text, COMPANION);
    bb_line_add_note(l, "added", NULL, reason);
    free(text);
    free(reason);
}

/* Adds torchtitan's recomputation: by default of operations, with a number of every n-th layer. */
static void add_recompute(struct line *l)
{
    const struct item *option = find_item(l, "selective-ac-option");
    const char *mode = translated_value(l, "--recompute"), *model = translated_value(l, "--model");
    const long every = option ? read_number(option->value) : 0, pp = degree(l, "--pp"), vpp = degree(l, "--vpp");
    bool is_dense = true;
    const long layers = *model && l->set->layers_of ? l->set->layers_of(model, &is_dense) / pp / vpp : 0;
    char *text;
    size_t at;

    if (!bb_opts_find(l->set, 0, "recompute", strlen("recompute"), &at) || (*mode && strcmp(mode, "ops") != 0))
        return;
    if (every > 1 && layers == 0) {
        bb_line_add_note(l, "by hand", option,
                         "is --recompute full --recompute-num-layers N here: N layers of a chunk");
    } else if (every > 0) {
        text = bb_format("--recompute %s", layers < every ? "none" : "full");
        add_options(l, text, OWN);
        free(text);
        text = bb_format("--recompute-num-layers %ld", layers / every);
        if (every > 1 && layers >= every)
            add_options(l, text, OWN);
        free(text);
    } else if (!*mode && !is_dense) {
        bb_line_add_note(
            l, "by hand", NULL,
            "--recompute none or full: torchtitan's default recomputes operations, which is modelled for dense models");
    } else if (!*mode) {
        add_options(l, "--recompute ops", COMPANION);
        if (!option)
            bb_line_add_note(l, "added", NULL,
                             "--recompute ops: torchtitan's default of activation_checkpoint.mode; "
                             "a configuration may have another");
    }
}

/* torchtitan's defaults: FSDP over all other ranks, and keys and values of all context-parallel ranks at once. */
static void add_torchtitan(struct line *l)
{
    size_t at;

    if (!is_torchtitan(l) || !bb_opts_find(l->set, 0, "dp-sync", 7, &at))
        return;
    if (!*translated_value(l, "--dp-sync") && !find_item(l, "data-parallel-shard-degree dp sync")) {
        add_options(l, "--dp-sync zero3", COMPANION);
        bb_line_add_note(l, "added", NULL,
                         "--dp-sync zero3: torchtitan shards over all other ranks without data_parallel_shard_degree");
    }
    if (degree(l, "--cp") > 1 && !*translated_value(l, "--cp-comm")) {
        add_options(l, "--cp-comm all_gather", COMPANION);
        bb_line_add_note(l, "added", NULL,
                         "--cp-comm all_gather: torchtitan's default of context_parallel_rotate_method");
    }
    add_recompute(l);
}

/* torchrun starts the ranks of one node, unless it gets --nnodes. */
static void add_ranks_of_node(struct line *l)
{
    char *text;
    size_t at;

    if (find_item(l, "nnodes") || !starts_torchrun(l) || *translated_value(l, "--ranks") || ranks_of(l) <= 0 ||
        !bb_opts_find(l->set, 0, "ranks", 5, &at))
        return;
    text = bb_format("--ranks %ld", ranks_of(l));
    add_options(l, text, COMPANION);
    free(text);
    bb_line_add_note(l, "added", NULL, "--ranks: torchrun starts one node without --nnodes");
}

/* The global batch size determines the micro-batches, or with them the size of one. */
static void remove_micro_batches(struct line *l)
{
    const struct item *item = find_item(l, "gradient-accumulation-steps");
    const long global = read_number(translated_value(l, "--global-batch-size")), dp = data_parallel_size(l),
               n = read_number(translated_value(l, "--micro-batches"));
    char *text;

    if (global < 1 || n < 1 || !item)
        return;
    for (size_t i = 0; i < l->n_fragments; i++)
        if (strcmp(l->fragments[i].option, "--micro-batches") == 0)
            *l->fragments[i].text = '\0';
    bb_line_add_note(l, "left out", item, "--global-batch-size determines the number of micro-batches");
    if (*translated_value(l, "--micro-batch-size") || dp < 1 || global % (dp * n))
        return;
    text = bb_format("--micro-batch-size %ld", global / (dp * n));
    add_options(l, text, COMPANION);
    free(text);
}

/* Removes --fp8-param-gather from a line whose parameters are not sharded. */
static void remove_gather(struct line *l)
{
    const struct item *item = find_item(l, "enable-fsdp-float8-all-gather");

    if (!item || has_sync(l, "zero3 hsdp distributed"))
        return;
    for (size_t i = 0; i < l->n_fragments; i++)
        if (strcmp(l->fragments[i].option, "--fp8-param-gather") == 0)
            *l->fragments[i].text = '\0';
    bb_line_add_note(l, "left out", item, "parameters are gathered only with --dp-sync zero3, hsdp or distributed");
}

/* ---- the model's file ---- */

static json_int_t number_at(const json_t *keys, const char *key)
{
    return json_integer_value(json_object_get(keys, key));
}

static void set_default(json_t *keys, const char *key, json_t *value)
{
    if (json_object_get(keys, key))
        json_decref(value);
    else
        json_object_set_new(keys, key, value);
}

/* Skips "[0]*3" at the begin of a text, for the digit 0, and returns the number; 0: another text. */
static long skip_repeated(const char **text, char digit)
{
    const char start[] = {'[', digit, ']', '\0'};
    char *end = (char *)*text + 3;
    long n = 1;

    if (!bb_begins_with(*text, start))
        return 0;
    if (*end == '*')
        n = strtol(end + 1, &end, 10);
    *text = end;
    return n;
}

/* Sets first_k_dense_replace from the pattern of --moe-layer-freq: "([0]*3+[1]*58)". Returns false for other patterns. */
static bool set_dense_layers(json_t *keys, const char *pattern)
{
    const char *at = pattern + (*pattern == '(');
    const long dense = skip_repeated(&at, '0');

    at += dense > 0 && *at == '+';
    if (skip_repeated(&at, '1') < 1 || dense < 0 || strcmp(at, *pattern == '(' ? ")" : "") != 0)
        return false;
    json_object_set_new(keys, "first_k_dense_replace", json_integer(dense));
    return true;
}

/* Sets the key of an option (bb_foreign_name.values). A switch does not replace the value of another option. Returns false
 * without a valid value. */
static bool set_key(json_t *keys, const struct item *item)
{
    const char *rule = item->row->values, *rest = rule + strcspn(rule, " "), *value = item->value;
    const bool is_switch = *rest && !strchr(rest, '=');
    char *key = bb_format("%.*s", (int)(rest - rule), rule), text[BB_FOREIGN_VALUE];
    json_t *json;
    bool is_set = true;

    if (is_switch)
        value = rest + 1;
    else if (value && *rest)
        value = bb_foreign_convert(rest + 1, value, text);
    json = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    if (strcmp(rule, "moe_layer_freq") == 0 && value && !json_is_integer(json))
        is_set = set_dense_layers(keys, value);
    else if (is_switch && !is_off(item->value))
        set_default(keys, key, json_incref(json));
    else if (!is_switch && (*rest ? json_is_boolean(json) : json_is_number(json)))
        json_object_set(keys, key, json);
    else
        is_set = is_switch;
    json_decref(json);
    free(key);
    return is_set;
}

/* Megatron-LM ignores --num-query-groups without --group-query-attention (core_transformer_config_from_args); NeMo has only
 * num_query_groups. */
static bool is_ignored(const struct line *l, const struct item *item)
{
    return bb_begins_with(item->typed, "--num-query-groups") && !find_item(l, "group-query-attention");
}

/* Megatron-LM pads the vocabulary so that tp divides it. */
static void pad_vocabulary(const struct line *l, json_t *keys)
{
    const struct item *multiple = find_item(l, "make-vocab-size-divisible-by");
    const long given = multiple ? read_number(multiple->value) : 0;
    const json_int_t vocab = number_at(keys, "vocab_size"), step = (given > 0 ? given : 128) * degree(l, "--tp");

    if (vocab > 0 && vocab <= INT_MAX)
        json_object_set_new(keys, "vocab_size", json_integer((vocab + step - 1) / step * step));
}

#define GPT2_VOCABULARY 50257 /* the published merges of GPT-2 */

/* Completes the keys by Megatron-LM's defaults and dependencies between options. */
static void complete_megatron(struct line *l, json_t *keys)
{
    static const char *const latent[] = {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
                                         "v_head_dim"};
    static const char *const usual[] = {"layer_norm", "learned_positions", "add_bias_linear", "tie_word_embeddings"};
    const bool is_latent = find_item(l, "multi-latent-attention");
    const struct item *tokenizer = find_item(l, "tokenizer-type");
    const long sequence = read_number(value_of(l, "--seq-length"));

    for (size_t i = 0; i < sizeof(latent) / sizeof(*latent) && !is_latent; i++)
        json_object_del(keys, latent[i]);
    for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
        set_default(keys, usual[i], json_true());
    if (starts(l, "pretrain_bert.py megatron_bert_pretraining.py")) {
        json_object_set_new(keys, "bidirectional", json_true());
        bb_line_add_note(l, "added", NULL,
                         "bidirectional: BERT's attention has no causal mask; its two small heads are not modelled");
    }
    set_default(keys, "swiglu", json_false());
    set_default(keys, "add_qkv_bias",
                json_boolean(!is_latent && json_is_true(json_object_get(keys, "add_bias_linear"))));
    if (sequence > 0)
        set_default(keys, "max_position_embeddings", json_integer(sequence));
    if (json_object_get(keys, "num_experts"))
        set_default(keys, "num_experts_per_tok", json_integer(2));
    if (tokenizer ? tokenizer->value && strcmp(tokenizer->value, "GPT2BPETokenizer") == 0
                  : find_item(l, "merge-file") != NULL)
        set_default(keys, "vocab_size", json_integer(GPT2_VOCABULARY));
    pad_vocabulary(l, keys);
}

/* Returns the model's shape as keys of config.json, owned by the caller, with the defaults of Megatron-LM: the MLP has two
 * matrices of 4 times the hidden size, with SwiGLU three of 8/3 times. NULL: the line has no shape. */
static json_t *make_model(struct line *l)
{
    static const char *const shapes[] = {"hidden_size", "intermediate_size", "vocab_size", "num_attention_heads",
                                         "num_experts"};
    const bool megatron = is_megatron(l, false);
    const long layers = read_number(value_of(l, "--layers"));
    json_t *keys = json_pack("{s:s}", "model_type", megatron ? "megatron_gpt" : "llama");
    json_int_t width;
    bool any = false;

    for (size_t i = 0; i < l->n_items; i++) {
        const struct item *item = &l->items[i];

        if (is_ignored(l, item))
            bb_line_add_note(l, "left out", item, "Megatron-LM ignores it without --group-query-attention");
        else if (item->row && !item->row->ours && item->row->values && !set_key(keys, item))
            bb_line_add_note(l, "by hand", item, "not possible in the model file");
    }
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        any |= json_object_get(keys, shapes[i]) != NULL;
    width = number_at(keys, "hidden_size");
    if (layers > 0)
        json_object_set_new(keys, "num_hidden_layers", json_integer(layers));
    if (megatron)
        complete_megatron(l, keys);
    else if (json_object_get(keys, "num_experts"))
        json_object_set_new(keys, "model_type", json_string("mixtral"));
    if (width > 0 && width <= INT_MAX)
        set_default(keys, "intermediate_size",
                    json_integer(json_is_false(json_object_get(keys, "swiglu")) ? width * 4 : width * 8 / 3 / 64 * 64));
    if (!any)
        json_decref(keys);
    return any ? keys : NULL;
}

/* Notes the launcher, its script, and files of settings. */
static void note_programs(struct line *l, const struct item *item)
{
    for (int w = first_program(item); w < item->n_words; w++) {
        const char *word = item->words[w];
        const struct item program = {.typed = word};

        if (l->unread && is_settings(word))
            bb_line_add_note(l, "not read", &program, SETTINGS);
        else if (*item->name ? has_extension(word, "py sh") || find_program(l->set, word) : !is_subject(l->set, word))
            bb_line_add_note(l, "left out", &program,
                             "busbar starts no training script; its proxy has the operations of the training step");
    }
}

/* Adds the name of the proxy, and notes the programs. */
static void translate_programs(struct line *l)
{
    const struct bb_foreign_name *python = find_program(l->set, "python");
    bool is_named = false;
    const char *text, *options;

    for (size_t i = 0; i < l->n_items && l->is_launched; i++)
        note_programs(l, &l->items[i]);
    for (size_t i = 0; i < l->n_items; i++)
        is_named |= !*l->items[i].name;
    text = l->has_subject ? NULL : l->program ? l->program : is_named || !python ? NULL : python->text;
    options = text ? strstr(text, " --") : NULL;
    if (text)
        add_fragment(l, bb_format("%s", ""),
                     bb_format("%.*s", (int)(options ? options - text : (ptrdiff_t)strlen(text)), text), OWN);
}

/* Whether translate_programs() replaces a positional argument. */
static bool is_program(const struct line *l, const struct item *item)
{
    return !*item->name && !is_subject(l->set, item->typed) &&
           (l->is_launched || (!l->has_subject && find_program(l->set, item->typed)));
}

static void translate_line(struct line *l)
{
    bool has_cluster;

    translate_programs(l);
    l->model = *value_of(l, "--model") ? NULL : make_model(l);
    for (size_t i = 0; i < l->n_items; i++) {
        const struct item *item = &l->items[i];

        if (is_program(l, item) || (item->length && translate_by_rule(l, item)))
            continue;
        if (item->is_renamed && item->opt->kind == BB_OPT_FLAG && is_off(item->value))
            bb_line_add_note(l, "left out", item, "switched off");
        else if (item->opt || !item->length)
            add_own(l, item);
        else if (!item->row)
            bb_line_add_note(l, "not known", item, "");
        else if (item->row->ours)
            translate_option(l, item);
        else if (!item->row->values || !l->model)
            bb_line_add_note(l, "left out", item, item->row->text);
    }
    has_cluster = add_cluster(l);
    add_torchtitan(l);
    add_bf16_optimizer(l);
    add_overlap(l);
    add_deepspeed_overlap(l);
    add_loss(l);
    add_gradients(l);
    add_ranks_of_node(l);
    add_software(l, has_cluster);
    remove_micro_batches(l);
    remove_gather(l);
}

/* Prints the notes, one line each, below the error line. */
static void print_notes(const struct line *l)
{
    for (size_t i = 0; i < l->n_notes && !bb_err_is_mute(); i++) {
        const struct note *n = &l->notes[i];
        const bool needs_colon = n->names[1] && *n->reason && !bb_begins_with(n->reason, "is ");

        fprintf(stderr, "  %s:%s%s%s%s\n", n->head, n->names[1] ? n->names : "", needs_colon ? ":" : "",
                *n->reason ? " " : "", n->reason);
    }
}

static int print_line(const struct line *l, const char *command)
{
    char *text, *model;
    size_t size;
    const bool is_bench = bb_begins_with(l->set->usage, "busbar bench ") && strcmp(command, "bench") != 0;
    FILE *line = bb_open_text(&text, &size);
    int rc;

    for (size_t i = 0; i < l->n_fragments; i++)
        if (*l->fragments[i].text && !is_replaced(l, i))
            fprintf(line, " %s", l->fragments[i].text);
    bb_close_text(line, &text);
    rc = bb_err(BB_EUSAGE, "options of another tool%s%s%s; try: busbar %s%s%s%s",
                l->unread ? "; the command lacks those in " : "", l->unread ? l->unread : "",
                l->unread ? ", which is not read" : "", is_bench ? "bench " : "", command, text,
                l->model ? " --model model.json" : "");
    if (l->model && !bb_err_is_mute()) {
        model = json_dumps(l->model, JSON_PRESERVE_ORDER);
        fprintf(stderr, "  first write the model's file: echo '%s' >model.json\n", model);
        free(model);
    }
    print_notes(l);
    free(text);
    return rc;
}

static void free_line(struct line *l)
{
    for (size_t i = 0; i < l->n_fragments; i++) {
        free(l->fragments[i].option);
        free(l->fragments[i].text);
    }
    for (size_t i = 0; i < l->n_notes; i++) {
        free(l->notes[i].names);
        free(l->notes[i].reason);
    }
    for (size_t i = 0; i < l->n_config; i++)
        free(l->words[1 + i]);
    free(l->words);
    free(l->fragments);
    free(l->notes);
    free(l->items);
    json_decref(l->config);
    json_decref(l->model);
}

/* Rejects a line that starts a program which is not modelled, or a shell or sbatch with options: those of its script are not
 * known. */
static int reject_program(const struct line *l)
{
    for (size_t i = 0; i < l->n_items && l->set->programs; i++) {
        const struct item *item = &l->items[i];

        for (int w = item->opt ? item->n_words : 0; w < item->n_words; w++) {
            const struct bb_foreign_name *row = find_program(l->set, item->words[w]);
            const bool has_options = w + 1 == item->n_words && i + 1 < l->n_items && *l->items[i + 1].name;

            if (row && !row->ours && (row->values ? has_options : w >= first_program(item)))
                return bb_err(BB_EUSAGE, "%s: %s", item->words[w], row->text);
        }
    }
    return 0;
}

int bb_opts_reject_foreign_line(const struct bb_opts *set, char **argv)
{
    struct line l = {.set = set};
    int n = 0, rc = 0;

    bb_line_read_deepspeed(&l, argv);
    read_line(&l, l.words);
    rc = reject_program(&l);
    for (size_t i = 0; i < l.n_items && !rc; i++) {
        const struct item *item = &l.items[i];
        const bool is_chunk = item->row && item->row->values && strcmp(item->row->values, "layers") == 0;

        n += item->is_renamed;
        n += item->row ? 1 + (is_chunk && count_chunks(&l, item) > 0) : 0;
    }
    n += l.unread != NULL;
    n += l.is_launched && n > 0;
    n += is_uniform(&l) && find_item(&l, "recompute-num-layers");
    if (n >= 2 && !rc) {
        translate_line(&l);
        rc = print_line(&l, argv[0]);
    }
    free_line(&l);
    return rc;
}
