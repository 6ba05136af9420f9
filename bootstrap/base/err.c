/*
 * err.c - see err.h. Each message is written with a single write(2), so that lines of different ranks do not mix.
 */
#include "bootstrap/base/err.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/units.h"

#include <ctype.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Process-wide state. identity: name of this rank, with which each message of bb_err() begins (bb_err_identify).
 * context: text inserted before the text of every message (bb_err_context). holding, held: whether bb_warn_hold keeps
 * warnings, and their lines; NULL: none. mute, job_scope, speculation and record: see bb_err_mute, bb_err_job_scope, bb_err_speculative and bb_err_record_in in err.h. */
static char identity[128], context[1024];
static int mute, job_scope, holding;
static char *held;
static struct bb_err_record own_record, *record = &own_record;
static atomic_int speculation;

enum { NOT_SPECULATIVE, SPECULATIVE, SPECULATION_FAILED };
enum { NO_TIMEOUT = -1, NONBLOCKING_MS = 200 };

void bb_err_identify(int rank, const char *host, int gpu)
{
    if (rank < 0)
        identity[0] = '\0';
    else if (gpu < 0)
        snprintf(identity, sizeof(identity), "rank %d (%s): ", rank, host);
    else
        snprintf(identity, sizeof(identity), "rank %d (%s, GPU %d): ", rank, host, gpu);
}

void bb_err_context(const char *text)
{
    snprintf(context, sizeof(context), "%s", text ? text : "");
}

void bb_err_mute(int on)
{
    mute = on;
}

void bb_err_record_in(struct bb_err_record *to)
{
    record = to ? to : &own_record;
}

const struct bb_err_record *bb_err_record(void)
{
    return record;
}

int bb_err_is_mute(void)
{
    return mute;
}

void bb_err_speculative(int on)
{
    speculation = on ? SPECULATIVE : NOT_SPECULATIVE;
}

/* Returns whether an error only means that a configuration tried by a search is invalid. */
static bool is_invalid_attempt(int code)
{
    return speculation != NOT_SPECULATIVE && code == BB_EUSAGE;
}

/* Returns whether a message must be printed. code: error code of the message (BB_E...); 0 for a warning. */
static int must_print(int code)
{
    if (mute && (mute != BB_MUTE_WARNINGS || code == 0))
        return false;
    if (speculation == NOT_SPECULATIVE)
        return true;
    return code != 0 && !is_invalid_attempt(code) && atomic_exchange(&speculation, SPECULATION_FAILED) == SPECULATIVE;
}

/* Keeps an error as the one that explains why this process fails (struct bb_err_record). */
static void keep_error(int code, const char *text)
{
    const bool was_tried = record->muted && !mute; /* the error of an internal attempt, which was never printed */

    if (record->code && !was_tried && (record->code != BB_EBELOW || code == BB_EBELOW))
        return;
    *record = (struct bb_err_record){.code = code, .muted = mute};
    snprintf(record->text, sizeof(record->text), "%.*s", (int)bb_cut_length(text, sizeof(record->text) - 1), text);
}

/* Returns whether `text`, which follows "busbar", begins with the name of a command. */
static int is_command(const char *text)
{
    static const char commands[] = " bench proxy health plan compare calibrate sweep report list help ";
    char word[16];

    if (*text++ != ' ')
        return 0;
    snprintf(word, sizeof(word), " %.*s ", (int)strspn(text, "abcdefghijklmnopqrstuvwxyz"), text);
    return strstr(commands, word) != NULL;
}

void bb_name_program(char *line, size_t size)
{
    static const char name[] = "busbar", suffix[] = "-emulated";
    const size_t length = strlen(name), more = strlen(suffix);

    for (char *at = line; bb_environment_is_emulated() && (at = strstr(at, name)); at += length)
        if (is_command(at + length) && strlen(line) + more < size) {
            memmove(at + length + more, at + length, strlen(at + length) + 1);
            memcpy(at + length, suffix, more);
        }
}

/* Prints the held warnings, or drops them. */
static void end_hold(int prints)
{
    if (prints && held && write(STDERR_FILENO, held, strlen(held)) < 0)
        prints = 0; /* a failed write to stderr cannot be reported */
    free(held);
    held = NULL;
}

void bb_warn_hold(int on)
{
    holding = on;
    if (!on)
        end_hold(1);
}

/* Writes one line to stderr. timeout_ms: longest wait for stderr, or NO_TIMEOUT; code: error code, 0 for a warning;
 * who: prefix that names the printing rank, "" for a message about the whole job; kind: "" for an error, "warning: "
 * for a warning. */
__attribute__((format(printf, 5, 0))) static void write_line(int timeout_ms, int code, const char *who,
                                                             const char *kind, const char *fmt, va_list args)
{
    char line[2048];
    int used = snprintf(line, sizeof(line), "busbar: %s%s%s", who, kind, context);
    int capacity = (int)sizeof(line) - used - 1;
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    const int prints = must_print(code);

    if (vsnprintf(line + used, (size_t)capacity, fmt, args) >= capacity)
        line[bb_cut_length(line, strlen(line) - 1)] = '\0';
    bb_blank_controls(line); /* of file names and arguments, which could break or color the line */
    bb_name_program(line + used, (size_t)capacity);
    if (code != 0 && !is_invalid_attempt(code) && (mute == 1 || prints))
        keep_error(code, line + strlen("busbar: "));
    if (!prints)
        return;
    used = (int)strlen(line);
    strcpy(line + used++, "\n");
    if (code == 0 && holding) {
        char *lines;

        if (held && strstr(held, line)) /* a search resolves the model several times */
            return;
        lines = bb_format("%s%s", held ? held : "", line);
        free(held);
        held = lines;
        return;
    }
    end_hold(code != BB_EUSAGE);
    if (timeout_ms != NO_TIMEOUT && poll(&p, 1, timeout_ms) == 0)
        return;
    if (write(STDERR_FILENO, line, (size_t)used) < 0)
        return; /* a failed write to stderr cannot be reported */
}

void bb_err_job_scope(int on)
{
    job_scope = on;
}

int(bb_err)(enum bb_error code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    write_line(NO_TIMEOUT, code, job_scope ? "" : identity, "", fmt, args);
    va_end(args);
    return -(int)code;
}

int bb_err_call(const char *call, const char *error, const char *detail, const char *file, int line)
{
    const bool is_first = record->code == 0;
    const char *end = call + strcspn(call, "("), *name = end;

    while (name > call && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) /* "is_send ? ncclSend(..)" */
        name--;
    (void)bb_err(BB_EFAIL, "%.*s: %s%s%s (%s:%d)", (int)(end - name), name, error, detail && *detail ? ": " : "",
                 detail ? detail : "", file, line);
    record->call |= is_first && record->code == BB_EFAIL;
    return -BB_EFAIL;
}

int bb_err_job(enum bb_error code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    write_line(NO_TIMEOUT, code, "", "", fmt, args);
    va_end(args);
    return -(int)code;
}

void bb_err_job_nonblocking(enum bb_error code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    write_line(NONBLOCKING_MS, (int)code, "", "", fmt, args);
    va_end(args);
}

void bb_warn(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    write_line(NO_TIMEOUT, 0, "", "warning: ", fmt, args);
    va_end(args);
}

int bb_exit_code(int rc)
{
    return rc < 0 ? -rc : 0;
}
