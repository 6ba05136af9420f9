/* units.c - see units.h. Each parser requires that the whole text is valid. */
#include "bootstrap/base/units.h"

#include "bootstrap/base/alloc.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>

/* Returns the length of the decimal number at the start of text, such as "12", "12.5", ".5" or "12."; 0 if text does
 * not begin with a number. *point: out, whether the number has a decimal point. */
static size_t decimal_length(const char *text, bool *point)
{
    size_t whole = strspn(text, "0123456789"), fraction = 0;

    *point = text[whole] == '.';
    if (*point)
        fraction = strspn(text + whole + 1, "0123456789");
    return whole + fraction ? whole + fraction + *point : 0;
}

/* Returns the exponent of the power of two that a unit letter stands for: 10 for K, 20 for M, 30 for G, 40 for T; -1
 * for any other letter. */
static int unit_shift(char letter)
{
    static const char letters[] = "KMGT";
    const char *at = letter ? strchr(letters, toupper((unsigned char)letter)) : NULL;

    return at ? 10 * (int)(at - letters + 1) : -1;
}

int bb_parse_bytes(const char *text, size_t *bytes)
{
    bool point;
    size_t used = decimal_length(text, &point);
    int shift = text[used] ? unit_shift(text[used]) : 0;
    const char *rest = text + used + (shift > 0);
    long double number, value;

    if (shift > 0 && (strcasecmp(rest, "b") == 0 || strcasecmp(rest, "ib") == 0))
        rest = "";
    if (!used || shift < 0 || *rest || (point && shift == 0))
        return -BB_EUSAGE;
    number = strtold(text, NULL); /* at least 64 bits of mantissa: integers below 2^63 are exact */
    value = ldexpl(number, shift);
    if (!(value < 0x1p63L) || (number > 0 && value < 1))
        return -BB_EUSAGE;
    *bytes = (size_t)value;
    return 0;
}

int bb_parse_int(const char *text, int min, int max, int *value)
{
    size_t sign = *text == '-';
    long long v;

    if (!text[sign] || text[sign + strspn(text + sign, "0123456789")])
        return -BB_EUSAGE;
    errno = 0;
    v = strtoll(text, NULL, 10);
    if (errno || v < min || v > max)
        return -BB_EUSAGE;
    *value = (int)v;
    return 0;
}

int bb_parse_double(const char *text, double *value)
{
    bool point;
    size_t sign = *text == '-', used = decimal_length(text + sign, &point);
    const char *rest = text + sign + used;
    double v;

    if (used && (*rest == 'e' || *rest == 'E')) {
        size_t exponent_sign = rest[1] == '-' || rest[1] == '+';
        size_t digits = strspn(rest + 1 + exponent_sign, "0123456789");

        rest = digits ? rest + 1 + exponent_sign + digits : rest;
    }
    if (!used || *rest)
        return -BB_EUSAGE;
    v = strtod(text, NULL);
    if (!isfinite(v))
        return -BB_EUSAGE;
    *value = v;
    return 0;
}

/* Parses the number in the first `length` characters of a text. Returns 0 or -BB_EUSAGE. */
static int parse_start(const char *text, size_t length, double *value)
{
    char number[32];

    if (length >= sizeof(number))
        return -BB_EUSAGE;
    snprintf(number, sizeof(number), "%.*s", (int)length, text);
    return bb_parse_double(number, value);
}

int bb_parse_percent(const char *text, double most, double *fraction)
{
    const size_t length = strcspn(text, "%");
    double percent;

    if (parse_start(text, length, &percent) || (text[length] && text[length + 1]) ||
        !(percent > 0 && percent <= most) || (percent < 1 && !text[length]))
        return -BB_EUSAGE;
    *fraction = percent / 100;
    return 0;
}

int bb_parse_count(const char *text, double *count)
{
    static const char units[] = "KMBT";
    size_t n = strlen(text);
    char last = n ? (char)toupper((unsigned char)text[n - 1]) : 0;
    const char *unit = strchr(units, last == 'G' ? 'B' : last);
    double value;

    if (n == 0 || parse_start(text, n - (unit != NULL), &value) || !(value > 0))
        return -BB_EUSAGE;
    value *= unit ? pow(1000, (double)(unit - units) + 1) : 1;
    if (!isfinite(value))
        return -BB_EUSAGE;
    *count = value;
    return 0;
}

int bb_parse_duration(const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    const size_t digits = strspn(text, "0123456789.");
    double value;

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(text + digits, units[i].unit) == 0 && parse_start(text, digits, &value) == 0) {
            *seconds = value * units[i].seconds;
            return 0;
        }
    return -BB_EUSAGE;
}

int bb_decimals_beside(double value, double limit, int decimals)
{
    char text[64];

    for (; decimals < 9; decimals++) {
        snprintf(text, sizeof(text), "%.*f", decimals, value);
        if ((strtod(text, NULL) > limit) == (value > limit))
            break;
    }
    return decimals;
}

/* Formats bytes with the number of decimals; none if there is one, and it is 0. */
static const char *format_bytes(size_t bytes, int decimals, char buf[BB_BYTES_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t u = 0;

    while (value >= 1023.95 && u + 1 < sizeof(units) / sizeof(*units)) {
        value /= 1024;
        u++;
    }
    if (decimals == 1)
        value = round(value * 10) / 10;
    snprintf(buf, BB_BYTES_TEXT, "%.*f %s", decimals == 1 && value == floor(value) ? 0 : decimals, value, units[u]);
    return buf;
}

const char *bb_format_bytes(size_t bytes, char buf[BB_BYTES_TEXT])
{
    return format_bytes(bytes, 1, buf);
}

const char *bb_format_bytes_beside(size_t bytes, size_t other, char buf[BB_BYTES_TEXT])
{
    char text[BB_BYTES_TEXT];
    int decimals = 1;

    while (bytes != other && decimals < 9 &&
           strcmp(format_bytes(bytes, decimals, buf), format_bytes(other, decimals, text)) == 0)
        decimals++;
    return format_bytes(bytes, decimals, buf);
}

enum { NEAREST_MAX = 63 }; /* longer words get no suggestion */

static const char separators[] = "_-.";

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b) || (strchr(separators, a) && strchr(separators, b));
}

/* Returns the optimal string alignment distance (insertions, deletions, replacements, transpositions), ignoring
 * case and the kind of a separator. */
static int edit_distance(const char *a, const char *b)
{
    int rows[3][NEAREST_MAX + 1];
    int na = (int)strlen(a), nb = (int)strlen(b);

    for (int j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *row = rows[i % 3], *previous = rows[(i + 2) % 3], *before_previous = rows[(i + 1) % 3];

        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            row[j] = MIN(MIN(row[j - 1], previous[j]) + 1, previous[j - 1] + !same_letter(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                row[j] = MIN(row[j], before_previous[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

/* Returns the distance between `word` and the valid word `known`: 0 if they are equal, 1 if `word` is a prefix of
 * `known`, else the edit distance. */
static int distance_to_known(const char *word, const char *known)
{
    size_t length = strlen(word);

    if (length > NEAREST_MAX || strlen(known) > NEAREST_MAX)
        return INT_MAX;
    if (length >= 2 && strncasecmp(word, known, length) == 0 && known[length])
        return 1;
    return edit_distance(word, known);
}

/* Names of options and of their values in other tools, with busbar's name for each. */
static const struct {
    const char *alias, *word;
} aliases[] = {
    {"bf16", "bfloat16"},    {"fp16", "half"},
    {"float16", "half"},     {"fp32", "float"},
    {"float32", "float"},    {"fp64", "double"},
    {"int", "int32"},        {"uint", "uint32"},
    {"float64", "double"},   {"fp8", "f8e4m3"},
    {"char", "int8"},        {"fsdp", "zero3"},
    {"ddp", "all_reduce"},   {"mean", "avg"},
    {"dtype", "datatype"},   {"output", "json"},
    {"J", "json"},           {"format", "json"},
    {"gpt2", "gpt2_small"},  {"a100", "a100-sxm-ib"},
    {"gpus", "clusters"},    {"azure-ndv5", "h100-sxm-ib"},
    {"ndv5", "h100-sxm-ib"},
};

struct bb_time_unit bb_time_unit(double largest_us)
{
    return largest_us < 1e4   ? (struct bb_time_unit){"us", 1, 1}
           : largest_us < 1e7 ? (struct bb_time_unit){"ms", 1e3, 3}
                              : (struct bb_time_unit){"s", 1e6, 3};
}

const char *bb_format_time(double us, char buf[BB_TIME_TEXT])
{
    const struct bb_time_unit unit = bb_time_unit(fabs(us));
    const bool is_short = us != 0 && fabs(us) < 10;

    snprintf(buf, BB_TIME_TEXT, "%.*f %s", is_short ? 3 : unit.decimals, us / unit.us, unit.name);
    return buf;
}

const char *bb_format_thousands(double number, char text[BB_THOUSANDS_TEXT])
{
    char plain[BB_THOUSANDS_TEXT];
    int n = snprintf(plain, sizeof(plain), "%.0f", number), length = 0;

    for (int i = 0; i < n; i++) {
        text[length++] = plain[i];
        if ((n - i - 1) % 3 == 0 && i < n - 1 && plain[i] != '-')
            text[length++] = ',';
    }
    text[length] = '\0';
    return text;
}

struct bb_time_unit bb_rounded_time_unit(double largest_us)
{
    return largest_us < 999.5     ? (struct bb_time_unit){"us", 1, -1}
           : largest_us < 999.5e3 ? (struct bb_time_unit){"ms", 1e3, -1}
                                  : (struct bb_time_unit){"s", 1e6, -1};
}

const char *bb_format_rounded(double number, char text[BB_ROUNDED_TEXT])
{
    const int magnitude = number != 0 ? (int)floor(log10(fabs(number))) : 0;
    const double scale = pow(10, MAX(magnitude - 2, 0));

    if (magnitude >= 2)
        return bb_format_thousands(round(number / scale) * scale, text);
    snprintf(text, BB_ROUNDED_TEXT, "%.*f", MIN(2 - magnitude, 3), number);
    if (strtod(text, NULL) == 0)
        snprintf(text, BB_ROUNDED_TEXT, "0");
    return text;
}

const char *bb_format_rounded_time(double us, char text[BB_ROUNDED_TEXT])
{
    const struct bb_time_unit unit = bb_rounded_time_unit(fabs(us));

    bb_format_rounded(us / unit.us, text);
    snprintf(text + strlen(text), BB_ROUNDED_TEXT - strlen(text), " %s", unit.name);
    return text;
}

bool bb_is_same_name(const char *name, const char *word, size_t length)
{
    const char *end = word + length;

    for (;; name++, word++) {
        name += strspn(name, separators);
        while (word < end && strchr(separators, *word))
            word++;
        if (word == end || !*name)
            return word == end && !*name;
        if (tolower((unsigned char)*name) != tolower((unsigned char)*word))
            return false;
    }
}

/* Returns the candidate for which `word` is another tool's name (table `aliases`), or NULL. */
static const char *find_alias(const char *word, const char *const *candidates, size_t n)
{
    for (size_t a = 0; a < sizeof(aliases) / sizeof(aliases[0]); a++)
        for (size_t i = 0; i < n && strcasecmp(word, aliases[a].alias) == 0; i++)
            if (strcmp(candidates[i], aliases[a].word) == 0)
                return candidates[i];
    return NULL;
}

const char *bb_nearest_word(const char *word, const char *const *candidates, size_t n)
{
    int limit = MIN(3, 1 + (int)(strlen(word) / 4)); /* largest edit distance that still counts as a spelling error */
    int best = limit + 1, nearest_differs = 0;
    const char *nearest = find_alias(word, candidates, n);

    if (strlen(word) < 2 || nearest)
        return nearest;
    for (size_t i = 0; i < n; i++) {
        /* of equally near words, the one whose length differs least, then the shorter one: modle is model, not mode */
        int d = distance_to_known(word, candidates[i]);
        int differs = abs((int)strlen(candidates[i]) - (int)strlen(word));

        if (d < best ||
            (nearest && d == best &&
             (differs < nearest_differs || (differs == nearest_differs && strlen(candidates[i]) < strlen(nearest))))) {
            best = d;
            nearest_differs = differs;
            nearest = candidates[i];
        }
    }
    return nearest;
}

/* Returns the bytes of the control character at c, 0 for another character. */
static int control_bytes(const unsigned char *c)
{
    if (*c < ' ' || *c == 0x7f)
        return 1;
    return *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0 ? 2 : 0;
}

bool bb_has_controls(const char *text, const char *allowed)
{
    while (*text && (!control_bytes((const unsigned char *)text) || strchr(allowed, *text)))
        text++;
    return *text;
}

bool bb_blank_controls(char *text)
{
    const bool any = bb_has_controls(text, "");

    for (; *text; text++)
        memset(text, ' ', (size_t)control_bytes((const unsigned char *)text));
    return any;
}

size_t bb_cut_length(const char *text, size_t most)
{
    size_t length = strnlen(text, most + 1), word;

    if (length <= most)
        return length;
    for (word = most; word > most / 2 && text[word] != ' ';)
        word--;
    for (length = most; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;) /* the next bytes of a character */
        length--;
    return text[word] == ' ' ? word : length;
}

char *bb_visible_text(const char *text)
{
    char *copy = bb_copy_text(text);

    bb_blank_controls(copy);
    return copy;
}
