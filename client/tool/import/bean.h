/* bean.h: what bean.c, bean_scan.c and bean_take.c share: the import from a beanstalkd.
 *
 * beanstalkd shows a client only the first job of each kind, so the jobs are found by their ids, which are numbers
 * given one after the other: from the highest down to 1, until as many have been seen as it counts (bean_scan.c). Then
 * they are taken in the order of their ids, which keeps the order of jobs with one pri (bean_take.c). */
#ifndef TARRY_TOOL_IMPORT_BEAN_H
#define TARRY_TOOL_IMPORT_BEAN_H

#include "bean_words.h"
#include "import.h"

#define BEAN_PORT "11300"
#define BEAN_LINE_SIZE_MAX 512u
#define BEAN_YAML_SIZE_MAX (4u << 20) /* list-tubes, of some ten thousand tubes */
#define BEAN_SCAN_STEP 512u      /* commands sent before their answers are read: they fit into any socket's buffer */
#define BEAN_TAKE_STEP 64u       /* the same, where each answer may be a job */
#define BEAN_JOBS_MAX (1u << 25) /* ids kept in memory: 256 MiB */
#define BEAN_PROBE "tarry-import-probe"
#define BEAN_STAMP_SLACK_S 2u /* ages are whole seconds, read at some time within one */

struct bean {
    const struct bean_options *options;
    char (*tubes)[BEAN_TUBE_SIZE]; /* owned; those to be imported */
    size_t tube_count;
    bool has_reserve_job; /* since 1.12 */
    uint64_t *ids;        /* owned; ascending, to be taken */
    size_t id_count;
    size_t id_capacity;
    size_t at;                  /* the next of them */
    const struct receipt *only; /* while what it names is removed */
};

/* One reply: its first line, and the body of those that have one. False: the link failed. */
struct bean_reply {
    char line[BEAN_LINE_SIZE_MAX + 1];
    const char *body; /* NULL: none; valid until the next call on the link */
    size_t body_size;
    bool is_huge; /* the body was larger than a task may be, and is thrown away */
    uint64_t huge_size;
};
bool bean_read(struct import *import, struct bean_reply *out);
/* A command, and its reply's YAML. False after a sentence; *out_there (may be NULL: it must be): not NOT_FOUND. */
bool bean_ask_yaml(struct import *import, const char *command, struct bean_reply *out, bool *out_there);
bool bean_is_wanted(const struct bean *bean, const char *tube);

/* Finds the ids of all jobs; 0, or an exit status after a sentence. */
int bean_scan(struct import *import);
int bean_next(struct import *import, struct import_batch *batch);
int bean_remove(struct import *import, struct import_batch *batch);

#endif
