/* bean.c: see bean.h: the connection, and the statistics of the server and its tubes. */
#include "bean.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "json_out.h"
#include "output.h"

static const char *const kinds[COUNTS_MAX] = {"ready", "delayed", "buried", "reserved"};

/* ---- replies */

/* Parses the size of the body at the end of a reply line: "RESERVED 7 100", "FOUND 7 100", "OK 100". */
static bool has_body(const char *line, uint64_t *out_size) {
    static const char *const words[] = {"OK ", "FOUND ", "RESERVED "};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strncmp(line, words[i], strlen(words[i])) != 0) continue;
        const char *number = strrchr(line, ' ') + 1;
        return bean_decimal(number, strlen(number), UINT32_MAX, out_size);
    }
    return false;
}

bool bean_read(struct import *import, struct bean_reply *out) {
    const char *line;
    size_t size;
    uint64_t body_size = 0;
    if (!server_link_line(&import->link, BEAN_LINE_SIZE_MAX, &line, &size)) return false;
    memcpy(out->line, line, size + 1);
    out->body = NULL;
    out->body_size = 0;
    out->is_huge = false;
    if (!has_body(out->line, &body_size)) return true;
    out->is_huge = body_size > ITEM_PAYLOAD_SIZE_MAX;
    out->huge_size = body_size;
    if (out->is_huge) return server_link_skip(&import->link, body_size + 2);
    if (!server_link_bytes(&import->link, (size_t)body_size + 2, &out->body)) return false;
    out->body_size = (size_t)body_size;
    if (memcmp(out->body + body_size, "\r\n", 2) != 0)
        return server_link_fail(&import->link, "sent a job that is longer than announced");
    return true;
}

bool bean_ask_yaml(struct import *import, const char *command, struct bean_reply *out, bool *out_there) {
    if (!server_link_send(&import->link, command, strlen(command)) || !bean_read(import, out)) {
        import_lost(import);
        return false;
    }
    const bool is_there =
        out->body != NULL && strncmp(out->line, "OK ", 3) == 0 && out->body_size <= BEAN_YAML_SIZE_MAX;
    if (out_there != NULL) *out_there = is_there;
    if (is_there || (out_there != NULL && strcmp(out->line, "NOT_FOUND") == 0)) return true;
    import_nonsense(import, "the server is not a beanstalkd, or a faulty one; its reply was", out->line,
                    strlen(out->line));
    return false;
}

/* ---- tubes */

bool bean_is_wanted(const struct bean *bean, const char *tube) {
    if (strcmp(tube, BEAN_PROBE) == 0) return false;
    if (bean->options->tube_count == 0) return true;
    for (size_t i = 0; i < bean->tube_count; i++)
        if (strcmp(bean->tubes[i], tube) == 0) return true;
    return false;
}

static void add_tube(struct bean *bean, const char *tube) {
    char(*tubes)[BEAN_TUBE_SIZE] = tool_alloc((bean->tube_count + 1) * sizeof *tubes);
    if (bean->tube_count > 0) memcpy(tubes, bean->tubes, bean->tube_count * sizeof *tubes);
    free(bean->tubes);
    bean->tubes = tubes;
    snprintf(tubes[bean->tube_count++], BEAN_TUBE_SIZE, "%s", tube);
}

static int list_tubes(struct import *import) {
    struct bean *bean = import->state;
    struct bean_reply reply;
    char tube[BEAN_TUBE_SIZE];
    int found;
    for (size_t i = 0; i < bean->options->tube_count; i++) add_tube(bean, bean->options->tubes[i]);
    if (bean->options->tube_count > 0) return 0;
    if (!bean_ask_yaml(import, "list-tubes\r\n", &reply, NULL)) return EXIT_REFUSED;
    const char *at = reply.body, *end = reply.body + reply.body_size;
    while ((found = bean_item(&at, end, tube)) > 0)
        if (strcmp(tube, BEAN_PROBE) != 0) add_tube(bean, tube);
    return found == 0
               ? 0
               : import_nonsense(import, "list-tubes: the reply contains an invalid tube name", at, (size_t)(end - at));
}

/* Counts the jobs of one tube; 0 if the tube is gone. */
static int count_tube(struct import *import, const char *tube, uint64_t numbers[COUNTS_MAX]) {
    char command[BEAN_TUBE_SIZE + 32], key[32];
    struct bean_reply reply;
    bool is_there;
    snprintf(command, sizeof command, "stats-tube %s\r\n", tube);
    if (!bean_ask_yaml(import, command, &reply, &is_there)) return EXIT_REFUSED;
    for (size_t i = 0; i < COUNTS_MAX; i++) {
        numbers[i] = 0;
        snprintf(key, sizeof key, "current-jobs-%s", kinds[i]);
        if (is_there && !bean_number(reply.body, reply.body_size, key, UINT32_MAX, &numbers[i]))
            return import_nonsense(import, "the reply to stats-tube is malformed", reply.body, reply.body_size);
    }
    return 0;
}

static int count_all(struct import *import, struct counts *out) {
    const struct bean *bean = import->state;
    struct counts counts = {.count = COUNTS_MAX};
    memcpy(counts.names, kinds, sizeof kinds);
    for (size_t i = 0; i < bean->tube_count; i++) {
        uint64_t numbers[COUNTS_MAX];
        int status = count_tube(import, bean->tubes[i], numbers);
        if (status != 0) return status;
        for (size_t k = 0; k < COUNTS_MAX; k++) counts.numbers[k] += numbers[k];
    }
    *out = counts;
    return 0;
}

static int show(struct import *import) {
    const struct bean *bean = import->state;
    struct text out = {0};
    for (size_t i = 0; i < bean->tube_count; i++) {
        uint64_t numbers[COUNTS_MAX];
        int status = count_tube(import, bean->tubes[i], numbers);
        if (status != 0) {
            text_deinit(&out);
            return status;
        }
        if (import->tool->json) {
            struct text queue = {0};
            text_printf(&queue, "%s%s", bean->options->prefix, bean->tubes[i]);
            out_begin(&out, '{');
            out_text(&out, "tube", bean->tubes[i]);
            out_text(&out, "queue", text_str(&queue));
            for (size_t k = 0; k < COUNTS_MAX; k++) out_number(&out, kinds[k], numbers[k]);
            out_line_end(&out);
            text_deinit(&queue);
        } else {
            text_printf(&out, "%s: ", bean->tubes[i]);
            for (size_t k = 0; k < COUNTS_MAX; k++)
                text_printf(&out, "%s%llu %s", k > 0 ? ", " : "", (unsigned long long)numbers[k], kinds[k]);
            text_add_char(&out, '\n');
        }
    }
    int status = output_flush(&out, EXIT_FINE);
    text_deinit(&out);
    return status;
}

/* ---- the origin */

/* Gets the id of the server process, because job ids are only valid within one process. */
static int identify(struct import *import) {
    struct bean *bean = import->state;
    struct bean_reply reply;
    if (!bean_ask_yaml(import, "stats\r\n", &reply, NULL)) return EXIT_REFUSED;
    if (!bean_name(reply.body, reply.body_size, "id", import->server, BEAN_ID_SIZE))
        return import_nonsense(import, "stats has no id: the server is not a beanstalkd, or older than 1.5", reply.line,
                               strlen(reply.line));
    static const char ask[] =
        "reserve-job 0\r\n"; /* job 0 never exists, so the reply shows only whether the server knows the command */
    if (!server_link_send(&import->link, ask, sizeof ask - 1) || !bean_read(import, &reply)) return import_lost(import);
    bean->has_reserve_job = strcmp(reply.line, "NOT_FOUND") == 0;
    return 0;
}

static int begin(struct import *import) {
    if (!server_link_open(&import->link, import->address, BEAN_PORT, import->tool->timeout_ms))
        return import_lost(import);
    int status = identify(import);
    if (status == 0) status = list_tubes(import);
    if (status == 0) status = count_all(import, &import->before);
    return status;
}

static int start(struct import *import, const struct receipt *only) {
    struct bean *bean = import->state;
    bean->only = only;
    bean->at = bean->id_count = 0;
    if (only == NULL) return bean_scan(import);
    free(bean->ids);
    bean->ids = tool_alloc((only->count + 1) * sizeof *bean->ids);
    bean->id_capacity = only->count + 1;
    for (size_t i = 0; i < only->count; i++) bean->ids[bean->id_count++] = only->marks[i].id;
    return 0;
}

static void end(struct import *import) {
    struct bean *bean = import->state;
    free(bean->tubes);
    free(bean->ids);
    free(bean);
    import->state = NULL;
}

static const struct origin origin = {.noun = "job",
                                     .begin = begin,
                                     .show = show,
                                     .start = start,
                                     .next = bean_next,
                                     .remove = bean_remove,
                                     .count = count_all,
                                     .end = end};

void bean_origin(struct import *import, const struct bean_options *options) {
    struct bean *bean = tool_alloc(sizeof *bean);
    *bean = (struct bean){.options = options};
    import->state = bean;
    import->origin = &origin;
    import_digest(import->receipt_key, "beanstalkd", (const void *const[]){import->address},
                  (const size_t[]){strlen(import->address)}, 1);
}
