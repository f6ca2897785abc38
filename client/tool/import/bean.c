/* bean.c: the import from a beanstalkd.
 *
 * beanstalkd shows a client only the first job in each state (ready, delayed, buried). So the import asks for jobs by
 * their ids, which are consecutive numbers. It begins at the highest id and goes down to 1, until it has seen as many
 * jobs as beanstalkd counts. It then imports the jobs in the order of their ids, which keeps the order of jobs with the
 * same pri. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "bean_words.h"
#include "import.h"
#include "json_out.h"
#include "output.h"
#include "signals.h"

#define BEAN_PORT "11300"
#define BEAN_LINE_SIZE_MAX 512u
/* Maximum size of a YAML reply in bytes; enough for the names of some ten thousand tubes. */
#define BEAN_YAML_SIZE_MAX (4u << 20)
/* Number of commands that are sent before their answers are read. All of them fit into any socket's buffer. */
#define BEAN_SCAN_STEP 512u
#define BEAN_TAKE_STEP 64u       /* number of requests sent together, if each answer may contain a job's body */
#define BEAN_JOBS_MAX (1u << 25) /* maximum number of job ids in memory; they take 256 MiB */
#define BEAN_PROBE "tarry-import-probe"
/* Tolerated difference of computed times in seconds, because beanstalkd reports ages in whole seconds. */
#define BEAN_STAMP_SLACK_S 2u

struct bean {
    const struct bean_options *options;
    char (*tubes)[BEAN_TUBE_SIZE]; /* names of the tubes to import; owned */
    size_t tube_count;
    bool has_reserve_job; /* the server knows reserve-job: beanstalkd 1.12 and later */
    uint64_t *ids;        /* ids of the jobs to import, in ascending order; owned */
    size_t id_count;
    size_t id_capacity;
    size_t at; /* index of the next id in `ids` */
    const struct receipt
        *only; /* if set, removes only the jobs of this receipt from the server; NULL: imports all jobs */
};

/* One reply of beanstalkd: its first line, and its body if it has one. */
struct bean_reply {
    char line[BEAN_LINE_SIZE_MAX + 1];
    const char *body; /* body of the reply; NULL: none; valid until the next call on the link */
    size_t body_size;
    bool is_huge; /* true: the body was larger than a task may be, and was discarded */
    uint64_t huge_size;
};

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

/* Reads one reply of beanstalkd. Returns false if the link has failed. */
static bool bean_read(struct import *import, struct bean_reply *out) {
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

/* Sends a command and reads the YAML of its reply. Returns false after an error message. The reply NOT_FOUND sets
 * *out_there to false and is no error; if out_there is NULL, it is an error. */
static bool bean_ask_yaml(struct import *import, const char *command, struct bean_reply *out, bool *out_there) {
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

static bool bean_is_wanted(const struct bean *bean, const char *tube) {
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

/* ---- finding the jobs */

/* Finds the highest id: puts a job into a tube of its own, and deletes it at once. A server in the state DRAINING
 * accepts no jobs and gives no new ids. In that case the highest id is the number of jobs that it has had since its
 * start (`total-jobs`). */
static int highest_id(struct import *import, uint64_t *out_id) {
    static const char put[] = "use " BEAN_PROBE "\r\nput 4294967295 86400 60 0\r\n\r\n";
    struct bean_reply reply;
    char command[64];
    if (!server_link_send(&import->link, put, sizeof put - 1) || !bean_read(import, &reply) ||
        !bean_read(import, &reply))
        return import_lost(import);
    if (strcmp(reply.line, "DRAINING") == 0) {
        if (!bean_ask_yaml(import, "stats\r\n", &reply, NULL)) return EXIT_REFUSED;
        if (bean_number(reply.body, reply.body_size, "total-jobs", UINT64_MAX, out_id)) return 0;
        return import_nonsense(import, "the reply to stats is malformed", reply.body, reply.body_size);
    }
    if (strncmp(reply.line, "INSERTED ", 9) != 0 ||
        !bean_decimal(reply.line + 9, strlen(reply.line + 9), UINT64_MAX, out_id))
        return import_nonsense(
            import, "it does not accept the probe job with which the import finds the highest id; its reply was",
            reply.line, strlen(reply.line));
    snprintf(command, sizeof command, "delete %llu\r\n", (unsigned long long)*out_id);
    if (!server_link_send(&import->link, command, strlen(command)) || !bean_read(import, &reply))
        return import_lost(import);
    return 0;
}

static int remember(struct import *import, uint64_t id) {
    struct bean *bean = import->state;
    if (bean->id_count == BEAN_JOBS_MAX) {
        tool_say("%s: it has more than %u jobs: import one tube at a time (--tube)", import->address, BEAN_JOBS_MAX);
        return EXIT_REFUSED;
    }
    if (bean->id_count == bean->id_capacity) {
        const size_t capacity = bean->id_capacity == 0 ? 4096 : 2 * bean->id_capacity;
        uint64_t *ids = tool_alloc(capacity * sizeof *ids);
        if (bean->id_count > 0) memcpy(ids, bean->ids, bean->id_count * sizeof *ids);
        free(bean->ids);
        bean->ids = ids;
        bean->id_capacity = capacity;
    }
    bean->ids[bean->id_count++] = id;
    return 0;
}

/* Asks for the jobs from `first` down to `last`; *out_seen is the number of them in a wanted tube. */
static int look_at(struct import *import, uint64_t first, uint64_t last, uint64_t *seen) {
    struct bean *bean = import->state;
    struct text commands = {0};
    for (uint64_t id = first; id >= last && id > 0; id--)
        text_printf(&commands, "stats-job %llu\r\n", (unsigned long long)id);
    bool is_sent = server_link_send(&import->link, commands.data, commands.size);
    text_deinit(&commands);
    for (uint64_t id = first; is_sent && id >= last && id > 0; id--) {
        struct bean_reply reply;
        struct bean_job job;
        if (!bean_read(import, &reply)) break;
        if (strcmp(reply.line, "NOT_FOUND") == 0) continue;
        if (reply.body == NULL || !bean_job_parse(reply.body, reply.body_size, &job) || job.id != id)
            return import_nonsense(import, "the reply to stats-job is malformed; it was", reply.line,
                                   strlen(reply.line));
        if (!bean_is_wanted(bean, job.tube)) continue;
        ++*seen;
        int status = job.state != BEAN_RESERVED ? remember(import, id) : 0;
        if (status != 0) return status;
    }
    return import->link.error[0] == 0 ? 0 : import_lost(import);
}

/* Finds the ids of all jobs to import. Returns 0, or an exit status after an error message. */
static int bean_scan(struct import *import) {
    struct bean *bean = import->state;
    struct progress progress;
    uint64_t highest = 0, seen = 0, total = 0;
    int status = highest_id(import, &highest);
    /* Counts the jobs after the highest id is known: the scan ends after that many jobs, and must not end early. */
    if (status == 0) status = import->origin->count(import, &import->before);
    if (status != 0) return status;
    for (size_t i = 0; i < import->before.count; i++) total += import->before.numbers[i];
    progress_start(&progress, "ids checked");
    for (uint64_t id = highest; status == 0 && id > 0 && seen < total && !signals_ended();) {
        const uint64_t last = id > BEAN_SCAN_STEP ? id - BEAN_SCAN_STEP + 1 : 1;
        status = look_at(import, id, last, &seen);
        id = last - 1;
        progress_show(&progress, highest - id, highest, highest - id);
    }
    progress_end(&progress);
    for (size_t i = 0; i < bean->id_count / 2;
         i++) { /* ids were found in descending order, and are imported in ascending order */
        const uint64_t id = bean->ids[i];
        bean->ids[i] = bean->ids[bean->id_count - 1 - i];
        bean->ids[bean->id_count - 1 - i] = id;
    }
    import->total = bean->id_count;
    return status;
}

/* ---- turns jobs into items, and removes them
 *
 * A ready job is reserved first, so that no worker there takes it meanwhile; a kill releases it. A delayed job is not
 * reserved, because a kill would make it ready too early. It is deleted in the delayed state, and is due here when it
 * would have been ready there. A job that is gone when it is to be deleted was taken by another worker. */

/* Makes the same task as a put through tarryd's own beanstalk:// (docs/BEANSTALKD.md). A ready job is due at pri + 1 ms
 * after 1970, so a lower pri comes first. A delayed job is due after its delay, with the priority PRIORITY_FRESH,
 * so it comes before older ready jobs when it is due. */
#define PRIORITY_FRESH 9u
#define BURIED_SUFFIX ".buried"

static void place(struct import *import, struct import_item *item, const struct bean_job *job) {
    const struct bean *bean = import->state;
    struct text queue = {0};
    const bool is_buried = job->state == BEAN_BURIED;
    text_printf(&queue, "%s%s%s", bean->options->prefix, job->tube, is_buried ? BURIED_SUFFIX : "");
    item->queue = tool_strdup(text_str(&queue));
    text_deinit(&queue);
    item->when = TARRY_AT;
    item->when_ms = (uint64_t)job->pri + 1;
    if (job->state == BEAN_DELAYED) {
        item->when = TARRY_DELAY;
        /* The server rounds the delay down, so a second is added: the task must not be early (TIME-1). */
        item->when_ms = (job->left_s + 1) * 1000;
        item->priority = PRIORITY_FRESH;
    }
    snprintf(item->note, sizeof item->note, "pri=%u ttr=%u delay=%u", job->pri, job->ttr_s, job->delay_s);
}

static void name(struct import *import, struct import_item *item, const struct bean_job *job) {
    const struct bean *bean = import->state;
    const char *server = bean->only != NULL ? bean->only->server : import->server;
    const uint64_t now_s = wall_ms() / 1000;
    item->mark.id = job->id;
    item->mark.stamp = job->age_s < now_s ? now_s - job->age_s : 0;
    snprintf(item->key, sizeof item->key, "beanstalkd:%.32s:%llu", server, (unsigned long long)job->id);
}

/* Gets the current state of the jobs with these ids. Sets the ids of jobs that are not imported to 0. */
static int look(struct import *import, const uint64_t *ids, size_t count, struct bean_job *jobs) {
    const struct bean *bean = import->state;
    struct text commands = {0};
    for (size_t i = 0; i < count; i++) text_printf(&commands, "stats-job %llu\r\n", (unsigned long long)ids[i]);
    bool is_sent = server_link_send(&import->link, commands.data, commands.size);
    text_deinit(&commands);
    for (size_t i = 0; is_sent && i < count; i++) {
        struct bean_reply reply;
        if (!bean_read(import, &reply)) break;
        jobs[i].id = 0;
        if (strcmp(reply.line, "NOT_FOUND") == 0) continue;
        if (reply.body == NULL || !bean_job_parse(reply.body, reply.body_size, &jobs[i]) || jobs[i].id != ids[i])
            return import_nonsense(import, "the reply to stats-job is malformed; it was", reply.line,
                                   strlen(reply.line));
        if (jobs[i].state == BEAN_RESERVED || !bean_is_wanted(bean, jobs[i].tube)) jobs[i].id = 0;
    }
    return import->link.error[0] == 0 ? 0 : import_lost(import);
}

static bool is_to_hold(const struct import *import, const struct bean_job *job) {
    const struct bean *bean = import->state;
    return job->state == BEAN_READY && bean->has_reserve_job && !import->is_copy;
}

/* Checks that the reply "RESERVED id size" or "FOUND id size" is for this job. */
static bool is_of(const struct bean_reply *reply, uint64_t id) {
    const char *number = strchr(reply->line, ' ');
    const size_t size = number != NULL ? strcspn(number + 1, " ") : 0;
    uint64_t said;
    return (reply->body != NULL || reply->is_huge) && number != NULL &&
           bean_decimal(number + 1, size, UINT64_MAX, &said) && said == id;
}

static void take_body(struct import *import, struct import_batch *batch, const struct bean_job *job,
                      const struct bean_reply *reply) {
    const struct bean *bean = import->state;
    struct import_item *item = import_batch_add(batch);
    item->is_held = is_to_hold(import, job);
    name(import, item, job);
    place(import, item, job);
    item->payload_size = reply->is_huge ? reply->huge_size : reply->body_size;
    if (!reply->is_huge) {
        item->payload = tool_alloc(reply->body_size + 1);
        memcpy(item->payload, reply->body, reply->body_size);
        item->mark.hash = import_hash(reply->body, reply->body_size);
        batch->bytes += reply->body_size;
    }
    if (bean->only != NULL)
        item->verdict = receipt_has(bean->only, &item->mark, BEAN_STAMP_SLACK_S) ? ITEM_HERE : ITEM_REFUSED;
}

/* Imports a limited number of jobs, which are requested together. */
static int take_step(struct import *import, struct import_batch *batch, const uint64_t *ids, size_t count) {
    struct bean_job jobs[BEAN_TAKE_STEP] = {{0}};
    struct text commands = {0};
    int status = look(import, ids, count, jobs);
    for (size_t i = 0; status == 0 && i < count; i++)
        if (jobs[i].id != 0)
            text_printf(&commands, "%s %llu\r\n", is_to_hold(import, &jobs[i]) ? "reserve-job" : "peek",
                        (unsigned long long)jobs[i].id);
    bool is_sent = status == 0 && server_link_send(&import->link, commands.data, commands.size);
    text_deinit(&commands);
    if (status != 0) return status;
    for (size_t i = 0; is_sent && i < count; i++) {
        struct bean_reply reply;
        if (jobs[i].id == 0) continue;
        if (!bean_read(import, &reply)) break;
        if (strcmp(reply.line, "NOT_FOUND") == 0) continue; /* another worker has taken the job */
        if (!is_of(&reply, jobs[i].id))
            return import_nonsense(import, "it did not return a job; its reply was", reply.line, strlen(reply.line));
        take_body(import, batch, &jobs[i], &reply);
    }
    return import->link.error[0] == 0 ? 0 : import_lost(import);
}

static int bean_next(struct import *import, struct import_batch *batch) {
    struct bean *bean = import->state;
    int status = 0;
    while (status == 0 && bean->at < bean->id_count && batch->bytes < BATCH_BYTES_MAX &&
           batch->count + BEAN_TAKE_STEP <= BATCH_ITEMS_MAX) {
        const size_t left = bean->id_count - bean->at, count = left < BEAN_TAKE_STEP ? left : BEAN_TAKE_STEP;
        status = take_step(import, batch, bean->ids + bean->at, count);
        bean->at += count;
    }
    return status;
}

/* Deletes the imported jobs at the server, and releases reserved jobs that were not imported. */
static int bean_remove(struct import *import, struct import_batch *batch) {
    struct text commands = {0};
    for (size_t i = 0; i < batch->count; i++) {
        const struct import_item *item = &batch->items[i];
        const unsigned long long id = item->mark.id;
        if (item->verdict == ITEM_CAME || item->verdict == ITEM_HERE)
            text_printf(&commands, "delete %llu\r\n", id);
        else if (item->is_held)
            text_printf(&commands, "release %llu %llu 0\r\n", id, (unsigned long long)item->when_ms - 1);
    }
    bool is_sent = server_link_send(&import->link, commands.data, commands.size);
    text_deinit(&commands);
    for (size_t i = 0; is_sent && i < batch->count; i++) {
        struct import_item *item = &batch->items[i];
        struct bean_reply reply;
        const bool is_deleted = item->verdict == ITEM_CAME || item->verdict == ITEM_HERE;
        if (!is_deleted && !item->is_held) continue;
        if (!bean_read(import, &reply)) break;
        if (!is_deleted) continue;
        if (strcmp(reply.line, "DELETED") == 0)
            item->fate = FATE_REMOVED;
        else if (strcmp(reply.line, "NOT_FOUND") == 0)
            item->fate = FATE_TAKEN;
        else
            return import_nonsense(import, "it did not delete a job; its reply was", reply.line, strlen(reply.line));
    }
    return import->link.error[0] == 0 ? 0 : import_lost(import);
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
    /* Job 0 never exists, so the reply shows only whether the server knows the command. */
    static const char ask[] = "reserve-job 0\r\n";
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
