/* jobs.c: see jobs.h. */
#include "jobs.h"

#include <string.h>

#include "make.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ONE_OF(random, array) ((array)[random_below(random, COUNT(array))])
#define TUBES 12u

static void put_number(struct random *random, unsigned most, struct out *out) {
    static const char *const odd[] = {
        "4294967295", "4294967296", "-1", "+1", "", "x", "1x", "18446744073709551615", "99999999999999999999999",
        "0x10",       " 1",         "1.5"};
    if (random_below(random, 40) == 0)
        out_text(out, ONE_OF(random, odd));
    else
        out_format(out, "%u", (unsigned)random_below(random, most));
}

static void put_tube(struct random *random, struct out *out) {
    static const char *const odd[] = {"", "-q", "q q", "q\x80", "a/b+c;d.e$f_g()", "q\xff", "*", "default"};
    uint64_t dice = random_below(random, 60);
    if (dice == 0)
        out_text(out, ONE_OF(random, odd));
    else if (dice == 1) /* makes a name of any length near the existing limits */
        for (uint64_t i = (uint64_t[]){1, 127, 128, 129, 199, 200, 201, 230}[random_below(random, 8)]; i > 0; i--)
            out_byte(out, 'q');
    else
        out_format(out, "q%u", (unsigned)random_below(random, TUBES));
}

/* Writes a put whose body's size or end differs from the announced one. */
static void put_put(struct random *random, struct out *out) {
    static const char *const ends[] = {"\r\n", "", "\n", "\r", "xx", "\r\n\r\n"};
    static const uint64_t sizes[] = {0, 1, 222, 224, 4096, 16383, 65535, 65536, 70000};
    uint64_t size = random_below(random, 40) == 0 ? ONE_OF(random, sizes) : random_below(random, 60), said = size;
    uint64_t dice = random_below(random, 40);
    if (dice == 0) said = random_below(random, size + 1);
    if (dice == 1) said = size + random_below(random, 300);
    out_text(out, "put ");
    put_number(random, 3000, out);
    out_byte(out, ' ');
    put_number(random, 2, out);
    out_byte(out, ' ');
    put_number(random, 4, out);
    if (dice == 2)
        out_format(out, " %llu\r\n", (unsigned long long)random_magnitude(random, 64));
    else
        out_format(out, " %llu\r\n", (unsigned long long)said);
    for (uint64_t i = 0; i < size; i++)
        out_byte(out, random_below(random, 40) == 0 ? (uint8_t)random_u64(random) | 0x80 : 'b');
    out_text(out, random_below(random, 40) == 0 ? ONE_OF(random, ends) : "\r\n");
}

static void put_id(struct random *random, const struct seen *seen, struct out *out) {
    static const char *const odd[] = {"", "x", "18446744073709551616", "-1", "0"};
    if (random_below(random, 60) == 0)
        out_text(out, ONE_OF(random, odd));
    else
        out_format(out, "%llu", (unsigned long long)seen_id(seen, random));
}

/* I stands for an id, N for a number, T for a tube, S for a short time. */
static bool put_form(struct random *random, const struct seen *seen, struct out *out) {
    static const char *const forms[] = {"reserve-with-timeout S",
                                        "reserve-with-timeout 0",
                                        "reserve-with-timeout S",
                                        "reserve-with-timeout S",
                                        "reserve-job I",
                                        "delete I",
                                        "delete I",
                                        "delete I",
                                        "release I N N",
                                        "release I N 0",
                                        "bury I N",
                                        "touch I",
                                        "use T",
                                        "use T",
                                        "watch T",
                                        "watch T",
                                        "ignore T",
                                        "peek I",
                                        "peek-ready",
                                        "peek-delayed",
                                        "peek-buried",
                                        "kick N",
                                        "kick-job I",
                                        "stats-job I",
                                        "stats-tube T",
                                        "stats",
                                        "list-tubes",
                                        "list-tube-used",
                                        "list-tubes-watched",
                                        "pause-tube T 0",
                                        "pause-tube T 1",
                                        "reserve",
                                        "quit",
                                        "nobody",
                                        "PUT 1 1 1 1",
                                        "",
                                        " ",
                                        "reserve-with-timeout N",
                                        "kick 4294967295",
                                        "delete I I",
                                        "stats-tube"};
    const char *form = ONE_OF(random, forms);
    if (strcmp(form, "quit") == 0 && random_below(random, 4) != 0) form = "list-tube-used";
    for (const char *at = form; *at != '\0'; at++) {
        if (*at == 'I')
            put_id(random, seen, out);
        else if (*at == 'N')
            put_number(random, 3000, out);
        else if (*at == 'T' && at > form)
            put_tube(random, out);
        else if (*at == 'S')
            out_format(out, "%u", (unsigned)random_below(random, 2));
        else
            out_byte(out, (uint8_t)*at);
    }
    static const char *const ends[] = {"\n", "\r", "\r\r\n", " \r\n", "", "\0\r\n"};
    out_text(out, random_below(random, 60) == 0 ? ONE_OF(random, ends) : "\r\n");
    return strcmp(form, "reserve") == 0 || strcmp(form, "reserve-with-timeout N") == 0;
}

static void put_noise(struct random *random, struct out *out) {
    for (uint64_t i = random_below(random, 10) == 0 ? random_below(random, 70000) : random_below(random, 300); i > 0;
         i--)
        out_byte(out, (uint8_t)random_u64(random) | (random_below(random, 4) == 0 ? 0 : 0x80));
    if (random_below(random, 2) == 0) out_text(out, "\r\n");
}

bool jobs_command(struct random *random, const struct seen *seen, struct out *out) {
    struct out command = {0};
    bool waits = false;
    if (random_below(random, 200) == 0)
        put_noise(random, &command);
    else if (random_below(random, 4) == 0)
        put_put(random, &command);
    else
        waits = put_form(random, seen, &command);
    if (random_below(random, 60) == 0 && command.size > 0) {
        make_damage(random, &command);
        out_byte(&command, 'x'); /* ends the damaged command, so that a truncated number cannot continue with the next
                                    command's digits */
    }
    if (seen_allows(seen, command.data, command.size)) out_bytes(out, command.data, command.size);
    out_deinit(&command);
    return waits;
}
