/* step.c - the life of a step: room for roles, texts and work, and its end. */
#include "proxies/step/step.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int bb_step_add_roles(struct bb_step *step, int n)
{
    step->roles = calloc((size_t)n, sizeof(*step->roles));
    step->role_of = calloc((size_t)step->layout.ranks, sizeof(*step->role_of));
    if (!step->roles || !step->role_of)
        return bb_err(BB_EFAIL, "out of memory for a step of %d ranks", step->layout.ranks);
    for (; step->n_roles < n; step->n_roles++)
        if (bb_program_init(&step->roles[step->n_roles].program))
            return -BB_EFAIL;
    return 0;
}

const char *bb_step_text(struct bb_step *step, const char *fmt, ...)
{
    struct bb_strings *s = &step->strings;
    char **bigger = realloc(s->text, sizeof(*bigger) * (size_t)(s->n + 1));
    va_list args;
    int length;

    if (bigger)
        s->text = bigger;
    va_start(args, fmt);
    length = bigger ? vasprintf(&s->text[s->n], fmt, args) : -1;
    va_end(args);
    if (length >= 0)
        return s->text[s->n++];
    bb_err(BB_EFAIL, "out of memory for a text");
    return NULL;
}

struct bb_kernel_list *bb_step_work(struct bb_step *step)
{
    struct bb_kernel_list **bigger = realloc(step->works, sizeof(*bigger) * (size_t)(step->n_works + 1));

    if (bigger) {
        step->works = bigger;
        step->works[step->n_works] = calloc(1, sizeof(**step->works));
        if (step->works[step->n_works])
            return step->works[step->n_works++];
    }
    bb_err(BB_EFAIL, "out of memory for a layer's work");
    return NULL;
}

void bb_step_release(struct bb_step *step)
{
    for (int r = 0; r < step->n_roles; r++)
        bb_program_release(&step->roles[r].program);
    for (int t = 0; t < step->strings.n; t++)
        free(step->strings.text[t]);
    for (int w = 0; w < step->n_works; w++)
        free(step->works[w]);
    free(step->works);
    free(step->roles);
    free(step->role_of);
    free(step->strings.text);
    bb_layout_release(&step->layout);
    *step = (struct bb_step){0};
}
