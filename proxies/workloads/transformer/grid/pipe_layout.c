/* pipe_layout.c - see pipe_layout.h. */
#include "proxies/workloads/transformer/grid/pipe_layout.h"

#include "proxies/workloads/transformer/grid/pipe_split.h"

#include <stdio.h>
#include <string.h>

#define MAX_SYMBOLS 100000 /* of a layout with its repetitions */

struct cursor {
    const char *at, *group; /* group: beginning of the group that is being read; NULL: none */
    long n, rounds;         /* n: repetitions of the latest symbol; rounds: of the group so far */
};

/* Skips "*N". Returns N; 1 if there is none; 0 if N is invalid. The search reads layouts very often. */
static long read_repetitions(const char **at)
{
    const char *digit = *at + 1;
    long n = 0;

    if (**at != '*')
        return 1;
    for (; *digit >= '0' && *digit <= '9'; digit++)
        n = n <= MAX_SYMBOLS ? 10 * n + (*digit - '0') : n;
    *at = digit;
    return n <= MAX_SYMBOLS ? n : 0;
}

/* Ends a round of the group. Returns false if there is no group, or the number of its rounds is invalid. */
static bool end_round(struct cursor *c)
{
    const char *after = c->at + 1;
    const long n = read_repetitions(&after);

    if (!c->group || n == 0 || c->at == c->group)
        return false;
    c->at = ++c->rounds < n ? c->group : after;
    if (c->at == after) {
        c->group = NULL;
        c->rounds = 0;
    }
    return true;
}

/* Returns the next of the characters E, t, m, L and | and sets c->n; '\0' at the end; '?' where the text is not a layout. */
static char next_symbol(struct cursor *c)
{
    for (;;) {
        const char symbol = *c->at;

        if (symbol == '(' && !c->group) {
            c->group = ++c->at;
        } else if (symbol == ')') {
            if (!end_round(c))
                return '?';
        } else if (symbol == ',') {
            c->at++;
        } else if (symbol == '\0') {
            return c->group ? '?' : '\0';
        } else {
            c->at++;
            c->n = read_repetitions(&c->at);
            return c->n > 0 && strchr("EtmL|", symbol) ? symbol : '?';
        }
    }
}

int bb_pipe_layout_part(const char *layout, int index, struct bb_pipe_part *part)
{
    struct cursor c = {.at = layout};
    struct bb_pipe_part found = {0};
    int parts = 1;
    long symbols = 0;
    char symbol;

    while (!(part && parts - 1 > index) && (symbol = next_symbol(&c)) != '\0') {
        const bool here = parts - 1 == index;
        const int n = (int)c.n;

        if (symbol == '?' || (symbols += n) > MAX_SYMBOLS)
            return 0;
        if (symbol == '|')
            parts += n;
        else if (symbol == 't' && parts - 1 < index)
            found.first += n;
        else if (here)
            *(symbol == 't'   ? &found.layers
              : symbol == 'm' ? &found.mtp_layers
              : symbol == 'E' ? &found.embeddings
                              : &found.losses) += n;
    }
    if (part)
        *part = found;
    return parts;
}

/* Rejects a layout of n virtual stages; suggests the --vpp that the layout has, else another layout. */
static int reject_number(const struct bb_pipe_split *s, int n, int mtp_layers, const char *who)
{
    char text[BB_PIPE_LAYOUT_TEXT], advice[BB_PIPE_LAYOUT_TEXT + 64] = "";

    if (n == s->stages)
        snprintf(advice, sizeof(advice), "; try: without --vpp");
    else if (n % s->stages == 0)
        snprintf(advice, sizeof(advice), "; try: --vpp %d", n / s->stages);
    else if (bb_pipe_layout_suggest(s, mtp_layers, text))
        snprintf(advice, sizeof(advice), "; try: --pipeline-layout '%s'", text);
    else if (n < s->stages * s->chunks)
        snprintf(advice, sizeof(advice), "; add %d, which may be empty, as in 'E||t|L'", s->stages * s->chunks - n);
    return bb_err(BB_EUSAGE, "%s: --pipeline-layout has %d virtual stage%s, but pp x vpp is %d%s", who, n, bb_plural(n),
                  s->stages * s->chunks, advice);
}

int bb_pipe_layout_validate(const struct bb_pipe_split *s, int mtp_layers, const char *who)
{
    const int n = bb_pipe_layout_part(s->layout, 0, NULL);
    struct bb_pipe_part part;
    int mtp = 0, mtp_parts = 0;

    if (n == 0)
        return bb_err(
            BB_EUSAGE,
            "%s: --pipeline-layout '%s' is not a layout; expected E (embedding), t (layer), m (MTP), L (loss) and | "
            "(next stage), for example \"Et*3|(tt|)*29,L\"",
            who, s->layout);
    if (n != s->stages * s->chunks)
        return reject_number(s, n, mtp_layers, who);
    for (int i = 0; i < n; i++) {
        bb_pipe_layout_part(s->layout, i, &part);
        if (part.embeddings != (i == 0) || part.losses != (i == n - 1))
            return bb_err(BB_EUSAGE,
                          "%s: --pipeline-layout needs one E, in the first of its virtual stages, and one L, "
                          "in the last",
                          who);
        mtp += i < n - 2 ? 0 : part.mtp_layers;
        mtp_parts += part.mtp_layers > 0;
    }
    if (mtp != mtp_layers || mtp_parts > 1 || (mtp > part.mtp_layers && part.layers > 0))
        return bb_err(BB_EUSAGE,
                      "%s: --pipeline-layout needs %d m (--mtp-num-layers) after the layers, in the last virtual stage "
                      "or all in the one before",
                      who, mtp_layers);
    if (part.first + part.layers != s->layers)
        return bb_err(BB_EUSAGE, "%s: --pipeline-layout has %d layers (t), the model has %d; try: --layers %d", who,
                      part.first + part.layers, s->layers, part.first + part.layers);
    return 0;
}

/* Appends "", "t", "t*2", ... for n = 0, 1, 2, ... between `before` and `after`. */
static void append(char text[BB_PIPE_LAYOUT_TEXT], const char *before, char symbol, int n, const char *after)
{
    const size_t length = strlen(text);
    char repeated[16] = "";

    if (n > 1)
        snprintf(repeated, sizeof(repeated), "%c*%d", symbol, n);
    else if (n == 1)
        snprintf(repeated, sizeof(repeated), "%c", symbol);
    snprintf(text + length, BB_PIPE_LAYOUT_TEXT - length, "%s%s%s", before, repeated, after);
}

/* Appends the virtual stages of n layers each. */
static void append_stages(char text[BB_PIPE_LAYOUT_TEXT], int n, int stages)
{
    char after[16];

    snprintf(after, sizeof(after), "|)*%d", stages);
    if (stages == 1)
        append(text, "", 't', n, "|");
    else if (stages > 1)
        append(text, "(", 't', n, after);
}

bool bb_pipe_layout_suggest(const struct bb_pipe_split *s, int mtp_layers, char text[BB_PIPE_LAYOUT_TEXT])
{
    const int parts = s->stages * s->chunks, modules = s->layers + 1 + mtp_layers + 1;
    const int each = modules / parts, larger = modules % parts, last = each - 1 - mtp_layers;

    if (parts < 2 || last < (mtp_layers ? 1 : 0))
        return false;
    text[0] = '\0';
    append(text, "E", 't', larger ? each : each - 1, "|");
    append_stages(text, each + 1, larger - 1);
    append_stages(text, each, parts - 1 - (larger ? larger : 1));
    append(text, "", 't', last, "");
    append(text, "", 'm', mtp_layers, "L");
    return true;
}
