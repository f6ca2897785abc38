/* bean.h: shared by bean.c, bean_scan.c and bean_take.c: the import from a beanstalkd.
 *
 * beanstalkd shows a client only the first job of each kind. So the import finds jobs by their ids, which are
 * consecutive numbers: from the highest down to 1, until it has seen as many jobs as beanstalkd counts (bean_scan.c).
 * It then imports them in the order of their ids, which keeps the order of jobs with the same pri (bean_take.c). */
#ifndef TARRY_TOOL_IMPORT_BEAN_H
#define TARRY_TOOL_IMPORT_BEAN_H

#include "bean_words.h"
#include "import.h"

#define BEAN_PORT "11300"
#define BEAN_LINE_SIZE_MAX 512u
#define BEAN_YAML_SIZE_MAX (4u << 20) /* bytes; enough for the names of some ten thousand tubes */
/* Number of commands sent before their answers are read; they fit into any socket's buffer. */
#define BEAN_SCAN_STEP 512u
#define BEAN_TAKE_STEP 64u       /* number of requests sent together whose answers may be jobs */
#define BEAN_JOBS_MAX (1u << 25) /* limit of ids kept in memory, which take 256 MiB */
#define BEAN_PROBE "tarry-import-probe"
#define BEAN_STAMP_SLACK_S 2u /* tolerated difference of computed times: beanstalkd reports ages in whole seconds */

struct bean {
    const struct bean_options *options;
    char (*tubes)[BEAN_TUBE_SIZE]; /* names of the tubes to import; owned */
    size_t tube_count;
    bool has_reserve_job; /* beanstalkd 1.12 and later */
    uint64_t *ids;        /* ids of the jobs to import, in ascending order; owned */
    size_t id_count;
    size_t id_capacity;
    size_t at;                  /* index of the next id in `ids` */
    const struct receipt *only; /* receipt whose jobs are being removed; NULL: none */
};

/* One reply: its first line, and its body if it has one. False: the link failed. */
struct bean_reply {
    char line[BEAN_LINE_SIZE_MAX + 1];
    const char *body; /* body of the reply; NULL: none; valid until the next call on the link */
    size_t body_size;
    bool is_huge; /* the body is larger than a task may be, and was discarded */
    uint64_t huge_size;
};
bool bean_read(struct import *import, struct bean_reply *out);
/* Sends a command and reads the YAML of its reply. False after an error message; *out_there is false after NOT_FOUND.
 * If out_there is NULL, NOT_FOUND is an error. */
bool bean_ask_yaml(struct import *import, const char *command, struct bean_reply *out, bool *out_there);
bool bean_is_wanted(const struct bean *bean, const char *tube);

/* Finds the ids of all jobs. 0, or an exit status after an error message. */
int bean_scan(struct import *import);
int bean_next(struct import *import, struct import_batch *batch);
int bean_remove(struct import *import, struct import_batch *batch);

#endif
