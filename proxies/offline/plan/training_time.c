/* training_time.c - number of steps, days and GPU hours of a training run; see training_time.h. */
#include "proxies/offline/plan/training_time.h"

#include "bootstrap/base/units.h"

#include <math.h>

struct bb_training_time bb_training_time(const struct bb_step *step, double ns, double tokens)
{
    double steps = ceil(tokens / step->tokens), hours = steps * ns / 3600e9;

    return (struct bb_training_time){
        .tokens = tokens, .steps = steps, .days = hours / 24, .gpu_hours = hours * step->layout.ranks};
}

/* Formats 15e12 as "15T" and 2.5e9 as "2.5B". */
static const char *count_text(double count, int digits, char text[32])
{
    static const char *const units[] = {"", "K", "M", "B", "T"};
    int unit = 0;

    while (unit < 4 && count >= 1000) {
        count /= 1000;
        unit++;
    }
    snprintf(text, 32, "%.*g%s", digits, count, units[unit]);
    return text;
}

void bb_training_time_text(const struct bb_training_time *t, char *text, size_t size)
{
    char tokens[32], hours[32], steps[BB_THOUSANDS_TEXT], days[BB_ROUNDED_TEXT];

    snprintf(text, size, "%s token%s: %s step%s, %s days, %s GPU hours without failures, restarts and evaluation",
             count_text(t->tokens, 4, tokens), t->tokens == 1 ? "" : "s", bb_format_thousands(t->steps, steps),
             t->steps == 1 ? "" : "s", bb_format_rounded(t->days, days), count_text(t->gpu_hours, 3, hours));
}

json_t *bb_training_time_json(const struct bb_training_time *t)
{
    return json_pack("{s:f, s:I, s:f, s:f}", "tokens", t->tokens, "steps", (json_int_t)t->steps, "days", t->days,
                     "gpu_hours", t->gpu_hours);
}

int bb_tokens_parse(const char *text, double *tokens)
{
    if (bb_parse_count(text, tokens) == 0 && *tokens <= 1e18)
        return 0;
    return bb_err(BB_EUSAGE,
                  "--tokens: '%s' is not valid, expected a number above 0 and up to 1e18, optionally with K, M, B or T "
                  "(powers of 1000), in one word (for example 15T)",
                  text);
}
