/* bean_scan.c: see bean.h: finds the jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "bean.h"
#include "signals.h"

/* Finds the highest id: puts a job into a separate tube, and deletes it at once. A server that accepts no jobs
 * (DRAINING) gives no new ids, so its count of all jobs since its start is used. */
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

int bean_scan(struct import *import) {
    struct bean *bean = import->state;
    struct progress progress;
    uint64_t highest = 0, seen = 0, total = 0;
    int status = highest_id(import, &highest);
    if (status == 0)
        status = import->origin->count(
            import, &import->before); /* count only now, when the highest id is known: no older job is missed */
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
